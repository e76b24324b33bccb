// Apache's own client for benchmarks/bookkeeper.py and benchmarks/peers/bookkeeper.py.
//
//   append BYTES FLIGHT MILLIS LEDGERS   new ledgers 3/3/2, so many entries of each unacknowledged
//                                        all the time; the ledgers are closed when the clock has
//                                        stopped. The answer ends with the id of the first
//   read ID                              all entries of a closed ledger
import java.util.Iterator;
import org.apache.bookkeeper.client.AsyncCallback;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.conf.ClientConfiguration;

public class BookKeeperBench extends Bench {
    static final byte[] PASSWORD = new byte[0];
    static final int CHUNK = 1000;
    final BookKeeper client;

    BookKeeperBench(BookKeeper client) {
        this.client = client;
    }

    public static void main(String[] arguments) throws Exception {
        ClientConfiguration options = new ClientConfiguration();
        options.setMetadataServiceUri(arguments[0]);
        options.setUseV2WireProtocol(arguments[1].equals("v2"));
        options.setThrottleValue(0);
        options.setAddEntryTimeout(Integer.parseInt(arguments[2]));
        options.setReadEntryTimeout(Integer.parseInt(arguments[2]));
        new BookKeeperBench(new BookKeeper(options)).serve();
    }

    static class Adds extends Window implements AsyncCallback.AddCallback {
        final byte[] payload;

        Adds(byte[] payload) {
            this.payload = payload;
        }

        void send(Slot slot) {
            ((LedgerHandle) slot.target).asyncAddEntry(payload, this, slot);
        }

        public void addComplete(int code, LedgerHandle handle, long entry, Object slot) {
            ((Slot) slot).acked(code == 0 ? null : "code " + code);
        }
    }

    String append(String[] words) throws Exception {
        LedgerHandle[] ledgers = new LedgerHandle[Integer.parseInt(words[4])];
        Adds adds = new Adds(payload(words[1]));
        for (int number = 0; number < ledgers.length; number++) {
            ledgers[number] = client.createLedger(3, 3, 2, DigestType.CRC32C, PASSWORD);
            adds.add(Integer.parseInt(words[2]), ledgers[number]);
        }
        try {
            return adds.run(words[3]) + " " + ledgers[0].getId();
        } finally {
            for (int number = 0; number < ledgers.length; number++) {
                ledgers[number].close();
            }
        }
    }

    String read(String[] words) throws Exception {
        LedgerHandle ledger =
            client.openLedger(Long.parseLong(words[1]), DigestType.CRC32C, PASSWORD);
        long last = ledger.getLastAddConfirmed();
        Clock clock = new Clock();
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
        String took = clock.took(count);
        ledger.close();
        return took;
    }
}
