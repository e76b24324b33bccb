// Kafka's own client for benchmarks/peers/kafka_client.py.
//
//   append TOPIC BYTES FLIGHT MILLIS   a new topic of one partition, so many records unacknowledged
//                                      all the time
//   read TOPIC COUNT                   so many records from the beginning
import java.time.Duration;
import java.util.Collections;
import java.util.Properties;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

public class KafkaBench extends Bench {
    final String servers;
    final AdminClient admin;

    KafkaBench(String servers) throws Exception {
        this.servers = servers;
        admin = AdminClient.create(properties());
        admin.describeCluster().nodes().get();
    }

    public static void main(String[] arguments) throws Exception {
        new KafkaBench(arguments[0]).serve();
    }

    Properties properties() {
        Properties found = new Properties();
        found.put("bootstrap.servers", servers);
        return found;
    }

    static class Records extends Window {
        final KafkaProducer producer;
        final String topic;
        final byte[] payload;

        Records(KafkaProducer producer, String topic, byte[] payload) {
            this.producer = producer;
            this.topic = topic;
            this.payload = payload;
        }

        void send(final Slot slot) {
            producer.send(new ProducerRecord(topic, payload), new Callback() {
                public void onCompletion(RecordMetadata metadata, Exception error) {
                    slot.acked(error);
                }
            });
        }
    }

    String append(String[] words) throws Exception {
        admin.createTopics(Collections.singleton(new NewTopic(words[1], 1, (short) 3))).all().get();
        Properties options = properties();
        options.put("acks", "all");
        options.put("linger.ms", "0");
        options.put("batch.size", "262144");
        options.put("buffer.memory", "134217728");
        options.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        options.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        KafkaProducer producer = new KafkaProducer(options);
        try {
            producer.partitionsFor(words[1]);
            Records records = new Records(producer, words[1], payload(words[2]));
            records.begin();
            records.add(Integer.parseInt(words[3]), null);
            return records.run(words[4]);
        } finally {
            producer.close();
        }
    }

    String read(String[] words) throws Exception {
        Properties options = properties();
        String type = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        options.put("key.deserializer", type);
        options.put("value.deserializer", type);
        options.put("auto.offset.reset", "earliest");
        KafkaConsumer consumer = new KafkaConsumer(options);
        consumer.assign(Collections.singleton(new TopicPartition(words[1], 0)));
        int wanted = Integer.parseInt(words[2]);
        Clock clock = new Clock();
        int count = 0;
        while (count < wanted) {
            count += consumer.poll(Duration.ofSeconds(10)).count();
        }
        String took = clock.took(count);
        consumer.close();
        return took;
    }
}
