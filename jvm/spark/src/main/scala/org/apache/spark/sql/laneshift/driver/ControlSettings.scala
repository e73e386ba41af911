package org.apache.spark.sql.laneshift.driver

import java.net.{InetAddress, ServerSocket}
import java.util.{Map => JMap}

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.spark.SparkConf
import org.apache.spark.sql.laneshift.conf.ControlConf

/** What the control process is told of the control service. */
private[laneshift] object ControlSettings {

  /** None if no port is set. A port of 0 becomes a free one, which sessions of Spark Connect find in their configuration; the
    * token is taken out of it, since every session of a Connect server could read it there.
    */
  def taken(conf: SparkConf, tenants: Tenants): Option[JMap[String, Any]] = {
    val wanted = conf.get(ControlConf.Port)
    if (wanted == ControlConf.NoPort) None
    else {
      val address = conf.get(ControlConf.Address)
      val port = if (wanted == 0) freePort(address) else wanted
      conf.set(ControlConf.Port.key, port.toString)
      val token = conf.get(ControlConf.Token)
      conf.remove(ControlConf.Token.key)
      val settings = Map[String, Any](
        "port" -> port,
        "address" -> address,
        "token" -> token.getOrElse(""),
        "token_file" -> conf.get(ControlConf.TokenFile).getOrElse(""),
        "tls_certificate" -> conf.get(ControlConf.Certificate).getOrElse(""),
        "tls_key" -> conf.get(ControlConf.Key).getOrElse(""),
        "tls_client_ca" -> conf.get(ControlConf.ClientCa).getOrElse(""),
        "tenants" -> conf.get(ControlConf.Tenants),
        "tenant_key" -> tenants.key
      )
      Some(settings.asJava)
    }
  }

  /** One that is free now; the control process says so if it is taken meanwhile. */
  private def freePort(address: String): Int = Try {
    val socket = new ServerSocket(0, 1, InetAddress.getByName(address))
    try socket.getLocalPort
    finally socket.close()
  }.getOrElse(0)
}
