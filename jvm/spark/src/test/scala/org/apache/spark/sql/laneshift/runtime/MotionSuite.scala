package org.apache.spark.sql.laneshift.runtime

import java.util.UUID

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.laneshift.spec._

import laneshift.testing.LimitedSuite

class MotionSuite extends LimitedSuite {

  private def motion(seed: Long, partition: Int, batch: Long = 0L): Motion = {
    val options = ElasticOptions.from(new SQLConf)
      .copy(
        shards = 16,
        lanes = Some(3),
        maxLanes = 5,
        motion = MotionOptions("always", 0, tasks = false, seed, 2L)
      )
    val key = OperatorKey("query", UUID.randomUUID.toString, 0L)
    val spec =
      OperatorSpec(key, "", batch, realTime = false, HandoffMode.MidBatch, 2, options, Nil, 2)
    new Motion(spec, partition)
  }

  private def choices(motion: Motion): Seq[Any] = Seq.fill(50)((motion.lanes(), motion.moves(16, 3)))

  test("a seed's choices are the same in every run, and others for another partition, batch and seed") {
    assert(choices(motion(1L, 0)) == choices(motion(1L, 0)))
    val others = Seq(motion(1L, 0), motion(1L, 1), motion(1L, 0, batch = 1L), motion(2L, 0))
    assert(others.map(choices).distinct.size == others.size)
  }

  test("partitions choose each for itself, from the first choice on") {
    val changes = (1L to 2000L).map(seed => Seq(0, 1).map(motion(seed, _).lanes().isDefined))
    val (one, both) = (changes.count(_.head), changes.count(_.forall(identity)))
    assert(one > 140 && one < 260, "one in ten is meant")
    assert(both < 45, "one in a hundred is meant")
  }
}
