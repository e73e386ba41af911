package field;

import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.generated.RebalanceOptions;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.state.KeyValueState;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.topology.base.BaseStatefulBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * Counts per key on Storm. Followed: Concepts (stream groupings, reliability), Understanding the Parallelism of a Storm
 * Topology (tasks, executors, rebalance), Storm State Management, of storm.apache.org/releases/current.
 *
 * <p>A core is an executor of the counting bolt; there are as many tasks as there may be cores, since a rebalance only
 * moves tasks. Storm's core has at-least-once: here a row that failed is not sent again, as counts would have it twice.
 * Arguments: fields or partial. With partial key grouping each key is counted by two of the tasks, and a second bolt adds
 * their counts up.
 */
public final class StormField {

  private static final String ROWS = "rows";
  private static final String COUNT = "count";
  private static final String SUM = "sum";

  public static void main(String[] arguments) throws Exception {
    boolean partial = arguments[0].equals("partial");
    TopologyBuilder builder = new TopologyBuilder();
    builder.setSpout(ROWS, new Rows(), 1);
    var count = builder.setBolt(COUNT, new Count(!partial), Field.CORES).setNumTasks(Field.MOST);
    if (partial) {
      count.partialKeyGrouping(ROWS, new Fields("key"));
      builder.setBolt(SUM, new Sum(), 1).fieldsGrouping(COUNT, new Fields("key"));
    } else {
      count.fieldsGrouping(ROWS, new Fields("key"));
    }
    Config config = new Config();
    config.setNumAckers(1);
    config.put(Config.TOPOLOGY_STATE_CHECKPOINT_INTERVAL, Field.COMMIT_MS);
    config.setMessageTimeoutSecs(3600);
    // Rows one by one, as its documentation on tuning has it for low latency.
    config.put(Config.TOPOLOGY_PRODUCER_BATCH_SIZE, 1);
    try (LocalCluster cluster = new LocalCluster()) {
      cluster.submitTopology("field", config, builder.createTopology());
      Field.run(
          cores -> {
            RebalanceOptions options = new RebalanceOptions();
            options.set_wait_secs(0);
            options.put_to_num_executors(COUNT, cores);
            cluster.rebalance("field", options);
          });
      Runtime.getRuntime().halt(0); // a local cluster takes half a minute to end, and nobody waits for its state
    }
  }

  /** The rows that are due. */
  public static final class Rows extends BaseRichSpout {
    /** The next row: the process is one, and the spout's task may begin anew in it. */
    private static int next;

    private transient SpoutOutputCollector out;

    @Override
    public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
      out = collector;
    }

    @Override
    public void nextTuple() {
      int key = Field.takeIfDue(next);
      if (key >= 0) out.emit(new Values((long) key), next++);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
      declarer.declare(new Fields("key"));
    }
  }

  /** Counts a key's rows, or those of them that come to this task. */
  public static final class Count extends BaseStatefulBolt<KeyValueState<Long, Long>> {
    private final boolean all;
    private transient KeyValueState<Long, Long> counts;
    private transient OutputCollector out;

    Count(boolean all) {
      this.all = all;
    }

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
      out = collector;
    }

    @Override
    public void initState(KeyValueState<Long, Long> state) {
      counts = state;
    }

    @Override
    public void execute(Tuple row) {
      long key = row.getLongByField("key");
      long n = counts.get(key, 0L) + 1;
      counts.put(key, n);
      Field.work();
      if (all) Field.answer(key, n);
      else out.emit(row, new Values(key, 1L));
      out.ack(row);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
      declarer.declare(new Fields("key", "n"));
    }
  }

  /** Adds up what tasks have counted. */
  public static final class Sum extends BaseStatefulBolt<KeyValueState<Long, Long>> {
    private transient KeyValueState<Long, Long> sums;
    private transient OutputCollector out;

    @Override
    public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
      out = collector;
    }

    @Override
    public void initState(KeyValueState<Long, Long> state) {
      sums = state;
    }

    @Override
    public void execute(Tuple part) {
      long key = part.getLongByField("key");
      long n = sums.get(key, 0L) + part.getLongByField("n");
      sums.put(key, n);
      Field.answer(key, n);
      out.ack(part);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
      declarer.declare(new Fields("key", "n"));
    }
  }
}
