package org.apache.spark.sql.laneshift.conf

/** Options of the control service, which programs on this and other machines reach. All are read when the application starts. */
object ControlConf extends OptionGroup(OptionGroup.Root + "control.") {

  /** What a port that is not set stands for: nothing listens. */
  val NoPort: Int = -1

  private val Pem = "PEM, as openssl writes it; a certificate and its key go together."

  val Port =
    whole(
      "port",
      1,
      65535,
      NoPort,
      "The driver's log names the address and the file with the token.",
      0 -> "for any free port",
      NoPort -> "for none"
    )(
      "The port at which the driver's control process listens for `laneshift` and `laneshift.attach(\"HOST:PORT\")`; 0 for any " +
        "free one, -1 for none. The driver's log names the address and the file with its token."
    )

  val Address =
    text(
      "address",
      Values.Text("[A-Za-z0-9_.:\\[\\]%-]+", "one host name or IP address"),
      "127.0.0.1",
      "127.0.0.1 lets only this machine in, 0.0.0.0 others, too."
    )(
      "The host name or IP address at which the control process listens: 127.0.0.1 lets only this machine in, 0.0.0.0 others, " +
        "too. Those need tls.certificate, or the token goes over the network as it is."
    )

  val Token =
    maybe(
      "token",
      Values.Text("[!-~]{16,512}", "16 to 512 printable characters without spaces"),
      "Leave it out: one is generated, into a file that only its owner can read.",
      isSecret = true
    )(
      "The token that the control process asks for, 16 to 512 characters; tokenFile keeps it out of configurations. The driver " +
        "takes it out of its own. In a session of Spark Connect this is the session's own token."
    )

  val TokenFile =
    maybe("tokenFile", Values.File, "Or leave it out.")(
      "A file on the driver's machine with the token, which only its owner may read; written with a new token if it is not " +
        "there. ~/.laneshift/driver-HOST-PID.token if neither this nor token is set. The address is written beside it, in FILE.address."
    )

  val Certificate =
    maybe("tls.certificate", Values.File, Pem)(
      "PEM file of the control process's certificate, and those of who signed it: with it and tls.key it speaks TLS."
    )

  val Key =
    maybe("tls.key", Values.File, Pem)(
      "PEM file of the private key of tls.certificate."
    )

  val ClientCa =
    maybe("tls.clientCa", Values.File, Pem)(
      "PEM file of the certificates that clients' certificates must be signed by; without it clients need none."
    )

  val Tenants =
    oneOf("own", "all")("tenants", "own", "It is for sessions of a Spark Connect server.")(
      "What a session of Spark Connect may see and steer with its own token: 'own' queries, or 'all' of the server. Who has the " +
        "control process's token always may steer all."
    )
}
