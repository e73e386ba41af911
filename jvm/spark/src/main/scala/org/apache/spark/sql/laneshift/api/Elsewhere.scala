package org.apache.spark.sql.laneshift.api

import scala.util.control.NonFatal

import org.json4s.{JInt, JObject}
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.laneshift.driver.PartitionSite
import org.apache.spark.sql.laneshift.lane.HostAddress

/** Lanes that are wanted on other executors than a partition's own. */
private[api] object Elsewhere {

  /** Lanes by executor id, of a JSON object; none of an empty text. */
  def read(json: String): Map[String, Int] =
    if (json == null || json.isEmpty) Map.empty
    else {
      val fields =
        try JsonMethods.parse(json) match {
            case JObject(fields) => fields
            case _ => Nil
          }
        catch { case NonFatal(_) => throw ApiError.elsewhereUnreadable(json) }
      fields.map {
        case (id, JInt(lanes)) if lanes >= 0 && lanes <= Most => id -> lanes.toInt
        case _ => throw ApiError.elsewhereUnreadable(json)
      }.toMap.filter(_._2 > 0)
    }

  private val Most = 256

  /** Throws if the lanes cannot be there for each of these partitions. */
  def check(hosts: Map[String, Int], partitions: Seq[PartitionSite]): Unit = if (hosts.nonEmpty) {
    val driver = Inventory.driver
    val known = driver.executors.inventory()
    hosts.foreach { case (id, lanes) =>
      val executor = known.find(_.id == id).getOrElse(throw ApiError.noSuchExecutor(id, known.map(_.id)))
      if (lanes > executor.cores) throw ApiError.moreLanesThanCores(id, lanes, executor.cores)
      partitions.find(_.executor.id == id).foreach(p => throw ApiError.executorIsHome(id, p.view.index))
    }
    partitions.foreach { p =>
      val most = p.view.spec.options.remoteLanes
      if (hosts.values.sum > most) throw ApiError.tooManyElsewhere(hosts.values.sum, most)
    }
  }

  def addresses(hosts: Map[String, Int]): Map[HostAddress, Int] = {
    val driver = Inventory.driver
    hosts.map { case (id, lanes) =>
      driver.executors.hostAddress(id).getOrElse(
        throw ApiError.noSuchExecutor(id, driver.executors.inventory().map(_.id))
      ) -> lanes
    }
  }
}
