package org.apache.spark.sql.laneshift.conf

import org.apache.spark.internal.config.ConfigEntry
import org.apache.spark.sql.internal.SQLConf

/** Options of the control service, which programs on this and other machines reach. All are read when the application starts. */
object ControlConf {
  // Not by LaneshiftConf.Prefix: that object is made of this one's entries, whichever is asked for first.
  private val Prefix = "spark.sql.laneshift.control."
  private val Since = "0.1.0"

  /** What a port that is not set stands for: nothing listens. */
  val NoPort: Int = -1

  val Port: ConfigEntry[Int] = SQLConf
    .buildConf(Prefix + "port")
    .doc(
      "The port at which the driver's control process listens for `laneshift` and `laneshift.attach(\"HOST:PORT\")`; 0 for any " +
        "free one, -1 for none. The driver's log names the address and the file with its token."
    )
    .version(Since)
    .intConf
    .checkValue(p => p >= NoPort && p <= 65535, "allowed are 1 to 65535, 0 for any free port and -1 for none")
    .createWithDefault(NoPort)

  val Address: ConfigEntry[String] = SQLConf
    .buildConf(Prefix + "address")
    .doc(
      "The host name or IP address at which the control process listens: 127.0.0.1 lets only this machine in, 0.0.0.0 others, " +
        "too. Those need tls.certificate, or the token goes over the network as it is."
    )
    .version(Since)
    .stringConf
    .checkValue(_.matches("[A-Za-z0-9_.:\\[\\]%-]+"), "allowed is one host name or IP address")
    .createWithDefault("127.0.0.1")

  val Token: ConfigEntry[Option[String]] = SQLConf
    .buildConf(Prefix + "token")
    .doc(
      "The token that the control process asks for, 16 to 512 characters; tokenFile keeps it out of configurations. The driver " +
        "takes it out of its own. In a session of Spark Connect this is the session's own token."
    )
    .version(Since)
    .stringConf
    .checkValue(_.matches("[!-~]{16,512}"), "allowed are 16 to 512 printable characters without spaces")
    .createOptional

  val TokenFile: ConfigEntry[Option[String]] = SQLConf
    .buildConf(Prefix + "tokenFile")
    .doc(
      "A file on the driver's machine with the token, which only its owner may read; written with a new token if it is not " +
        "there. ~/.laneshift/driver-PID.token if neither this nor token is set. The address is written beside it, in FILE.address."
    )
    .version(Since)
    .stringConf
    .createOptional

  val Certificate: ConfigEntry[Option[String]] = SQLConf
    .buildConf(Prefix + "tls.certificate")
    .doc(
      "PEM file of the control process's certificate, and those of who signed it: with it and tls.key it speaks TLS."
    )
    .version(Since)
    .stringConf
    .createOptional

  val Key: ConfigEntry[Option[String]] = SQLConf
    .buildConf(Prefix + "tls.key")
    .doc("PEM file of the private key of tls.certificate.")
    .version(Since)
    .stringConf
    .createOptional

  val ClientCa: ConfigEntry[Option[String]] = SQLConf
    .buildConf(Prefix + "tls.clientCa")
    .doc(
      "PEM file of the certificates that clients' certificates must be signed by; without it clients need none."
    )
    .version(Since)
    .stringConf
    .createOptional

  val Tenants: ConfigEntry[String] = SQLConf
    .buildConf(Prefix + "tenants")
    .doc(
      "What a session of Spark Connect may see and steer with its own token: 'own' queries, or 'all' of the server. Who has the " +
        "control process's token always may steer all."
    )
    .version(Since)
    .stringConf
    .checkValues(Set("own", "all"))
    .createWithDefault("own")

  val all: Seq[ConfigEntry[_]] =
    Seq(Port, Address, Token, TokenFile, Certificate, Key, ClientCa, Tenants)
}
