package org.apache.spark.sql.laneshift.plan

import org.apache.spark.internal.Logging
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.laneshift.conf.LaneshiftConf
import org.apache.spark.sql.laneshift.driver.Run
import org.apache.spark.sql.laneshift.runtime.BatchLoad
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
  * could have, and as long as that has been measured to pay. What did not is tried again, less and less often.
  *
  * @param startup batches that do not count when it begins
  */
private[plan] final class SpreadTrial(startup: Int) {
  import SpreadTrial._

  private var on = false
  private var judged = -1L
  private var notBefore = 0L
  private var refusals = 0

  /** Rows per second that the hot partitions had before. */
  private var before = Map.empty[Int, Double]
  private var starting = 0
  private var proven = false
  private var cold = 0
  private var why = ""

  def isOn: Boolean = on

  /** Of the newest change. */
  def reason: String = why

  /** @param loads what partitions have told of the last batch for which they had something to tell */
  def decide(batchId: Long, loads: Map[Int, BatchLoad]): Boolean = {
    val news = loads.filter { case (_, load) => load.batchId > judged && load.isApart == on }
    if (news.nonEmpty) {
      judged = news.values.map(_.batchId).max
      if (on) judge(batchId, news)
      else if (batchId >= notBefore) begin(news)
    }
    on
  }

  private def begin(news: Map[Int, BatchLoad]): Unit = {
    val bound = news.filter(_._2.isBound)
    if (bound.nonEmpty) {
      before = bound.map { case (partition, load) => partition -> load.rowsPerSecond }
      starting = startup
      proven = false
      cold = 0
      val (partition, load) = bound.maxBy(_._2.hottest)
      change(
        to = true,
        f"a key has ${100 * load.hottest}%.0f %% of the work of partition $partition, whose lane is busy ${100 * load.busiest}%.0f %% of " +
          s"the time, and there could be ${load.lanes}: row-wise work above the state goes to any lane"
      )
    }
  }

  private def judge(batchId: Long, news: Map[Int, BatchLoad]): Unit = {
    val same = news.filter { case (partition, _) => before.contains(partition) }
    if (starting > 0) starting -= 1
    else if (!proven && same.nonEmpty) {
      val gain = same.values.map(_.rowsPerSecond).sum / same.keys.map(before).sum
      proven = gain >= Worth
      if (proven) refusals = 0
      else {
        notBefore = batchId + (FirstRest << math.min(refusals, Doublings))
        refusals += 1
        change(
          to = false,
          f"that brought $gain%.2f times the rows, which is not worth it: back to one lane for each key, until batch $notBefore"
        )
      }
    } else if (proven) {
      cold = if (news.values.exists(_.isNarrow)) 0 else cold + 1
      if (cold >= ColdBatches) change(to = false, "no key is hot any more: back to one lane for each key")
    }
  }

  private def change(to: Boolean, because: String): Unit = {
    on = to
    why = because
  }
}

private[plan] object SpreadTrial {

  /** Less of a gain than this is none. */
  val Worth = 1.1

  /** Batches until it is tried again after it did not pay; doubles each time, six times at most. */
  val FirstRest = 16L
  private val Doublings = 6

  /** Batches without a hot key after which it ends. */
  val ColdBatches = 3
}
