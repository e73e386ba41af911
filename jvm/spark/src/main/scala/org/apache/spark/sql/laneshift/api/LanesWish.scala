package org.apache.spark.sql.laneshift.api

import org.json4s.{JArray, JInt, JNothing, JNull, JString, JValue}
import org.json4s.jackson.JsonMethods

/** Lanes that are wanted of one partition: at home, and how many more on which other executors; none leaves those that are wanted. */
private[api] final case class LanesWish(
    query: String,
    operator: Long,
    partition: Int,
    lanes: Int,
    elsewhere: Option[Map[String, Int]]
)

private[api] object LanesWish {

  /** Of a JSON array. */
  def read(json: String): Seq[LanesWish] = JsonMethods.parse(json) match {
    case JArray(wishes) => wishes.map(one)
    case _ => throw new IllegalArgumentException("Wishes are a JSON array")
  }

  private def one(wish: JValue): LanesWish =
    (wish \ "query", wish \ "operator", wish \ "partition", wish \ "lanes") match {
      case (JString(query), JInt(operator), JInt(partition), JInt(lanes)) =>
        val elsewhere = wish \ "elsewhere" match {
          case JNothing | JNull => None
          case hosts => Elsewhere.read(JsonMethods.compact(hosts))
        }
        LanesWish(query, operator.toLong, partition.toInt, lanes.toInt, elsewhere)
      case _ => throw new IllegalArgumentException(s"No wish: ${JsonMethods.compact(wish)}")
    }
}
