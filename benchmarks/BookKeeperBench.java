// Apache's own client for benchmarks/bookkeeper.py: one command a line, one answer a line.
// Janino runs it, which knows no lambdas, type arguments or resources of try.
//
//   append BYTES FLIGHT MILLIS LEDGERS
//                                   new ledgers 3/3/2, so many entries of each unacknowledged all the
//                                   time, then closed; entries, nanoseconds, nanoseconds of
//                                   processors, id of the first, median and 99th percentile in µs
//   read ID                         all entries of a closed ledger; the first three of these
//
// Appends stop the clock before the ledger is closed.
import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Iterator;
import java.util.Random;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.bookkeeper.client.AsyncCallback;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.conf.ClientConfiguration;

public class BookKeeperBench {
    static final byte[] PASSWORD = new byte[0];
    static final int CHUNK = 1000;
    static final int MOST = 4000000;
    static BookKeeper client;

    public static void main(String[] arguments) throws Exception {
        ClientConfiguration options = new ClientConfiguration();
        options.setMetadataServiceUri(arguments[0]);
        options.setUseV2WireProtocol(arguments[1].equals("v2"));
        options.setThrottleValue(0);
        options.setAddEntryTimeout(Integer.parseInt(arguments[2]));
        options.setReadEntryTimeout(Integer.parseInt(arguments[2]));
        client = new BookKeeper(options);
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

    static long processors() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
            .getProcessCpuTime();
    }

    static class Slot {
        LedgerHandle ledger;
        long begun;
    }

    static String append(String[] words) throws Exception {
        byte[] payload = new byte[Integer.parseInt(words[1])];
        new Random(1).nextBytes(payload);
        int flight = Integer.parseInt(words[2]);
        long nanos = Long.parseLong(words[3]) * 1000000L;
        LedgerHandle[] ledgers = new LedgerHandle[Integer.parseInt(words[4])];
        final LinkedBlockingQueue free = new LinkedBlockingQueue();
        for (int number = 0; number < ledgers.length; number++) {
            ledgers[number] = client.createLedger(3, 3, 2, DigestType.CRC32C, PASSWORD);
            for (int each = 0; each < flight; each++) {
                Slot slot = new Slot();
                slot.ledger = ledgers[number];
                free.add(slot);
            }
        }
        final AtomicInteger failed = new AtomicInteger();
        final AtomicInteger done = new AtomicInteger();
        final int[] micros = new int[MOST];
        AsyncCallback.AddCallback added = new AsyncCallback.AddCallback() {
            public void addComplete(int code, LedgerHandle handle, long entry, Object context) {
                if (code != 0) {
                    failed.set(code);
                }
                Slot slot = (Slot) context;
                int number = done.getAndIncrement();
                if (number < MOST) {
                    micros[number] = (int) ((System.nanoTime() - slot.begun) / 1000);
                }
                free.add(slot);
            }
        };
        long work = processors();
        long begun = System.nanoTime();
        int count = 0;
        for (long now = begun; now - begun < nanos && failed.get() == 0; count++) {
            Slot slot = (Slot) free.take();
            now = System.nanoTime();
            slot.begun = now;
            slot.ledger.asyncAddEntry(payload, added, slot);
        }
        for (int slots = 0; slots < flight * ledgers.length; slots++) {
            free.take();
        }
        long took = System.nanoTime() - begun;
        work = processors() - work;
        for (int number = 0; number < ledgers.length; number++) {
            ledgers[number].close();
        }
        if (failed.get() != 0) {
            throw new Exception("an add failed with code " + failed.get());
        }
        int known = Math.min(count, MOST);
        Arrays.sort(micros, 0, known);
        return count + " " + took + " " + work + " " + ledgers[0].getId() + " "
            + micros[known / 2] + " " + micros[(int) (known * 99L / 100)];
    }

    static String read(String[] words) throws Exception {
        LedgerHandle ledger =
            client.openLedger(Long.parseLong(words[1]), DigestType.CRC32C, PASSWORD);
        long last = ledger.getLastAddConfirmed();
        long work = processors();
        long begun = System.nanoTime();
        int count = 0;
        for (long first = 0; first <= last; first += CHUNK) {
            LedgerEntries entries =
                (LedgerEntries) ledger.readAsync(first, Math.min(last, first + CHUNK - 1)).get();
            Iterator each = entries.iterator();
            while (each.hasNext()) {
                count += ((LedgerEntry) each.next()).getEntryBytes().length > 0 ? 1 : 0;
            }
            entries.close();
        }
        long took = System.nanoTime() - begun;
        work = processors() - work;
        ledger.close();
        return count + " " + took + " " + work;
    }
}
