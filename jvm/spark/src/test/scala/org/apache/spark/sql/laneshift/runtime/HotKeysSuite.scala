package org.apache.spark.sql.laneshift.runtime

import java.util.SplittableRandom

import laneshift.testing.LimitedSuite

/** The sketch against rows whose distribution is known. */
class HotKeysSuite extends LimitedSuite {

  /** Adds rows as a partition does: the keys' sampler skips those between two of the sample. */
  private final class Rows(clock: () => Long = () => 0L, shown: Boolean = false) {
    val keys = new HotKeys(clock)
    private var left = 1
    def add(key: Int): Unit = {
      left -= 1
      if (left == 0) left = keys.add(key, Option.when(shown)(s"key $key"))
    }
    def shares: Map[Int, Double] =
      keys.top.map(k => Integer.parseUnsignedInt(k.key, 16) -> k.share).toMap
  }

  /** Of a thousand rows that follow each other, so many are each of these keys'; the others are keys with one row in ten thousand. */
  private val hot = Map(-7 -> 200, 1 -> 100, 2 -> 52, 3 -> 52, 4 -> 51, 5 -> 30)

  private def thousand(cold: SplittableRandom): Array[Int] = {
    val rows = hot.toSeq.flatMap { case (key, count) => Seq.fill(count)(key) }
    (rows ++ Seq.fill(1000 - rows.size)(1000 + cold.nextInt(10000))).toArray
  }

  private def shuffled(rows: Array[Int], random: SplittableRandom): Array[Int] = {
    for (i <- rows.length - 1 to 1 by -1) {
      val j = random.nextInt(i + 1)
      val kept = rows(i)
      rows(i) = rows(j)
      rows(j) = kept
    }
    rows
  }

  private def checkHot(rows: Rows): Unit = {
    val found = rows.shares
    hot.filter(_._2 > 50).foreach { case (key, count) =>
      assert(found.get(key).exists(share => math.abs(share - count / 1000.0) < 0.015), (key, found))
    }
    assert(found.keySet.forall(hot.contains), found)
    assert(rows.keys.top.map(_.share) == rows.keys.top.map(_.share).sorted.reverse)
  }

  for (seed <- 1L to 10L)
    test(s"every key with a twentieth of the rows is found, rows at random, seed $seed") {
      val (rows, random) = (new Rows, new SplittableRandom(seed))
      (0 until 400).foreach(_ => shuffled(thousand(random), random).foreach(rows.add))
      checkHot(rows)
    }

  test("and in rows that repeat each other in whatever period, or come key by key") {
    for (period <- Seq(31, 32, 33, 64)) {
      val rows = new Rows
      (0 until 400000).foreach(i => rows.add(i % period))
      // None of them stands out.
      assert(rows.shares.values.forall(_ < 0.05), (period, rows.shares))
    }
    val rows = new Rows
    val random = new SplittableRandom(3)
    (0 until 400).foreach(_ => thousand(random).foreach(rows.add))
    checkHot(rows)
  }

  test("few rows are counted exactly") {
    val rows = new Rows
    Seq(8, 8, 9, 8).foreach(rows.add)
    assert(rows.shares == Map(8 -> 0.75, 9 -> 0.25))
    assert(new Rows().keys.top.isEmpty)
  }

  test("a key that cools down is forgotten, one that becomes hot is found") {
    var nowNs = 0L
    val rows = new Rows(() => nowNs)
    def seconds(count: Int, hottest: Int): Unit = (0 until count).foreach { _ =>
      (0 until 20000).foreach(i => rows.add(if (i % 2 == 0) hottest else 1000 + i))
      nowNs += 1000000000L
    }
    seconds(30, hottest = 1)
    assert(rows.keys.top.map(_.key) == Seq("00000001"))
    seconds(5, hottest = 2)
    assert(rows.shares.keySet == Set(1, 2))
    seconds(25, hottest = 2)
    assert(rows.shares.keySet == Set(2), rows.shares)
  }

  test("the hottest key of a batch is that of its own rows") {
    val rows = new Rows
    assert(rows.keys.hottestOfBatch.isEmpty)
    (0 until 100000).foreach(i => rows.add(if (i % 10 < 6) 1 else i))
    assert(rows.keys.hottestOfBatch.exists(share => math.abs(share - 0.6) < 0.05))
    rows.keys.batchBegins()
    (0 until 100000).foreach(rows.add)
    assert(rows.keys.hottestOfBatch.forall(_ < 0.05), rows.keys.hottestOfBatch)
    assert(rows.keys.top.headOption.exists(_.share > 0.2), "others ask for more than a batch")
  }

  test("a key's matches go with the square of its rows") {
    val few = new Rows
    assert(few.keys.hottestOfMatches.isEmpty)
    Seq(8, 8, 9, 8).foreach(few.add)
    assert(few.keys.hottestOfMatches.contains(0.9))
    // A tenth of the rows, among keys with three thousandths each, or hardly any.
    for (cold <- Seq(300, 100000)) {
      val (rows, random) = (new Rows, new SplittableRandom(7))
      (0 until 200000).foreach(i => rows.add(if (i % 10 == 0) -1 else random.nextInt(cold)))
      val share = rows.keys.hottestOfMatches
      assert(share.exists(found => found > 0.5 && found < 1.0), (cold, share))
    }
    for (keys <- Seq(30, 1000, 1000000)) {
      val (rows, random) = (new Rows, new SplittableRandom(8))
      (0 until 200000).foreach(_ => rows.add(random.nextInt(keys)))
      val share = rows.keys.hottestOfMatches
      assert(share.forall(_ < 0.1), (keys, share))
    }
  }

  test("values are kept of keys that are sampled, if they may be") {
    for (shown <- Seq(true, false)) {
      val rows = new Rows(shown = shown)
      val random = new SplittableRandom(1)
      (0 until 100000).foreach(i => rows.add(if (random.nextInt(10) < 6) 42 else 1000 + random.nextInt(5000)))
      assert(rows.keys.top.map(_.value) == Seq(Option.when(shown)("key 42")))
    }
  }
}
