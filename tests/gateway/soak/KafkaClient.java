// A writer and a reader on Kafka's own Java client: `write HOST:PORT,… LOG`, `read HOST:PORT,… LOG END`.

import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Semaphore;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

public class KafkaClient {
    static final String STRINGS = "org.apache.kafka.common.serialization.String";
    static volatile boolean ending = false;
    static volatile boolean failed = false;

    static Properties options(String servers) {
        Properties options = new Properties();
        options.put("bootstrap.servers", servers);
        options.put("request.timeout.ms", "5000");
        options.put("reconnect.backoff.max.ms", "500");
        options.put("metadata.max.age.ms", "2000");
        return options;
    }

    static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static void write(String servers, String log) throws Exception {
        Thread listening = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException e) { }
            ending = true;
        });
        listening.setDaemon(true);
        listening.start();
        Properties options = options(servers);
        options.put("key.serializer", STRINGS + "Serializer");
        options.put("value.serializer", STRINGS + "Serializer");
        options.put("enable.idempotence", "true");
        options.put("delivery.timeout.ms", "600000");
        options.put("max.block.ms", "600000");
        options.put("linger.ms", "5");
        Semaphore underWay = new Semaphore(100);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(options)) {
            for (int sent = 0; !ending && !failed; sent++) {
                int number = sent;
                underWay.acquire();
                producer.send(new ProducerRecord<>(log, "java-" + number), (made, error) -> {
                    if (error == null) {
                        say("acked " + number + " " + made.offset());
                    } else {
                        failed = true;
                        say("failed " + number + " " + error);
                    }
                    underWay.release();
                });
                Thread.sleep(5);
            }
            producer.flush();
        }
    }

    static void read(String servers, String log, long end) {
        Properties options = options(servers);
        options.put("key.deserializer", STRINGS + "Deserializer");
        options.put("value.deserializer", STRINGS + "Deserializer");
        TopicPartition partition = new TopicPartition(log, 0);
        StringBuilder lines = new StringBuilder();
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(options)) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            for (long last = -1; last < end - 1; ) {
                for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofSeconds(1))) {
                    last = each.offset();
                    lines.append(last).append(' ').append(each.value()).append('\n');
                }
            }
        }
        System.out.print(lines);
        System.out.flush();
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("write")) {
            write(arguments[1], arguments[2]);
        } else {
            read(arguments[1], arguments[2], Long.parseLong(arguments[3]));
        }
    }
}
