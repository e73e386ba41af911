package laneshift.routing

/** Which state partitions each of so many tasks computes: ranges without gaps, in order, whose sizes differ by one at most. The
  * formulas are those of key groups (Flink's, with key groups for partitions).
  */
final case class TaskRanges(partitions: Int, tasks: Int) {
  require(
    tasks >= 1 && tasks <= partitions,
    s"$tasks tasks for $partitions partitions; allowed are 1 to $partitions"
  )

  /** The partitions of a task. */
  def of(task: Int): Range = start(task) until start(task + 1)

  /** The task that computes a partition. */
  def taskOf(partition: Int): Int = (partition.toLong * tasks / partitions).toInt

  /** The first partition of a task: the quotient, rounded up. */
  private def start(task: Int): Int = ((task.toLong * partitions + tasks - 1) / tasks).toInt
}
