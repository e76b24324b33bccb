// Apache's own client, for the interoperability runs: one command a line, one answer a line.
// Janino runs it, which knows no lambdas, type arguments or resources of try.
//
//   create DIGEST PASSWORD          a new ledger 3/3/2, kept for `add` and `close`; its id
//   add COUNT                       appends "java-<n>"; the number acknowledged, or the error
//   burst COUNT                     the same with all of them under way at once
//   leave COUNT                     begins a burst, and forgets the ledger without closing it
//   large BYTES                     appends "xxx…", not counted by `add`
//   close                           closes the ledger that was created
//   abandon                         forgets it without closing
//   recover ID DIGEST PASSWORD      opens with recovery; last entry
//   rescue ID DIGEST PASSWORD       the same with the longer limit of requests, as `read` has
//   confirmed ID DIGEST PASSWORD    opens without recovery; last confirmed entry
//   read ID DIGEST PASSWORD         entries up to the last confirmed: their number and SHA-256
//   length ID DIGEST PASSWORD       the length of a closed ledger
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Enumeration;
import java.util.HexFormat;
import java.util.concurrent.CountDownLatch;
import org.apache.bookkeeper.client.AsyncCallback;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

public class Client {
    static BookKeeper client;
    static BookKeeper patient;
    static LedgerHandle writing;
    static volatile int written;
    static int sent;

    // The metadata service, "v2" or "v3", the limit of requests in seconds, a longer one, and a file
    // of more settings.
    public static void main(String[] arguments) throws Exception {
        client = new BookKeeper(options(arguments, arguments[2]));
        patient = arguments.length > 3 ? new BookKeeper(options(arguments, arguments[3])) : client;
        System.out.println("ready");
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String answer;
            try {
                answer = "ok " + carryOut(line.split(" ", -1));
            } catch (Exception error) {
                answer = "error " + error.getClass().getSimpleName();
            }
            System.out.println(answer);
        }
        System.exit(0);
    }

    static ClientConfiguration options(String[] arguments, String seconds) throws Exception {
        ClientConfiguration options = new ClientConfiguration();
        if (arguments.length > 4) {
            options.loadConf(new File(arguments[4]).toURI().toURL());
        }
        options.setMetadataServiceUri(arguments[0]);
        options.setThrottleValue(0);
        options.setUseV2WireProtocol(arguments[1].equals("v2"));
        options.setAddEntryTimeout(Integer.parseInt(seconds));
        options.setReadEntryTimeout(Integer.parseInt(seconds));
        // Else an add that loses its bookies at a bad moment is never answered.
        options.setAddEntryQuorumTimeout(10 * Integer.parseInt(seconds));
        return options;
    }

    static String carryOut(String[] words) throws Exception {
        switch (words[0]) {
            case "create":
                writing = client.createLedger(3, 3, 2, DigestType.valueOf(words[1]), bytes(words[2]));
                written = 0;
                sent = 0;
                return "" + writing.getId();
            case "add":
                for (int left = Integer.parseInt(words[1]); left > 0; left--) {
                    writing.addEntry(bytes("java-" + sent++));
                    written++;
                }
                return "" + written;
            case "burst":
                Burst burst = new Burst(Integer.parseInt(words[1]));
                burst.answered.await();
                if (burst.code != BKException.Code.OK) {
                    throw BKException.create(burst.code);
                }
                return "" + written;
            case "leave":
                new Burst(Integer.parseInt(words[1]));
                writing = null;
                return "";
            case "large":
                writing.addEntry(bytes("x".repeat(Integer.parseInt(words[1]))));
                return "";
            case "added":
                return "" + written;
            case "close":
                writing.close();
                return "";
            case "abandon":
                writing = null;
                return "";
            default:
                return about(words);
        }
    }

    /** Adds that are under way together; the first error, when all are answered. */
    static class Burst implements AsyncCallback.AddCallback {
        final CountDownLatch answered;
        volatile int code = BKException.Code.OK;

        Burst(int count) {
            answered = new CountDownLatch(count);
            for (int left = count; left > 0; left--) {
                writing.asyncAddEntry(bytes("java-" + sent++), this, null);
            }
        }

        public void addComplete(int code, LedgerHandle ledger, long entry, Object context) {
            if (code == BKException.Code.OK) {
                written += ledger == writing ? 1 : 0;
            } else if (this.code == BKException.Code.OK) {
                this.code = code;
            }
            answered.countDown();
        }
    }

    static String about(String[] words) throws Exception {
        LedgerHandle found = open(words, words[0].equals("recover") || words[0].equals("rescue"));
        try {
            switch (words[0]) {
                case "recover":
                case "rescue":
                    return "" + found.getLastAddConfirmed();
                case "confirmed":
                    return "" + found.readLastConfirmed();
                case "length":
                    return "" + found.getLength();
                case "read":
                    return digest(found);
                default:
                    throw new IllegalArgumentException(words[0]);
            }
        } finally {
            found.close();
        }
    }

    static LedgerHandle open(String[] words, boolean recover) throws Exception {
        long id = Long.parseLong(words[1]);
        DigestType kind = DigestType.valueOf(words[2]);
        BookKeeper by = words[0].equals("recover") ? client : patient;
        return recover
            ? by.openLedger(id, kind, bytes(words[3]))
            : by.openLedgerNoRecovery(id, kind, bytes(words[3]));
    }

    static String digest(LedgerHandle found) throws Exception {
        MessageDigest whole = MessageDigest.getInstance("SHA-256");
        long last = Math.max(found.getLastAddConfirmed(), found.readLastConfirmed());
        int count = 0;
        if (last >= 0) {
            Enumeration entries = found.readEntries(0, last);
            while (entries.hasMoreElements()) {
                whole.update(((LedgerEntry) entries.nextElement()).getEntry());
                whole.update((byte) '\n');
                count++;
            }
        }
        return count + " " + HexFormat.of().formatHex(whole.digest());
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
