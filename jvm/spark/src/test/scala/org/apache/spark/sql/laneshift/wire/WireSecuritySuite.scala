package org.apache.spark.sql.laneshift.wire

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.ISO_8859_1
import java.nio.file.{Files, Path}
import java.util.concurrent.TimeUnit

import org.apache.spark.SparkEnv
import org.apache.spark.sql.laneshift.ElasticSession
import org.apache.spark.sql.laneshift.conf.LaneshiftConf

import laneshift.testing.{LimitedSuite, Spent}

/** Links are as safe as Spark's own connections are configured to be, and are where they are configured to be. */
class WireSecuritySuite extends LimitedSuite with ElasticSession {
  import WireTest._

  private val authenticated = Map("spark.authenticate" -> "true", "spark.authenticate.secret" -> "one secret")
  private val other = authenticated.updated("spark.authenticate.secret", "another")
  private val encrypted = authenticated + ("spark.network.crypto.enabled" -> "true")
  private val gcm = encrypted + ("spark.network.crypto.cipher" -> "AES/GCM/NoPadding")
  private val sasl = authenticated + ("spark.authenticate.enableSaslEncryption" -> "true")

  /** Whether a message came over as it is. */
  private def canBeRead(options: Map[String, String]): Boolean =
    withPair(settings(options), settings(options)) { (host, links) =>
      val tap = new Tap(host.address.port)
      try {
        val notes = new Notes
        val link = links.connect("localhost", tap.address.port, notes)
        val (back, backNotes) = host.next()
        val message = "a message that nobody else may read"
        (1 to 100).foreach { i =>
          link.send(bytes(s"$i: $message"))
          back.send(bytes(s"$i: $message" + "x" * (i * 1000)))
        }
        (1 to 100).foreach { i =>
          assert(backNotes.nextText() == s"$i: $message")
          assert(notes.nextText() == s"$i: $message" + "x" * (i * 1000))
        }
        Seq(link, back).foreach(_.send(ByteBuffer.allocate(1 << 20)))
        Seq(notes, backNotes).foreach(n =>
          assert(n.messages.poll(20, TimeUnit.SECONDS).remaining == (1 << 20))
        )
        link.close("done")
        assert(backNotes.cause.exists(_.isInstanceOf[LinkClosed]))
        new String(tap.bytes, ISO_8859_1).contains(message)
      } finally tap.close()
    }

  /** There is no link, at once, and the client's error says `why`. */
  private def refused(own: Map[String, String], theirs: Map[String, String], why: String): Unit =
    withPair(settings(own, timeoutMs = 60000), settings(theirs, timeoutMs = 60000)) { (host, links) =>
      val begin = System.nanoTime()
      val error = intercept[LinkException](links.connect("localhost", host.address.port, new Notes))
      assert(error.getMessage.contains(why))
      assert(System.nanoTime() - begin < 20000000000L, "it was not refused, but given up")
      assert(host.hasTakenNone)
      ()
    }

  test("nothing configured: messages can be read")(assert(canBeRead(Map.empty)))

  test("with the secret there is a link, without it none") {
    assert(canBeRead(authenticated))
    refused(authenticated, Map.empty, "authentication")
    refused(authenticated, other, "authentication")
    refused(Map.empty, authenticated, "authentication")
  }

  Seq("AES" -> encrypted, "AES, authenticated" -> gcm, "SASL" -> sasl).foreach { case (name, options) =>
    test(s"encrypted by $name: messages cannot be read, and without the secret there is no link") {
      assert(!canBeRead(options))
      refused(options, Map.empty, "")
      refused(options, options.updated("spark.authenticate.secret", "another"), "authentication")
    }

    test(s"encrypted by $name: a stranger is closed, a frame of 2 GB is none") {
      Seq(Array[Byte](0, 0, 0, 0, -128, 0, 0, 0, 3), "GET / HTTP/1.1\r\n\r\n".getBytes).foreach { sent =>
        withPair(settings(options, timeoutMs = 60000), settings(options)) { (host, _) =>
          withStranger(host.address) { socket =>
            socket.getOutputStream.write(sent)
            assert(readToEnd(socket).isEmpty)
          }
          withStranger(host.address) { socket =>
            socket.getOutputStream.write(frame(request(settings().hello.encode)))
            readToEnd(socket)
          }
          assert(host.hasTakenNone)
        }
      }
    }
  }

  private def keytool(arguments: String*): Unit = {
    val tool = Path.of(System.getProperty("java.home"), "bin", "keytool")
    assume(Files.isExecutable(tool), "there is no keytool")
    Spent.one("processes")
    val process = new ProcessBuilder((tool.toString +: arguments): _*).redirectErrorStream(true).start()
    val said = new String(process.getInputStream.readAllBytes())
    assert(process.waitFor() == 0, said)
  }

  private def tls(folder: Path, name: String): Map[String, String] = {
    val store = folder.resolve(s"$name.jks").toString
    keytool(
      Seq("-genkeypair", "-alias", name, "-keyalg", "RSA", "-keysize", "2048", "-validity", "2") ++
        Seq("-dname", "CN=localhost", "-storetype", "JKS", "-keystore", store) ++
        Seq("-storepass", "password", "-keypass", "password"): _*
    )
    Map(
      "enabled" -> "true",
      "protocol" -> "TLSv1.3",
      "keyStore" -> store,
      "keyStorePassword" -> "password",
      "keyPassword" -> "password",
      "trustStore" -> store,
      "trustStorePassword" -> "password"
    ).map { case (k, v) => s"spark.ssl.rpc.$k" -> v }
  }

  test("TLS: messages cannot be read; neither plain ends nor other certificates are let in") {
    withFolder { folder =>
      val (own, theirs) = (tls(folder, "own"), tls(folder, "theirs"))
      assert(!canBeRead(own))
      assert(!canBeRead(own ++ authenticated))
      withPair(settings(own, timeoutMs = 2000), settings(timeoutMs = 2000)) { (host, links) =>
        intercept[LinkException](links.connect("localhost", host.address.port, new Notes))
        assert(host.hasTakenNone)
      }
      refused(own, theirs, "SSLHandshakeException")
      withPair(settings(own, timeoutMs = 1000), settings(own)) { (host, _) =>
        Seq(Array.emptyByteArray, "GET / HTTP/1.1\r\n\r\n".getBytes).foreach { sent =>
          withStranger(host.address) { socket =>
            socket.getOutputStream.write(sent)
            readToEnd(socket)
          }
        }
        assert(host.hasTakenNone)
      }
    }
  }

  private def onPort(port: Int, retries: Int): LinkSettings =
    settings(Map(LaneshiftConf.RemotePort.key -> port.toString, "spark.port.maxRetries" -> retries.toString))

  test(
    "a port that is taken: the next ones are tried, then there is an error that names option and port"
  ) {
    val first = new Host(settings())
    val taken = first.address.port
    val second = new Host(onPort(taken, 20))
    val third = new Host(onPort(taken, 0))
    try {
      assert(second.address.port > taken && second.address.port <= taken + 20)
      val error = intercept[LinkException](third.address)
      Seq(LaneshiftConf.RemotePort.key, taken.toString, "spark.port.maxRetries", "127.0.0.1").foreach(part =>
        assert(error.getMessage.contains(part), error.getMessage)
      )
      assert(
        intercept[LinkException](third.address).getMessage == error.getMessage,
        "it can be asked again"
      )
    } finally Seq(first, second, third).foreach(_.close())
  }

  Seq("80", "65536", "-1", "many").foreach { port =>
    test(s"port $port is refused, with what is allowed") {
      val error = intercept[IllegalArgumentException](settings(Map(LaneshiftConf.RemotePort.key -> port)))
      Seq(LaneshiftConf.RemotePort.key, port, "1024 to 65535").foreach(part =>
        assert(error.getMessage.contains(part), error.getMessage)
      )
    }
  }

  test("a Spark application's settings are its own: host, bind address, application") {
    val context = spark.sparkContext
    val of = LinkSettings.of(SparkEnv.get)
    assert(of.host == SparkEnv.get.blockManager.blockManagerId.host)
    assert(of.bindAddress == context.getConf.get("spark.driver.bindAddress", of.host))
    assert(of.applicationId == context.applicationId)
    withPair(of, of) { (host, links) =>
      links.connect(host.address.host, host.address.port, new Notes).send(bytes("hello"))
      assert(host.next()._2.nextText() == "hello")
    }
  }
}
