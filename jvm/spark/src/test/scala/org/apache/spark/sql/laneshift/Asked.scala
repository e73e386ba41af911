package org.apache.spark.sql.laneshift

import java.util.Base64

import scala.jdk.CollectionConverters._

import org.sparkproject.spark_core.protobuf.Message

import org.apache.spark.sql.laneshift.api.LaneshiftGateway
import org.apache.spark.sql.laneshift.proto.{ControlMessages => pb}

/** The gateway as Python asks it. */
object Asked {
  def apply(method: String, request: Message): pb.Answer =
    pb.Answer.parseFrom(
      Base64.getDecoder.decode(
        LaneshiftGateway.ask(method, Base64.getEncoder.encodeToString(request.toByteArray))
      )
    )

  def snapshot(known: Long = 0L): pb.SnapshotReply =
    pb.SnapshotReply.parseFrom(Asked(
      "Snapshot",
      pb.SnapshotRequest.newBuilder().setKnown(known).build()
    ).getReply)

  /** What operators say of work above their state. */
  def above(): Set[pb.Operator.RowWork] =
    snapshot().getQueriesList.asScala.flatMap(_.getOperatorsList.asScala).map(_.getAbove).toSet

  def wish(query: String, partition: Option[Int], lanes: Int, operator: Long = 0L): pb.LanesWish.Builder = {
    val wish = pb.LanesWish.newBuilder().setQuery(query).setOperator(operator).setLanes(lanes)
    partition.foreach(wish.setPartition)
    wish
  }

  /** What comes of each wish. */
  def lanes(wishes: pb.LanesWish.Builder*): Seq[pb.Outcome] = {
    val request = pb.SetLanesRequest.newBuilder()
    wishes.foreach(request.addWishes(_))
    outcomes(Asked("SetLanes", request.build()))
  }

  def move(query: String, partition: Int, shard: Int, lane: Int): pb.Outcome = {
    val wish =
      pb.MoveWish.newBuilder().setQuery(query).setPartition(partition).setShard(shard).setToLane(lane)
    outcomes(Asked("Move", pb.MoveRequest.newBuilder().addWishes(wish).build())).head
  }

  def tasks(wishes: (String, Long, String)*): Seq[pb.Outcome] = {
    val request = pb.SetTasksRequest.newBuilder()
    wishes.foreach { case (query, operator, tasks) =>
      request.addWishes(pb.TasksWish.newBuilder().setQuery(query).setOperator(operator).setTasks(tasks))
    }
    outcomes(Asked("SetTasks", request.build()))
  }

  private def outcomes(answer: pb.Answer): Seq[pb.Outcome] =
    pb.OutcomesReply.parseFrom(answer.getReply).getOutcomesList.asScala.toSeq
}
