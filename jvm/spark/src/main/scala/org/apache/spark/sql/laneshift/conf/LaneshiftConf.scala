package org.apache.spark.sql.laneshift.conf

import java.util.concurrent.TimeUnit

import org.apache.spark.internal.config.{ConfigEntry, TypedConfigBuilder}
import org.apache.spark.network.util.ByteUnit
import org.apache.spark.sql.internal.SQLConf

/** Every option of laneshift, as entries of Spark's own configuration: a wrong value is refused when it is set.
  *
  * In this package because `ConfigBuilder` and the registry of SQL entries are private to Spark.
  */
object LaneshiftConf {
  val Prefix = "spark.sql.laneshift."
  private val Since = "0.1.0"

  private implicit final class Allowing[T](typed: TypedConfigBuilder[T]) {

    /** Refuses other values, and text that is no such value at all, with `allowed` in the message. */
    def allowing(allowed: String)(isAllowed: T => Boolean): TypedConfigBuilder[T] = {
      def parse(text: String): T =
        try typed.converter(text)
        catch {
          case _: IllegalArgumentException =>
            throw new IllegalArgumentException(
              s"The value '$text' in the config \"${typed.parent.key}\" is invalid. $allowed"
            )
        }
      new TypedConfigBuilder(typed.parent, parse, typed.stringConverter).checkValue(isAllowed, allowed)
    }
  }

  val Enabled: ConfigEntry[Boolean] = SQLConf
    .buildConf(Prefix + "enabled")
    .doc(
      "Makes the stateful operators of streaming queries elastic. Read when a query starts; false leaves every " +
        "operator to stock Spark."
    )
    .version(Since)
    .booleanConf
    .allowing("allowed are true and false")(_ => true)
    .createWithDefault(true)

  val ShardsPerPartition: ConfigEntry[Int] = SQLConf
    .buildConf(Prefix + "shardsPerPartition")
    .doc(
      "Number of shards that the keys of one state partition are split into: the unit that moves between lanes. " +
        "At least 4 to 8 times the number of lanes balances well. May change at every restart."
    )
    .version(Since)
    .intConf
    .allowing("allowed are 1 to 4096 shards; 64 suits up to 16 lanes")(n => n >= 1 && n <= 4096)
    .createWithDefault(64)

  val MaxLanes: ConfigEntry[Int] = SQLConf
    .buildConf(Prefix + "maxLanes")
    .doc("The most lanes (threads, each meant for one core) that one state partition may have.")
    .version(Since)
    .intConf
    .allowing("allowed are 1 to 256 lanes")(n => n >= 1 && n <= 256)
    .createWithDefault(8)

  val Lanes: ConfigEntry[String] = SQLConf
    .buildConf(Prefix + "lanes")
    .doc(
      "Lanes of each state partition when a query starts: a number from 1 to maxLanes, or 'auto': one, the stock path " +
        "without threads, and idle cores for a partition that would hold up its micro-batch or cannot keep up in " +
        "Real-time Mode, for as long as they are measured to help. Lanes that a user or a policy sets stay as they are set."
    )
    .version(Since)
    .stringConf
    .allowing("allowed are 'auto' or a number from 1 to spark.sql.laneshift.maxLanes (at most 256)") { v =>
      v == "auto" || v.toIntOption.exists(n => n >= 1 && n <= 256)
    }
    .createWithDefault("auto")

  val LanesPerExecutor: ConfigEntry[Int] = SQLConf
    .buildConf(Prefix + "lanesPerExecutor")
    .doc(
      "The most lanes, beyond the first of each state partition, that run at a time in one executor's process. A partition " +
        "that wants more gets what is free, and the rest as others end. Read when an executor starts."
    )
    .version(Since)
    .intConf
    .allowing("allowed are 0 to 4096 lanes; each is a thread")(n => n >= 0 && n <= 4096)
    .createWithDefault(256)

  val Stateless: ConfigEntry[String] = SQLConf
    .buildConf(Prefix + "stateless")
    .doc(
      "Whether stages without state, from a stream's source or a shuffle to the next shuffle or sink, may run on several lanes, " +
        "outputs in the order of the rows: 'auto' for those with expressions that may be costly (functions in Python or Scala, JSON, " +
        "regular expressions, generators, ...), 'true' for all, 'false' for none. Read when a query starts."
    )
    .version(Since)
    .stringConf
    .allowing("allowed are 'auto', 'true' and 'false'")(Set("auto", "true", "false"))
    .createWithDefault("auto")

  val Tasks: ConfigEntry[String] = SQLConf
    .buildConf(Prefix + "tasks")
    .doc(
      "In how many Spark tasks the state partitions of an elastic operator are computed, a range of them in each, in every batch: " +
        "'stock', one task for each partition; a number from 1 to the number of state partitions; 'auto', two for each slot of the " +
        "cluster in micro-batches, and in Real-time Mode, where stock Spark refuses a query that has fewer slots than tasks, no " +
        "more than slots are free as the batch begins. No state is rewritten. set_tasks changes it while a query runs."
    )
    .version(Since)
    .stringConf
    .allowing("allowed are 'stock', 'auto' or a number of tasks from 1 on")(v =>
      v == "stock" || v == "auto" || v.toIntOption.exists(_ >= 1)
    )
    .createWithDefault("stock")

  val RescaleCores: ConfigEntry[Int] = SQLConf
    .buildConf(Prefix + "rescale.cores")
    .doc(
      "How many tasks at a time write the stores of another number of partitions while the query runs. Read when a rescale " +
        "begins."
    )
    .version(Since)
    .intConf
    .allowing("allowed are 1 to 4096 tasks")(n => n >= 1 && n <= 4096)
    .createWithDefault(1)

  val RescaleBytesPerSecond: ConfigEntry[Long] = SQLConf
    .buildConf(Prefix + "rescale.bytesPerSecond")
    .doc("How much state these tasks write in a second at most, all together. Read when a rescale begins.")
    .version(Since)
    .bytesConf(ByteUnit.BYTE)
    .allowing("allowed are 64k and more")(_ >= 65536L)
    .createWithDefault(1L << 40)

  val RemoteMaxLanes: ConfigEntry[Int] = SQLConf
    .buildConf(Prefix + "remote.maxLanes")
    .doc(
      "The most lanes that one state partition may have on other executors. They are there only where somebody asks for them " +
        "(set_lanes with 'on', or a policy)."
    )
    .version(Since)
    .intConf
    .allowing("allowed are 0 to 256 lanes")(n => n >= 0 && n <= 256)
    .createWithDefault(32)

  val RemoteWindow: ConfigEntry[Long] = SQLConf
    .buildConf(Prefix + "remote.windowBytes")
    .doc(
      "Bytes of rows that a lane on another executor may have been sent without having acknowledged them. The partition keeps these " +
        "rows, so that none is lost with an executor."
    )
    .version(Since)
    .bytesConf(ByteUnit.BYTE)
    .allowing("allowed are 32k to 64m")(n => n >= (32L << 10) && n <= (64L << 20))
    .createWithDefault(256L << 10)

  val RemoteCache: ConfigEntry[Long] = SQLConf
    .buildConf(Prefix + "remote.cacheBytes")
    .doc(
      "Bytes of state that one lane on another executor may keep in memory there. What it does not have it reads at home."
    )
    .version(Since)
    .bytesConf(ByteUnit.BYTE)
    .allowing("allowed are 0 to 4g")(n => n >= 0 && n <= (4L << 30))
    .createWithDefault(32L << 20)

  val RemotePort: ConfigEntry[Int] = SQLConf
    .buildConf(Prefix + "remote.port")
    .doc(
      "The port at which an executor takes lanes of other executors' partitions, from the first such lane on; 0 for any free one. " +
        "If it is taken, those after it are tried, as many as spark.port.maxRetries says. Read when an executor starts."
    )
    .version(Since)
    .intConf
    .allowing("allowed are 1024 to 65535, and 0 for any free port")(p => p == 0 || p >= 1024 && p <= 65535)
    .createWithDefault(0)

  val QueueBytes: ConfigEntry[Long] = SQLConf
    .buildConf(Prefix + "queueBytes")
    .doc("Bytes of rows that may wait for one lane before the lane pushes back on its partition's input.")
    .version(Since)
    .bytesConf(ByteUnit.BYTE)
    .allowing("allowed are 1k to 1g; more only delays the push back")(n => n >= 1024 && n <= (1L << 30))
    .createWithDefault(1L << 20)

  val QueueTime: ConfigEntry[Long] = SQLConf
    .buildConf(Prefix + "queueTime")
    .doc(
      "In Real-time Mode: rows that may wait for one lane, as the time that it needs for them as measured, in milliseconds unless a " +
        "unit is given; 128 rows in any case, and never more than queueBytes. A batch ends when its rows have been worked on: more " +
        "of them make batches late that have more input than they can work on."
    )
    .version(Since)
    .timeConf(TimeUnit.MILLISECONDS)
    .allowing("allowed are 10ms to 1h")(n => n >= 10 && n <= 3600000L)
    .createWithDefault(1000L)

  val LatencyColumn: ConfigEntry[Option[String]] = SQLConf
    .buildConf(Prefix + "latencyColumn")
    .doc(
      "Name of a timestamp column that elastic operators put out: when the newest row that an answer is made of set out, " +
        "such as max(timestamp) of Kafka's rows. The age of outputs is then measured by it. Without one, or where an " +
        "operator's outputs have no such column, latency is not measured."
    )
    .version(Since)
    .stringConf
    .createOptional

  val HotKeysShown: ConfigEntry[String] = SQLConf
    .buildConf(Prefix + "hotKeys.show")
    .doc(
      "What snapshots, `laneshift top` and the tab tell of the keys that have the most of a state partition's rows: 'hashes', their " +
        "shares and no more of them than a hash, 'values', the keys themselves, which may be personal data and also go to Spark's event " +
        "log, or 'none'. Rows are sampled."
    )
    .version(Since)
    .stringConf
    .allowing("allowed are 'hashes', 'values' and 'none'")(Set("hashes", "values", "none"))
    .createWithDefault("hashes")

  val HotKeysSpread: ConfigEntry[String] = SQLConf
    .buildConf(Prefix + "hotKeys.spread")
    .doc(
      "Whether row-wise work above an operator's state (functions, generators, ...) goes to any lane, outputs in the same order, so that a " +
        "key may be hotter than a core: 'auto' where a hot key is measured to keep a partition from using lanes that it could have, as " +
        "long as it pays, 'true' wherever there is such work that may be costly, 'false' never. Takes effect between batches."
    )
    .version(Since)
    .stringConf
    .allowing("allowed are 'auto', 'true' and 'false'")(Set("auto", "true", "false"))
    .createWithDefault("auto")

  val BalanceEnabled: ConfigEntry[Boolean] = SQLConf
    .buildConf(Prefix + "balance.enabled")
    .doc("Evens out the loads of a partition's lanes by moving shards between them.")
    .version(Since)
    .booleanConf
    .allowing("allowed are true and false")(_ => true)
    .createWithDefault(true)

  val BalanceThreshold: ConfigEntry[Double] = SQLConf
    .buildConf(Prefix + "balance.threshold")
    .doc("Shards move when the busiest lane's load exceeds this many times the average lane's.")
    .version(Since)
    .doubleConf
    .allowing("allowed is a number above 1.0 and up to 100; 1.2 is a good start")(t => t > 1.0 && t <= 100.0)
    .createWithDefault(1.2)

  val BalanceInterval: ConfigEntry[Long] = SQLConf
    .buildConf(Prefix + "balance.interval")
    .doc(
      "Time between two looks at the loads of a partition's lanes, in milliseconds unless a unit is given."
    )
    .version(Since)
    .timeConf(TimeUnit.MILLISECONDS)
    .allowing("allowed are 10ms to 1h")(n => n >= 10 && n <= 3600000L)
    .createWithDefault(200L)

  val BalanceMetric: ConfigEntry[String] = SQLConf
    .buildConf(Prefix + "balance.metric")
    .doc(
      "How the load of a shard is measured: 'rows' (rows/s that arrive for it) or 'cpu' (CPU seconds per second that " +
        "its rows take, sampled; for operators whose cost differs by key)."
    )
    .version(Since)
    .stringConf
    .checkValues(Set("rows", "cpu"))
    .createWithDefault("rows")

  val Scheduler: ConfigEntry[String] = SQLConf
    .buildConf(Prefix + "scheduler")
    .doc(
      "The policy that sets the lanes of all running queries, such as 'elasticutor' or module:Class of one's own, or 'none'. " +
        "Read when the application starts: the driver runs it in a Python process of its own, which needs the laneshift package."
    )
    .version(Since)
    .stringConf
    .allowing("allowed are 'none', a policy's name, as `laneshift policies` lists them, and module:Class")(
      _.matches("[A-Za-z0-9_.-]+(:[A-Za-z0-9_.]+)?")
    )
    .createWithDefault("none")

  val SchedulerTargetLatency: ConfigEntry[Long] = SQLConf
    .buildConf(Prefix + "scheduler.targetLatency")
    .doc(
      "The latency that the policy is to keep to, in milliseconds unless a unit is given; 0 leaves the policy's own. " +
        "Not every policy has one."
    )
    .version(Since)
    .timeConf(TimeUnit.MILLISECONDS)
    .allowing("allowed are 0 (the policy's own) to 1h")(n => n >= 0 && n <= 3600000L)
    .createWithDefault(0L)

  val SchedulerInterval: ConfigEntry[Long] = SQLConf
    .buildConf(Prefix + "scheduler.interval")
    .doc("Time between two decisions of the policy, in milliseconds unless a unit is given.")
    .version(Since)
    .timeConf(TimeUnit.MILLISECONDS)
    .allowing("allowed are 100ms to 1h")(n => n >= 100 && n <= 3600000L)
    .createWithDefault(1000L)

  val SchedulerQuery: ConfigEntry[String] = SQLConf
    .buildConf(Prefix + "scheduler.query")
    .doc(
      "The name or id of the only query that the policy is to drive; empty for all queries of the application."
    )
    .version(Since)
    .stringConf
    .createWithDefault("")

  val SchedulerCores: ConfigEntry[Int] = SQLConf
    .buildConf(Prefix + "scheduler.cores")
    .doc(
      "The most cores of an executor that lanes may use by the policy's decisions; 0 for all. A partition always keeps one."
    )
    .version(Since)
    .intConf
    .allowing("allowed are 0 (all cores) to 4096 cores")(n => n >= 0 && n <= 4096)
    .createWithDefault(0)

  val SchedulerDryRun: ConfigEntry[Boolean] = SQLConf
    .buildConf(Prefix + "scheduler.dryRun")
    .doc("Makes the policy decide and report, and change nothing.")
    .version(Since)
    .booleanConf
    .allowing("allowed are true and false")(_ => true)
    .createWithDefault(false)

  val SchedulerTrace: ConfigEntry[String] = SQLConf
    .buildConf(Prefix + "scheduler.trace")
    .doc(
      "A file on the driver's machine for what the policy measured, decided and moved, to report, replay and simulate; empty for none."
    )
    .version(Since)
    .stringConf
    .createWithDefault("")

  /** Options that begin so are the policy's own parameters, whose names and ranges its Python knows. */
  val SchedulerParam: String = Prefix + "scheduler.param."

  val SchedulerPython: ConfigEntry[String] = SQLConf
    .buildConf(Prefix + "scheduler.python")
    .doc(
      "The Python that runs the policy. Empty for the driver's own: spark.pyspark.driver.python, spark.pyspark.python, " +
        "PYSPARK_DRIVER_PYTHON, PYSPARK_PYTHON or python3, whichever is there first; where only python3 would be left, " +
        "laneshift.configure names the Python that calls it."
    )
    .version(Since)
    .stringConf
    .createWithDefault("")

  val Motion: ConfigEntry[String] = SQLConf
    .buildConf(Prefix + "motion")
    .doc(
      "Fault mode for tests: 'always' keeps handing off shards and changing lane counts at random while queries run, " +
        "'random' does so now and then, 'never' is the normal operation. Results stay exact, throughput does not."
    )
    .version(Since)
    .stringConf
    .checkValues(Set("never", "random", "always"))
    .createWithDefault("never")

  val MotionRemote: ConfigEntry[Int] = SQLConf
    .buildConf(Prefix + "motion.remoteLanes")
    .doc(
      "Fault mode: the most lanes of each partition that are reached over the network like those of other executors, though they run " +
        "in the partition's own process; shards move to and from them, and their sessions end and begin."
    )
    .version(Since)
    .intConf
    .allowing("allowed are 0 to 8 lanes")(n => n >= 0 && n <= 8)
    .createWithDefault(0)

  val MotionTasks: ConfigEntry[Boolean] = SQLConf
    .buildConf(Prefix + "motion.tasks")
    .doc("Fault mode: state partitions are computed in another number of tasks in every batch.")
    .version(Since)
    .booleanConf
    .allowing("allowed are true and false")(_ => true)
    .createWithDefault(false)

  val MotionSeed: ConfigEntry[Long] = SQLConf
    .buildConf(Prefix + "motion.seed")
    .doc("Seed of the fault mode's random choices.")
    .version(Since)
    .longConf
    .allowing("allowed are whole numbers of 64 bits")(_ => true)
    .createWithDefault(0L)

  val MotionInterval: ConfigEntry[Long] = SQLConf
    .buildConf(Prefix + "motion.interval")
    .doc("Time between two moves of the fault mode, in milliseconds unless a unit is given.")
    .version(Since)
    .timeConf(TimeUnit.MILLISECONDS)
    .allowing("allowed are 1ms to 1min")(n => n >= 1 && n <= 60000L)
    .createWithDefault(20L)

  val all: Seq[ConfigEntry[_]] = Seq(
    Enabled,
    ShardsPerPartition,
    Lanes,
    MaxLanes,
    LanesPerExecutor,
    Stateless,
    Tasks,
    RescaleCores,
    RescaleBytesPerSecond,
    RemoteMaxLanes,
    RemoteWindow,
    RemoteCache,
    RemotePort,
    QueueBytes,
    QueueTime,
    LatencyColumn,
    HotKeysShown,
    HotKeysSpread,
    BalanceEnabled,
    BalanceThreshold,
    BalanceInterval,
    BalanceMetric,
    Scheduler,
    SchedulerTargetLatency,
    SchedulerInterval,
    SchedulerQuery,
    SchedulerCores,
    SchedulerDryRun,
    SchedulerTrace,
    SchedulerPython,
    Motion,
    MotionRemote,
    MotionTasks,
    MotionSeed,
    MotionInterval
  ) ++ ControlConf.all ++ ExecutorsConf.all ++ LeasesConf.all

  /** Refuses keys under our prefix that no entry has: a typing error would otherwise go unnoticed. */
  def checkKeys(keys: Iterable[String]): Unit = {
    val known = all.map(_.key).toSet
    keys.find(k => k.startsWith(Prefix) && !known(k) && !isParameter(k)).foreach { k =>
      throw new IllegalArgumentException(
        s"$k is not an option of laneshift. The options are: ${known.toSeq.sorted.mkString(", ")}, and ${SchedulerParam}NAME " +
          "for a parameter of the policy."
      )
    }
  }

  private def isParameter(key: String): Boolean =
    key.startsWith(SchedulerParam) && key.length > SchedulerParam.length

  /** What entries cannot check alone: throws if the values do not go together. */
  def checkTogether(conf: SQLConf): Unit = {
    checkKeys(conf.getAllConfs.keys)
    val (lanes, max) = (conf.getConf(Lanes), conf.getConf(MaxLanes))
    if (lanes != "auto" && lanes.toInt > max) throw new IllegalArgumentException(
      s"${Lanes.key} is $lanes, but ${MaxLanes.key} allows 1 to $max: lower the first or raise the second (at most 256)."
    )
  }

  /** Throws if there cannot be so many tasks for the state partitions of a query. */
  def checkTasks(conf: SQLConf, partitions: Int): Unit =
    conf.getConf(Tasks).toIntOption.filter(_ > partitions).foreach { tasks =>
      throw new IllegalArgumentException(
        s"${Tasks.key} is $tasks, but the query has $partitions state partitions: allowed are 1 to $partitions, 'auto' and 'stock'."
      )
    }
}
