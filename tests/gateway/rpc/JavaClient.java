import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import com.google.protobuf.ByteString;
import java.util.Iterator;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import quire.gateway.v1.AppendReply;
import quire.gateway.v1.AppendRequest;
import quire.gateway.v1.LogsGrpc;
import quire.gateway.v1.NewRecord;
import quire.gateway.v1.Producer;
import quire.gateway.v1.ReadReply;
import quire.gateway.v1.ReadRequest;
import quire.gateway.v1.Record;

/**
 * A program over the client that is generated from logs.proto.
 *
 * <p>It appends a stream of numbered batches, reads them back with follow while it appends more,
 * repeats one, and prints each fact as a line. The test compares the lines.
 */
public final class JavaClient {
  private static final Metadata.Key<String> ERROR =
      Metadata.Key.of("quire-error", Metadata.ASCII_STRING_MARSHALLER);

  private static AppendRequest batch(long sequence, String... payloads) {
    AppendRequest.Builder made = AppendRequest.newBuilder().setLog("orders");
    made.setProducer(Producer.newBuilder().setId("java").setSequence(sequence));
    for (String each : payloads) {
      made.addRecords(
          NewRecord.newBuilder()
              .setPayload(ByteString.copyFromUtf8(each))
              .setKey(ByteString.copyFromUtf8("anna")));
    }
    return made.build();
  }

  /** Sends batches in one stream, and prints its answers and its end. */
  private static void append(LogsGrpc.LogsStub logs, AppendRequest... batches) throws Exception {
    BlockingQueue<Object> told = new LinkedBlockingQueue<>();
    StreamObserver<AppendRequest> sending =
        logs.append(
            new StreamObserver<AppendReply>() {
              public void onNext(AppendReply reply) {
                told.add("appended " + reply.getRecords() + " at " + reply.getFirstOffset());
              }

              public void onError(Throwable error) {
                told.add(error);
              }

              public void onCompleted() {
                told.add("end");
              }
            });
    for (AppendRequest each : batches) {
      sending.onNext(each);
    }
    sending.onCompleted();
    while (true) {
      Object next = told.take();
      if (next instanceof Throwable) {
        tell((Throwable) next);
        return;
      }
      System.out.println(next);
      if (next.equals("end")) {
        return;
      }
    }
  }

  private static void tell(Throwable error) {
    StatusRuntimeException status = (StatusRuntimeException) error;
    String kind = status.getTrailers() == null ? null : status.getTrailers().get(ERROR);
    System.out.println("error " + status.getStatus().getCode() + " " + kind);
  }

  public static void main(String[] arguments) throws Exception {
    ManagedChannel channel =
        ManagedChannelBuilder.forTarget(arguments[0]).usePlaintext().build();
    try {
      LogsGrpc.LogsStub logs = LogsGrpc.newStub(channel);
      append(logs, batch(1, "a", "b"), batch(2, "c"));
      Iterator<ReadReply> replies =
          LogsGrpc.newBlockingStub(channel)
              .read(ReadRequest.newBuilder().setLog("orders").setFollow(true).build());
      append(logs, batch(2, "c"), batch(3, "d"));
      for (int seen = 0; seen < 4; ) {
        for (Record each : replies.next().getRecordsList()) {
          String key = each.getKey().toStringUtf8();
          System.out.println(
              "read " + each.getOffset() + " " + key + " " + each.getPayload().toStringUtf8());
          seen++;
        }
      }
      append(logs, batch(4, "e").toBuilder().setExpectedOffset(77).build());
      append(logs, AppendRequest.newBuilder().setLog("orders").build());
      try {
        LogsGrpc.newBlockingStub(channel)
            .read(ReadRequest.newBuilder().setLog("gone").build())
            .next();
      } catch (StatusRuntimeException error) {
        tell(error);
      }
    } finally {
      channel.shutdownNow();
    }
  }
}
