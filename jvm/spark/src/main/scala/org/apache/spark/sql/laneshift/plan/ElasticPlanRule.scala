package org.apache.spark.sql.laneshift.plan

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicBoolean

import scala.util.Try
import scala.util.control.NonFatal

import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{LimitExec, SparkPlan}
import org.apache.spark.sql.execution.datasources.v2.RealTimeStreamScanExec
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec
import org.apache.spark.sql.execution.streaming.StatefulStreamlineAggregateExec
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.TransformWithStateExec
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.execution.streaming.state.{ElasticStateStoreProvider, RocksDBStateStoreProvider}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.laneshift.conf.{BuildInfo, LaneshiftConf}
import org.apache.spark.sql.laneshift.driver.{DriverState, Run, RunName, RunningQueries}
import org.apache.spark.sql.laneshift.spec.{ElasticOptions, HandoffMode, RowWork}

/** Wraps the elastic regions of each batch's plan. Runs after Spark has filled in state infos and watermarks and before it
  * collapses stages for code generation (design fact 1).
  *
  * Regions that stay stock get a [[StockExec]] above their stateful operator that says why. Plans of batch queries stay as
  * they are, stateful or not. Whatever goes wrong in here costs no query: it stays stock, from then on.
  */
object ElasticPlanRule extends Rule[SparkPlan] with Logging {
  private val AllowlistCheck = SQLConf.STREAMING_REAL_TIME_MODE_ALLOWLIST_CHECK
  private val toldOfAllowlist = new AtomicBoolean

  /** What went wrong so far: each is told once, however many plans it meets, and no more than so many: some have a plan's numbers. */
  private val told = ConcurrentHashMap.newKeySet[String]()
  private val Told = 100

  /** Tests put something here that throws. */
  @volatile private[laneshift] var planning: () => Unit = () => ()

  override def apply(plan: SparkPlan): SparkPlan =
    guarded(plan, None)(runOf(plan)) match {
      case Left(_) | Right(None) => plan
      case Right(Some(run)) =>
        // Options that do not go together are the user's to mend: not guarded.
        LaneshiftConf.checkTogether(plan.conf, SparkEnv.get.conf)
        // After a batch has ended the number of state partitions may change under what was right.
        if (run.batch.isEmpty) statePartitions(plan).foreach(LaneshiftConf.checkTasks(plan.conf, _))
        run.stays match {
          case Some(why) => stock(plan, why)
          case None =>
            val made = guarded(plan, Some(run))(planned(plan, run)).fold(stock(plan, _), identity)
            if (made.exists(_.isInstanceOf[ElasticNode])) run.becomesElastic()
            made
        }
    }

  /** The plan as it is, with the reason if that can be put in. */
  private def stock(plan: SparkPlan, why: String): SparkPlan =
    guarded(plan, None)(explain(plan, why)).getOrElse(plan)

  /** The run of the streaming query that the plan is a batch of; none if it is no streaming query's, or such queries are to stay as
    * they are. A plan that is only explained, or made without the plugin, has one that nobody else knows.
    */
  private def runOf(plan: SparkPlan): Option[Run] =
    plan
      .collectFirst { case w: StateStoreWriter if Elasticity.isStateful(w) => w.getStateInfo.queryRunId }
      .orElse(runOfStateless(plan))
      .filter(_ => plan.conf.getConf(LaneshiftConf.Enabled))
      .flatMap { id =>
        def alone = new Run(RunName("", id.toString, None))
        if (isExplained(plan)) Some(alone)
        else DriverState.get.fold(RunningQueries.of(plan.session, id).map(_ => alone))(
          _.runs.planned(plan.session, id)
        )
      }

  /** A plan without state says whose it is only by the thread that makes it. */
  private def runOfStateless(plan: SparkPlan): Option[UUID] =
    if (!RowWise.readsStream(plan)) None
    else if (RowWise.isOnlyExplained(plan)) Some(new UUID(0L, 0L))
    else runOfThread(plan)

  /** A streaming query's jobs are a group of its run's name. */
  private def runOfThread(plan: SparkPlan): Option[UUID] =
    Option(plan.session.sparkContext.getLocalProperty(SparkContext.SPARK_JOB_GROUP_ID))
      .flatMap(group => Try(UUID.fromString(group)).toOption)

  private def statePartitions(plan: SparkPlan): Option[Int] =
    plan.collectFirst { case w: StateStoreWriter if Elasticity.isStateful(w) => w.getStateInfo.numPartitions }

  /** Made by Spark for a streaming DataFrame's `explain()`, in the user's own session: it will not run. */
  private def isExplained(plan: SparkPlan): Boolean = plan.exists {
    case w: StateStoreWriter =>
      w.stateInfo.exists(_.checkpointLocation == ElasticPlanRule.NoCheckpoint)
    case _ => false
  } || RowWise.isOnlyExplained(plan)

  /** What `body` gives, or why there is nothing: the run, if one is given, stays stock for good, because its executors keep the
    * stores that they have opened.
    */
  private def guarded[T](plan: SparkPlan, run: Option[Run])(body: => T): Either[String, T] =
    try Right(body)
    catch {
      case error @ (NonFatal(_) | _: LinkageError) =>
        QueryStores.sparks(plan.conf)
        val why = s"planning it failed: $error"
        run.foreach(_.stays = Some(why))
        if (told.size < Told && told.add(why)) logWarning(s"A query stays stock Spark: $why", error)
        Left(why)
    }

  private def planned(plan: SparkPlan, run: Run): SparkPlan = {
    planning()
    val explained = isExplained(plan)
    val conf = plan.conf
    val realTime = isRealTime(plan)
    val batch = Option(plan.session.sparkContext.getLocalProperty(MicroBatchExecution.BATCH_ID_KEY))
    val spreads = new Spreads(
      conf,
      run,
      batch.map(_.toLong).filterNot(_ => explained),
      plan.exists(_.isInstanceOf[LimitExec]),
      realTime
    )
    unavailable(conf) match {
      case _ if !takesOurs(plan) => plan
      case _ if DriverState.get.isEmpty => explain(plan, NotLoaded)
      case Some(why) => RowWise.wrap(explain(plan, why), run, realTime)
      case None if explained =>
        RowWise.wrap(TaskCounts.mark(wrap(plan, conf, realTime, spreads)), run, realTime)
      case None if !plan.exists(Elasticity.isStateful) => RowWise.wrap(plan, run, realTime)
      case None =>
        // After Spark has checked and recorded its own provider's name (design fact 7); the operators that the rules behind
        // this one make again read it.
        QueryStores.ours(conf)
        val elastic = TaskCounts.mark(wrap(plan, conf, realTime, spreads))
        elastic.foreach {
          case e: ElasticExec => e.check()
          case _ => ()
        }
        // Also in a batch that is all stock, as the first one of an initial state is: an executor keeps the provider of a
        // store for the whole run.
        RowWise.wrap(acceptProvider(elastic), run, realTime)
    }
  }

  private val NotLoaded =
    s"the plugin is not loaded: set spark.plugins=${BuildInfo.PluginClass} before the session starts"

  /** Whether Spark takes nodes of ours in a plan, those that only tell a reason among them: as long as it is not told otherwise, it
    * refuses a Real-time plan with a node that is not on its list. What the user has put in is for Spark to refuse, in its words.
    */
  private def takesOurs(plan: SparkPlan): Boolean =
    !isRealTime(plan) || !plan.conf.getConf(AllowlistCheck) || RealTimeAllowlist.takes(plan) && {
      val taken = RealTimeAllowlist.takesOurs(plan)
      if (!taken && !toldOfAllowlist.getAndSet(true))
        logWarning(
          s"Real-time queries stay stock Spark: ${AllowlistCheck.key} is true, and laneshift's operators could not be added " +
            "to Spark's list in this JVM. Set it to false before a query starts to make it elastic."
        )
      taken
    }

  private def unavailable(conf: SQLConf): Option[String] = {
    val provider = conf.getConf(SQLConf.STATE_STORE_PROVIDER_CLASS)
    val ours = Set(classOf[RocksDBStateStoreProvider].getName, ElasticStateStoreProvider.className)
    if (!ours(provider))
      Some(s"${SQLConf.STATE_STORE_PROVIDER_CLASS.key} is $provider; elastic is " + ours.head)
    else if (conf.getConf(SQLConf.STATE_STORE_UNLOAD_ON_COMMIT))
      Some(s"${SQLConf.STATE_STORE_UNLOAD_ON_COMMIT.key} unloads a store when the first of its lanes ends")
    else None
  }

  private def isRealTime(plan: SparkPlan): Boolean =
    plan.exists {
      case _: RealTimeStreamScanExec | _: StatefulStreamlineAggregateExec => true
      case _ => false
    }

  private def explain(plan: SparkPlan, why: String): SparkPlan =
    if (!takesOurs(plan)) plan
    else
      plan.transformUp {
        case s: SparkPlan if Elasticity.isStateful(s) => StockExec(why, s, ourStores = false)
      }

  private def wrap(plan: SparkPlan, conf: SQLConf, realTime: Boolean, spreads: Spreads): SparkPlan =
    if (!Elasticity.mayStart(plan)) plan.mapChildren(wrap(_, conf, realTime, spreads))
    else {
      def elastic(top: SparkPlan, region: Elasticity.Region, work: RowWork): ElasticExec = {
        val body = replaceInside(top, conf, region.handoff, realTime, spreads, Iterator.from(0))
        ElasticExec(
          body,
          region.handoff,
          realTime,
          region.stateKeys,
          ElasticOptions.from(conf),
          spreads.run,
          rowWork = work
        )
      }
      Elasticity.region(plan, conf) match {
        case Right(region) =>
          val possible = for {
            parted <- WorkAbove.of(plan)
            state <- Elasticity.region(parted.state, conf).toOption
          } yield (parted, state)
          possible.filter(_ => spreads(Elasticity.operatorId(plan))) match {
            case Some((parted, state)) => parted.over(elastic(parted.state, state, RowWork.Apart))
            case None => elastic(plan, region, spreads.kept(possible.nonEmpty))
          }
        case Left(why) =>
          logInfo(s"${plan.nodeName} stays stock Spark: $why")
          stockAbove(plan, why, conf, realTime, spreads)
      }
    }

  private def stockAbove(
      plan: SparkPlan,
      why: String,
      conf: SQLConf,
      realTime: Boolean,
      spreads: Spreads
  ): SparkPlan =
    if (Elasticity.isStateful(plan))
      StockExec(why, plan.mapChildren(wrap(_, conf, realTime, spreads)), ourStores = true)
    else plan.mapChildren(stockAbove(_, why, conf, realTime, spreads))

  /** Also for operators that stay stock: the whole query has one provider. */
  private def acceptProvider(plan: SparkPlan): SparkPlan = plan.transformUp {
    case t: TransformWithStateExec if t.isStreaming => new ElasticTransformWithStateExec(t)
    case t: TransformWithStateInPySparkExec if t.isStreaming =>
      new ElasticTransformWithStateInPySparkExec(t)
  }

  /** Puts the lanes' inputs above the shuffles, numbered by `index`, and our own operators in place of those that cache
    * state of their own.
    */
  private def replaceInside(
      plan: SparkPlan,
      conf: SQLConf,
      handoff: HandoffMode,
      realTime: Boolean,
      spreads: Spreads,
      index: Iterator[Int]
  ): SparkPlan = plan match {
    case e: ShuffleExchangeLike =>
      LaneInputExec(e.mapChildren(wrap(_, conf, realTime, spreads)), index.next())
    case s: StatefulStreamlineAggregateExec if handoff == HandoffMode.MidBatch =>
      ElasticStreamlineAggregateExec.from(s, replaceInside(s.child, conf, handoff, realTime, spreads, index))
    case other =>
      val inputs = Elasticity.inputsOf(other)
      other.mapChildren { c =>
        if (inputs.exists(_ eq c)) replaceInside(c, conf, handoff, realTime, spreads, index) else c
      }
  }

  /** Where Spark puts the checkpoint of a query that is only explained. */
  private val NoCheckpoint = "<unknown>"
}
