package org.apache.spark.sql.laneshift.lane

import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOpStateStoreCheckpointInfo
import org.apache.spark.sql.execution.streaming.state.SharedStateStore

/** What the lanes of a partition report of one operator's checkpoint ids. A lane that has only sealed a store reports a mark in
  * place of its id; of a join's several stores, one lane may have committed one and another lane the next.
  */
private[laneshift] object CheckpointReports {
  private type Info = StatefulOpStateStoreCheckpointInfo

  /** Of each store the id from the lane that committed it; None where nobody has. */
  def together(reports: Seq[Info]): Option[Info] = reports.reduceOption(merge).filterNot(isMarked)

  def isMarked(info: Info): Boolean =
    (info.stateStoreCkptId.toSeq ++ info.baseStateStoreCkptId).exists(_.exists(isMark))

  private def merge(a: Info, b: Info): Info =
    a.copy(
      stateStoreCkptId = ids(a.stateStoreCkptId, b.stateStoreCkptId),
      baseStateStoreCkptId = ids(a.baseStateStoreCkptId, b.baseStateStoreCkptId)
    )

  private def ids(a: Option[Array[String]], b: Option[Array[String]]): Option[Array[String]] =
    for (x <- a; y <- b) yield x.zip(y).map { case (id, other) => if (isMark(id)) other else id }

  private def isMark(id: String): Boolean = id == SharedStateStore.SealedMark
}
