package org.apache.spark.sql.laneshift.workload.nexmark

import java.nio.charset.StandardCharsets

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.laneshift.workload.{Mixer, PartitionRows}
import org.apache.spark.unsafe.types.UTF8String

/** Makes the rows of one partition of a table. Row `seq` depends on nothing but the spec, the partition and
  * `seq`. One row object is reused: who keeps a row copies it.
  */
private[nexmark] abstract class NexmarkRows(spec: NexmarkSpec, partition: Int) extends PartitionRows {

  private val due = spec.schedule.cursor()
  private val text = new Array[Byte](Math.max(spec.extraBytes, 100))
  protected val draws = new Draws(Mixer.stream(spec.seed, spec.table.first))
  protected val ids = new NexmarkIds(spec.hot, draws)
  protected val row = new UnsafeRowWriter(spec.table.schema.length)

  private def event(seq: Long): Long = spec.table.event(seq * spec.partitions + partition)

  /** The `date_time`, too. */
  override def dueMicros(seq: Long): Long = spec.startMicros + due.dueMicros(event(seq))

  override def apply(seq: Long, dueMicros: Long): UnsafeRow = {
    val e = event(seq)
    draws.begin(e)
    row.reset()
    row.zeroOutNullBytes()
    write(e, dueMicros)
    letters(spec.table.schema.length - 1, spec.extraBytes)
    row.getRow
  }

  /** All columns but `extra`. */
  protected def write(event: Long, dueMicros: Long): Unit

  protected def letters(column: Int, length: Int): Unit = {
    draws.letters(text, length)
    row.write(column, text, 0, length)
  }
}

private[nexmark] object NexmarkRows {

  def of(spec: NexmarkSpec, partition: Int): NexmarkRows = spec.table match {
    case NexmarkTable.Person => new People(spec, partition)
    case NexmarkTable.Auction => new Auctions(spec, partition)
    case _ => new Bids(spec, partition)
  }

  private def texts(words: String*): Array[UTF8String] = words.map(UTF8String.fromString).toArray

  private final class People(spec: NexmarkSpec, partition: Int) extends NexmarkRows(spec, partition) {
    override protected def write(event: Long, dueMicros: Long): Unit = {
      val (first, last) = (draws.pick(FirstNames), draws.pick(LastNames))
      row.write(0, NexmarkIds.FirstId + NexmarkIds.lastPerson(event))
      row.write(1, s"$first $last".getBytes(StandardCharsets.UTF_8))
      row.write(2, s"$first.$last@example.org".toLowerCase.getBytes(StandardCharsets.UTF_8))
      row.write(3, f"${draws.below(10000000000000000L)}%016d".getBytes(StandardCharsets.UTF_8))
      row.write(4, draws.pick(Cities))
      row.write(5, draws.pick(States))
      row.write(6, dueMicros)
    }
  }

  private final class Auctions(spec: NexmarkSpec, partition: Int) extends NexmarkRows(spec, partition) {

    private val ahead = spec.schedule.cursor()

    override protected def write(event: Long, dueMicros: Long): Unit = {
      val first = draws.price()
      row.write(0, NexmarkIds.FirstId + NexmarkIds.lastAuction(event))
      letters(1, 5 + draws.below(15).toInt)
      letters(2, 20 + draws.below(80).toInt)
      row.write(3, first)
      row.write(4, first + draws.price())
      row.write(5, dueMicros)
      row.write(6, dueMicros + openMicros(event, dueMicros))
      row.write(7, ids.seller(event))
      row.write(8, FirstCategory + draws.below(Categories))
    }

    /** So long that about [[NexmarkIds.OpenAuctions]] are open at a time: whole milliseconds. */
    private def openMicros(event: Long, dueMicros: Long): Long = {
      val later = event + NexmarkIds.OpenAuctions * NexmarkTable.Epoch / NexmarkTable.Auction.count
      val horizonMs = (spec.startMicros + ahead.dueMicros(later) - dueMicros) / 1000
      1000 * (1 + draws.below(Math.max(2 * horizonMs, 1)))
    }
  }

  private final class Bids(spec: NexmarkSpec, partition: Int) extends NexmarkRows(spec, partition) {
    override protected def write(event: Long, dueMicros: Long): Unit = {
      row.write(0, ids.auction(event))
      row.write(1, ids.bidder(event))
      row.write(2, draws.price())
      val channel = if (draws.happens(0.5)) draws.below(HotChannels).toInt else draws.below(Channels).toInt
      row.write(3, ChannelNames(channel))
      row.write(4, Urls(channel))
      row.write(5, dueMicros)
    }
  }

  private val FirstCategory = 10L
  private val Categories = 5L
  private val HotChannels = 4L
  private val Channels = 10000L
  private lazy val ChannelNames = Array.tabulate(Channels.toInt)(n => UTF8String.fromString(s"channel-$n"))
  private lazy val Urls =
    Array.tabulate(Channels.toInt)(n =>
      UTF8String.fromString(s"https://auctions.example.org/item?channel=$n")
    )
  private val States = texts("AZ", "CA", "ID", "OR", "WA", "WY")
  private val Cities = texts(
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne"
  )
  private val FirstNames =
    Array("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
  private val LastNames =
    Array("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
}
