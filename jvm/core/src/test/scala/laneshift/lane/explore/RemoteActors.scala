package laneshift.lane.explore

import scala.collection.mutable.ArrayBuffer

import laneshift.ids.LaneId
import laneshift.lane.{Item, Taken, TakenRemote}

/** A place for a remote lane: one session after the other. Hosts of earlier ones may go on for a while. */
final class Slot(batch: Batch, val number: Int, firstIndex: Int) {
  val lane: LaneId = LaneId(batch.scenario.maxLanes + number)
  val sessions = ArrayBuffer.empty[Session]
  val proxy = new Proxy(batch, this, firstIndex)
  private val toHome = new CarrierToHome(batch, this, firstIndex + 2)
  val actors: Seq[Actor] = Seq(
    proxy,
    new CarrierToHost(batch, this, firstIndex + 1),
    toHome,
    new HostActor(batch, this, firstIndex + 3)
  )
  private var opened = 0

  /** Shards may come to it. */
  def owns: Boolean = isThere && !batch.closing
  var isThere = false

  /** It is to work on rows that it was given. */
  def hasRows: Boolean =
    isThere && (batch.inlet.queued(lane.value).iterator().hasNext || proxy.hasRows)

  /** Something has come from a host, and the lane's thread is still to be told. */
  def owesPoke: Boolean = toHome.owesPoke

  def open(): Unit = {
    opened += 1
    val session = new Session(batch, lane, opened)
    sessions.filterInPlace(s => !s.host.over || s.toHome.isMoving)
    sessions += session
    proxy.begin(session)
  }

  /** One of the sessions that are ready for something, or null. */
  def oneOf(ready: Session => Boolean): Session = {
    var (found, count, i) = (null: Session, 0, 0)
    while (i < sessions.size) {
      if (ready(sessions(i))) {
        count += 1
        if (count == 1 || batch.random.nextInt(count) == 0) found = sessions(i)
      }
      i += 1
    }
    found
  }
  def isAny(ready: Session => Boolean): Boolean = {
    var i = 0
    while (i < sessions.size && !ready(sessions(i))) i += 1
    i < sessions.size
  }
}

object Slot {

  /** Actors of one slot. */
  val Actors = 4
}

/** The network to a lane's hosts. */
final class CarrierToHost(batch: Batch, slot: Slot, index: Int)
    extends Actor(index, s"wire ${slot.lane.value}>") {
  override def isReady: Boolean = slot.isAny(_.toHost.isMoving)
  override protected def step(): Unit = {
    val session = slot.oneOf(_.toHost.isMoving)
    val message = session.toHost.deliver()
    batch.log(s"session ${session.number}: $message")
  }
}

/** The network from a lane's hosts, and the thread that reads it: it notes what has come, then tells the lane's thread. */
final class CarrierToHome(batch: Batch, slot: Slot, index: Int)
    extends Actor(index, s"wire ${slot.lane.value}<") {

  /** Of which something has come, and the lane has not been told; or null. */
  private var toPoke: Session = _
  def owesPoke: Boolean = toPoke != null

  override def isReady: Boolean = owesPoke || slot.isAny(_.toHome.isMoving)
  override protected def step(): Unit =
    if (owesPoke) {
      batch.log("pokes the lane")
      toPoke.home.poke()
      toPoke = null
    } else {
      val session = slot.oneOf(_.toHome.isMoving)
      val message = session.toHome.deliver()
      batch.log(s"session ${session.number}: $message")
      toPoke = session
    }
}

/** The hosts of a lane's sessions: the present one, and those that home has given up and that do not know it yet. */
final class HostActor(batch: Batch, slot: Slot, index: Int) extends Actor(index, s"host ${slot.lane.value}") {
  override def isReady: Boolean = slot.isAny(_.host.isReady)
  override protected def step(): Unit = slot.oneOf(_.host.isReady).host.step()
}

/** The thread at home of a remote lane: what RemoteLane does, each thing that others could come between as a step of its own. */
final class Proxy(batch: Batch, slot: Slot, index: Int) extends Actor(index, s"lane ${slot.lane.value}") {
  import Proxy._
  import batch.{inlet, ledger, scenario}

  private val turn = batch.laneTurn(slot.lane)
  private var doing: Doing = Away
  private var session: Session = _
  private var taken: TakenRemote[Item] = _
  private var frame: ToHome.Frame = _

  /** How often it may still look again by itself; negative once it waits for a signal. */
  private var looks = 0

  def isAway: Boolean = doing == Away

  def begin(opened: Session): Unit = {
    session = opened
    batch.addProducer()
    doing = Join
  }

  override def isReady: Boolean =
    !over && doing != Away && (!isAsleep || (doing == Take && looks >= 0 && session.home.hasRoom))

  override protected def step(): Unit = doing match {
    case Away => ()
    case Join => join()
    case Look => look()
    case Take => take()
    case Handle => handle()
    case Write =>
      batch.log(s"applies ${frame.writes.size} writes")
      frame.writes.foreach { case (key, state) => ledger.stored(key) = state }
      doing = Put
    case Put => put()
    case Cover => cover()
    case After => after()
  }

  private def join(): Unit = {
    slot.isThere = session.home.join()
    batch.log(s"joins with session ${session.number}: ${slot.isThere}")
    Violation.unless(
      slot.isThere == !(batch.closing || batch.stopped),
      s"${slot.lane} joins: ${slot.isThere}"
    )
    if (slot.isThere) doing = Look else close()
  }

  private def look(): Unit =
    if (session.timedOut) lose("is silent")
    else if (session.toHome.hasCome) session.toHome.next() match {
      case f: ToHome.Frame => begin(f)
      case ToHome.Read(key) =>
        batch.log(s"answers: key $key has state ${ledger.stored(key)}")
        session.toHost.send(ToHost.Answer(ledger.stored(key)))
      case ToHome.Done =>
        Violation.unless(session.home.isOver, "a host is done before its end")
        session.home.leave()
        batch.log("leaves")
        close()
      case ToHome.Closed => lose("is gone")
    }
    else {
      looks = batch.random.nextInt(3)
      doing = Take
    }

  private def take(): Unit = {
    taken = batch.inletLock.within(session.home.tryTake(looks > 0))
    batch.log(s"takes $taken")
    batch.requireInlet()
    if (taken == null) {
      sleep(turn)
      looks -= 1
    } else doing = Handle
  }

  private def handle(): Unit = {
    if (taken != Taken.Poked) batch.log(s"goes on with $taken")
    session.home.handle(taken)
    taken = null
    doing = Look
  }

  // ---- frames

  private def begin(next: ToHome.Frame): Unit = {
    frame = next
    doing = Write
  }

  private def put(): Unit =
    if (frame.outputs == null || batch.put(frame.outputs)) {
      doing = Cover
    } else sleep(batch.notFull)

  private def cover(): Unit = {
    batch.log(s"forgets rows up to ${frame.covered}${if (frame.answers) " and lets go" else ""}")
    session.requireExact(frame)
    if (frame.answers)
      batch.mayGrow = session.keptBytesOf(shard => inlet.routingTable.handoffOf(shard) != null)
    session.home.covered(frame.covered, frame.answers)
    frame = null
    doing = if (session.isLive) Look else After
  }

  // ---- the end of a session

  private def lose(how: String): Unit = {
    batch.log(s"loses its host, which $how")
    if (scenario.granularity == Granularity.MidBatchRestart) {
      over = true
      batch.fails(s"lane ${slot.lane.value} has lost its host")
    } else {
      batch.mayGrow = session.keptBytesOf(_ => true)
      session.home.lost()
      batch.requireInlet()
      slot.isThere = false
      session.isLive = false
      doing = After
    }
  }

  /** The session is given up; what has come of it, and comes until the connection is closed, counts no more. */
  private def after(): Unit =
    if (session.toHome.hasCome) session.toHome.next() match {
      case f: ToHome.Frame if !session.home.isLost => begin(f)
      case other => batch.log(s"does not look at $other")
    }
    else if (batch.random.nextInt(6) == 0) close()

  private def close(): Unit = {
    slot.isThere = false
    session.isLive = false
    session.cut()
    session = null
    batch.producerDone()
    doing = Away
  }

  // ---- checks

  def hasRows: Boolean = session != null && (session.home.keepsRows || taken.isInstanceOf[Taken.Rows[_]])

  def checkPossessions(): Unit = if (session != null) {
    session.checkPossessions()
    taken match {
      case Taken.Rows(block) => session.count(block, from = 0)
      case _ => ()
    }
  }

  override def checkWoken(): Unit = doing match {
    case Take =>
      val home = session.home
      val recalled = inlet.isRecalled(slot.lane) && !home.recalling
      val told = (session.toHome.hasCome && !slot.owesPoke) || session.timedOut
      val queued = inlet.queued(slot.lane.value).iterator().hasNext
      val rows = looks < 0 && home.hasRoom && queued
      val ended = !slot.owns && !home.isBusy && !queued && isBare
      Violation.unless(!recalled && !told && !rows && !ended, s"$name could go on but is not woken")
    case _ => Violation.unless(!batch.fits(frame.outputs.bytes), s"$name could put out but is not woken")
  }

  private def isBare: Boolean = {
    val table = inlet.routingTable
    val own = slot.lane.value
    (0 until scenario.shards).forall(s => table.owner(s) != own && table.destination(s) != own)
  }
}

object Proxy {
  private sealed trait Doing
  private case object Away extends Doing
  private case object Join extends Doing
  private case object Look extends Doing
  private case object Take extends Doing
  private case object Handle extends Doing
  private case object Write extends Doing
  private case object Put extends Doing
  private case object Cover extends Doing
  private case object After extends Doing
}

/** Who decides about remote lanes, and what becomes of their hosts: sessions are opened and released, hosts crash, connections
  * are cut, and home gives up hosts that go on.
  */
final class Fates(batch: Batch, slots: Seq[Slot], index: Int) extends Actor(index, "fate") {
  import batch.{random, scenario}
  private var left = scenario.remote.fates
  private var notBefore = random.nextInt(Fates.Pause)
  over = left == 0

  override def isReady: Boolean = super.isReady && batch.steps >= notBefore

  override protected def step(): Unit = {
    left -= 1
    over = left == 0
    notBefore = batch.steps + random.nextInt(Fates.Pause)
    val slot = slots(random.nextInt(slots.size))
    if (slot.proxy.isAway) {
      if (batch.cause == null && !slot.proxy.over) {
        batch.log(s"opens a session of ${slot.lane}")
        slot.open()
      }
    } else if (random.nextInt(4) == 0) {
      batch.log(s"releases ${slot.lane}")
      slot.sessions.last.home.release()
      if (!batch.stopped) slot.isThere = false
    } else if (scenario.remote.losses) lose(slot)
  }

  private def lose(slot: Slot): Unit = {
    val session = slot.sessions(random.nextInt(slot.sessions.size))
    random.nextInt(4) match {
      case 0 =>
        batch.log(s"session ${session.number} of ${slot.lane}: its host crashes")
        session.host.over = true
        session.cut()
      case 1 =>
        batch.log(s"session ${session.number} of ${slot.lane}: its connection is cut")
        session.cut()
      case _ =>
        batch.log(s"session ${session.number} of ${slot.lane}: home has heard nothing for too long")
        session.timedOut = true
        session.home.poke()
    }
  }
}

object Fates {

  /** Most steps between two. */
  private val Pause = 120
}
