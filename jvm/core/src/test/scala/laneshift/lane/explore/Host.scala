package laneshift.lane.explore

import java.util.ArrayDeque

import scala.collection.mutable.ArrayBuffer

import laneshift.lane.{ArrayBlock, HostEnd, Item}

/** The other executor's part in one session: a body that reads and writes states through a cache and the frame that it makes, each
  * thing that may come between others as a step of its own. It may read rows ahead if its plan restarts for a handoff.
  */
final class Host(batch: Batch, session: Session) {
  import Host._
  import batch.{random, scenario}

  private val restarts = scenario.granularity == Granularity.MidBatchRestart
  private val readsAhead = if (restarts) 3 else 1
  private val end = new HostEnd[Item](scenario.shards)
  private var doing: Doing = Between

  /** Rows that the body has taken; the first is the one that it is at. */
  private val taken = new ArrayDeque[Item]
  private var state = Unknown

  private val cache = Array.fill(scenario.keys)(Unknown)
  private var covered = 0L
  private val written = Array.fill(scenario.keys)(Unknown)
  private var outputs = ArrayBuffer.empty[Item]

  private var recall: ToHost.Recall = _
  private var ending = false
  var over = false

  def isReady: Boolean = !over && (doing match {
    case Waiting | Asking => session.toHost.hasCome
    case _ => true
  })

  def step(): Unit = doing match {
    case Between => if (session.toHost.hasCome && random.nextInt(3) == 0) receive() else goOn()
    case Waiting =>
      doing = Between
      receive()
    case Asking => receive()
    case Finding => find()
    case Writing => write()
    case PuttingOut => putOut()
  }

  private def receive(): Unit = {
    val message = session.toHost.next()
    batch.log(s"gets $message")
    message match {
      case ToHost.Rows(first, block) => end.add(first, block)
      case ToHost.Arrived(shards) =>
        cache.indices.foreach(key => if (shards.contains(scenario.shardOf(key))) cache(key) = Unknown)
      case r: ToHost.Recall => recall = r
      case ToHost.Answer(found) =>
        state = found
        doing = Writing
      case ToHost.End => ending = true
      case ToHost.Closed => over = true
    }
  }

  /** Stands between two rows. */
  private def goOn(): Unit =
    if (!taken.isEmpty && (recall != null || ending || taken.size >= readsAhead || random.nextBoolean()))
      work()
    else if (recall != null) answer()
    else if (isFrameBegun && random.nextInt(4) == 0) send(answers = false)
    else if (end.advance()) {
      val item = end.current.asInstanceOf[ArrayBlock].itemAt(end.index)
      batch.log(s"takes row ${end.position}, ${item.seq} of key ${item.key}")
      taken.addLast(item)
      if (!restarts) work()
    } else if (isFrameBegun || end.position > covered) send(answers = false)
    else if (ending) {
      session.toHome.send(ToHome.Done)
      batch.log("is done")
      over = true
    } else doing = Waiting

  // ---- rows

  private def work(): Unit = {
    val key = taken.peekFirst.key
    requireOwn(scenario.shardOf(key))
    doing = Finding
  }

  private def find(): Unit = {
    val key = taken.peekFirst.key
    state = if (written(key) != Unknown) written(key) else cache(key)
    if (state == Unknown) {
      session.toHome.send(ToHome.Read(key))
      doing = Asking
    } else doing = Writing
  }

  private def write(): Unit = {
    val item = taken.peekFirst
    batch.log(s"works on row ${item.seq} of key ${item.key} with state $state")
    requireOwn(scenario.shardOf(item.key))
    Violation.unless(state == item.seq, s"row ${item.seq} of key ${item.key} finds the state $state")
    written(item.key) = state + 1
    cache(item.key) = state + 1
    doing = PuttingOut
  }

  private def putOut(): Unit = {
    outputs += taken.pollFirst()
    // The cache is bounded.
    if (random.nextInt(4) == 0) cache(random.nextInt(scenario.keys)) = Unknown
    doing = Between
  }

  // ---- frames

  private def isFrameBegun: Boolean = outputs.nonEmpty

  private def send(answers: Boolean): Unit = {
    val writes = written.indices.toList.filter(written(_) != Unknown).map(key => (key, written(key)))
    val block = if (outputs.isEmpty) null else new ArrayBlock(outputs.size)
    outputs.foreach(item => block.append(item, scenario.shardOf(item.key)))
    covered = end.position
    val frame = ToHome.Frame(covered, answers, writes, block)
    batch.log(s"sends $frame")
    session.toHome.send(frame)
    java.util.Arrays.fill(written, Unknown)
    outputs = ArrayBuffer.empty
  }

  private def answer(): Unit = {
    send(answers = true)
    end.recalled(recall.shards, recall.upTo)
    recall = null
  }

  /** As long as home has not given it up, nobody else has what it works on. */
  private def requireOwn(shard: Int): Unit = if (session.isLive && !batch.stopped) {
    val owner = batch.inlet.routingTable.owner(shard)
    if (owner != session.lane.value)
      throw new Violation(
        s"a host of lane ${session.lane.value} works on shard $shard, which is lane $owner's"
      )
  }
}

object Host {
  private val Unknown = -1L

  private sealed trait Doing
  private case object Between extends Doing
  private case object Waiting extends Doing
  private case object Finding extends Doing
  private case object Asking extends Doing
  private case object Writing extends Doing
  private case object PuttingOut extends Doing
}
