package org.apache.spark.sql.laneshift.driver

import java.util.IdentityHashMap

import org.apache.spark.sql.laneshift.proto.{ControlMessages => pb}
import org.apache.spark.sql.laneshift.runtime.PartitionView

/** The newest snapshot, so that what has not changed is neither written nor told again. Any thread may call. */
private[laneshift] final class SnapshotMemory {
  private var messages = new IdentityHashMap[PartitionView, pb.Partition]
  private var number = 0L
  private var content = pb.SnapshotReply.getDefaultInstance

  /** The message of each partition of a snapshot: the same again for what an executor says again ([[KnownViews]]). */
  def partitions(sites: Seq[PartitionSite])(write: PartitionSite => pb.Partition)
      : PartitionSite => pb.Partition =
    synchronized {
      val found = new IdentityHashMap[PartitionView, pb.Partition]
      sites.foreach { site =>
        val known = messages.get(site.view)
        found.put(site.view, if (known == null) write(site) else known)
      }
      messages = found
      site => found.get(site.view)
    }

  /** The number of what a snapshot says, without its times, from 1 on: one that says what the one before said has its number. */
  def number(said: pb.SnapshotReply): Long = synchronized {
    if (number == 0L || content != said) {
      number += 1
      content = said
    }
    number
  }
}
