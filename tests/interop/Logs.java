// Entries, records and logs as Apache DistributedLog makes them, with its own library. Janino runs
// it, which knows no lambdas, type arguments or resources of try.
//
// Its argument is HOST:PORT of a ZooKeeper. Without one it only knows `golden`. One command a line,
// one answer a line:
//
//   golden        entries and records of metadata: name=hexadecimal, with a space between
//   wrote LOG     the records written to a log: DLSN,transaction id,payload
//   read LOG      the records that DistributedLog's reader gives: the same, and the sequence number
//   more          writes a record to the log `open`, whose writer still lives; its DLSN
//   halt          writes records to the log `torn` and ends at once
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import org.apache.distributedlog.DLSN;
import org.apache.distributedlog.DistributedLogConfiguration;
import org.apache.distributedlog.Entry;
import org.apache.distributedlog.LogRecord;
import org.apache.distributedlog.LogRecordSet;
import org.apache.distributedlog.LogRecordWithDLSN;
import org.apache.distributedlog.LogSegmentMetadata;
import org.apache.distributedlog.api.AsyncLogWriter;
import org.apache.distributedlog.api.DistributedLogManager;
import org.apache.distributedlog.api.LogReader;
import org.apache.distributedlog.api.namespace.Namespace;
import org.apache.distributedlog.api.namespace.NamespaceBuilder;
import org.apache.distributedlog.exceptions.EndOfStreamException;
import org.apache.distributedlog.impl.metadata.BKDLConfig;
import org.apache.distributedlog.io.CompressionCodec;
import org.apache.distributedlog.metadata.DLMetadata;

public class Logs {
    static final String NAMESPACE = "/messaging/logs";
    static Namespace namespace;
    static Map wrote = new HashMap();
    static AsyncLogWriter open;
    static long txid = 100;

    // A record with the number and flags that a writer of segments gives it.
    static class Placed extends LogRecord {
        Placed(long txid, byte[] payload, long position, long flags) {
            super(txid, payload);
            setMetadata(position << 16 | flags);
        }
    }

    public static void main(String[] arguments) {
        try {
            carryOutAll(arguments);
            System.exit(0);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1); // other threads would go on
        }
    }

    static void carryOutAll(String[] arguments) throws Exception {
        if (arguments.length > 0) {
            write(arguments[0]);
        }
        System.out.println("ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            System.out.println("ok " + carryOut(line.split(" ")).trim());
        }
    }

    static String carryOut(String[] words) throws Exception {
        switch (words[0]) {
            case "golden":
                return golden();
            case "wrote":
                return (String) wrote.get(words[1]);
            case "read":
                return read(words[1]);
            case "more":
                return append(open, "open", "more");
            case "halt":
                AsyncLogWriter torn = writer("torn", config());
                append(torn, "torn", "before");
                Runtime.getRuntime().halt(0);
                return "";
            default:
                throw new Exception(words[0]);
        }
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String again() {
        StringBuffer text = new StringBuffer();
        for (int each = 0; each < 50; each++) {
            text.append("again ");
        }
        return text.toString();
    }

    static LogRecord set(long txid, CompressionCodec.Type codec, String[] payloads) throws Exception {
        LogRecordSet.Writer records = LogRecordSet.newWriter(1024, codec);
        for (int each = 0; each < payloads.length; each++) {
            records.writeRecord(ByteBuffer.wrap(bytes(payloads[each])), new CompletableFuture());
        }
        LogRecord record = new LogRecord(txid, records.getBuffer());
        record.setRecordSet();
        return record;
    }

    // Golden bytes.

    static String entry(String name, boolean enveloped, CompressionCodec.Type codec, LogRecord[] records) throws Exception {
        Entry.Writer writer = Entry.newEntry("golden", 1024, enveloped, codec);
        for (int each = 0; each < records.length; each++) {
            writer.writeRecord(records[each], new CompletableFuture());
        }
        Method getBuffer = writer.getClass().getDeclaredMethod("getBuffer", new Class[0]);
        getBuffer.setAccessible(true); // of an interface that only its package sees
        return name + "=" + ByteBufUtil.hexDump((ByteBuf) getBuffer.invoke(writer, new Object[0])) + " ";
    }

    static String metadata(String text) throws Exception {
        LogSegmentMetadata made = LogSegmentMetadata.parseData("/segment", bytes(text));
        String kind = made.isInProgress() ? "open" : "complete";
        return kind + made.getVersion() + "=" + HexFormat.of().formatHex(bytes(made.getFinalisedData())) + " ";
    }

    static String golden() throws Exception {
        CompressionCodec.Type none = CompressionCodec.Type.NONE;
        CompressionCodec.Type lz4 = CompressionCodec.Type.LZ4;
        LogRecord[] three = new LogRecord[] {
            new Placed(7, bytes("one"), 1, 0),
            new Placed(7, bytes("control"), 1, 1),
            new Placed(9, bytes(again()), 2, 0),
        };
        String[] parts = new String[] {"a", "", again()};
        LogRecord[] sets = new LogRecord[] {
            set(11, none, parts), set(12, lz4, parts), new Placed(Long.MAX_VALUE, bytes("endOfStream"), 2, 2),
        };
        StringBuffer all = new StringBuffer();
        all.append(entry("bare", false, none, three)).append(entry("plain", true, none, three));
        all.append(entry("lz4", true, lz4, three)).append(entry("sets", true, none, sets));
        String[] texts = new String[] {
            "2;26;100;4", "34359738370;26;100;200;1795578576312;4;7;1",
            "3;26;100;4;0;0", "34359738627;26;100;200;1795578576312;4;7;1;3;2",
            "4;26;100;4;0;0", "34359738884;26;100;200;1795578576312;4;7;1;0;0",
            "268435461;26;100;4;0;0;-1", "34359738629;26;100;200;1795578576312;4;7;1;3;2;55",
        };
        for (int each = 0; each < texts.length; each++) {
            all.append(metadata(texts[each]));
        }
        BKDLConfig config = new BKDLConfig("zoo1:2181,zoo2:2181", "/ledgers");
        all.append("namespace=").append(HexFormat.of().formatHex(DLMetadata.create(config).serialize()));
        all.append(" dlsn=").append(HexFormat.of().formatHex(bytes(new DLSN(4, 17, 2).serialize())));
        return all.toString();
    }

    // Logs.

    static DistributedLogConfiguration config() {
        DistributedLogConfiguration config = new DistributedLogConfiguration();
        config.setEnsembleSize(3).setWriteQuorumSize(3).setAckQuorumSize(2);
        config.setImmediateFlushEnabled(true).setOutputBufferSize(0).setPeriodicFlushFrequencyMilliSeconds(0);
        return config;
    }

    static DistributedLogManager log(String name, DistributedLogConfiguration config) throws Exception {
        return namespace.openLog(name, Optional.of(config), Optional.empty(), Optional.empty());
    }

    static AsyncLogWriter writer(String name, DistributedLogConfiguration config) throws Exception {
        return (AsyncLogWriter) log(name, config).openAsyncLogWriter().get();
    }

    static String place(DLSN dlsn) {
        return dlsn.getLogSegmentSequenceNo() + ":" + dlsn.getEntryId() + ":" + dlsn.getSlotId();
    }

    static void note(String name, DLSN dlsn, long txid, String payload) {
        String before = wrote.containsKey(name) ? (String) wrote.get(name) : "";
        wrote.put(name, before + place(dlsn) + "," + txid + "," + HexFormat.of().formatHex(bytes(payload)) + " ");
    }

    static String append(AsyncLogWriter writer, String name, String payload) throws Exception {
        long mine = txid++;
        DLSN dlsn = (DLSN) writer.write(new LogRecord(mine, bytes(payload))).get();
        note(name, dlsn, mine, payload);
        return place(dlsn);
    }

    static void appendSet(AsyncLogWriter writer, String name, CompressionCodec.Type codec, String[] payloads) throws Exception {
        long mine = txid++;
        DLSN dlsn = (DLSN) writer.write(set(mine, codec, payloads)).get();
        for (int each = 0; each < payloads.length; each++) {
            note(name, new DLSN(dlsn.getLogSegmentSequenceNo(), dlsn.getEntryId(), dlsn.getSlotId() + each), mine, payloads[each]);
        }
    }

    // A complete segment of packed entries.
    static void segment(String name, DistributedLogConfiguration config, String prefix, int entries, int each) throws Exception {
        AsyncLogWriter writer = writer(name, config);
        for (int entry = 0; entry < entries; entry++) {
            List records = new ArrayList();
            long first = txid;
            for (int record = 0; record < each; record++) {
                records.add(new LogRecord(txid++, bytes(prefix + record + again())));
            }
            List places = (List) writer.writeBulk(records).get();
            for (int record = 0; record < each; record++) {
                DLSN dlsn = (DLSN) ((CompletableFuture) places.get(record)).get();
                note(name, dlsn, first + record, prefix + record + again());
            }
        }
        writer.asyncClose().get();
    }

    static void sets(String name) throws Exception {
        CompressionCodec.Type none = CompressionCodec.Type.NONE;
        AsyncLogWriter writer = writer(name, config());
        append(writer, name, "single");
        appendSet(writer, name, none, new String[] {"s0", "", "s2"});
        appendSet(writer, name, CompressionCodec.Type.LZ4, new String[] {again(), "t1"});
        append(writer, name, "after");
        writer.asyncClose().get();
    }

    static void write(String zookeeper) throws Exception {
        URI uri = URI.create("distributedlog://" + zookeeper + NAMESPACE);
        DLMetadata.create(new BKDLConfig(zookeeper, "/ledgers")).create(uri);
        namespace = NamespaceBuilder.newBuilder().conf(config()).uri(uri).clientId("logs").build();
        DistributedLogConfiguration packed = config();
        packed.setCompressionType("lz4");
        segment("several", config(), "plain", 5, 1);
        segment("several", config(), "packed", 3, 30);
        segment("several", packed, "lz4", 3, 30);
        sets("several");
        for (int version = 2; version <= 5; version++) {
            DistributedLogConfiguration older = config();
            older.setDLLedgerMetadataLayoutVersion(version);
            segment("older/versions", older, "v" + version, 2, 10);
        }
        DistributedLogConfiguration named = config();
        named.setLogSegmentNameVersion(0);
        segment("older/names", named, "named", 1, 3);
        segment("cut", config(), "gone", 1, 3);
        segment("cut", config(), "left", 1, 5);
        segment("cut", config(), "kept", 1, 3);
        cut("cut", 5);
        segment("open", config(), "closed", 1, 3);
        open = writer("open", config());
        append(open, "open", "o1");
        append(open, "open", "o2");
        AsyncLogWriter ended = writer("ended", config());
        append(ended, "ended", "last");
        ended.markEndOfStream().get();
        ended.asyncClose().get();
        namespace.createLog("empty");
    }

    // Truncates a log up to a record, counted from 0.
    static void cut(String name, int record) throws Exception {
        String[] parts = ((String) wrote.get(name)).split(" ")[record].split(",")[0].split(":");
        DLSN dlsn = new DLSN(Long.parseLong(parts[0]), Long.parseLong(parts[1]), Long.parseLong(parts[2]));
        AsyncLogWriter writer = writer(name, config());
        writer.truncate(dlsn).get();
        writer.asyncClose().get();
    }

    static String read(String name) throws Exception {
        DistributedLogManager manager = log(name, config());
        LogReader reader = manager.openLogReader(DLSN.InitialDLSN);
        StringBuffer all = new StringBuffer();
        try {
            for (LogRecordWithDLSN each = reader.readNext(false); each != null; each = reader.readNext(false)) {
                all.append(place(each.getDlsn())).append(",").append(each.getTransactionId()).append(",");
                all.append(HexFormat.of().formatHex(each.getPayload())).append(",").append(each.getSequenceId()).append(" ");
            }
        } catch (EndOfStreamException ended) {
            all.append("end");
        }
        reader.close();
        manager.close();
        return all.toString();
    }
}
