package org.apache.spark.sql.laneshift.api

import scala.jdk.CollectionConverters._

import org.json4s._
import org.sparkproject.spark_core.protobuf.{Descriptors, MapEntry, Message}

/** A message as protobuf's own JSON has it, with the fields' names of the proto file. What is not there has no name, and numbers of
  * 64 bits are numbers.
  */
private[api] object MessageJson {
  import Descriptors.FieldDescriptor

  def apply(message: Message): JObject = JObject(
    message.getDescriptorForType.getFields.asScala.toList
      .filter(field => !field.hasPresence || message.hasField(field))
      .map(field => field.getName -> value(field, message.getField(field)))
  )

  private def value(field: FieldDescriptor, value: Any): JValue = value match {
    case many: java.util.List[_] if field.isMapField =>
      JObject(many.asScala.toList.collect {
        case entry: MapEntry[_, _] =>
          entry.getKey.toString -> this.value(field.getMessageType.findFieldByName("value"), entry.getValue)
      })
    case many: java.util.List[_] => JArray(many.asScala.toList.map(this.value(field, _)))
    case message: Message => apply(message)
    case choice: Descriptors.EnumValueDescriptor => JString(choice.getName)
    case text: String => JString(text)
    case yes: Boolean => JBool(yes)
    case number: Int => JLong(number.toLong)
    case number: Long => JLong(number)
    case number: Double => if (number.isFinite) JDouble(number) else JString(number.toString)
    case other => throw new IllegalArgumentException(s"${other.getClass.getName} has no form in JSON")
  }
}
