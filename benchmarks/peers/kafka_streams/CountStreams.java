import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/** The job in Kafka Streams, with one stream thread. The job is in the environment. */
public final class CountStreams {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  public static void main(String[] arguments) {
    Serde<JsonNode> json = Serdes.serdeFrom((topic, node) -> node.toString().getBytes(), (topic, bytes) -> parse(bytes));
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(job("SOURCE"), Consumed.with(Serdes.String(), json))
        .groupByKey(Grouped.with(Serdes.String(), json))
        .count(Materialized.as("counts"))
        .toStream()
        .to(job("SINK"), Produced.with(Serdes.String(), Serdes.Long()));
    KafkaStreams streams = new KafkaStreams(builder.build(), settings());
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
  }

  private static Properties settings() {
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, job("GROUP"));
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, job("SERVERS"));
    settings.put(StreamsConfig.STATE_DIR_CONFIG, job("DIRECTORY"));
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, job("GUARANTEE"));
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, job("COMMIT_INTERVAL_MS"));
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
    settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, job("EVERY_UPDATE").equals("1") ? 0 : 64 << 20);
    settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
    settings.put(StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), "lz4");
    return settings;
  }

  private static JsonNode parse(byte[] bytes) {
    try {
      return MAPPER.readTree(bytes);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private static String job(String name) {
    return System.getenv("BENCH_" + name);
  }
}
