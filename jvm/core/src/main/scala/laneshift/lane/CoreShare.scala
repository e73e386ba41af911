package laneshift.lane

import java.util.ArrayDeque
import java.util.concurrent.atomic.AtomicReference
import java.util.concurrent.locks.LockSupport

/** So many cores for more threads than that: a thread works while it has a turn, of which there are as many as cores.
  *
  * A thread that asks for its next row cannot know whether it will have to wait. It says that it asks, which costs next to nothing,
  * and keeps its turn meanwhile; a thread that wants one takes it away. One that gets row after row without a wait gives its
  * turn up after a `quantumNs`, if others want it.
  *
  * Any thread may make a [[Worker]]; only the thread that it was made for calls its methods. Lock order: none is held over
  * anything but this object's own fields.
  */
final class CoreShare(cores: Int, quantumNs: Long = CoreShare.QuantumNs) {
  require(cores >= 1, s"a share of $cores cores")
  private var free = cores
  private val waiting = new ArrayDeque[Worker]
  private var workers = List.empty[Worker]

  /** How many wait for a turn; exact under the lock only. */
  @volatile private var wanted = 0

  /** A worker for the current thread, which has no turn yet. */
  def worker(): Worker = synchronized {
    val made = new Worker(Thread.currentThread())
    workers = made :: workers
    made
  }

  /** Turns that nobody has. */
  def idle: Int = synchronized(free)

  final class Worker private[CoreShare] (private[CoreShare] val thread: Thread) {
    private[CoreShare] val state = new AtomicReference[CoreShare.State](CoreShare.Off)
    private var sinceNs = 0L
    private var waited = 0L
    private var isWaiting = false

    /** How long it has waited for turns so far. */
    def waitedNs: Long = waited

    /** Waits for a turn. Throws InterruptedException, and then has none. */
    def begin(): Unit = {
      val askedNs = System.nanoTime()
      acquire()
      sinceNs = System.nanoTime()
      waited += sinceNs - askedNs
    }

    /** Gives the turn up, if it has one, and is gone. */
    def end(): Unit = CoreShare.this.synchronized {
      if (state.getAndSet(CoreShare.Off) != CoreShare.Off) passOn()
      workers = workers.filterNot(_ eq this)
    }

    /** Runs what may wait, and lends the turn meanwhile. A wait in another lends nothing more. */
    private[CoreShare] def lending[T](body: => T): T =
      if (isWaiting) body
      else {
        isWaiting = true
        try {
          beforeWait()
          try body
          finally afterWait()
        } finally isWaiting = false
      }

    /** Says that what follows may wait. */
    private def beforeWait(): Unit =
      if (wanted > 0 && System.nanoTime() - sinceNs > quantumNs) CoreShare.this.synchronized {
        if (state.getAndSet(CoreShare.Off) != CoreShare.Off) passOn()
      }
      else state.compareAndSet(CoreShare.On, CoreShare.Lent)

    /** The wait is over: has a turn again when it returns. Throws InterruptedException, and then has none. */
    private def afterWait(): Unit =
      if (!state.compareAndSet(CoreShare.Lent, CoreShare.On)) begin()

    private def acquire(): Unit = {
      var has = CoreShare.this.synchronized {
        val now = waiting.isEmpty && (takeFree() || takeLent())
        if (!now) {
          waiting.addLast(this)
          wanted += 1
        }
        now
      }
      try
        while (!has) {
          // Nobody tells the first that a turn is lent: it looks. The others are told when they are the first, or have a turn.
          if (isFirst) LockSupport.parkNanos(CoreShare.this, CoreShare.LookNs)
          else LockSupport.park(CoreShare.this)
          if (Thread.interrupted()) throw new InterruptedException("interrupted while waiting for a core")
          has = CoreShare.this.synchronized {
            state.get == CoreShare.On || isFirst && (takeFree() || takeLent()) && {
              leaveQueue()
              true
            }
          }
        }
      catch {
        case stopped: InterruptedException =>
          leave()
          throw stopped
      }
    }

    private def isFirst: Boolean = CoreShare.this.synchronized(waiting.peekFirst() eq this)

    /** False if it waits no more. Whoever is behind the first is the first then. Under the lock. */
    private def leaveQueue(): Boolean = {
      val wasFirst = waiting.peekFirst() eq this
      val was = waiting.remove(this)
      if (was) wanted -= 1
      if (wasFirst && !waiting.isEmpty) LockSupport.unpark(waiting.peekFirst().thread)
      was
    }

    private def leave(): Unit = CoreShare.this.synchronized {
      if (!leaveQueue() && state.getAndSet(CoreShare.Off) != CoreShare.Off) passOn()
    }

    private def takeFree(): Boolean = free > 0 && {
      free -= 1
      state.set(CoreShare.On)
      true
    }

    /** Takes the turn of one that may be waiting. */
    private def takeLent(): Boolean = workers.exists { other =>
      val taken = other.state.compareAndSet(CoreShare.Lent, CoreShare.Off)
      if (taken) state.set(CoreShare.On)
      taken
    }

    /** To who has waited longest; under the lock. */
    private def passOn(): Unit = {
      val next = waiting.peekFirst()
      if (next == null) free += 1
      else {
        next.leaveQueue()
        next.state.set(CoreShare.On)
        LockSupport.unpark(next.thread)
      }
    }
  }
}

object CoreShare {
  private[lane] sealed trait State

  /** Has no turn. */
  private[lane] case object Off extends State

  /** Has one and works. */
  private[lane] case object On extends State

  /** Has one, and may be waiting: anybody may take it. */
  private[lane] case object Lent extends State

  /** After so long a turn goes on to others, and so often the first who waits looks for one that it can take. */
  private val QuantumNs = 1000000L
  private val LookNs = 200000L

  private val current = new ThreadLocal[CoreShare#Worker]

  /** Runs `body` in turns of `share`: whatever it does on this thread by way of [[waiting]] lends the turn. */
  def within[T](share: CoreShare)(body: => T): T = {
    val worker = share.worker()
    current.set(worker)
    try {
      worker.begin()
      body
    } finally {
      current.remove()
      worker.end()
    }
  }

  /** The worker of this thread, if it works in turns. */
  def worker: Option[CoreShare#Worker] = Option(current.get)

  /** What may wait; lends this thread's turn, if it works in turns. */
  def waiting[T](body: => T): T = {
    val worker = current.get
    if (worker == null) body else worker.lending(body)
  }
}
