// DistributedLog's own library for benchmarks/peers/distributedlog.py.
//
//   append LOG BYTES FLIGHT MILLIS   a new log, so many records unacknowledged all the time
//   read LOG COUNT                   so many records from the beginning
import java.net.URI;
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

public class DistributedLogBench extends Bench {
    static final int BULK = 1000;
    final Namespace namespace;

    DistributedLogBench(Namespace namespace) {
        this.namespace = namespace;
    }

    public static void main(String[] arguments) throws Exception {
        URI uri = URI.create("distributedlog://" + arguments[0] + "/peers/logs");
        DLMetadata.create(new BKDLConfig(arguments[0], "/ledgers")).create(uri);
        new DistributedLogBench(
            NamespaceBuilder.newBuilder().conf(config()).uri(uri).clientId("bench").build()
        ).serve();
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

    static class Records extends Window {
        final AsyncLogWriter writer;
        final byte[] payload;
        long transaction = 0;

        Records(AsyncLogWriter writer, byte[] payload) {
            this.writer = writer;
            this.payload = payload;
        }

        void send(final Slot slot) {
            transaction++;
            writer.write(new LogRecord(transaction, payload)).whenComplete(new BiConsumer() {
                public void accept(Object place, Object error) {
                    slot.acked(error);
                }
            });
        }
    }

    String append(String[] words) throws Exception {
        DistributedLogManager manager = namespace.openLog(words[1]);
        AsyncLogWriter writer = (AsyncLogWriter) manager.openAsyncLogWriter().get();
        try {
            Records records = new Records(writer, payload(words[2]));
            records.begin();
            records.add(Integer.parseInt(words[3]), null);
            return records.run(words[4]);
        } finally {
            writer.asyncClose().get();
            manager.close();
        }
    }

    String read(String[] words) throws Exception {
        int wanted = Integer.parseInt(words[2]);
        DistributedLogManager manager = namespace.openLog(words[1]);
        Clock clock = new Clock();
        LogReader reader = manager.openLogReader(DLSN.InitialDLSN);
        int count = 0;
        while (count < wanted) {
            count += reader.readBulk(false, Math.min(BULK, wanted - count)).size();
        }
        String took = clock.took(count);
        reader.close();
        manager.close();
        return took;
    }
}
