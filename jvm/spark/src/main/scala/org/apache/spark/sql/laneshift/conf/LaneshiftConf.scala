package org.apache.spark.sql.laneshift.conf

import org.apache.spark.SparkConf
import org.apache.spark.internal.config.ConfigEntry
import org.apache.spark.sql.internal.SQLConf

/** Every option of laneshift: a wrong value is refused when it is set. */
object LaneshiftConf extends OptionGroup(OptionGroup.Root) {
  val Prefix: String = OptionGroup.Root

  import OptionGroup.Hour

  private val MostLanes = 256
  private val Policy = Values.Text(
    "[A-Za-z0-9_.-]+(:[A-Za-z0-9_.]+)?",
    "'none', the name of a policy, as `laneshift policies` lists them, or module:Class",
    kind = "policy"
  )

  val Enabled =
    flag("enabled", default = true, "Leave it out for true.")(
      "Makes the stateful operators of streaming queries elastic. Read when a query starts; false leaves every " +
        "operator to stock Spark."
    )

  val ShardsPerPartition =
    whole("shardsPerPartition", 1, 4096, 64, "64 suits up to 8 lanes; take 8 or more shards per lane.")(
      "Number of shards that the keys of one state partition are split into: the unit that moves between lanes. " +
        "At least 4 to 8 times the number of lanes balances well. May change at every restart."
    )

  val MaxLanes =
    whole("maxLanes", 1, MostLanes, 8, "Take no more than the cores that one partition may get.")(
      "The most lanes (threads, each meant for one core) that one state partition may have."
    )

  val Lanes =
    wholeOr("auto")("lanes", 1, MostLanes, "auto", "Take no more than maxLanes, or raise that.")(
      "Lanes of each state partition when a query starts: a number from 1 to maxLanes, or 'auto': one, " +
        "and idle cores for a partition that would hold up its micro-batch or cannot keep up in " +
        "Real-time Mode, for as long as they are measured to help. Lanes that a user or a policy sets stay as they are set."
    )

  val LanesPerExecutor =
    whole(
      "lanesPerExecutor",
      0,
      4096,
      256,
      "It bounds the threads of one process; 0 leaves each partition its first lane."
    )(
      "The most lanes, beyond the first of each state partition, that run at a time in one executor's process. A partition " +
        "that wants more gets what is free, and the rest as others end. Read when an executor starts."
    )

  val Stateless =
    oneOf("auto", "true", "false")(
      "stateless",
      "auto",
      "'auto' serves stages without state that may be costly; 'false' leaves all to Spark."
    )(
      "Whether stages without state, from a stream's source or a shuffle to the next shuffle or sink, may run on several lanes, " +
        "outputs in the order of the rows: 'auto' for those with expressions that may be costly (functions in Python or Scala, JSON, " +
        "regular expressions, generators, ...), 'true' for all, 'false' for none. Read when a query starts."
    )

  val Tasks =
    wholeOr("stock", "auto")(
      "tasks",
      1,
      Int.MaxValue,
      "auto",
      "'stock' is one task for each state partition, as Spark has it, and the most."
    )(
      "In how many Spark tasks the state partitions of an elastic operator are computed, a range of them in each, in every batch: " +
        "'stock', one task for each partition; a number from 1 to the number of state partitions; 'auto', in micro-batches at most " +
        "four for each slot of the cluster, but one for each partition where functions in Python work in the stage or Spark's dynamic " +
        "allocation is on, and in Real-time Mode, where stock Spark refuses a query that has fewer slots than tasks, no more than " +
        "slots are free as the batch begins. No state is rewritten. set_tasks changes it while a query runs."
    )

  val RescaleCores =
    whole(
      "rescale.cores",
      1,
      4096,
      1,
      "It bounds the tasks that write the stores of another number of partitions."
    )(
      "How many tasks at a time write the stores of another number of partitions while the query runs. Read when a rescale " +
        "begins."
    )

  val RescaleBytesPerSecond =
    size(
      "rescale.bytesPerSecond",
      64L << 10,
      Values.Most,
      1L << 40,
      "It bounds what these tasks write in a second."
    )(
      "How much state these tasks write in a second at most, all together. Read when a rescale begins."
    )

  val RemoteMaxLanes =
    whole(
      "remote.maxLanes",
      0,
      256,
      32,
      "It bounds a partition's lanes on other executors; 0 keeps all at home."
    )(
      "The most lanes that one state partition may have on other executors. They are there only where somebody asks for them " +
        "(set_lanes with 'on', or a policy)."
    )

  val RemoteWindow =
    size(
      "remote.windowBytes",
      32L << 10,
      64L << 20,
      256L << 10,
      "256k keeps a lane busy over most networks."
    )(
      "Bytes of rows that a lane on another executor may have been sent without having acknowledged them. The partition keeps these " +
        "rows, so that none is lost with an executor."
    )

  val RemoteCache =
    size(
      "remote.cacheBytes",
      0,
      4L << 30,
      32L << 20,
      "What a lane elsewhere does not have in memory it reads at home."
    )(
      "Bytes of state that one lane on another executor may keep in memory there. What it does not have it reads at home."
    )

  val RemotePort =
    whole(
      "remote.port",
      1024,
      65535,
      0,
      "If it is taken, an executor tries those after it (spark.port.maxRetries).",
      0 -> "for any free port"
    )(
      "The port at which an executor takes lanes of other executors' partitions, from the first such lane on; 0 for any free one. " +
        "If it is taken, those after it are tried, as many as spark.port.maxRetries says. Read when an executor starts."
    )

  val QueueBytes =
    size("queueBytes", 1L << 10, 1L << 30, 1L << 20, "It bounds one lane's queue.")(
      "Bytes of rows that may wait for one lane before the lane pushes back on its partition's input."
    )

  val QueueTime =
    time(
      "queueTime",
      10,
      Hour,
      1000,
      "1s suits most queries: more makes batches of Real-time Mode late under a backlog."
    )(
      "In Real-time Mode: rows that may wait for one lane, as the time that it needs for them as measured, in milliseconds unless a " +
        "unit is given; 128 rows in any case, and never more than queueBytes. A batch ends when its rows have been worked on: more " +
        "of them make batches late that have more input than they can work on."
    )

  val LatencyColumn =
    maybe(
      "latencyColumn",
      Values.Text("(?s).*\\S.*", "the name of a timestamp column of the answers"),
      "Leave it out where answers do not say when they set out."
    )(
      "Name of a timestamp column that elastic operators put out: when the newest row that an answer is made of set out, " +
        "such as max(timestamp) of Kafka's rows. The age of outputs is then measured by it. Without one, or where an " +
        "operator's outputs have no such column, latency is not measured."
    )

  val HotKeysShown =
    oneOf("hashes", "values", "none")(
      "hotKeys.show",
      "hashes",
      "Keys may be personal data: 'values' shows them, 'hashes' only their share of rows."
    )(
      "What snapshots, `laneshift top` and the tab tell of the keys that have the most of a state partition's rows: 'hashes', their " +
        "shares and no more of them than a hash, 'values', the keys themselves, which may be personal data and also go to Spark's event " +
        "log, or 'none'. Rows are sampled."
    )

  val HotKeysSpread =
    oneOf("auto", "true", "false")(
      "hotKeys.spread",
      "auto",
      "'auto' lets lanes share a hot key's row-wise work where that is measured to pay."
    )(
      "Whether row-wise work above an operator's state (functions, generators, ...) goes to any lane, outputs in the same order, so that a " +
        "key may be hotter than a core: 'auto' where a hot key is measured to keep a partition from using lanes that it could have, as " +
        "long as it pays, 'true' wherever there is such work that may be costly, 'false' never. Takes effect between batches."
    )

  val BalanceEnabled =
    flag("balance.enabled", default = true, "'false' leaves every move to you.")(
      "Evens out the loads of a partition's lanes by moving shards between them."
    )

  val BalanceThreshold =
    above(
      "balance.threshold",
      1,
      100,
      1.2,
      "It is the busiest lane's load over the mean: 1.2 allows 20 % more than even."
    )(
      "Shards move when the busiest lane's load exceeds this many times the average lane's."
    )

  val BalanceInterval =
    time("balance.interval", 10, Hour, 200, "200ms suits most queries.")(
      "Time between two looks at the loads of a partition's lanes, in milliseconds unless a unit is given."
    )

  val BalanceMetric =
    oneOf("rows", "cpu")("balance.metric", "rows", "Take 'cpu' if some keys' rows cost more than others'.")(
      "How the load of a shard is measured: 'rows' (rows/s that arrive for it) or 'cpu' (CPU seconds per second that " +
        "its rows take, sampled; for operators whose cost differs by key)."
    )

  val Autoscaler =
    text(
      "autoscaler",
      Policy,
      "none",
      "Leave it out to set lanes yourself, or start a policy while the application runs."
    )(
      "The policy that sets the lanes of all running queries, such as 'elasticutor' or module:Class of one's own, or 'none'. " +
        "Read when the application starts: the driver runs it in a Python process of its own, which needs the laneshift package."
    )

  val AutoscalerTargetLatency =
    time("autoscaler.targetLatency", 1, Hour, 0, "Not every policy has one.", zero = "for the policy's own")(
      "The latency that the policy is to keep to, in milliseconds unless a unit is given; 0 leaves the policy's own. " +
        "Not every policy has one."
    )

  val AutoscalerInterval =
    time("autoscaler.interval", 100, Hour, 1000, "1s suits most queries.")(
      "Time between two decisions of the policy, in milliseconds unless a unit is given."
    )

  val AutoscalerQuery =
    text(
      "autoscaler.query",
      Values.Text("(?s).*", "the name or id of a query"),
      "",
      "Leave it out for all queries."
    )(
      "The name or id of the only query that the policy is to drive; empty for all queries of the application."
    )

  val AutoscalerCores =
    whole(
      "autoscaler.cores",
      1,
      4096,
      0,
      "Leave it out for all cores of each executor.",
      0 -> "for all cores"
    )(
      "The most cores of an executor that lanes may use by the policy's decisions; 0 for all. A partition always keeps one."
    )

  val AutoscalerDryRun =
    flag("autoscaler.dryRun", default = false, "'true' decides and reports, and changes nothing.")(
      "Makes the policy decide and report, and change nothing."
    )

  val AutoscalerTrace =
    text("autoscaler.trace", Values.FileOrNone, "", "Leave it out for no trace.")(
      "A file on the driver's machine for what the policy measured, decided and moved, to report, replay and simulate; empty for none. " +
        "One that is there stays: a number goes behind the new one's name."
    )

  /** Options that begin so are the policy's own parameters, whose names and ranges its Python knows. */
  val AutoscalerParam: String = Prefix + "autoscaler.param."

  val AutoscalerPython =
    text(
      "autoscaler.python",
      Values.Text("(?s).*", "the path of a Python that has laneshift"),
      "",
      "Leave it out for the driver's own Python."
    )(
      "The Python that runs the policy. Empty for the driver's own: spark.pyspark.driver.python, spark.pyspark.python, " +
        "PYSPARK_DRIVER_PYTHON, PYSPARK_PYTHON or python3, whichever is there first and no notebook; where only python3 would be left, " +
        "laneshift.configure names the Python that calls it."
    )

  /** The options of all groups. */
  override def options: Seq[LaneshiftOption] =
    super.options ++ MotionConf.options ++ ControlConf.options ++ ExecutorsConf.options

  val all: Seq[ConfigEntry[_]] = options.map(_.entry)

  /** Refuses keys under our prefix that no entry has: a typing error would otherwise go unnoticed. */
  def checkKeys(keys: Iterable[String]): Unit = {
    val known = all.map(_.key).toSet
    keys.find(k => k.startsWith(Prefix) && !known(k) && !isParameter(k)).foreach { k =>
      throw new IllegalArgumentException(
        s"$k is not an option of laneshift. The options are: ${known.toSeq.sorted.mkString(", ")}, and ${AutoscalerParam}NAME " +
          "for a parameter of the policy."
      )
    }
  }

  private def isParameter(key: String): Boolean =
    key.startsWith(AutoscalerParam) && key.length > AutoscalerParam.length

  /** What entries cannot check alone: throws if the values do not go together. */
  def checkTogether(conf: SQLConf, application: SparkConf): Unit = {
    checkKeys(conf.getAllConfs.keys)
    checkAtStart(conf, application)
    val (lanes, max) = (conf.getConf(Lanes), conf.getConf(MaxLanes))
    if (lanes != "auto" && lanes.toInt > max) throw new IllegalArgumentException(
      s"${Lanes.key} is $lanes, but ${MaxLanes.key} allows 1 to $max: lower the first or raise the second (at most 256)."
    )
  }

  /** Throws for what was read when the application started and the session has otherwise: nobody heeds it. The token is a
    * session's own, and who asked for any port has one.
    */
  private def checkAtStart(conf: SQLConf, application: SparkConf): Unit =
    conf.getAllConfs.foreach { case (key, value) =>
      if (OptionGroup.isReadAtStart(key) && key != ControlConf.Token.key) {
        val had = application.getOption(key)
        val isHad = had.contains(value) || key == ControlConf.Port.key && value == "0" && had.nonEmpty
        if (!isHad) throw new IllegalArgumentException(
          s"$key is read when the application starts, and this session has set it to '$value': unset it, and start the " +
            s"application with --conf $key=$value."
        )
      }
    }

  /** Throws if there cannot be so many tasks for the state partitions of a query. */
  def checkTasks(conf: SQLConf, partitions: Int): Unit =
    conf.getConf(Tasks).toIntOption.filter(_ > partitions).foreach { tasks =>
      throw new IllegalArgumentException(
        s"${Tasks.key} is $tasks, but the query has $partitions state partitions: allowed are 1 to $partitions, 'auto' and 'stock'."
      )
    }
}
