// The common half of the benchmarks' clients in Java: one command a line, one answer a line. Janino
// runs them, which knows no lambdas, type arguments or resources of try.
//
// Appends are answered with their number, nanoseconds, nanoseconds of processors, median and 99th
// percentile in µs; readings with the first three of these.
import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;

public abstract class Bench {
    abstract String append(String[] words) throws Exception;

    abstract String read(String[] words) throws Exception;

    void serve() throws Exception {
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

    static byte[] payload(String bytes) {
        byte[] made = new byte[Integer.parseInt(bytes)];
        new Random(1).nextBytes(made);
        return made;
    }

    static class Clock {
        final long work = processors();
        final long begun = System.nanoTime();

        static long processors() {
            return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
        }

        String took(int count) {
            long nanos = System.nanoTime() - begun;
            return count + " " + nanos + " " + (processors() - work);
        }
    }

    // A place for an append that is not acknowledged yet.
    static class Slot {
        Window window;
        Object target;
        long begun;

        void acked(Object error) {
            if (error != null) {
                window.failed.set(error);
            }
            int number = window.done.getAndIncrement();
            if (number < window.micros.length) {
                window.micros[number] = (int) ((System.nanoTime() - begun) / 1000);
            }
            window.free.add(this);
        }
    }

    // So many appends unacknowledged all the time.
    abstract static class Window {
        final LinkedBlockingQueue free = new LinkedBlockingQueue();
        final AtomicInteger done = new AtomicInteger();
        final AtomicReference failed = new AtomicReference();
        final int[] micros = new int[8000000];

        // Begins an append whose end is `slot.acked`.
        abstract void send(Slot slot) throws Exception;

        // One append before the clock: the copies of a new log begin up to a second after it is made.
        void begin() throws Exception {
            Slot slot = new Slot();
            slot.window = this;
            send(slot);
            free.take();
            if (failed.get() != null) {
                throw new Exception("the first append failed: " + failed.get());
            }
            done.set(0);
        }

        void add(int places, Object target) {
            for (int each = 0; each < places; each++) {
                Slot slot = new Slot();
                slot.window = this;
                slot.target = target;
                free.add(slot);
            }
        }

        String run(String millis) throws Exception {
            long nanos = Long.parseLong(millis) * 1000000L;
            int places = free.size();
            int count = 0;
            Clock clock = new Clock();
            for (long now = clock.begun; now - clock.begun < nanos && failed.get() == null;) {
                Slot slot = (Slot) free.take();
                now = System.nanoTime();
                slot.begun = now;
                send(slot);
                count++;
            }
            for (int each = 0; each < places; each++) {
                free.take();
            }
            String took = clock.took(count);
            if (failed.get() != null) {
                throw new Exception("an append failed: " + failed.get());
            }
            int known = Math.min(count, micros.length);
            Arrays.sort(micros, 0, known);
            return took + " " + micros[known / 2] + " " + micros[(int) (known * 99L / 100)];
        }
    }
}
