package org.apache.spark.sql.laneshift.api

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Using

/** A field of a message: its `kind` is a scalar's or the name of a message; an `optional` one that is nothing is told from one that
  * is there and is zero.
  */
private[api] final case class ProtoField(number: Int, kind: String, repeated: Boolean, optional: Boolean)

/** The messages of a `.proto` file by their names, each with its fields by theirs: of what control.proto needs, a line for each field
  * and nothing nested. Maps are left out; only requests have some.
  */
private[api] final class ProtoFile(text: String) {
  import ProtoFile._

  private val messages: Map[String, Map[String, ProtoField]] = {
    val found = Map.newBuilder[String, Map[String, ProtoField]]
    var open = Option.empty[(String, Map[String, ProtoField])]
    text.linesIterator.foreach {
      case Message(name, end) =>
        if (end == null) open = Some(name -> Map.empty) else found += name -> Map.empty
      case Field(label, kind, name, number) =>
        open = open.map { case (message, fields) =>
          val field = ProtoField(number.toInt, kind, label == "repeated", label == "optional")
          message -> fields.updated(name, field)
        }
      case End() =>
        open.foreach(found += _)
        open = None
      case _ => ()
    }
    found.result()
  }

  def fields(message: String): Map[String, ProtoField] =
    messages.getOrElse(message, throw new IllegalArgumentException(s"no message $message in the proto file"))
}

private[api] object ProtoFile {
  private val Message = """message (\w+) \{(\})?\s*""".r
  private val Field = """\s+(?:(repeated|optional) )?(\w+) (\w+) = (\d+);.*""".r
  private val End = """\}\s*""".r

  /** The control service's, which the build puts into the jar. */
  lazy val control: ProtoFile = new ProtoFile(
    Using.resource(getClass.getResourceAsStream("/laneshift/control.proto"))(in =>
      new String(in.readAllBytes(), UTF_8)
    )
  )
}
