package org.apache.spark.sql.laneshift.lane

import java.lang.management.ManagementFactory

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.laneshift.body.SharedPartition
import org.apache.spark.sql.laneshift.spec.HandoffMode

import laneshift.ids.LaneId
import laneshift.lane.{Remainder, Taken}

/** A lane fed by the inlet's queue. Its rows are asked for by the lane's thread, or by Python's writer where that reads ahead
  * (`spark.python.udf.pipelined.enabled`); the lane's own thread looks at what is volatile here.
  */
private[lane] final class QueuedLane(task: PartitionTask, override val lane: LaneId) extends FedLane {
  override val out = new LaneOutput(task.spec, task.putOut(lane, _))
  private val inlet = task.inlet
  private val restarts = task.spec.handoff == HandoffMode.MidBatchRestart
  private val ended = new Array[Boolean](task.spec.inputs.size)
  private var turn = 0
  private var reading = QueuedLane.Nothing
  private var block: UnsafeRowBlock = _
  private var at = 0
  private var ready = false
  private var noticedNs = 0L
  private var shard = 0
  @volatile private var restarting = false
  @volatile private var inputsLeft = ended.length

  /** What the body's operators do with a shard that leaves the process. */
  private var writers = List.empty[Int => Unit]
  private val load = if (task.spec.options.loadByCpu) new CpuSampler(task.home.cpuNs) else null

  override def currentShard: Int = shard
  override def isRestarting: Boolean = restarting
  override def inputsEnded: Boolean = inputsLeft == 0
  override val partition: Option[SharedPartition] = Some(task)

  override def perShard[T](operatorId: Long, write: T => Unit)(make: => T): IndexedSeq[T] = {
    val kept = task.perShard(operatorId, make)
    writers ::= (shard => write(kept(shard)))
    kept
  }

  override def flushOutputs(): Unit = out.flush()

  override def ownShards: Seq[Int] = {
    val owners = task.routing
    owners.indices.filter(owners(_) == lane.value)
  }

  override def input(index: Int): Iterator[InternalRow] = new Iterator[InternalRow] {
    private val fields = task.spec.inputs(index).fields
    private val row = new UnsafeRow(fields)

    override def hasNext: Boolean = !ended(index) && {
      if (reading != index) turnTo(index)
      ready || advance()
    }

    override def next(): InternalRow = {
      if (!hasNext) throw new NoSuchElementException("the lane's input has ended")
      ready = false
      block.read(at, row)
      shard = block.shardAt(at)
      at += 1
      if (load != null) load.next(shard)
      row
    }
  }

  private def turnTo(index: Int): Unit = {
    if (reading != QueuedLane.Nothing)
      throw new IllegalStateException(s"input $index is read before input $reading has ended")
    task.turns.ask(turn, index)
    reading = index
  }

  private def inputEnded(): Unit = {
    ended(reading) = true
    reading = QueuedLane.Nothing
    turn += 1
    inputsLeft -= 1
  }

  /** Rows that nobody asked for would be lost. */
  private def checkAllRead(): Unit = if (ended.length > 1 && ended.contains(false))
    throw new IllegalStateException(
      s"the lane's body has ended without reading input ${ended.indexOf(false)}"
    )

  /** Goes to the next row; on the way, between two rows, lets shards go that are wanted elsewhere. */
  private def advance(): Boolean = {
    var over = restarting
    while (!ready && !over)
      if (inlet.isRecalled(lane) && !task.spec.isFixed) {
        noticedNs = System.nanoTime()
        if (restarts) {
          restarting = true
          over = true
        } else letGo()
      } else if (block != null && at < block.size) {
        if (block.shardAt(at) < 0) at += 1 else ready = true
      } else {
        block = null
        out.inputWaits()
        val taken = inlet.take(lane)
        out.inputCame()
        taken match {
          case Taken.Rows(rows) =>
            block = rows.asInstanceOf[UnsafeRowBlock]
            at = 0
          case Taken.Recall => ()
          case Taken.NextInput | Taken.End =>
            inputEnded()
            over = true
        }
      }
    ready
  }

  /** The body has written everything: after a restart shards may go, and the next body goes on with the same rows. */
  override def bodyEnded(): Unit =
    if (restarting) {
      letGo()
      writers = Nil
      restarting = false
    } else {
      checkAllRead()
      out.flush()
    }

  override def done(): Unit = {
    inlet.left(lane)
    task.endScans.leave(lane)
    task.outlet.producerDone()
  }

  private def letGo(): Unit = {
    // On the same queue as all outputs, ahead of whatever the shards' next lanes will put out.
    out.flush()
    val going = inlet.recalls(lane)
    going.foreach(gone => if (gone.leaves) writers.foreach(write => write(gone.shard)))
    inlet.letGo(lane, Option(block).map(Remainder(_, at)).toSeq, noticedNs, going.map(_.shard))
  }
}

private object QueuedLane {

  /** The input that a lane reads before it asks for one and between two. */
  private val Nothing = -1
}

/** Attributes CPU time of this thread to shards, by timing every 16th row. */
private[lane] final class CpuSampler(cpuNs: Array[Long]) {
  private val threads = ManagementFactory.getThreadMXBean
  private var rows = 0
  private var sampled = -1
  private var since = 0L

  /** The row before is done; one of `shard` begins. */
  def next(shard: Int): Unit = {
    if (sampled >= 0) {
      cpuNs(sampled) += (threads.getCurrentThreadCpuTime - since) * CpuSampler.Every
      sampled = -1
    }
    rows += 1
    if (rows % CpuSampler.Every == 0) {
      sampled = shard
      since = threads.getCurrentThreadCpuTime
    }
  }
}

private object CpuSampler {
  private val Every = 16
}
