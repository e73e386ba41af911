package org.apache.spark.sql.laneshift.api

import org.apache.spark.sql.laneshift.conf.{BuildInfo, ExecutorsConf}
import org.apache.spark.sql.laneshift.driver.{AutoscalerClaim, RunName, WrongDemand}
import org.apache.spark.sql.laneshift.rescale.NotRescalable

/** A call that cannot be carried out: a condition that programs can tell apart, and a message with value, range, way out. */
private[api] final class ApiError(
    val condition: String,
    val sqlState: String,
    message: String,
    val parameters: Map[String, Any]
) extends RuntimeException(message)

private[api] object ApiError {
  private val NotFound = "42704"
  private val OutOfRange = "22003"
  private val WrongState = "55000"

  def notLoaded(): ApiError = new ApiError(
    "LANESHIFT_NOT_LOADED",
    WrongState,
    s"laneshift does not run in this Spark application: set spark.plugins=${BuildInfo.Plugin} " +
      "before the session is created, for instance by laneshift.configure(builder).",
    Map.empty
  )

  def failed(method: String, cause: String): ApiError = new ApiError(
    "LANESHIFT_JVM_FAILED",
    "XX000",
    s"The call of $method failed inside Spark's JVM: $cause. Look at a new snapshot and ask again.",
    Map("method" -> method, "cause" -> cause)
  )

  def noSuchQuery(query: String, active: Seq[RunName]): ApiError = new ApiError(
    "LANESHIFT_NO_SUCH_QUERY",
    NotFound,
    s"There is no streaming query '$query'. Running are: " +
      (if (active.isEmpty) "none"
       else active.map(q => q.name.fold(q.id)(n => s"${q.id} ($n)")).mkString(", ")) +
      ". Name a query by its id, run id or name.",
    Map("query" -> query, "active" -> active.map(_.id))
  )

  def queryStopped(query: String): ApiError = new ApiError(
    "LANESHIFT_QUERY_STOPPED",
    WrongState,
    s"The streaming query '$query' has stopped: start it again first. Its handoffs can still be read.",
    Map("query" -> query)
  )

  def noSuchOperator(operator: Long, operators: Seq[Long]): ApiError = new ApiError(
    "LANESHIFT_NO_SUCH_OPERATOR",
    NotFound,
    s"The query has no elastic operator $operator. It has: " +
      (if (operators.isEmpty)
         "none so far (wait for its first batch; query.explain() says why an operator is not elastic)"
       else operators.mkString(", ")) + ".",
    Map("operator" -> operator, "operators" -> operators)
  )

  def noSuchPartition(partition: Int, count: Int): ApiError = new ApiError(
    "LANESHIFT_NO_SUCH_PARTITION",
    NotFound,
    s"There is no partition $partition. The operator has 0 to ${count - 1}; without a number all of them are meant.",
    Map("partition" -> partition, "partitions" -> count)
  )

  def partitionNotComputed(partition: Int, operatorId: Long): ApiError = new ApiError(
    "LANESHIFT_PARTITION_NOT_COMPUTED",
    WrongState,
    s"Partition $partition of operator $operatorId has not been computed since the query started; nothing is known of it before. " +
      "Ask again once its first task has begun.",
    Map("partition" -> partition, "operator" -> operatorId)
  )

  def partitionGone(partition: Int): ApiError = new ApiError(
    "LANESHIFT_PARTITION_MOVED",
    WrongState,
    s"Partition $partition has just left its executor; Spark computes it on another one. Look at a new snapshot and ask again.",
    Map("partition" -> partition)
  )

  def noSuchShard(shard: Int, shards: Int): ApiError = new ApiError(
    "LANESHIFT_NO_SUCH_SHARD",
    NotFound,
    s"There is no shard $shard: each partition has 0 to ${shards - 1} (spark.sql.laneshift.shardsPerPartition).",
    Map("shard" -> shard, "shards" -> shards)
  )

  def noSuchLane(lane: Int, lanes: Int): ApiError = new ApiError(
    "LANESHIFT_NO_SUCH_LANE",
    NotFound,
    s"There is no lane $lane: the partition has 0 to ${lanes - 1}. Ask for more lanes first.",
    Map("lane" -> lane, "lanes" -> lanes)
  )

  def lanesOutOfRange(lanes: Int, max: Int): ApiError = new ApiError(
    "LANESHIFT_LANES_OUT_OF_RANGE",
    OutOfRange,
    s"A partition can have 1 to $max lanes, not $lanes. spark.sql.laneshift.maxLanes sets the bound when the query starts.",
    Map("lanes" -> lanes, "max" -> max)
  )

  def tasksOutOfRange(tasks: String, partitions: Int): ApiError = new ApiError(
    "LANESHIFT_TASKS_OUT_OF_RANGE",
    OutOfRange,
    s"The operator's $partitions state partitions can be computed in 1 to $partitions tasks, 'auto' or 'stock', not $tasks. A task " +
      "computes whole partitions; for more cores in each, give them lanes.",
    Map("tasks" -> tasks, "partitions" -> partitions)
  )

  def noStatePartitions(operator: Long): ApiError = new ApiError(
    "LANESHIFT_NO_STATE_PARTITIONS",
    WrongState,
    s"Operator $operator has no state: its tasks are those of its source or shuffle. Give its partitions lanes.",
    Map("operator" -> operator)
  )

  def noKeys(operator: Long): ApiError = new ApiError(
    "LANESHIFT_NO_KEYS",
    WrongState,
    s"Operator $operator has no state, and its rows no keys: they go to any lane. Name the operator whose state is below it.",
    Map("operator" -> operator)
  )

  def nothingAbove(operator: Long): ApiError = new ApiError(
    "LANESHIFT_NOTHING_ABOVE",
    WrongState,
    s"Operator $operator has no row-wise work above its state that could go apart: none that may be costly, a limit is above it, " +
      "or spark.sql.laneshift.hotKeys.spread is 'false'. A key's state is on one lane: more fields in the key, or less work for each row, " +
      "are the way out.",
    Map("operator" -> operator)
  )

  def noSuchExecutor(id: String, known: Seq[String]): ApiError = new ApiError(
    "LANESHIFT_NO_SUCH_EXECUTOR",
    NotFound,
    s"There is no executor '$id' with the plugin. There are: ${if (known.isEmpty) "none"
      else known.mkString(", ")}.",
    Map("executor" -> id, "executors" -> known)
  )

  def moreLanesThanCores(id: String, lanes: Int, cores: Int): ApiError = new ApiError(
    "LANESHIFT_MORE_LANES_THAN_CORES",
    OutOfRange,
    s"Executor $id has $cores cores: it can run 1 to $cores lanes of a partition, not $lanes.",
    Map("executor" -> id, "lanes" -> lanes, "cores" -> cores)
  )

  def executorIsHome(id: String, partition: Int): ApiError = new ApiError(
    "LANESHIFT_EXECUTOR_IS_HOME",
    WrongState,
    s"Executor $id runs partition $partition itself: its lanes there are what 'lanes' says. Name other executors, or " +
      "one partition at a time.",
    Map("executor" -> id, "partition" -> partition)
  )

  def lanesStayHome(operator: Long): ApiError = new ApiError(
    "LANESHIFT_LANES_STAY_HOME",
    WrongState,
    s"Operator $operator has no state: its rows are dealt to lanes on the executor of each partition only. Ask for more lanes there.",
    Map("operator" -> operator)
  )

  def tooManyElsewhere(lanes: Int, max: Int): ApiError = new ApiError(
    "LANESHIFT_TOO_MANY_ELSEWHERE",
    OutOfRange,
    s"A partition can have 0 to $max lanes on other executors, not $lanes. spark.sql.laneshift.remote.maxLanes sets the bound " +
      "when the query starts.",
    Map("lanes" -> lanes, "max" -> max)
  )

  def notMovable(shard: Int, why: String): ApiError = new ApiError(
    "LANESHIFT_NOT_MOVABLE",
    WrongState,
    s"Shard $shard cannot be moved now: $why. Look at a new snapshot and ask again.",
    Map("shard" -> shard, "why" -> why)
  )

  def outOfRange(argument: String, value: Double): ApiError = new ApiError(
    "LANESHIFT_OUT_OF_RANGE",
    OutOfRange,
    s"$argument: found $value; allowed is a finite number that is not negative.",
    Map("argument" -> argument, "value" -> value)
  )

  def sourceNotLimited(query: String, why: String): ApiError = new ApiError(
    "LANESHIFT_SOURCE_NOT_LIMITED",
    WrongState,
    s"The source of the query '$query' cannot be slowed down: $why.",
    Map("query" -> query, "why" -> why)
  )

  def notRescalable(query: String, why: NotRescalable): ApiError = why match {
    case bad: NotRescalable.BadNumber =>
      new ApiError(
        "LANESHIFT_PARTITIONS_OUT_OF_RANGE",
        OutOfRange,
        s"State partitions of '$query': ${bad.getMessage} It is as it was.",
        Map("query" -> query, "partitions" -> bad.partitions)
      )
    case busy: NotRescalable.Busy =>
      new ApiError(
        "LANESHIFT_RESCALE_RUNS",
        WrongState,
        s"'$query': ${busy.getMessage}",
        Map("query" -> query, "partitions" -> busy.to)
      )
    case unfit: NotRescalable.Unfit =>
      new ApiError(
        "LANESHIFT_NOT_RESCALABLE",
        WrongState,
        s"'$query' is as it was. ${unfit.getMessage}",
        Map("query" -> query, "why" -> unfit.why)
      )
  }

  def noRescale(query: String): ApiError = new ApiError(
    "LANESHIFT_NO_RESCALE",
    NotFound,
    s"No rescale of the query '$query' was asked for since its run began.",
    Map("query" -> query)
  )

  def otherAutoscaler(other: AutoscalerClaim, seconds: Double): ApiError = {
    val what =
      if (other.runId.isEmpty) "all queries of this application" else s"the query with the run ${other.runId}"
    new ApiError(
      "LANESHIFT_OTHER_AUTOSCALER",
      "55006",
      f"Another autoscaler, with the policy ${other.policy}, drives $what. Stop it first, or, if it has died, wait $seconds%.1f s. " +
        "A dry run is possible at any time.",
      Map("policy" -> other.policy, "range" -> what, "seconds" -> seconds)
    )
  }

  def wrongDemand(wrong: WrongDemand): ApiError =
    if (wrong.dynamicAllocation) new ApiError(
      "LANESHIFT_DYNAMIC_ALLOCATION",
      WrongState,
      s"${ExecutorsConf.Max.key} or max_executors is ${wrong.most}, but spark.dynamicAllocation.enabled is true: two would decide how " +
        "many executors there are. Switch one of the two off; Real-time queries run without dynamic allocation only.",
      Map("most" -> wrong.most)
    )
    else new ApiError(
      "LANESHIFT_EXECUTORS_MAX",
      OutOfRange,
      s"${ExecutorsConf.Max.key} or max_executors is ${wrong.most}, but the application has ${wrong.there} executors without a " +
        s"autoscaler, and these stay: allowed are ${wrong.there} to 10000, and 0 for none on demand. Raise it, or start with fewer " +
        "(spark.executor.instances).",
      Map("most" -> wrong.most, "there" -> wrong.there)
    )
}
