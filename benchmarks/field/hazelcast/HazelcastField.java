package field;

import com.hazelcast.config.Config;
import com.hazelcast.core.Hazelcast;
import com.hazelcast.core.HazelcastInstance;
import com.hazelcast.function.FunctionEx;
import com.hazelcast.jet.Job;
import com.hazelcast.jet.Util;
import com.hazelcast.jet.accumulator.LongAccumulator;
import com.hazelcast.jet.config.JobConfig;
import com.hazelcast.jet.config.ProcessingGuarantee;
import com.hazelcast.jet.core.JobStatus;
import com.hazelcast.jet.pipeline.Pipeline;
import com.hazelcast.jet.pipeline.ServiceFactories;
import com.hazelcast.jet.pipeline.SinkBuilder;
import com.hazelcast.jet.pipeline.SourceBuilder;
import com.hazelcast.jet.pipeline.StreamSource;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;

/**
 * Counts per key on Hazelcast's stream engine. Followed: Fault Tolerance (exactly once, replayable source, scaling up and
 * down), Pipelines (stateful mapping, services that block are not cooperative), Configuring Jobs (auto-scaling and its
 * delay), of docs.hazelcast.com/hazelcast/latest/pipelines and /latest/fault-tolerance.
 *
 * <p>Cores come and go with members of two each, in one process. Argument: default or zero delay of a scale-up.
 */
public final class HazelcastField {

  private static final int OF_A_MEMBER = Integer.getInteger("field.most") == Field.CORES ? Field.CORES : 2;
  private static final Deque<HazelcastInstance> MEMBERS = new ArrayDeque<>();

  public static void main(String[] arguments) throws Exception {
    boolean zero = arguments[0].equals("zero");
    boolean kills = System.getProperty("field.changes", "").contains(":-1");
    int each = kills ? Field.CORES / 2 : OF_A_MEMBER;
    members(Field.CORES / each, zero);
    JobConfig config =
        new JobConfig()
            .setProcessingGuarantee(ProcessingGuarantee.EXACTLY_ONCE)
            .setSnapshotIntervalMillis(Field.COMMIT_MS)
            .setAutoScaling(true);
    Job job = MEMBERS.getFirst().getJet().newJob(pipeline(each), config);
    Field.run(
        cores -> {
          if (cores > 0) members(cores / each, zero);
          else {
            MEMBERS.removeLast().getLifecycleService().terminate();
            members(Field.CORES / each, zero);
          }
        });
    if (job.getStatus() == JobStatus.RUNNING) job.cancel();
    Hazelcast.shutdownAll();
    System.exit(0);
  }

  /** So many members: new ones join, the newest leave in good order. */
  private static void members(int count, boolean zero) {
    while (MEMBERS.size() < count) MEMBERS.addLast(Hazelcast.newHazelcastInstance(member(zero)));
    while (MEMBERS.size() > count) MEMBERS.removeLast().shutdown();
  }

  private static Config member(boolean zero) {
    Config config = new Config().setClusterName("field").setProperty("hazelcast.logging.type", "jdk");
    config.getJetConfig().setEnabled(true);
    if (zero) config.getJetConfig().setScaleUpDelayMillis(0);
    config.getNetworkConfig().getInterfaces().setEnabled(true).setInterfaces(List.of("127.0.0.1"));
    config.getNetworkConfig().getJoin().getAutoDetectionConfig().setEnabled(false);
    config.getNetworkConfig().getJoin().getMulticastConfig().setEnabled(false);
    config.getNetworkConfig().getJoin().getTcpIpConfig().setEnabled(true).setMembers(List.of("127.0.0.1"));
    return config;
  }

  private static Pipeline pipeline(int parallelism) {
    Pipeline pipeline = Pipeline.create();
    pipeline
        .readFrom(rows())
        .withoutTimestamps()
        .groupingKey(FunctionEx.identity())
        .mapStateful(
            LongAccumulator::new, (count, key, row) -> Util.entry(key, count.add(1).get()))
        .setLocalParallelism(parallelism)
        .groupingKey(Map.Entry::getKey)
        .mapUsingService(
            ServiceFactories.nonSharedService(context -> "core").toNonCooperative(),
            (core, key, answer) -> {
              Field.work();
              return answer;
            })
        .setLocalParallelism(parallelism)
        .writeTo(
            SinkBuilder.sinkBuilder("answers", context -> "file")
                .<Map.Entry<Long, Long>>receiveFn((file, answer) -> Field.answer(answer.getKey(), answer.getValue()))
                .build());
    return pipeline;
  }

  /** The rows that are due; the number of the next one is in each snapshot. */
  private static StreamSource<Long> rows() {
    return SourceBuilder.stream("rows", context -> new int[1])
        .<Long>fillBufferFn(
            (next, buffer) -> {
              for (int key; buffer.size() < 128 && (key = Field.takeIfDue(next[0])) >= 0; next[0]++) buffer.add((long) key);
            })
        .createSnapshotFn(next -> next[0])
        .restoreSnapshotFn((next, saved) -> next[0] = saved.get(0))
        .build();
  }
}
