package org.apache.spark.sql.laneshift.wire

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInputStream, DataOutputStream, IOException}
import java.nio.ByteBuffer

import org.apache.spark.network.util.JavaUtils

/** The first message on a connection, from either end: who speaks. With a refusal, why the two do not go together. */
private[wire] final case class Hello(version: String, applicationId: String, refusal: String = "") {

  def encode: ByteBuffer = {
    val bytes = new ByteArrayOutputStream
    val out = new DataOutputStream(bytes)
    out.writeInt(Hello.Magic)
    out.writeInt(Hello.Protocol)
    Seq(version, applicationId, refusal).foreach(out.writeUTF)
    ByteBuffer.wrap(bytes.toByteArray)
  }

  /** What keeps this end from talking to the other. */
  def objection(other: Hello): Option[String] =
    if (other.refusal.nonEmpty) Some(other.refusal)
    else if (other.version != version)
      Some(s"laneshift ${other.version} is there, and $version here: all executors need the same jar")
    else if (other.applicationId != applicationId) Some("it belongs to another application")
    else None
}

private[wire] object Hello {

  /** "lane" */
  val Magic = 0x6c616e65

  /** To be raised with every change of what ends say to each other. */
  val Protocol = 1

  /** Says nothing else of this end. */
  def refusing(reason: String): Hello = Hello("", "", reason)

  /** What was said, or what is wrong with it. */
  def decode(message: ByteBuffer): Either[NoHello, Hello] =
    try {
      val bytes = new ByteArrayInputStream(JavaUtils.bufferToArray(message))
      val in = new DataInputStream(bytes)
      if (in.readInt() != Magic) Left(NoHello("it is no executor of laneshift", isOurs = false))
      else {
        val protocol = in.readInt()
        if (protocol != Protocol)
          Left(NoHello(s"its protocol is $protocol, and $Protocol here", isOurs = true))
        else {
          val hello = Hello(in.readUTF(), in.readUTF(), in.readUTF())
          if (bytes.available() == 0) Right(hello) else Left(NoHello("its hello is too long", isOurs = true))
        }
      }
    } catch { case _: IOException => Left(NoHello("its hello is cut off", isOurs = false)) }
}

/** Why a first message is no hello; `isOurs` if it is laneshift that speaks, and would know an answer. */
private[wire] final case class NoHello(reason: String, isOurs: Boolean)
