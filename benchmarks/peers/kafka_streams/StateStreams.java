import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/** The job of `gaps` in Kafka Streams, with one stream thread. It says on standard error which tasks it has. */
public final class StateStreams {
  private static final int STATE_BYTES = Integer.parseInt(job("STATE_BYTES"));

  public static void main(String[] arguments) throws InterruptedException {
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(job("SOURCE"), Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
        .groupByKey()
        .aggregate(
            () -> new byte[STATE_BYTES],
            (key, value, state) -> {
              ByteBuffer count = ByteBuffer.wrap(state.clone());
              return count.putLong(0, count.getLong(0) + 1).array();
            },
            Materialized.with(Serdes.ByteArray(), Serdes.ByteArray()))
        .toStream()
        .to(job("SINK"), Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
    KafkaStreams streams = new KafkaStreams(builder.build(), settings());
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
    while (true) {
      System.err.println("{\"tasks\": " + tasks(streams) + "}");
      Thread.sleep(200);
    }
  }

  private static List<String> tasks(KafkaStreams streams) {
    String state = streams.state() == KafkaStreams.State.RUNNING ? "running" : "waiting";
    List<String> tasks = new ArrayList<>();
    for (ThreadMetadata thread : streams.metadataForLocalThreads()) {
      thread.activeTasks().forEach(task -> tasks.add(described(task, "active", state)));
      thread.standbyTasks().forEach(task -> tasks.add(described(task, "standby", "ready")));
    }
    return tasks;
  }

  private static String described(TaskMetadata task, String role, String state) {
    long lag = 0;
    for (Map.Entry<TopicPartition, Long> end : task.endOffsets().entrySet()) {
      lag += Math.max(0, end.getValue() - Math.max(0, task.committedOffsets().getOrDefault(end.getKey(), 0L)));
    }
    return String.format(
        "{\"task\": \"%s\", \"role\": \"%s\", \"state\": \"%s\", \"lag_records\": %d}", task.taskId(), role, state, lag);
  }

  private static Properties settings() {
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, job("GROUP"));
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, job("SERVERS"));
    settings.put(StreamsConfig.STATE_DIR_CONFIG, job("DIRECTORY"));
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, job("GUARANTEE"));
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, job("COMMIT_INTERVAL_MS"));
    settings.put(StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG, job("STANDBYS"));
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
    settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 64 << 20);
    // The shortest there is: it is how long a copy that has caught up waits for its task.
    settings.put(StreamsConfig.PROBING_REBALANCE_INTERVAL_MS_CONFIG, 60_000);
    settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
    settings.put(StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), "lz4");
    return settings;
  }

  private static String job(String name) {
    return System.getenv("BENCH_" + name);
  }
}
