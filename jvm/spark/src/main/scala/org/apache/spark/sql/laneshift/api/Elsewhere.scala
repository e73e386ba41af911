package org.apache.spark.sql.laneshift.api

import org.apache.spark.sql.laneshift.driver.PartitionSite
import org.apache.spark.sql.laneshift.lane.HostAddress

/** Lanes that are wanted on other executors than a partition's own. */
private[api] object Elsewhere {

  /** Where each executor's lanes are reached. Throws if the lanes cannot be there for each of these partitions. */
  def addresses(wanted: Map[String, Int], partitions: Seq[PartitionSite]): Map[HostAddress, Int] = {
    val driver = Inventory.driver
    wanted.foreach { case (id, lanes) =>
      if (lanes < 0) throw ApiError.outOfRange(s"lanes on $id", lanes.toDouble)
    }
    val hosts = wanted.filter(_._2 > 0)
    lazy val known = driver.executors.inventory().filterNot(_.leaving)
    hosts.foreach { case (id, lanes) =>
      val executor = known.find(_.id == id).getOrElse(throw ApiError.noSuchExecutor(id, known.map(_.id)))
      if (lanes > executor.cores) throw ApiError.moreLanesThanCores(id, lanes, executor.cores)
      partitions.find(_.executor.id == id).foreach(p => throw ApiError.executorIsHome(id, p.view.index))
    }
    if (hosts.nonEmpty) partitions.foreach { p =>
      if (p.view.spec.lanesStayHome) throw ApiError.lanesStayHome(p.view.spec.key.operatorId)
      val most = p.view.spec.maxElsewhere
      if (hosts.values.sum > most) throw ApiError.tooManyElsewhere(hosts.values.sum, most)
    }
    hosts.map { case (id, lanes) =>
      driver.executors.hostAddress(id).getOrElse(throw ApiError.noSuchExecutor(id, known.map(_.id))) -> lanes
    }
  }
}
