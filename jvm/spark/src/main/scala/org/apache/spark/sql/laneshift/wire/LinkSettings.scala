package org.apache.spark.sql.laneshift.wire

import scala.util.Try

import org.apache.spark.{SecurityManager, SparkConf, SparkEnv}
import org.apache.spark.network.netty.{NettyBlockTransferService, SparkTransportConf}
import org.apache.spark.network.util.TransportConf
import org.apache.spark.sql.laneshift.conf.{BuildInfo, LaneshiftConf}

/** What the links of a process have in common. Here because Spark keeps its network's settings to itself.
  *
  * @param host
  *   what others reach this process by
  * @param bindAddress
  *   what its server binds to
  * @param timeoutMs
  *   how long nothing may be heard of the other end, and how long a connection may take to become a link
  * @param maxMessageBytes
  *   the largest message; an end that announces a larger one is not listened to any more
  */
final case class LinkSettings(
    conf: SparkConf,
    security: SecurityManager,
    host: String,
    bindAddress: String,
    applicationId: String,
    version: String = BuildInfo.version,
    timeoutMs: Long = 10000L,
    maxMessageBytes: Int = 64 << 20
) {
  val port: Int = conf.get(LaneshiftConf.RemotePort)

  /** Time between two pings, and two looks whether the other end has been heard. */
  private[wire] val beatMs: Long = math.max(1L, math.min(1000L, timeoutMs / 4))

  private[wire] val hello: Hello = Hello(version, applicationId)

  /** `spark.laneshift.io.*` are its options, and Spark's for all its connections (`spark.network.*`, `spark.ssl.rpc.*`). */
  private[wire] def transport: TransportConf = SparkTransportConf.fromSparkConf(
    conf,
    LinkSettings.Module,
    LinkSettings.Threads,
    sslOptions = Some(security.getRpcSSLOptions())
  )
}

object LinkSettings {
  private[wire] val Module = "laneshift"

  /** Network threads of a server, and of all connections made by a process. */
  private val Threads = 2

  /** Those of this process, once its block manager is there. */
  def of(env: SparkEnv): LinkSettings = {
    val host = env.blockManager.blockManagerId.host
    LinkSettings(env.conf, env.securityManager, host, bindAddressOf(env).getOrElse(host), env.conf.getAppId)
  }

  /** What Spark's block transfer binds to. An executor is told on its command line, and nothing else in it remembers. */
  private def bindAddressOf(env: SparkEnv): Option[String] = Try {
    val field = classOf[NettyBlockTransferService].getDeclaredField("bindAddress")
    field.setAccessible(true)
    field.get(env.blockManager.blockTransferService).asInstanceOf[String]
  }.toOption.filter(_ != null)
}

/** Where a server can be reached. */
final case class LinkAddress(host: String, port: Int) {
  override def toString: String = s"$host:$port"
}
