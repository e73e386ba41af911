package org.apache.spark.sql.laneshift.plan

import org.apache.spark.internal.Logging
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.laneshift.conf.LaneshiftConf
import org.apache.spark.sql.laneshift.driver.Run
import org.apache.spark.sql.laneshift.runtime.{BatchLoad, Trial}
import org.apache.spark.sql.laneshift.spec.RowWork

/** Decides, as a batch is planned, whether the row-wise work above an operator's state goes apart from it. */
private[plan] final class Spreads(
    conf: SQLConf,
    val run: Run,
    batchId: Option[Long],
    limited: Boolean,
    realTime: Boolean
) extends Logging {
  private val wanted = conf.getConf(LaneshiftConf.HotKeysSpread)

  /** Where the work is of an operator of which it is not apart: `possible` if it could be. */
  def kept(possible: Boolean): RowWork =
    if (possible && !limited && wanted == "auto") RowWork.WithState else RowWork.Fixed

  def apply(operatorId: Long): Boolean = !limited && (wanted match {
    case "auto" => batchId.exists(batch => run.claimedApart(operatorId).getOrElse(decided(operatorId, batch)))
    case all => all == "true"
  })

  private def decided(operatorId: Long, batch: Long): Boolean = {
    // Where batches are short, the first one has threads and Python workers to start.
    val trial = run.trial(operatorId)(new SpreadTrial(if (realTime) 0 else 1))
    trial.synchronized {
      val before = trial.isOn
      val loads = run.batchLoads(operatorId)
      logDebug(s"Operator $operatorId of $run, batch $batch, apart $before: $loads")
      val now = trial.decide(batch, loads)
      if (now != before) {
        val said = s"Operator $operatorId of $run, from batch $batch on: ${trial.reason}"
        logInfo(said)
        run.note("hotKeys", said)
      }
      now
    }
  }
}

/** Whether one operator's row-wise work goes apart, batch by batch: once a hot key keeps a partition from using the lanes that it
  * could have, and as long as that has been measured to pay.
  *
  * @param startup batches that do not count when it begins
  */
private[plan] final class SpreadTrial(startup: Int) {
  import SpreadTrial._

  /** Held against the rows per second that the hot partitions had before. */
  private val trial = new Trial[Map[Int, Double]](startup, Trial.FirstRest)
  private var judged = -1L
  private var cold = 0
  private var why = ""

  def isOn: Boolean = trial.isRunning

  /** Of the newest change. */
  def reason: String = why

  /** @param loads what partitions have told of the last batch for which they had something to tell */
  def decide(batchId: Long, loads: Map[Int, BatchLoad]): Boolean = {
    val news = loads.filter { case (_, load) => load.batchId > judged && load.isApart == isOn }
    if (news.nonEmpty) {
      judged = news.values.map(_.batchId).max
      if (trial.isProven) look(news)
      else if (isOn) judge(batchId, news)
      else if (trial.mayBegin(batchId)) begin(batchId, news)
    }
    isOn
  }

  private def begin(batchId: Long, news: Map[Int, BatchLoad]): Unit = {
    val bound = news.filter(_._2.isBound)
    if (bound.nonEmpty) {
      trial.begin(batchId, bound.map { case (partition, load) => partition -> load.rowsPerSecond })
      cold = 0
      val (partition, load) = bound.maxBy(_._2.hottest)
      why =
        f"a key has ${100 * load.hottest}%.0f %% of the work of partition $partition, whose lane is busy ${100 * load.busiest}%.0f %% of " +
          s"the time, and there could be ${load.lanes}: row-wise work above the state goes to any lane"
    }
  }

  private def judge(batchId: Long, news: Map[Int, BatchLoad]): Unit = trial.before(judged).foreach { before =>
    val same = news.filter { case (partition, _) => before.contains(partition) }
    if (same.nonEmpty) {
      val gain = same.values.map(_.rowsPerSecond).sum / same.keys.map(before).sum
      if (gain >= Trial.Worth) trial.paid()
      else {
        val until = trial.refuse(batchId)
        why =
          f"that brought $gain%.2f times the rows, which is not worth it: back to one lane for each key, until batch $until"
      }
    }
  }

  private def look(news: Map[Int, BatchLoad]): Unit = {
    cold = if (news.values.exists(_.isNarrow)) 0 else cold + 1
    if (cold >= ColdBatches) {
      trial.end()
      why = "no key is hot any more: back to one lane for each key"
    }
  }
}

private[plan] object SpreadTrial {

  /** Batches without a hot key after which it ends. */
  val ColdBatches = 3
}
