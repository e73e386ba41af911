package org.apache.spark.sql.laneshift.remote

import java.nio.ByteBuffer
import java.util.concurrent.LinkedBlockingQueue

import scala.util.control.NonFatal

import org.apache.spark.Partition
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.{HostStores, StateStoreTracking}
import org.apache.spark.sql.laneshift.body.{LaneContext, RemoteState, SharedPartition}
import org.apache.spark.sql.laneshift.lane.{LaneAccumulators, LaneBody, LaneTaskContext, UnsafeRowBlock}
import org.apache.spark.sql.laneshift.spec.HandoffMode
import org.apache.spark.sql.laneshift.wire.{Link, LinkListener, RpcBytes}
import org.apache.spark.util.UninterruptibleThread

import laneshift.ids.LaneId
import laneshift.lane.HostEnd

/** A lane that works here for a partition whose home is another executor: runs the body over the rows that home sends, under a
  * task context of its own, reads state at home, and sends what follows from the rows in frames (docs/handoff.md, section 11).
  *
  * One thread runs the body; the network's only puts messages into the inbox.
  *
  * @param loaderOf the class loader of a query's tasks here
  */
private[remote] final class HostLane(
    link: Link,
    loaderOf: String => ClassLoader,
    admit: () => Option[String],
    over: HostLane => Unit
) extends LinkListener {
  private val inbox = new LinkedBlockingQueue[HostLane.Event]

  /** Whoever asks is not the one who waits for rows. */
  private val answers = new LinkedBlockingQueue[HostLane.Event]

  @volatile private var thread: Thread = _

  /** The run for which it works; none if it never began. */
  @volatile private[remote] var runId = Option.empty[String]

  @volatile private var isClosed = false

  // ---- network threads

  override def received(message: ByteBuffer): Unit =
    try
      Messages.toHost(message) match {
        case ToHost.Open(query, session) => open(session, loaderOf(query))
        case answer: ToHost.Answer => answers.add(HostLane.Heard(answer))
        case other => inbox.add(HostLane.Heard(other))
      }
    catch {
      case error: IllegalArgumentException => link.close(error.getMessage)
    }

  /** Whoever waits now, and whoever asks later, hears of it. */
  override def closed(cause: Option[Throwable]): Unit = {
    isClosed = true
    Seq(inbox, answers).foreach(_.add(HostLane.Closed))
  }

  private def open(session: Array[Byte], loader: ClassLoader): Unit = synchronized {
    if (thread != null) link.close("a session is opened twice")
    else {
      val own = new UninterruptibleThread(() => run(session, loader), s"laneshift host lane for ${link.peer}")
      own.setDaemon(true)
      own.setContextClassLoader(loader)
      try {
        own.start()
        thread = own
      } catch {
        // The network's thread is not ours to end.
        case error: OutOfMemoryError => link.close(s"there is no thread for a lane: ${error.getMessage}")
      }
    }
  }

  def cut(): Unit = link.close("cut by a test")

  /** The lane has been told to end, and has not: a body may be waiting for something else. */
  def interrupt(): Unit = Option(thread).foreach(_.interrupt())

  def hasBegun: Boolean = thread != null

  // ---- the lane's thread

  private def run(session: Array[Byte], loader: ClassLoader): Unit =
    try
      admit() match {
        case Some(reason) => send(ToHome.Refused(reason))
        case None =>
          val opening =
            try Right(RpcBytes.read[SessionOpening](session, loader))
            catch { case error @ (_: Exception | _: LinkageError) => Left(error) }
          opening match {
            case Left(error) => send(ToHome.Refused(s"the lane's body cannot be read there: $error"))
            case Right(found) =>
              runId = Some(found.spec.key.runId)
              new Body(found, loader).run()
          }
      }
    catch {
      case HostLane.Ended => ()
      case _: InterruptedException => ()
      // What would end this executor ends it, as in a task of its own.
      case error: Throwable if !HostError.isFatal(error) => link.close(s"the lane has failed: $error")
    } finally over(this)

  private def send(message: ToHome): Unit = link.send(Messages.encode(message))

  /** The lane's rows through the operators. Where shards move within a batch, its end is a lane restart: home finishes the batch.
    * Otherwise the lane goes on to the batch's end, and reads, scans and seals home's stores as a lane there does.
    */
  private final class Body(opening: SessionOpening, loader: ClassLoader) extends LaneContext {
    private val spec = opening.spec
    private val restarts = spec.handoff == HandoffMode.MidBatchRestart
    private val readsAhead = spec.handoff != HandoffMode.MidBatch
    private val taskContext =
      new LaneTaskContext(opening.task, () => Option.when(isClosed)("home has closed the lane"))
    private val end = new HostEnd[UnsafeRow](spec.options.shards)
    private val stores = new HostStores(spec, LaneId(opening.lane), opening.cacheBytes, ask)
    private lazy val toUnsafe = UnsafeProjection.create(spec.outputs.toArray)
    private var outputs = new UnsafeRowBlock
    private var foreseen: UnsafeRowBlock = _
    private var covered = 0L
    private var unanswered = 0L
    private var reading = HostLane.Nothing
    private val over = new Array[Boolean](spec.inputs.size)
    @volatile private var inputsLeft = over.length
    private var sinceNs = System.nanoTime()
    @volatile private var recall: ToHost.Recall = _
    private var isReady = false
    @volatile private var ended = false
    private var has = false
    @volatile private var restarting = false

    override val lane: LaneId = LaneId(opening.lane)
    override def currentShard: Int = end.shard
    override def isRestarting: Boolean = restarting
    override def inputsEnded: Boolean = inputsLeft == 0
    override def perShard[T](operatorId: Long, write: T => Unit)(make: => T): IndexedSeq[T] =
      Vector.fill(spec.options.shards)(make)
    override def ownShards: Seq[Int] = 0 until spec.options.shards

    /** Nothing here is shared with the lanes at home but through home's stores. */
    override def partition: Option[SharedPartition] = None
    override val remoteState: Option[RemoteState] = Some(stores)

    def run(): Unit =
      taskContext.run(LaneContext.within(this)(work())) match {
        case Some(error: HostLane.Unreadable) => send(ToHome.Refused(error.getMessage))
        case None =>
          if (!spec.isFixed) LaneAccumulators.forgetSeal(taskContext.metrics, spec.onceMetrics)
          // A user's accumulator need not be one that can be sent.
          try send(ToHome.Done(RpcBytes.of(LaneAccumulators.of(taskContext.metrics))))
          catch { case NonFatal(error) => failed(error) }
        case Some(HostLane.Ended) => ()
        case Some(error) => failed(error)
      }

    /** Tells home, whose task fails with it. A fatal error goes on, to the end that such a one has on any executor. */
    private def failed(error: Throwable): Unit = {
      send(ToHome.Failed(HostError.write(error)))
      if (HostError.isFatal(error)) throw error
    }

    private def work(): Unit = {
      val (body, split) =
        try (HostBody.read(opening, loader), RpcBytes.read[Partition](opening.split, loader))
        catch {
          case error @ (_: ReflectiveOperationException | _: java.io.IOException | _: LinkageError) =>
            throw new HostLane.Unreadable(error)
        }
      var results = LaneBody.begin(body, split, taskContext.current, spec.usesPython)
      ready()
      var running = true
      while (running) {
        while (results.hasNext) add(results.next())
        running = !ended && !spec.isFixed
        if (spec.isFixed && !inputsEnded)
          throw new IllegalStateException("the lane's body has ended without reading all of its inputs")
        flush(answers = recall != null)
        if (running) {
          StateStoreTracking.clear()
          LaneAccumulators.forgetSeal(taskContext.metrics, spec.onceMetrics)
          restarting = false
          taskContext.renew()
          results = LaneBody.begin(body, split, taskContext.current, spec.usesPython)
        }
      }
    }

    private def ready(): Unit = if (!isReady) {
      isReady = true
      send(ToHome.Ready)
    }

    // ---- rows

    override def input(index: Int): Iterator[InternalRow] = new Iterator[InternalRow] {
      private val row = new UnsafeRow(spec.inputs(index).fields)

      override def hasNext: Boolean = !over(index) && {
        ready()
        if (reading != index) turnTo(index)
        has ||= advance()
        has
      }

      override def next(): InternalRow = {
        if (!hasNext) throw new NoSuchElementException("the lane's input has ended")
        has = false
        end.current.asInstanceOf[UnsafeRowBlock].read(end.index, row)
        row
      }
    }

    /** Home looks whether all lanes read the inputs in one order. */
    private def turnTo(index: Int): Unit = {
      if (reading != HostLane.Nothing)
        throw new IllegalStateException(s"input $index is read before input $reading has ended")
      send(ToHome.Reads(index))
      reading = index
    }

    private def inputEnded(): Unit = {
      over(reading) = true
      reading = HostLane.Nothing
      inputsLeft -= 1
    }

    /** Goes to the next row. What came before it is done: frames are made here, and recalls answered. */
    private def advance(): Boolean = {
      var found = false
      while (!found && !restarting && reading != HostLane.Nothing) {
        hear()
        if (recall != null && restarts) restarting = true
        else {
          if (recall != null) flush(answers = true)
          else if (isDue) flush(answers = false)
          found = end.advance()
          if (found) foresee()
          else if (end.isBetweenInputs) {
            end.nextInput()
            inputEnded()
          } else if (ended && spec.isFixed) inputEnded()
          else if (ended) restarting = true
          else {
            flush(answers = false)
            handle(heard(inbox.take()))
          }
        }
      }
      found
    }

    /** The rows of a block tell what state will be read, before the first of them is worked on. */
    private def foresee(): Unit = if (end.current ne foreseen) {
      foreseen = end.current.asInstanceOf[UnsafeRowBlock]
      val row = new UnsafeRow(spec.inputs(reading).fields)
      (end.index until foreseen.size).foreach { i =>
        if (foreseen.shardAt(i) >= 0) {
          foreseen.read(i, row)
          stores.expect(reading, row)
        }
      }
    }

    private def isDue: Boolean =
      outputs.isFull || stores.pendingBytes >= HostLane.FrameBytes ||
        (end.position > covered && System.nanoTime() - sinceNs > HostLane.LingerNs)

    private def hear(): Unit = {
      var event = inbox.poll()
      while (event != null) {
        handle(heard(event))
        event = inbox.poll()
      }
    }

    private def heard(event: HostLane.Event): ToHost = event match {
      case HostLane.Heard(message) => message
      case HostLane.Closed =>
        closed(None)
        throw HostLane.Ended
    }

    private def handle(message: ToHost): Unit = message match {
      case ToHost.Rows(first, block) => end.add(first, block)
      case ToHost.NextInput => end.addBoundary()
      case ToHost.Arrived(shards) => stores.arrived(shards)
      case asked: ToHost.Recall => recall = asked
      case ToHost.End => ended = true
      case other => throw new IllegalStateException(s"home says $other where rows are due")
    }

    override def flushOutputs(): Unit = flush(answers = false)

    // ---- what follows from them

    private def add(output: InternalRow): Unit = synchronized {
      outputs.append(
        output match {
          case u: UnsafeRow => u
          case other => toUnsafe(other)
        },
        0
      )
      // Rows that operators have taken ahead are not waited for: nothing is made good for them.
      if (readsAhead && outputs.isFull) flush(answers = false)
    }

    /** Sends what has followed from the rows up to the one before the next. */
    private def flush(answers: Boolean): Unit = synchronized {
      stores.sendWrites { writes =>
        if (answers || end.position > covered || outputs.size > 0 || writes.length > 0) {
          if (answers) {
            end.recalled(recall.shards, recall.upTo)
            recall = null
          }
          covered = end.position
          send(ToHome.Frame(covered, answers, writes, if (outputs.size > 0) outputs else null))
          unanswered += outputs.bytes
          if (outputs.size > 0) outputs = new UnsafeRowBlock
        }
      }
      sinceNs = System.nanoTime()
      // What a whole batch puts out at its end is bounded by no window of rows.
      if (spec.isFixed && unanswered >= spec.options.remoteWindowBytes) {
        stores.awaitHome()
        unanswered = 0L
      }
    }

    /** A question that home answers after all frames before it. One at a time. */
    private def ask(request: Array[Byte]): Array[Byte] = {
      send(ToHome.Ask(request))
      heard(answers.take()) match {
        case ToHost.Answer(bytes) => bytes
        case other => throw new IllegalStateException(s"home says $other to a question")
      }
    }
  }
}

private object HostLane {

  /** The input that a body reads before it asks for one and between two. */
  private val Nothing = -1

  /** A frame is sent when its writes have so many bytes, or its first row is so old. */
  private val FrameBytes = 32 * 1024
  private val LingerNs = 1000000L

  private sealed trait Event
  private final case class Heard(message: ToHost) extends Event
  private case object Closed extends Event

  /** The application's classes are not all here. */
  private final class Unreadable(cause: Throwable)
      extends RuntimeException(s"the lane's body cannot be read there: $cause", cause)

  /** The session is over, whatever the body was at. */
  private object Ended extends RuntimeException("the session is over", null, false, false)
}
