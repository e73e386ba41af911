package org.apache.spark.sql.laneshift.driver

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkConf
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.laneshift.conf.ControlConf

import laneshift.testing.LimitedSuite

class ControlSuite extends LimitedSuite {
  private val Given = "a-token-that-was-given"

  private def tokenOf(conf: SQLConf): String = conf.getConfString(ControlConf.Token.key)

  test("a session has a token of its own, and its queries are its tenant's") {
    val tenants = new Tenants
    val (one, other) = (new SQLConf, new SQLConf)
    Seq(one, other).foreach(tenants.welcome)
    assert(tokenOf(one) != tokenOf(other))
    val first = tokenOf(one)
    tenants.welcome(one)
    assert(tokenOf(one) == first)
    assert(tenants.of(one.clone()).contains(first.takeWhile(_ != '.')))
    assert(tenants.of(one) != tenants.of(other))
    assert(tenants.of(new SQLConf).isEmpty)
  }

  test("nobody's token is no tenant's") {
    val tenants = new Tenants
    val conf = new SQLConf
    tenants.welcome(conf)
    val forged = Seq(Given, tokenOf(conf).dropRight(1) + "!", "x" + tokenOf(conf), "." + "0" * 64)
    forged.foreach { token =>
      conf.setConfString(ControlConf.Token.key, token)
      assert(tenants.of(conf).isEmpty, token)
      tenants.welcome(conf)
      assert(tokenOf(conf) != token)
    }
    val elsewhere = new SQLConf
    new Tenants().welcome(elsewhere)
    assert(tenants.of(elsewhere).isEmpty)
  }

  test("the control process is told all, and the configuration keeps the port but not the token") {
    val tenants = new Tenants
    val conf = new SparkConf(false).set(ControlConf.Port.key, "0").set(ControlConf.Token.key, Given)
    val settings = ControlSettings.taken(conf, tenants).get.asScala
    assert(!conf.contains(ControlConf.Token.key))
    assert(settings("token") == Given)
    assert(settings("tenant_key") == tenants.key)
    assert(settings("address") == "127.0.0.1")
    assert(settings("tenants") == "own")
    val port = settings("port").asInstanceOf[Int]
    assert(port > 0 && conf.get(ControlConf.Port) == port)
  }

  test("nothing listens unless a port is set") {
    assert(ControlSettings.taken(new SparkConf(false), new Tenants).isEmpty)
    assert(ControlProcess.wanted(new SparkConf(false), new Tenants).isEmpty)
    val asked = new SparkConf(false).set(ControlConf.Port.key, "15010")
    assert(ControlProcess.wanted(asked, new Tenants).nonEmpty)
  }

  Seq(
    "port" -> "70000",
    "port" -> "-2",
    "address" -> "two words",
    "token" -> "short",
    "tenants" -> "some"
  ).foreach {
    case (name, value) =>
      test(s"$name=$value is refused") {
        val key = ControlConf.Port.key.stripSuffix("port") + name
        intercept[IllegalArgumentException](new SQLConf().setConfString(key, value))
      }
  }
}
