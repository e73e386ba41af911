package org.apache.spark.sql.laneshift

import java.util.{Collections, Map => JMap}

import org.apache.spark.{SparkConf, SparkContext, SparkEnv, SparkException, TaskContext}
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.apache.spark.internal.Logging
import org.apache.spark.internal.config.EVENT_LOG_ENABLED
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider
import org.apache.spark.sql.internal.{SQLConf, StaticSQLConf}
import org.apache.spark.sql.laneshift.conf.{BuildInfo, LaneshiftConf}
import org.apache.spark.sql.laneshift.driver.{ApplicationMetrics, ControlProcess, DriverState, Run}
import org.apache.spark.sql.laneshift.lane.LaneCpu
import org.apache.spark.sql.laneshift.runtime.{
  ElasticRuntime,
  ExecutorEndpoint,
  ExecutorHello,
  PartitionPressed,
  PluginMemory,
  RecallPartition,
  RememberPartition,
  RuntimeMetrics
}
import org.apache.spark.sql.laneshift.source.SourceRuns
import org.apache.spark.sql.laneshift.spec.OperatorKey
import org.apache.spark.sql.laneshift.ui.LaneshiftTab
import org.apache.spark.sql.laneshift.wire.RpcBytes
import org.apache.spark.util.Utils

/** `spark.plugins=org.apache.spark.sql.laneshift.LaneshiftPlugin` is all that a session needs: everything else is set from
  * here.
  */
class LaneshiftPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new LaneshiftDriver
  override def executorPlugin(): ExecutorPlugin = new LaneshiftExecutor
}

object LaneshiftPlugin {

  /** The versions of Spark whose internals this build knows: major and minor must be equal. */
  val SupportedSpark = "4.3"

  private[laneshift] val ListenerQueue = "laneshift"

  def checkVersion(version: String): Unit =
    if (version != SupportedSpark && !version.startsWith(SupportedSpark + "."))
      throw new SparkException(
        s"This laneshift ${BuildInfo.version} supports Apache Spark $SupportedSpark.x, but this is Spark $version. " +
          s"Run Spark $SupportedSpark.x, or remove ${classOf[LaneshiftPlugin].getName} from spark.plugins."
      )
}

private final class LaneshiftDriver extends DriverPlugin with Logging {
  private var state: Option[DriverState] = None

  override def init(sc: SparkContext, context: PluginContext): JMap[String, String] = {
    LaneshiftPlugin.checkVersion(sc.version)
    val conf = context.conf()
    LaneshiftConf.checkKeys(conf.getAll.map(_._1))
    val key = StaticSQLConf.SPARK_SESSION_EXTENSIONS.key
    val ours = classOf[LaneshiftExtensions].getName
    val extensions = conf.getOption(key).toSeq.flatMap(_.split(",")).map(_.trim).filter(_.nonEmpty)
    if (!extensions.contains(ours)) conf.set(key, (extensions :+ ours).mkString(","))
    val set = s"set $key=${conf.get(key)}" + chooseProvider(conf).fold("")(p => s" and $p")
    val logged = conf.get(EVENT_LOG_ENABLED)
    val driver = DriverState.start(event => if (logged) sc.listenerBus.post(event))
    state = Some(driver)
    // A queue of its own: Spark drops events of one that all share, and an executor that was lost would be asked for ever.
    Seq(driver.runs, driver.executors, driver.cluster).foreach(
      sc.listenerBus.addToQueue(_, LaneshiftPlugin.ListenerQueue)
    )
    sc.ui.foreach(LaneshiftTab.live(_, driver))
    ControlProcess.wanted(conf, driver.tenants).foreach(driver.start)
    logInfo(s"laneshift ${BuildInfo.version} on Spark ${sc.version}: $set")
    Collections.emptyMap()
  }

  /** Makes new queries keep their state in RocksDB, which they need to be elastic, unless somebody has chosen a provider. A
    * query with a checkpoint keeps the provider that is recorded there.
    */
  private def chooseProvider(conf: SparkConf): Option[String] = {
    val key = SQLConf.STATE_STORE_PROVIDER_CLASS.key
    if (conf.contains(key) || conf.get(LaneshiftConf.Enabled.key, "true").trim.equalsIgnoreCase("false")) None
    else {
      conf.set(key, classOf[RocksDBStateStoreProvider].getName)
      Some(s"$key=${conf.get(key)}")
    }
  }

  override def registerMetrics(appId: String, context: PluginContext): Unit =
    state.foreach(ApplicationMetrics.register(context.metricRegistry(), _))

  override def receive(message: AnyRef): AnyRef = message match {
    case hello: ExecutorHello =>
      state.foreach(_.executors.register(hello))
      java.lang.Boolean.TRUE
    case RememberPartition(key, index, memory) =>
      runOf(key).foreach(_.remember(key.operatorId, index, memory))
      null
    case press: PartitionPressed =>
      state.foreach(_.presses.heard(press))
      null
    case RecallPartition(key, index) => RpcBytes.of(runOf(key).flatMap(_.recall(key.operatorId, index)))
    case other => throw new IllegalArgumentException(s"a message that is none of laneshift's: $other")
  }

  /** None for one that has ended: what executors tell of it comes late. */
  private def runOf(key: OperatorKey): Option[Run] = state.flatMap(_.runs.get(key.runId))

  override def shutdown(): Unit = state.foreach(DriverState.stop)
}

private final class LaneshiftExecutor extends ExecutorPlugin {
  @volatile private var runtime = Option.empty[ElasticRuntime]

  override def init(context: PluginContext, extraConf: JMap[String, String]): Unit = {
    val env = SparkEnv.get.rpcEnv
    val runtime = ElasticRuntime.start(context.conf(), new PluginMemory(context))
    this.runtime = Some(runtime)
    RuntimeMetrics.registerExecutor(context.metricRegistry(), runtime)
    try {
      val ref = env.setupEndpoint(ExecutorEndpoint.Name, new ExecutorEndpoint(env, runtime))
      context.ask(ExecutorHello(context.executorID(), Utils.localHostName(), BuildInfo.version, ref))
    } catch {
      case e: Throwable =>
        ElasticRuntime.stop()
        throw e
    }
  }

  override def onTaskStart(): Unit = for {
    here <- runtime
    task <- Option(TaskContext.get())
  } {
    LaneCpu.tellAtEnd(task)
    here.cores.taskStarted(task)
    here.hostLanes.taskStarted(task)
  }

  override def shutdown(): Unit = {
    ElasticRuntime.stop()
    SourceRuns.forgetAll()
  }
}
