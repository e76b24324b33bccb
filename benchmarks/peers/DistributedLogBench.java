// DistributedLog's own library for benchmarks/peers/distributedlog.py: one command a line, one
// answer a line. Janino runs it, which knows no lambdas, type arguments or resources of try.
//
//   append LOG BYTES FLIGHT MILLIS     a new log, so many records unacknowledged all the time;
//                                      records, nanoseconds, nanoseconds of processors, median and
//                                      99th percentile in µs
//   read LOG COUNT                     so many records from the beginning; the first three of these
import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BiConsumer;
import org.apache.distributedlog.DLSN;
import org.apache.distributedlog.DistributedLogConfiguration;
import org.apache.distributedlog.LogRecord;
import org.apache.distributedlog.api.AsyncLogWriter;
import org.apache.distributedlog.api.DistributedLogManager;
import org.apache.distributedlog.api.LogReader;
import org.apache.distributedlog.api.namespace.Namespace;
import org.apache.distributedlog.api.namespace.NamespaceBuilder;
import org.apache.distributedlog.impl.metadata.BKDLConfig;
import org.apache.distributedlog.metadata.DLMetadata;

public class DistributedLogBench {
    static final int MOST = 8000000;
    static final int BULK = 1000;
    static Namespace namespace;

    public static void main(String[] arguments) throws Exception {
        URI uri = URI.create("distributedlog://" + arguments[0] + "/peers/logs");
        DLMetadata.create(new BKDLConfig(arguments[0], "/ledgers")).create(uri);
        namespace = NamespaceBuilder.newBuilder().conf(config()).uri(uri).clientId("bench").build();
        System.out.println("ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            String answer;
            try {
                answer = "ok " + (words[0].equals("append") ? append(words) : read(words));
            } catch (Throwable error) {
                answer = "error " + error;
            }
            System.out.println(answer);
        }
        System.exit(0);
    }

    // Entries of up to 64 KiB, sent when they are full or after two milliseconds: the shortest
    // period with which the library sends by itself. Without a period it would keep a lone record.
    static DistributedLogConfiguration config() {
        DistributedLogConfiguration config = new DistributedLogConfiguration();
        config.setEnsembleSize(3).setWriteQuorumSize(3).setAckQuorumSize(2);
        config.setImmediateFlushEnabled(false).setPeriodicFlushFrequencyMilliSeconds(2);
        config.setOutputBufferSize(64 * 1024);
        config.setLogSegmentRollingIntervalMinutes(0);
        config.setProperty("bkc.throttle", "0");
        config.setProperty("bkc.addEntryTimeoutSec", "60");
        config.setProperty("bkc.readEntryTimeoutSec", "60");
        return config;
    }

    static long processors() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
            .getProcessCpuTime();
    }

    static class Slot {
        long begun;
    }

    static String append(String[] words) throws Exception {
        byte[] payload = new byte[Integer.parseInt(words[2])];
        new Random(1).nextBytes(payload);
        int flight = Integer.parseInt(words[3]);
        long nanos = Long.parseLong(words[4]) * 1000000L;
        DistributedLogManager manager = namespace.openLog(words[1]);
        AsyncLogWriter writer = (AsyncLogWriter) manager.openAsyncLogWriter().get();
        final LinkedBlockingQueue free = new LinkedBlockingQueue();
        for (int each = 0; each < flight; each++) {
            free.add(new Slot());
        }
        final AtomicReference failed = new AtomicReference();
        final AtomicInteger done = new AtomicInteger();
        final int[] micros = new int[MOST];
        long work = processors();
        long begun = System.nanoTime();
        int count = 0;
        for (long now = begun; now - begun < nanos && failed.get() == null; count++) {
            final Slot slot = (Slot) free.take();
            now = System.nanoTime();
            slot.begun = now;
            writer.write(new LogRecord(count + 1, payload)).whenComplete(new BiConsumer() {
                public void accept(Object place, Object error) {
                    if (error != null) {
                        failed.set(error);
                    }
                    int number = done.getAndIncrement();
                    if (number < MOST) {
                        micros[number] = (int) ((System.nanoTime() - slot.begun) / 1000);
                    }
                    free.add(slot);
                }
            });
        }
        for (int slots = 0; slots < flight; slots++) {
            free.take();
        }
        long took = System.nanoTime() - begun;
        work = processors() - work;
        writer.asyncClose().get();
        manager.close();
        if (failed.get() != null) {
            throw new Exception("an append failed: " + failed.get());
        }
        int known = Math.min(count, MOST);
        Arrays.sort(micros, 0, known);
        return count + " " + took + " " + work + " " + micros[known / 2] + " "
            + micros[(int) (known * 99L / 100)];
    }

    static String read(String[] words) throws Exception {
        int wanted = Integer.parseInt(words[2]);
        DistributedLogManager manager = namespace.openLog(words[1]);
        long work = processors();
        long begun = System.nanoTime();
        LogReader reader = manager.openLogReader(DLSN.InitialDLSN);
        int count = 0;
        while (count < wanted) {
            List records = reader.readBulk(false, Math.min(BULK, wanted - count));
            count += records.size();
        }
        long took = System.nanoTime() - begun;
        work = processors() - work;
        reader.close();
        manager.close();
        return count + " " + took + " " + work;
    }
}
