package org.apache.spark.sql.laneshift.runtime

import java.util.SplittableRandom

import org.apache.datasketches.frequencies.{ErrorType, LongsSketch}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.laneshift.spec.{InputSpec, RecentlyUsed}

/** A key with much of its partition's rows.
  *
  * @param key the hash that its shuffle takes of it, in hexadecimal digits
  * @param value itself, as `show()` prints it, if that may be seen
  * @param share of the partition's rows
  */
final case class HotKey(key: String, value: Option[String], share: Double)

/** Finds the keys with the most of a partition's rows: a sketch of frequent items (Apache DataSketches) over a sample of the rows,
  * all of the first ones and then about one in [[HotKeys.Every]], at gaps drawn at random: keys may come in turns. What it says is
  * of the last ten to twenty seconds or so, longer where there are few rows.
  *
  * One thread at a time adds; any thread may look.
  */
private[laneshift] final class HotKeys(clock: () => Long = () => System.nanoTime()) {
  import HotKeys._

  private val random = new SplittableRandom(Seed)
  private var before = new LongsSketch(SketchSize)
  private var now = new LongsSketch(SketchSize)

  /** Of this batch alone. */
  private var batch = new LongsSketch(BatchSketchSize)
  private var sampled = 0L

  /** What [[top]] says until a row is added: to ask sketches is to walk through them. */
  private var said = Option.empty[Seq[HotKey]]
  private var sinceNs = clock()

  /** Of the keys that were sampled last. */
  private val values = new RecentlyUsed[Long, String](ValuesKept)

  /** Notes a row of the sample, and says how many rows later the next is. */
  def add(hash: Int, value: => Option[String]): Int = synchronized {
    val key = hash.toLong
    val all = sampled < TakenWhole
    val rows = if (all) 1L else Every.toLong
    said = None
    now.update(key, rows)
    batch.update(key, rows)
    sampled += 1
    if (values.get(key) == null) value.foreach(values.put(key, _))
    if ((sampled & TurnMask) == 0L) turn()
    if (all) 1 else 1 + random.nextInt(2 * Every - 1)
  }

  /** Forgets what is old. */
  private def turn(): Unit = if (clock() - sinceNs >= WindowNs) {
    before = now
    now = new LongsSketch(SketchSize)
    sinceNs = clock()
  }

  def batchBegins(): Unit = synchronized { batch = new LongsSketch(BatchSketchSize) }

  /** The share that the hottest key has of this batch's rows. */
  def hottestOfBatch: Option[Double] = synchronized {
    val found = frequentInBatch.map(_.getLowerBound)
    Option.when(found.nonEmpty)(found.max.toDouble / batch.getStreamLength)
  }

  /** The least share that the hottest key has of this batch's matches, where each row meets all those of its key: they go with the
    * square of its rows.
    */
  def hottestOfMatches: Option[Double] = synchronized {
    val found = frequentInBatch.sortBy(-_.getLowerBound)
    found.headOption.map { first =>
      val others = found.tail.map(key => square(key.getUpperBound)).sum
      // No key that is not among them has more rows than the sketch is off by.
      val rest = batch.getStreamLength - found.map(_.getLowerBound).sum
      val hottest = square(first.getLowerBound)
      hottest / (hottest + others + rest.toDouble * batch.getMaximumError)
    }
  }

  private def frequentInBatch = batch.getFrequentItems(ErrorType.NO_FALSE_NEGATIVES)

  private def square(rows: Long): Double = rows.toDouble * rows

  /** The hottest first: every key with a twentieth of the rows is among them. */
  def top: Seq[HotKey] = synchronized {
    val found = said.getOrElse(frequent)
    said = Some(found)
    found
  }

  private def frequent: Seq[HotKey] = {
    val both = new LongsSketch(SketchSize)
    both.merge(before)
    both.merge(now)
    val rows = both.getStreamLength
    both
      .getFrequentItems((rows * LeastShare).toLong, ErrorType.NO_FALSE_NEGATIVES)
      .iterator
      .map(found => found.getItem -> found.getEstimate.toDouble / rows)
      .filter(_._2 >= LeastShare)
      .toSeq
      .sortBy(-_._2)
      .take(Most)
      .map { case (key, share) => HotKey(f"${key.toInt}%08x", Option(values.get(key)), share) }
  }
}

private[laneshift] object HotKeys {

  /** Mean gap between two rows of the sample: a row in it costs a hash and an entry, a fraction of a microsecond. */
  val Every = 32

  /** So many of the first rows are all taken. */
  private val TakenWhole = 1024L

  /** A key with a fortieth of the rows is shown: one with a twentieth is missed only by great chance. */
  private val LeastShare = 0.025
  private val Most = 20

  /** Counters of a sketch: what it says is off by less than a hundredth of all rows. */
  private val SketchSize = 512
  private val BatchSketchSize = 1024
  private val WindowNs = 10000000000L
  private val TurnMask = 255L
  private val ValuesKept = 256
  private val Seed = 20130101L
}

/** Samples the rows of one input of a partition, from batch to batch. */
private[laneshift] final class KeySampler(val input: InputSpec, keys: HotKeys) {
  private lazy val hashOf = UnsafeProjection.create(Seq(input.hash))
  private var left = 1

  def saw(row: UnsafeRow): Unit = {
    left -= 1
    if (left == 0) left = keys.add(hashOf(row).getInt(0), valueOf(row))
  }

  private def valueOf(row: InternalRow): Option[String] = Option.when(input.shownKey.nonEmpty) {
    val text = input.shownKey.map(_.eval(row)).mkString(", ")
    if (text.length <= KeySampler.Shown) text else text.take(KeySampler.Shown) + "..."
  }
}

private object KeySampler {

  /** So many characters of a key's value are shown. */
  private val Shown = 100
}
