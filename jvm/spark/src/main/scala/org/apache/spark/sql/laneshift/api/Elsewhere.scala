package org.apache.spark.sql.laneshift.api

import scala.util.control.NonFatal

import org.json4s.{JArray, JInt, JObject, JString}
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.laneshift.driver.PartitionSite
import org.apache.spark.sql.laneshift.lane.HostAddress

/** Lanes that are wanted on other executors than a partition's own. */
private[api] object Elsewhere {

  /** Lanes by executor id, of a JSON object; an empty text leaves those that are wanted. */
  def read(json: String): Option[Map[String, Int]] =
    if (json == null || json.isEmpty) None
    else {
      val fields =
        try JsonMethods.parse(json) match {
            case JObject(fields) => fields
            case _ => Nil
          }
        catch { case NonFatal(_) => throw ApiError.elsewhereUnreadable(json) }
      val hosts = fields.map {
        case (id, JInt(lanes)) if lanes >= 0 && lanes <= Most => id -> lanes.toInt
        case _ => throw ApiError.elsewhereUnreadable(json)
      }
      Some(hosts.toMap.filter(_._2 > 0))
    }

  /** Executors by id, of a JSON array. */
  def names(json: String): Seq[String] =
    JsonMethods.parse(json) match {
      case JArray(ids) if ids.forall(_.isInstanceOf[JString]) => ids.collect { case JString(id) => id }
      case _ => throw ApiError.elsewhereUnreadable(json)
    }

  private val Most = 256

  /** Throws if the lanes cannot be there for each of these partitions. */
  def check(hosts: Map[String, Int], partitions: Seq[PartitionSite]): Unit = if (hosts.nonEmpty) {
    val driver = Inventory.driver
    val known = driver.executors.inventory().filterNot(_.leaving)
    hosts.foreach { case (id, lanes) =>
      val executor = known.find(_.id == id).getOrElse(throw ApiError.noSuchExecutor(id, known.map(_.id)))
      if (lanes > executor.cores) throw ApiError.moreLanesThanCores(id, lanes, executor.cores)
      partitions.find(_.executor.id == id).foreach(p => throw ApiError.executorIsHome(id, p.view.index))
    }
    partitions.foreach { p =>
      if (p.view.spec.lanesStayHome) throw ApiError.lanesStayHome(p.view.spec.key.operatorId)
      val most = p.view.spec.maxElsewhere
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
