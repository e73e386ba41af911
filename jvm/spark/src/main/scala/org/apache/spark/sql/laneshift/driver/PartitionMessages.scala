package org.apache.spark.sql.laneshift.driver

import java.util.IdentityHashMap

import org.apache.spark.sql.laneshift.runtime.PartitionView

/** The message of each partition in the newest snapshot: the same again for what an executor says again ([[KnownViews]]). */
private[laneshift] final class PartitionMessages {
  private var newest = new IdentityHashMap[PartitionView, Array[Byte]]

  /** Of all partitions of a snapshot. */
  def of(sites: Seq[PartitionSite])(write: PartitionSite => Array[Byte]): PartitionSite => Array[Byte] =
    synchronized {
      val found = new IdentityHashMap[PartitionView, Array[Byte]]
      sites.foreach { site =>
        val known = newest.get(site.view)
        found.put(site.view, if (known == null) write(site) else known)
      }
      newest = found
      site => found.get(site.view)
    }
}
