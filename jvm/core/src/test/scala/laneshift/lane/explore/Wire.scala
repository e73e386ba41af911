package laneshift.lane.explore

import java.util.ArrayDeque

import laneshift.lane.ArrayBlock

/** What home tells a host. */
sealed trait ToHost

object ToHost {
  final case class Rows(first: Long, block: ArrayBlock) extends ToHost
  final case class Arrived(shards: Seq[Int]) extends ToHost
  final case class Recall(shards: Seq[Int], upTo: Long) extends ToHost

  /** The state that the host has asked for. */
  final case class Answer(state: Long) extends ToHost
  case object End extends ToHost
  case object Closed extends ToHost
}

/** What a host tells home. */
sealed trait ToHome

object ToHome {

  /** What follows from the rows up to number `covered`: states by key, outputs (or null); whether it answers a recall. */
  final case class Frame(covered: Long, answers: Boolean, writes: List[(Int, Long)], outputs: ArrayBlock)
      extends ToHome

  /** Asks for a key's state. */
  final case class Read(key: Int) extends ToHome
  case object Done extends ToHome
  case object Closed extends ToHome
}

/** One way of a connection, first in first out: messages under way, and those that have come and are not read yet. `closed` is
  * what comes last.
  */
final class Channel[M](closed: M) {
  private val underWay, come = new ArrayDeque[M]
  private var open = true

  def send(message: M): Unit = if (open) underWay.addLast(message)

  /** What is under way is lost; what has come is not. */
  def cut(): Unit = if (open) {
    open = false
    underWay.clear()
    underWay.addLast(closed)
  }

  def isMoving: Boolean = !underWay.isEmpty
  def deliver(): M = {
    val message = underWay.pollFirst()
    come.addLast(message)
    message
  }

  def hasCome: Boolean = !come.isEmpty
  def next(): M = come.pollFirst()
}
