package field;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts per key with Kafka Streams. Followed: Processor API, Configuring a Streams Application (exactly_once_v2, commit
 * interval, num.stream.threads), Adding and removing stream threads, of kafka.apache.org/documentation/streams.
 *
 * <p>The broker is a process of its own; this one sends the rows when they are due, and works on them. A core is a stream
 * thread. A partition's rows stay with one thread, so there are several partitions for each core.
 */
public final class KafkaField {

  private static final String ROWS = "rows";
  private static final String COUNTS = "counts";
  private static final String BROKER = System.getProperty("field.broker");
  private static final int PARTITIONS_OF_A_CORE = 4;

  public static void main(String[] arguments) throws Exception {
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", BROKER))) {
      int partitions = PARTITIONS_OF_A_CORE * Field.MOST;
      admin.createTopics(List.of(new NewTopic(ROWS, Optional.of(partitions), Optional.of((short) 1)))).all().get();
    }
    KafkaStreams streams = new KafkaStreams(topology().build(), settings());
    streams.start();
    Thread sender = new Thread(KafkaField::send, "sender");
    sender.setDaemon(true);
    sender.start();
    Field.run(cores -> change(streams, cores));
    streams.close(Duration.ofSeconds(10));
    System.exit(0);
  }

  private static void change(KafkaStreams streams, int cores) {
    int now = streams.metadataForLocalThreads().size();
    for (; now < cores; now++) streams.addStreamThread();
    for (; now > cores; now--) streams.removeStreamThread();
  }

  private static Properties settings() {
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "field");
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, BROKER);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, Field.WORK.resolve("streams").toString());
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, Field.COMMIT_MS);
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Field.CORES);
    // A transaction lasts as long as a commit's interval, so it may not time out before.
    settings.put(StreamsConfig.producerPrefix(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG), 6 * Field.COMMIT_MS);
    return settings;
  }

  private static StreamsBuilder topology() {
    StreamsBuilder builder = new StreamsBuilder();
    builder.addStateStore(
        Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(COUNTS), Serdes.Long(), Serdes.Long()));
    builder.stream(ROWS, Consumed.with(Serdes.Long(), Serdes.Long())).process(Count::new, COUNTS);
    return builder;
  }

  private static void send() {
    Map<String, Object> settings =
        Map.of(
            ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, BROKER,
            ProducerConfig.LINGER_MS_CONFIG, 0,
            ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, true);
    try (KafkaProducer<Long, Long> producer =
        new KafkaProducer<>(settings, Serdes.Long().serializer(), Serdes.Long().serializer())) {
      for (int n = 0; n < Field.rows(); n++) producer.send(new ProducerRecord<>(ROWS, (long) Field.take(n), (long) n));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private static final class Count implements Processor<Long, Long, Void, Void> {
    private KeyValueStore<Long, Long> counts;

    @Override
    public void init(ProcessorContext<Void, Void> context) {
      counts = context.getStateStore(COUNTS);
    }

    @Override
    public void process(Record<Long, Long> row) {
      Long before = counts.get(row.key());
      long n = before == null ? 1 : before + 1;
      counts.put(row.key(), n);
      Field.work();
      Field.answer(row.key(), n);
    }
  }
}
