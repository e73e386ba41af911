package laneshift.lane

import java.util.concurrent.locks.ReentrantLock

/** The order in which the bodies of a partition's lanes read its inputs (docs/handoff.md, section 9). Lanes tell it by
  * asking, the receiver reads the inputs in it.
  */
final class InputTurns(inputs: Int) extends Monitor(new ReentrantLock) {
  private val order = Array.fill(inputs)(InputTurns.Open)
  private val asked = newTurn()

  /** A lane reads `input` as its `turn`-th, counted from 0. */
  def ask(turn: Int, input: Int): Unit = locked {
    if (order(turn) == InputTurns.Open) {
      order(turn) = input
      asked.signal()
    } else if (order(turn) != input)
      throw new IllegalStateException(
        s"one lane reads input ${order(turn)} as number $turn, another input $input: all must read in one order"
      )
  }

  /** The input that the receiver has to read at `turn`; waits until a lane asks for it. Throws [[PartitionStopped]] once the task
    * has failed: no lane will.
    */
  def await(turn: Int): Int = locked {
    while (order(turn) == InputTurns.Open && failure == null) asked.await()
    checkRunning()
    order(turn)
  }
}

private object InputTurns {
  private val Open = -1
}
