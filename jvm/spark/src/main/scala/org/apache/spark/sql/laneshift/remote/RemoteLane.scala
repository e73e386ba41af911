package org.apache.spark.sql.laneshift.remote

import java.io.IOException
import java.nio.ByteBuffer
import java.util.concurrent.{LinkedBlockingQueue, TimeUnit}

import scala.util.control.NonFatal

import org.apache.spark.SparkException
import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.HomeStores
import org.apache.spark.sql.laneshift.lane.{HostAddress, PartitionTask, RemoteLaneView, UnsafeRowBlock}
import org.apache.spark.sql.laneshift.spec.HandoffMode
import org.apache.spark.sql.laneshift.wire.{Link, LinkListener, Links, RpcBytes}
import org.apache.spark.util.AccumulatorV2

import laneshift.ids.LaneId
import laneshift.lane.{HomeEnd, HostWire, RowBlock}

/** The home's end of a lane on another executor: one thread that opens the session, sends rows, applies frames, answers reads of
  * state, and gives the lane's shards to others when the host is lost (docs/handoff.md, section 11).
  */
private[remote] final class RemoteLane(
    task: PartitionTask,
    val id: LaneId,
    val host: HostAddress,
    opening: SessionOpening,
    links: => Links,
    traffic: RemoteTraffic,
    over: RemoteLane => Unit
) extends LinkListener
    with Logging {
  import RemoteLane._

  private val inbox = new LinkedBlockingQueue[Event]
  private val replays = task.spec.handoff == HandoffMode.MidBatch
  private val stores = new HomeStores(id, task)
  @volatile private var link: Link = _
  @volatile private var state: State = Opening

  /** The thread, while it may be waiting for the host's first answer. */
  private var opener: Thread = _
  @volatile private var released = false
  private var turn = 0
  private var counts = Seq.empty[AccumulatorV2[_, _]]
  @volatile private var kept, rows, frames, reads = 0L

  private val end = new HomeEnd[UnsafeRow](
    task.inlet,
    id,
    task.spec.options.remoteWindowBytes,
    readsAhead = !replays,
    new HostWire[UnsafeRow] {
      override def rows(first: Long, block: RowBlock[UnsafeRow]): Unit = {
        RemoteLane.this.rows += block.rows
        traffic.rowsSent.add(block.rows)
        send(ToHost.Rows(first, block.asInstanceOf[UnsafeRowBlock]))
      }
      override def nextInput(): Unit = send(ToHost.NextInput)
      override def arrived(shards: Seq[Int]): Unit = send(ToHost.Arrived(shards))
      override def recall(shards: Seq[Int], upTo: Long): Unit = send(ToHost.Recall(shards, upTo))
      override def end(): Unit = send(ToHost.End)
    }
  )

  def start(): Unit = task.threads.start(s"remote lane ${id.value} on executor ${host.executorId}")(run())

  /** What the body has counted over there. */
  def counted: Seq[AccumulatorV2[_, _]] = counts

  def isReleased: Boolean = released
  def isOpening: Boolean = state == Opening

  /** Its shards go to other lanes; then the session ends. */
  def release(): Unit = {
    released = true
    inbox.add(LookAgain)
    end.release()
  }

  /** A host that has not answered yet is not waited for any more. True if that is so. */
  def giveUpOpening(): Boolean = synchronized {
    val late = state == Opening
    if (late) {
      state = Over
      Option(opener).foreach(_.interrupt())
    }
    late
  }

  def stop(): Unit = inbox.add(Closed(None))

  def view: RemoteLaneView = {
    val to = link
    RemoteLaneView(
      id.value,
      host.executorId,
      state == Open,
      kept,
      rows,
      frames,
      reads,
      if (to == null) 0L else to.sentBytes,
      if (to == null) 0L else to.receivedBytes
    )
  }

  // ---- network threads

  override def received(message: ByteBuffer): Unit =
    tell(try Heard(Messages.toHome(message))
    catch { case error: IllegalArgumentException => Closed(Some(error)) })

  override def closed(cause: Option[Throwable]): Unit = tell(Closed(cause))

  private def tell(event: Event): Unit = {
    inbox.add(event)
    if (state == Open) end.poke()
  }

  // ---- the lane's thread

  private def send(message: ToHost): Unit = link.send(Messages.encode(message))

  private def run(): Unit =
    try
      if (open() && isOpened()) {
        task.outlet.addProducer()
        if (end.join()) {
          logInfo(s"Lane ${id.value} of partition ${task.home.index} works on $host.")
          if (released) end.release() else task.home.lanesChanged(task)
          work()
        }
        task.outlet.producerDone()
      }
    finally {
      state = Over
      stores.close()
      if (link != null) {
        link.close("the session is over")
        traffic.bytesSent.add(link.sentBytes)
        traffic.bytesReceived.add(link.receivedBytes)
      }
      over(this)
    }

  /** From here on nobody gives up the opening, or interrupts this thread for it. */
  private def isOpened(): Boolean = synchronized {
    opener = null
    if (state == Opening) state = Open
    Thread.interrupted()
    state == Open
  }

  /** True once the host is ready. Whatever else happens costs nothing: the partition goes on without the lane. */
  private def open(): Boolean =
    try {
      synchronized { if (state == Opening) opener = Thread.currentThread else throw new InterruptedException }
      link = links.connect(host.host, host.port, this)
      send(ToHost.Open(task.spec.key.queryId, RpcBytes.of(opening)))
      var answer = next()
      while (answer == LookAgain && !released || answer.isInstanceOf[Heard] && heardEarly(answer))
        answer = next()
      answer match {
        case Heard(ToHome.Ready) => true
        case Heard(ToHome.Refused(reason)) =>
          task.home.hostRefused(host, reason)
          false
        case Closed(cause) =>
          if (cause.isDefined) task.home.hostRefused(host, cause.get.getMessage)
          false
        case _ => false
      }
    } catch {
      case error @ (_: IOException | _: IllegalArgumentException) =>
        if (state == Opening && task.participants == 0) task.home.hostRefused(host, error.getMessage)
        false
      case _: InterruptedException if task.failure == null => false
    }

  /** Operators may read their stores before they read a row. */
  private def heardEarly(event: Event): Boolean = event match {
    case Heard(ToHome.Ask(request)) =>
      // The batch may end meanwhile, and its stores be committed: a lane that is not open yet has missed nothing.
      try answer(request)
      catch {
        case NonFatal(error) => throw new IOException(s"its stores are not open: ${error.getMessage}", error)
      }
      true
    case Heard(ToHome.Failed(error)) => throw HostError.read(error, host)
    case _ => false
  }

  private def next(): Event = {
    val event = inbox.poll(OpeningSeconds, TimeUnit.SECONDS)
    if (event == null) Closed(Some(new SparkException(s"it was not ready within $OpeningSeconds s")))
    else event
  }

  private def work(): Unit = {
    var goesOn = true
    while (goesOn && !end.isOver) {
      goesOn = handleAll()
      kept = end.keptBytes
      if (goesOn) end.turn()
    }
    while (goesOn) goesOn = handle(inbox.take())
    if (end.isOver) {
      end.leave()
      task.endScans.leave(id)
    }
  }

  private def handleAll(): Boolean = {
    var goesOn = true
    var event = inbox.poll()
    while (goesOn && event != null) {
      goesOn = handle(event)
      event = if (goesOn) inbox.poll() else null
    }
    goesOn
  }

  /** False if nothing more is to come. */
  private def handle(event: Event): Boolean = event match {
    case Heard(frame: ToHome.Frame) =>
      frames += 1
      traffic.frames.increment()
      stores.apply(frame.writes)
      if (frame.outputs != null && frame.outputs.size > 0) task.putOut(id, frame.outputs)
      end.covered(frame.covered, frame.answers)
      true
    case Heard(ToHome.Ask(request)) => answered(request)
    case Heard(ToHome.Reads(input)) =>
      task.turns.ask(turn, input)
      turn += 1
      true
    case Heard(ToHome.Done(counted)) =>
      if (!end.isOver) throw new SparkException(s"$host ends a session that goes on")
      counts =
        RpcBytes.read[Seq[AccumulatorV2[_, _]]](counted, Thread.currentThread.getContextClassLoader)
      false
    case Heard(ToHome.Failed(error)) => throw HostError.read(error, host)
    case Heard(other) => throw new SparkException(s"$host says $other in the middle of a session")
    case Closed(cause) =>
      lost(cause)
      false
    case LookAgain => true
  }

  /** A body may still begin while its lane ends, and home's stores are committed: it has missed nothing. */
  private def answered(request: Array[Byte]): Boolean =
    try {
      answer(request)
      true
    } catch { case NonFatal(_) if !isNeeded => false }

  private def answer(request: Array[Byte]): Unit = {
    reads += 1
    traffic.stateReads.increment()
    send(ToHost.Answer(stores.answer(request)))
  }

  /** Where nothing moves within a batch, the host has a part in its end. */
  private def isNeeded: Boolean = !end.isOver || task.spec.isFixed

  private def lost(cause: Option[Throwable]): Unit = if (isNeeded && task.failure == null) {
    val why = cause.fold("its connection was closed")(_.getMessage)
    val what = s"Lane ${id.value} of partition ${task.home.index} is lost with $host: $why."
    traffic.lostHosts.increment()
    task.home.hostLost(host, why)
    if (!replays) throw new SparkException(
      s"$what Its operators read rows ahead, so what it had worked on is not known: the task is to be run again.",
      cause.orNull
    )
    logWarning(s"$what Other lanes go on with its shards.")
    end.lost()
  }
}

private object RemoteLane {
  private val OpeningSeconds = 60L

  private sealed trait State
  private case object Opening extends State
  private case object Open extends State
  private case object Over extends State

  private sealed trait Event
  private final case class Heard(message: ToHome) extends Event

  /** The connection is closed or is to be; without a cause if that was wanted. */
  private final case class Closed(cause: Option[Throwable]) extends Event
  private case object LookAgain extends Event
}
