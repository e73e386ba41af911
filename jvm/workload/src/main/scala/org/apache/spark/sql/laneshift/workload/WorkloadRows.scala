package org.apache.spark.sql.laneshift.workload

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform

/** Makes the rows of one partition. Row `seq` depends on nothing but the spec, the partition and `seq`. One
  * row object is reused: who keeps a row copies it.
  */
private[workload] final class WorkloadRows(spec: WorkloadSpec, partition: Int) extends PartitionRows {
  import WorkloadRows._

  private val zipf = ZipfTable.of(spec.keys, spec.zipf)
  private val stream = Mixer.stream(spec.seed, partition)
  private val due = spec.schedule.cursor()
  private val shufflesPerMicro = spec.omega / 60e6
  private var shuffleIndex = 0L // 0: rank r belongs to key r
  private var shuffle: KeyShuffle = _

  private val payloadWords = (spec.payloadBytes + 7) / 8
  private val lastWordMask = if (spec.payloadBytes % 8 == 0) -1L else (1L << (spec.payloadBytes % 8 * 8)) - 1
  private val bytes = new Array[Byte](FixedBytes + payloadWords * 8)
  private val row = new UnsafeRow(Schema.length)
  row.pointTo(bytes, bytes.length)
  row.setInt(2, partition)
  row.setLong(5, FixedBytes.toLong << 32 | spec.payloadBytes) // where the payload is: offset and length

  /** The `event_time`, too. */
  override def dueMicros(seq: Long): Long =
    spec.startMicros + due.dueMicros(seq * spec.partitions + partition)

  override def apply(seq: Long, dueMicros: Long): UnsafeRow = {
    val random = Mixer.mix(stream + seq * Mixer.Gamma)
    row.setLong(0, key(zipf.rank(random), dueMicros - spec.startMicros))
    row.setLong(1, seq)
    row.setLong(3, Mixer.below(Mixer.mix(random), Values))
    row.setLong(4, dueMicros)
    if (payloadWords > 0) fill(random)
    row
  }

  private def key(rank: Int, micros: Long): Int =
    if (shufflesPerMicro == 0) rank
    else {
      val index = (micros * shufflesPerMicro).toLong
      if (index != shuffleIndex) {
        shuffleIndex = index
        shuffle = new KeyShuffle(spec.keys, spec.seed, index)
      }
      if (index == 0) rank else shuffle.key(rank)
    }

  private def fill(random: Long): Unit = {
    var word = 0
    var at = Platform.BYTE_ARRAY_OFFSET.toLong + FixedBytes
    while (word < payloadWords) {
      val content = Mixer.mix(random - (word + 1) * Mixer.Gamma)
      Platform.putLong(bytes, at, if (word == payloadWords - 1) content & lastWordMask else content)
      word += 1
      at += 8
    }
  }
}

private[workload] object WorkloadRows {

  /** The column `value` is uniform in 0 to this, exclusively: small enough for sums not to overflow. */
  private[workload] val Values = 1000000L

  val Schema: StructType = StructType(
    Seq(
      StructField("key", LongType, nullable = false),
      StructField("seq", LongType, nullable = false),
      StructField("partition", IntegerType, nullable = false),
      StructField("value", LongType, nullable = false),
      StructField("event_time", TimestampType, nullable = false),
      StructField("payload", BinaryType, nullable = false)
    )
  )

  private val FixedBytes = UnsafeRow.calculateBitSetWidthInBytes(Schema.length) + 8 * Schema.length
}
