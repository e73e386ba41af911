package org.apache.spark.sql.laneshift.driver

import java.nio.charset.StandardCharsets.UTF_8
import java.security.SecureRandom
import javax.crypto.Mac
import javax.crypto.spec.SecretKeySpec

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.laneshift.conf.ControlConf

/** Sessions of a Spark Connect server, each with a token of its own in its configuration.
  *
  * A token is `TENANT.SIGNATURE`; the control process, which knows the key, tells by it who calls. A session's streaming queries
  * run in clones of it, which have its configuration: a query is its tenant's whose token it finds there.
  */
private[laneshift] final class Tenants {
  val key: String = Tenants.random()

  /** Gives the session of that configuration a token unless it has one of ours. */
  def welcome(conf: SQLConf): Unit =
    if (of(conf).isEmpty) {
      val tenant = Tenants.random()
      conf.setConfString(ControlConf.Token.key, s"$tenant.${signed(tenant)}")
    }

  /** Whose session has that configuration, or has been cloned for a query; none if nobody's. */
  def of(conf: SQLConf): Option[String] =
    Option(conf.getConfString(ControlConf.Token.key, null)).flatMap { token =>
      val (tenant, signature) = token.splitAt(token.lastIndexOf('.').max(0))
      Some(tenant).filter(t => t.nonEmpty && signature == s".${signed(t)}")
    }

  private def signed(tenant: String): String = {
    val mac = Mac.getInstance("HmacSHA256")
    mac.init(new SecretKeySpec(key.getBytes(UTF_8), "HmacSHA256"))
    mac.doFinal(tenant.getBytes(UTF_8)).map("%02x".format(_)).mkString
  }
}

private[laneshift] object Tenants {
  private def random(): String = {
    val bytes = new Array[Byte](16)
    new SecureRandom().nextBytes(bytes)
    bytes.map("%02x".format(_)).mkString
  }
}
