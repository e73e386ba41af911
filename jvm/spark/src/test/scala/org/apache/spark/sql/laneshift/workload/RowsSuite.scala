package org.apache.spark.sql.laneshift.workload

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

import laneshift.testing.LimitedSuite

class RowsSuite extends LimitedSuite {

  private val spec = WorkloadSpec(
    keys = 1000,
    zipf = 0.8,
    omega = 30,
    payloadBytes = 13,
    RateFunctions.sine(5000, 0.5, 3000000),
    partitions = 3,
    seed = 11,
    startMicros = 1700000000000000L,
    totalRows = 10000
  )

  private def read(from: Long, until: Long, partition: Int = 0, of: WorkloadSpec = spec): Seq[UnsafeRow] = {
    val reader = new WorkloadReader(of, paced = false, WorkloadInputPartition(partition, from, until))
    Iterator.continually(reader).takeWhile(_.next()).map(_.get().copy().asInstanceOf[UnsafeRow]).toSeq
  }

  test("the same offsets give the same rows, however they are cut") {
    val all = read(0, 2000)
    assert(all == read(0, 2000))
    assert(all == read(0, 1) ++ read(1, 777) ++ read(777, 777) ++ read(777, 2000))
  }

  test("seed, partition and every other part of the spec matter") {
    val columns = (rows: Seq[UnsafeRow]) => rows.map(r => (r.getLong(0), r.getLong(3)))
    val base = columns(read(0, 500))
    assert(columns(read(0, 500, partition = 1)) != base)
    assert(columns(read(0, 500, of = spec.copy(seed = 12))) != base)
    assert(columns(read(0, 500, of = spec.copy(keys = 999))) != base)
    assert(columns(read(0, 500, of = spec.copy(zipf = 0.7))) != base)
  }

  test("rows are well formed") {
    val rows = read(0, 3000, partition = 2)
    assert(rows.map(_.getLong(1)) == (0L until 3000L))
    assert(rows.forall(_.getInt(2) == 2))
    assert(rows.forall(r => r.getLong(0) >= 0 && r.getLong(0) < 1000))
    assert(rows.forall(r => r.getLong(3) >= 0 && r.getLong(3) < WorkloadRows.Values))
    val values = rows.map(_.getLong(3).toDouble).sum / 3000
    assert(math.abs(values - 500000) < 5 * 289000 / math.sqrt(3000))
    val times = rows.map(_.getLong(4))
    assert(times == times.sorted && times.head >= spec.startMicros)
    assert(rows.map(_.getBinary(5).toSeq).distinct.size == 3000 && rows.forall(_.getBinary(5).length == 13))
    assert(rows.forall(r => !(0 until 6).exists(r.isNullAt)))
  }

  test("payloads of every length, also none") {
    for (length <- Seq(0, 1, 7, 8, 9, 128)) {
      val row = read(5, 6, of = spec.copy(payloadBytes = length)).head
      assert(row.getBinary(5).length == length)
      assert(row.getSizeInBytes == 56 + (length + 7) / 8 * 8)
      assert(row.getBytes.drop(56 + length).forall(_ == 0)) // equal rows have equal bytes
    }
  }

  test("partitions share the rate evenly") {
    val times = (0 until 3).map(p => read(0, 100, p).map(_.getLong(4)))
    assert(times.transpose.flatten == times.flatten.sorted)
    val due = spec.schedule.rowsBy(400000)
    assert((0 until 3).map(spec.dealt(due, _)).sum == due)
  }

  test("a batch ends after the rows it may take, whatever the partitions' start") {
    def at(next: Long*) = WorkloadOffset(11, next)
    def advance(from: WorkloadOffset, upTo: Long, atMost: Long) =
      BatchPlanner.advance(from, spec, upTo, atMost)
    assert(advance(at(0, 0, 0), 10, 100) == at(4, 3, 3))
    assert(advance(at(0, 0, 0), WorkloadSpec.Endless, 7) == at(3, 2, 2))
    assert(advance(at(3, 2, 2), WorkloadSpec.Endless, 7) == at(5, 5, 4))
    assert(advance(at(9, 0, 0), 10, WorkloadSpec.Endless) == at(9, 3, 3)) // one was ahead
    assert(advance(at(9, 0, 0), WorkloadSpec.Endless, 8) == at(9, 4, 4))
    assert(advance(at(4, 3, 3), 10, 5) == at(4, 3, 3))
    assert(advance(at(9, 9, 9), 3, 5) == at(9, 9, 9)) // never back
  }

  test("an offset survives its JSON and refuses another workload") {
    val offset = WorkloadOffset(11, Seq(5L, 4L, 1L << 45))
    assert(offset.json() == """{"version":1,"seed":11,"next":[5,4,35184372088832]}""")
    assert(WorkloadOffset.parse(offset.json(), spec) == offset)
    def refused(json: String, spec: WorkloadSpec = spec) =
      intercept[WorkloadOptionException](WorkloadOffset.parse(json, spec)).getMessage
    assert(refused(offset.json(), spec.copy(seed = 12)).contains("has seed 11, but the option 'seed' is 12"))
    assert(refused(
      offset.json(),
      spec.copy(partitions = 4)
    ).contains("3 partitions, but the option 'numPartitions' is 4"))
    assert(refused("""{"version":2}""").contains("not of version 1"))
    assert(refused("17").contains("new checkpoint"))
    assert(refused("{").contains("cannot be read"))
  }

  test("Real-time Mode: one offset from each partition, no fewer, no more") {
    val parts =
      Seq(WorkloadPartitionOffset(2, 7), WorkloadPartitionOffset(0, 5), WorkloadPartitionOffset(1, 6))
    assert(WorkloadOffset.merge(parts, spec) == WorkloadOffset(11, Seq(5L, 6L, 7L)))
    intercept[IllegalStateException](WorkloadOffset.merge(parts.tail, spec))
    intercept[IllegalStateException](WorkloadOffset.merge(parts :+ parts.head, spec))
  }

  test("Real-time Mode: a row waits until it is due, not longer than the timeout; late rows do not wait") {
    val clock = new WallClock
    val start = clock.now()
    // Row 0 was due 200 ms ago, row 1 is due in 300 ms.
    val slow = spec.copy(schedule = RateFunctions.constant(2), partitions = 1, startMicros = start - 200000)
    val reader = new WorkloadReader(slow, paced = true, WorkloadInputPartition(0, 0, 2))
    def next(timeoutMs: Long) = reader.nextWithTimeout(System.currentTimeMillis(), timeoutMs).hasRecord
    assert(next(10000))
    assert(!next(20) && reader.getOffset() == WorkloadPartitionOffset(0, 1))
    assert(next(10000) && clock.now() >= start + 300000)
    assert(!next(10) && reader.getOffset() == WorkloadPartitionOffset(0, 2))
    val hurried = new WorkloadReader(slow, paced = false, WorkloadInputPartition(0, 0, 2))
    assert((1 to 3).map(_ => hurried.nextWithTimeout(System.currentTimeMillis(), 10L).hasRecord) == Seq(
      true,
      true,
      false
    ))
  }
}
