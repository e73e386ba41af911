package org.apache.spark.sql.laneshift

import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOpStateStoreCheckpointInfo
import org.apache.spark.sql.execution.streaming.state.SharedStateStore
import org.apache.spark.sql.laneshift.lane.CheckpointReports

import laneshift.testing.LimitedSuite

/** Four stores as a join has them, committed by whichever lane came last to each. */
class CheckpointReportsSuite extends LimitedSuite {
  private val mark = SharedStateStore.SealedMark

  private def report(ids: Seq[String], base: Option[Seq[String]]) =
    StatefulOpStateStoreCheckpointInfo(3, 8L, Some(ids.toArray), base.map(_.toArray))

  private def said(info: StatefulOpStateStoreCheckpointInfo) =
    (
      info.partitionId,
      info.batchVersion,
      info.stateStoreCkptId.map(_.toSeq),
      info.baseStateStoreCkptId.map(_.toSeq)
    )

  test("each store's id comes from the lane that committed it") {
    val lanes = Seq(
      report(Seq(mark, "b", mark, mark), Some(Seq(mark, "B", mark, mark))),
      report(Seq(mark, mark, mark, mark), Some(Seq(mark, mark, mark, mark))),
      report(Seq("a", mark, "c", "d"), Some(Seq("A", mark, "C", "D")))
    )
    lanes.permutations.foreach { order =>
      val all = CheckpointReports.together(order)
      assert(all.map(said).contains((3, 8L, Some(Seq("a", "b", "c", "d")), Some(Seq("A", "B", "C", "D")))))
    }
  }

  test("stores that begin have no base") {
    val lanes = Seq(report(Seq(mark, "b"), None), report(Seq("a", mark), None))
    assert(CheckpointReports.together(lanes).map(said).contains((3, 8L, Some(Seq("a", "b")), None)))
  }

  test("what nobody has committed is not reported") {
    assert(CheckpointReports.together(Seq(
      report(Seq(mark, "b"), None),
      report(Seq(mark, mark), None)
    )).isEmpty)
    assert(CheckpointReports.together(Nil).isEmpty)
  }
}
