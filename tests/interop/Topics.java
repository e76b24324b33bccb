// Entries and topics as Apache Pulsar makes them, with its own libraries. Janino runs it, which
// knows no lambdas, type arguments or resources of try.
//
//   (no argument)    prints the entries: name, a space, hexadecimal
//   HOST:PORT        also appends them to a managed ledger in that ZooKeeper, whose list of
//                    ledgers is packed, and closes it; and to a second one, which stays open
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.Unpooled;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerFactoryConfig;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerFactoryImpl;
import org.apache.pulsar.common.api.proto.CompressionType;
import org.apache.pulsar.common.api.proto.MessageMetadata;
import org.apache.pulsar.common.api.proto.SingleMessageMetadata;
import org.apache.pulsar.common.compression.CompressionCodecProvider;
import org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor;
import org.apache.pulsar.common.protocol.Commands;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;
import org.apache.pulsar.metadata.impl.MetadataStoreFactoryImpl;

public class Topics {
    static List names = new ArrayList();
    static List entries = new ArrayList();
    static int sequence;

    public static void main(String[] arguments) throws Exception {
        plain();
        codecs();
        batch();
        chunks();
        broker();
        for (int each = 0; each < entries.size(); each++) {
            System.out.println(names.get(each) + " " + ByteBufUtil.hexDump((byte[]) entries.get(each)));
        }
        if (arguments.length > 0) {
            write(arguments[0]);
        }
        System.out.println("done");
        System.exit(0);
    }

    static MessageMetadata metadata() {
        MessageMetadata made = new MessageMetadata();
        made.setProducerName("maker").setSequenceId(sequence++).setPublishTime(1700000000000L);
        return made;
    }

    static ByteBuf text(String text) {
        return Unpooled.wrappedBuffer(text.getBytes(StandardCharsets.UTF_8));
    }

    static void add(String name, MessageMetadata metadata, ByteBuf payload) {
        ByteBuf whole = Commands.serializeMetadataAndPayload(Commands.ChecksumType.Crc32c, metadata, payload);
        names.add(name);
        entries.add(ByteBufUtil.getBytes(whole));
    }

    static void plain() {
        MessageMetadata one = metadata();
        one.setPartitionKey("k1").setEventTime(1600000000000L).setOrderingKey(new byte[] {1, 2});
        one.addProperty().setKey("colour").setValue("red");
        add("plain", one, text("hello"));
        MessageMetadata binary = metadata();
        binary.setPartitionKey("/wA=").setPartitionKeyB64Encoded(true).setNullValue(true);
        add("null", binary, text(""));
        MessageMetadata marker = metadata();
        marker.setMarkerType(10);
        add("marker", marker, text("for brokers"));
    }

    static String repeated() {
        StringBuffer text = new StringBuffer();
        for (int each = 0; each < 100; each++) {
            text.append("again ");
        }
        return text.toString();
    }

    static void codecs() {
        CompressionType[] types = CompressionType.values();
        for (int each = 1; each < types.length; each++) {
            ByteBuf payload = text(repeated());
            MessageMetadata one = metadata();
            one.setCompression(types[each]).setUncompressedSize(payload.readableBytes());
            add(types[each].name(), one, CompressionCodecProvider.getCompressionCodec(types[each]).encode(payload));
        }
    }

    static ByteBuf single(ByteBuf batch, String key, String payload) {
        SingleMessageMetadata one = new SingleMessageMetadata();
        one.setPartitionKey(key).setEventTime(1500000000000L);
        one.addProperty().setKey("n").setValue(key);
        return Commands.serializeSingleMessageInBatchWithPayload(one, text(payload), batch);
    }

    static void batch() {
        ByteBuf batch = Unpooled.buffer();
        batch = single(batch, "b0", "zero");
        batch = single(batch, "b1", "one");
        batch = single(batch, "b2", "two");
        MessageMetadata one = metadata();
        one.setNumMessagesInBatch(3).setCompression(CompressionType.LZ4);
        one.setUncompressedSize(batch.readableBytes());
        add("batch", one, CompressionCodecProvider.getCompressionCodec(CompressionType.LZ4).encode(batch));
    }

    static void chunks() {
        ByteBuf payload = text(repeated());
        int size = payload.readableBytes();
        ByteBuf packed = CompressionCodecProvider.getCompressionCodec(CompressionType.ZLIB).encode(payload);
        byte[] bytes = ByteBufUtil.getBytes(packed);
        int half = bytes.length / 2;
        for (int number = 0; number < 2; number++) {
            MessageMetadata one = metadata();
            one.setCompression(CompressionType.ZLIB).setUncompressedSize(size);
            one.setUuid("maker-1").setNumChunksFromMsg(2).setTotalChunkMsgSize(bytes.length).setChunkId(number);
            int begin = number == 0 ? 0 : half;
            int length = number == 0 ? half : bytes.length - half;
            add("chunk" + number, one, Unpooled.wrappedBuffer(bytes, begin, length));
        }
    }

    static void broker() throws Exception {
        add("indexed", metadata(), text("counted"));
        int last = entries.size() - 1;
        HashSet interceptors = new HashSet();
        interceptors.add(new AppendIndexMetadataInterceptor());
        ByteBuf whole = Unpooled.wrappedBuffer((byte[]) entries.get(last));
        ByteBuf counted = Commands.addBrokerEntryMetadata(whole, interceptors, 5);
        entries.set(last, ByteBufUtil.getBytes(counted));
    }

    static void write(String zookeeper) throws Exception {
        MetadataStoreExtended store = MetadataStoreFactoryImpl.createExtended("zk:" + zookeeper, MetadataStoreConfig.builder().build());
        ClientConfiguration options = new ClientConfiguration();
        options.setMetadataServiceUri("zk+hierarchical://" + zookeeper + "/ledgers");
        ManagedLedgerFactoryConfig config = new ManagedLedgerFactoryConfig();
        config.setManagedLedgerInfoCompressionType("ZSTD");
        ManagedLedgerFactoryImpl packed = new ManagedLedgerFactoryImpl(store, options, config);
        ManagedLedger closed = packed.open("public/default/persistent/closed", config(4));
        append(closed);
        closed.close();
        ManagedLedgerFactoryImpl plain = new ManagedLedgerFactoryImpl(store, options);
        append(plain.open("public/default/persistent/a%2Bb", config(50000)));
    }

    static ManagedLedgerConfig config(int entriesPerLedger) {
        ManagedLedgerConfig config = new ManagedLedgerConfig();
        config.setEnsembleSize(3).setWriteQuorumSize(3).setAckQuorumSize(2);
        config.setMaxEntriesPerLedger(entriesPerLedger);
        config.setMinimumRolloverTime(0, java.util.concurrent.TimeUnit.SECONDS);
        config.setRetentionTime(1, java.util.concurrent.TimeUnit.HOURS).setRetentionSizeInMB(100);
        return config;
    }

    static void append(ManagedLedger ledger) throws Exception {
        for (int each = 0; each < entries.size(); each++) {
            ledger.addEntry((byte[]) entries.get(each));
        }
    }
}
