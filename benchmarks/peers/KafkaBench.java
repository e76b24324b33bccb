// Kafka's own client for benchmarks/peers/kafka.py: one command a line, one answer a line.
// Janino runs it, which knows no lambdas, type arguments or resources of try.
//
//   append TOPIC BYTES FLIGHT MILLIS   a new topic of one partition, so many records unacknowledged
//                                      all the time; records, nanoseconds, nanoseconds of
//                                      processors, median and 99th percentile in µs
//   read TOPIC COUNT                   so many records from the beginning; the first three of these
import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

public class KafkaBench {
    static final int MOST = 8000000;
    static String servers;
    static AdminClient admin;

    public static void main(String[] arguments) throws Exception {
        servers = arguments[0];
        admin = AdminClient.create(properties());
        admin.describeCluster().nodes().get();
        System.out.println("ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            String answer;
            try {
                answer = "ok " + (words[0].equals("append") ? append(words) : read(words));
            } catch (Exception error) {
                answer = "error " + error;
            }
            System.out.println(answer);
        }
        System.exit(0);
    }

    static Properties properties() {
        Properties found = new Properties();
        found.put("bootstrap.servers", servers);
        return found;
    }

    static long processors() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
            .getProcessCpuTime();
    }

    static class Slot implements Callback {
        LinkedBlockingQueue free;
        AtomicInteger done;
        int[] micros;
        Exception[] failed;
        long begun;

        public void onCompletion(RecordMetadata metadata, Exception error) {
            if (error != null) {
                failed[0] = error;
            }
            int number = done.getAndIncrement();
            if (number < MOST) {
                micros[number] = (int) ((System.nanoTime() - begun) / 1000);
            }
            free.add(this);
        }
    }

    static String append(String[] words) throws Exception {
        byte[] payload = new byte[Integer.parseInt(words[2])];
        new Random(1).nextBytes(payload);
        int flight = Integer.parseInt(words[3]);
        long nanos = Long.parseLong(words[4]) * 1000000L;
        admin.createTopics(Collections.singleton(new NewTopic(words[1], 1, (short) 3))).all().get();
        Properties options = properties();
        options.put("acks", "all");
        options.put("linger.ms", "0");
        options.put("batch.size", "262144");
        options.put("buffer.memory", "134217728");
        options.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        options.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        KafkaProducer producer = new KafkaProducer(options);
        producer.partitionsFor(words[1]);
        LinkedBlockingQueue free = new LinkedBlockingQueue();
        AtomicInteger done = new AtomicInteger();
        int[] micros = new int[MOST];
        Exception[] failed = new Exception[1];
        for (int each = 0; each < flight; each++) {
            Slot slot = new Slot();
            slot.free = free;
            slot.done = done;
            slot.micros = micros;
            slot.failed = failed;
            free.add(slot);
        }
        long work = processors();
        long begun = System.nanoTime();
        int count = 0;
        for (long now = begun; now - begun < nanos && failed[0] == null; count++) {
            Slot slot = (Slot) free.take();
            now = System.nanoTime();
            slot.begun = now;
            producer.send(new ProducerRecord(words[1], payload), slot);
        }
        for (int slots = 0; slots < flight; slots++) {
            free.take();
        }
        long took = System.nanoTime() - begun;
        work = processors() - work;
        producer.close();
        if (failed[0] != null) {
            throw failed[0];
        }
        int known = Math.min(count, MOST);
        Arrays.sort(micros, 0, known);
        return count + " " + took + " " + work + " " + micros[known / 2] + " "
            + micros[(int) (known * 99L / 100)];
    }

    static String read(String[] words) throws Exception {
        Properties options = properties();
        String type = "org.apache.kafka.common.serialization.ByteArrayDeserializer";
        options.put("key.deserializer", type);
        options.put("value.deserializer", type);
        options.put("auto.offset.reset", "earliest");
        KafkaConsumer consumer = new KafkaConsumer(options);
        consumer.assign(Collections.singleton(new TopicPartition(words[1], 0)));
        int wanted = Integer.parseInt(words[2]);
        long work = processors();
        long begun = System.nanoTime();
        int count = 0;
        while (count < wanted) {
            count += consumer.poll(Duration.ofSeconds(10)).count();
        }
        long took = System.nanoTime() - begun;
        work = processors() - work;
        consumer.close();
        return count + " " + took + " " + work;
    }
}
