package field;

import java.io.IOException;
import java.time.Duration;
import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.JobManagerOptions;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.StateBackendOptions;
import org.apache.flink.configuration.TaskManagerOptions;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.JobResourceRequirements;
import org.apache.flink.runtime.jobgraph.JobVertex;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Counts per key on Flink. Followed: Elastic Scaling (adaptive scheduler, externalized declarative resource management),
 * Checkpointing, Checkpointing under backpressure (buffer debloating), State Backends, Network memory tuning (buffer
 * timeout), of nightlies.apache.org/flink/flink-docs-release-2.3.
 *
 * <p>Arguments: heap or rocksdb; default or zero timers. With zero timers a checkpoint is taken just before a change, so
 * that as little as can be is done again.
 */
public final class FlinkField {

  private static final String COUNT = "count";

  public static void main(String[] arguments) throws Exception {
    boolean zero = arguments[1].equals("zero");
    Configuration conf = configuration(arguments[0], zero);
    // Two slots more than are needed: slots are shared, so a task manager's slots are its cores.
    MiniClusterConfiguration shape =
        new MiniClusterConfiguration.Builder()
            .setConfiguration(conf)
            .setNumTaskManagers(2)
            .setNumSlotsPerTaskManager(Math.max(1, Field.MOST / 2))
            .withRandomPorts()
            .build();
    try (MiniCluster cluster = new MiniCluster(shape)) {
      cluster.start();
      JobGraph graph = graph(conf);
      JobID job = cluster.submitJob(graph).get().getJobID();
      Field.run(
          cores -> {
            if (zero && cores > 0) cluster.triggerCheckpoint(job).get();
            change(cluster, graph, job, cores);
          });
      if (!cluster.getJobStatus(job).get().isTerminalState()) cluster.cancelJob(job).get();
    }
    System.exit(0);
  }

  private static Configuration configuration(String backend, boolean zero) {
    Configuration conf = new Configuration();
    conf.set(JobManagerOptions.SCHEDULER, JobManagerOptions.SchedulerType.Adaptive);
    conf.set(StateBackendOptions.STATE_BACKEND, backend.equals("heap") ? "hashmap" : "rocksdb");
    conf.set(CheckpointingOptions.CHECKPOINTING_INTERVAL, Duration.ofMillis(Field.COMMIT_MS));
    conf.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, Field.WORK.resolve("checkpoints").toUri().toString());
    conf.set(CheckpointingOptions.INCREMENTAL_CHECKPOINTS, true);
    conf.set(TaskManagerOptions.BUFFER_DEBLOAT_ENABLED, true);
    conf.set(TaskManagerOptions.TOTAL_FLINK_MEMORY, MemorySize.ofMebiBytes(1024));
    if (zero) {
      conf.set(JobManagerOptions.SCHEDULER_EXECUTING_COOLDOWN_AFTER_RESCALING, Duration.ZERO);
      conf.set(JobManagerOptions.SCHEDULER_EXECUTING_RESOURCE_STABILIZATION_TIMEOUT, Duration.ZERO);
      conf.set(JobManagerOptions.SCHEDULER_SUBMISSION_RESOURCE_STABILIZATION_TIMEOUT, Duration.ZERO);
      conf.set(JobManagerOptions.SCHEDULER_RESCALE_TRIGGER_MAX_DELAY, Duration.ZERO);
    }
    return conf;
  }

  private static JobGraph graph(Configuration conf) {
    StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(conf);
    env.setBufferTimeout(1);
    env.setMaxParallelism(128);
    DataGeneratorSource<Long> rows = new DataGeneratorSource<>(new Rows(), Field.rows(), Types.LONG);
    env.fromSource(rows, WatermarkStrategy.noWatermarks(), "rows")
        .setParallelism(1)
        .keyBy(key -> key)
        .process(new Count())
        .name(COUNT)
        .setParallelism(Field.CORES)
        .sinkTo(new Answers())
        .setParallelism(Field.CORES);
    return env.getStreamGraph().getJobGraph();
  }

  private static void change(MiniCluster cluster, JobGraph graph, JobID job, int cores) throws Exception {
    if (cores < 0) {
      cluster.terminateTaskManager(1).get();
      cluster.startTaskManager();
      return;
    }
    JobResourceRequirements.Builder wish = JobResourceRequirements.newBuilder();
    for (JobVertex vertex : graph.getVertices())
      wish.setParallelismForJobVertex(vertex.getID(), 1, vertex.getName().contains(COUNT) ? cores : 1);
    cluster.updateJobResourceRequirements(job, wish.build()).get();
  }

  /** Row n's key, when it is due. The source keeps n in its checkpoint. */
  private static final class Rows implements GeneratorFunction<Long, Long> {
    @Override
    public Long map(Long n) throws Exception {
      return (long) Field.take(n.intValue());
    }
  }

  private static final class Count extends KeyedProcessFunction<Long, Long, Tuple2<Long, Long>> {
    private transient ValueState<Long> count;

    @Override
    public void open(OpenContext context) {
      count = getRuntimeContext().getState(new ValueStateDescriptor<>(COUNT, Types.LONG));
    }

    @Override
    public void processElement(Long key, Context context, Collector<Tuple2<Long, Long>> out) throws IOException {
      Long before = count.value();
      long n = before == null ? 1 : before + 1;
      count.update(n);
      Field.work();
      out.collect(Tuple2.of(key, n));
    }
  }

  private static final class Answers implements Sink<Tuple2<Long, Long>> {
    @Override
    public SinkWriter<Tuple2<Long, Long>> createWriter(WriterInitContext context) {
      return new SinkWriter<>() {
        @Override
        public void write(Tuple2<Long, Long> answer, Context ignored) {
          Field.answer(answer.f0, answer.f1);
        }

        @Override
        public void flush(boolean endOfInput) {}

        @Override
        public void close() {}
      };
    }
  }
}
