package field;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;

/**
 * What all programs share: the recorded rows, when they are due, what a row costs, where answers go, and the changes to make
 * while it runs. One for each process; systems make their own objects, and all of them ask this one.
 */
public final class Field {

  /** Microseconds since 1970 at which row 0 is due: some seconds from now, for the system to be up. */
  public static final long START;

  /** What a row costs, microseconds. */
  public static final long COST = Long.getLong("field.cost");

  /** Emulated cores at the start, and the most there will be. */
  public static final int CORES = Integer.getInteger("field.cores");
  public static final int MOST = Integer.getInteger("field.most");

  /** Milliseconds from one commit, or checkpoint, to the next. */
  public static final int COMMIT_MS = Integer.getInteger("field.commit");

  /** A folder for state. */
  public static final Path WORK = Path.of(System.getProperty("field.work"));

  private static final Path ROWS = Path.of(System.getProperty("field.rows"));
  private static final Path ANSWERS = Path.of(System.getProperty("field.answers"));
  private static final Path CHANGED = Path.of(System.getProperty("field.changed"));
  private static final long SECONDS = Long.getLong("field.seconds");
  private static final long DRAIN_MICROS = 30_000_000;
  private static final long LONGEST_LEAD_MICROS = 20_000;

  /** The newest answer of each key, and how many rows have one: a restart gives some again. */
  private static final Map<Long, Long> NEWEST = new HashMap<>();

  private static long answered;
  private static final ThreadLocal<long[]> DEADLINE = ThreadLocal.withInitial(() -> new long[1]);
  private static final long WALL = micros(Instant.now());
  private static final long MONOTONIC = System.nanoTime();

  static {
    START = now() + Long.getLong("field.lead");
    try {
      Files.writeString(Path.of(System.getProperty("field.start")), START + "\n");
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static int[] keys;
  private static long[] dues;
  private static FileOutputStream answers;

  private Field() {}

  /** The time of day in microseconds since 1970: read once from the system, then carried on by the monotonic clock. */
  public static long now() {
    return WALL + (System.nanoTime() - MONOTONIC) / 1000;
  }

  public static synchronized int rows() {
    if (keys == null) read();
    return keys.length;
  }

  /** Waits until row {@code n} is due, and gives its key. */
  public static int take(int n) throws InterruptedException {
    if (n >= rows()) throw new IllegalArgumentException("no row " + n);
    sleepUntil(START + dues[n]);
    return keys[n];
  }

  /** The key of row {@code n} if it is due, or else -1. */
  public static int takeIfDue(int n) {
    return n < rows() && START + dues[n] <= now() ? keys[n] : -1;
  }

  /**
   * Spends what a row costs: sleeps to an absolute deadline for each thread. The row's own work counts towards it, so that a
   * thread does one row each {@link #COST} whatever a sleep takes too long; after idle time 20 ms worth of rows at once. As
   * {@code laneshift_cost} in mode {@code pace}.
   */
  public static void work() {
    long[] deadline = DEADLINE.get();
    deadline[0] = Math.max(deadline[0], now() - LONGEST_LEAD_MICROS) + COST;
    long left;
    while ((left = deadline[0] - now()) > 0) {
      LockSupport.parkNanos(left * 1000);
      if (Thread.currentThread().isInterrupted()) return; // the system ends this thread; its flag stays
    }
  }

  /** The answer to the {@code n}-th row of a key. Goes to the file at once: a process that is killed has given it. */
  public static void answer(long key, long n) {
    byte[] line = (key + " " + n + " " + now() + "\n").getBytes(StandardCharsets.US_ASCII);
    try {
      // Appends as a whole, also beside other threads. Not a channel: an interrupt would close it for all of them.
      answers().write(line);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    synchronized (NEWEST) {
      long before = NEWEST.getOrDefault(key, 0L);
      if (n > before) {
        NEWEST.put(key, n);
        answered += n - before;
      }
    }
  }

  private static long answered() {
    synchronized (NEWEST) {
      return answered;
    }
  }

  /** Something that a change does: new cores, or -1 for the loss of a worker. */
  public interface Change {
    void to(int cores) throws Exception;
  }

  /** Makes the changes when they are due, returns when all rows have their answers or time is up. */
  public static void run(Change change) throws Exception {
    for (long[] each : changes()) {
      sleepUntil(START + each[0]);
      long began = now();
      change.to((int) each[1]);
      Files.writeString(
          CHANGED,
          each[1] + " " + began + " " + now() + "\n",
          StandardOpenOption.CREATE,
          StandardOpenOption.APPEND);
    }
    long end = START + SECONDS * 1_000_000;
    while (now() < end || answered() < rows() && now() < end + DRAIN_MICROS) Thread.sleep(100);
  }

  private static List<long[]> changes() {
    List<long[]> found = new ArrayList<>();
    String text = System.getProperty("field.changes", "");
    for (String each : text.isEmpty() ? new String[0] : text.split(",")) {
      String[] parts = each.split(":");
      found.add(new long[] {Math.round(Double.parseDouble(parts[0]) * 1e6), Long.parseLong(parts[1])});
    }
    return found;
  }

  private static void sleepUntil(long micros) throws InterruptedException {
    long left;
    while ((left = micros - now()) > 0) {
      LockSupport.parkNanos(Math.min(left, 100_000) * 1000);
      if (Thread.interrupted()) throw new InterruptedException();
    }
  }

  private static synchronized FileOutputStream answers() throws IOException {
    if (answers == null) answers = new FileOutputStream(ANSWERS.toFile(), true);
    return answers;
  }

  /** Lines such as {"key":12,"due_us":3400}. */
  private static void read() {
    try {
      List<String> lines = Files.readAllLines(ROWS);
      long[] due = new long[lines.size()];
      int[] key = new int[lines.size()];
      for (int i = 0; i < due.length; i++) {
        String line = lines.get(i);
        int comma = line.indexOf(',');
        key[i] = Integer.parseInt(line.substring(line.indexOf(':') + 1, comma));
        due[i] = Long.parseLong(line.substring(line.indexOf(':', comma) + 1, line.length() - 1));
      }
      dues = due;
      keys = key;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static long micros(Instant at) {
    return at.getEpochSecond() * 1_000_000 + at.getNano() / 1000;
  }
}
