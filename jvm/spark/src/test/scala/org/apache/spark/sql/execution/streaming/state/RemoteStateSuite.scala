package org.apache.spark.sql.execution.streaming.state

import java.nio.file.Files

import scala.util.{Failure, Random, Success, Try}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection}
import org.apache.spark.sql.laneshift.ElasticSession
import org.apache.spark.sql.laneshift.body.{LaneContext, StateBytes}
import org.apache.spark.sql.laneshift.spec.StateRead
import org.apache.spark.sql.types._

import laneshift.ids.LaneId
import laneshift.lane.PartitionStopped
import laneshift.testing.{Deep, LimitedSuite}

class RemoteStateSuite extends LimitedSuite {
  import ElasticSession.withFolder

  private val seeds = 200

  test(s"$seeds random courses of local lanes and lanes away from home equal Spark's own store", Deep.Pairs) {
    (0 until seeds).foreach(seed => withFolder(RemoteStateCheck.run(seed.toLong, _)))
  }

  test("some random courses") {
    (seeds until seeds + 20).foreach(seed => withFolder(RemoteStateCheck.run(seed.toLong, _)))
  }

  // ---- messages

  private val schema = new StructType().add("n", LongType)
  private val family =
    FamilySchema(schema, schema, NoPrefixKeyStateEncoderSpec(schema), multipleValues = true)
  private def bytes(n: Int*): Array[Byte] = n.map(_.toByte).toArray

  private lazy val requests: Seq[StateRequest] = Seq(
    StateRequest.Open(StateStoreId("a folder", 3L, 200, "left"), Long.MaxValue, family),
    StateRequest.CreateFamily(1, "a family", family, isInternal = true),
    StateRequest.RemoveFamily(1, ""),
    StateRequest.FamilyNames(130),
    StateRequest.Get(70000, Seq(bytes(1, 2), bytes())),
    StateRequest.PrefixScan(2, bytes(-1)),
    StateRequest.Scan(2, None, Some(bytes(5))),
    StateRequest.GetAhead(2, bytes(1), Seq(bytes(), bytes(3))),
    StateRequest.ScanTogether(2, Some(bytes()), None),
    StateRequest.Write(encoded(writes)),
    StateRequest.Seal(7),
    StateRequest.More(Int.MaxValue),
    StateRequest.CloseScan(0)
  )

  private val writes: Seq[StateWrite] = Seq(
    StateWrite.Put(0, bytes(1), bytes()),
    StateWrite.Remove(300, bytes(2)),
    StateWrite.PutList(1, bytes(3), List(bytes(1), bytes())),
    StateWrite.Merge(1, bytes(4), bytes(9, 9)),
    StateWrite.MergeList(1, bytes(5), Nil)
  )

  private def encoded(all: Seq[StateWrite]): Array[Byte] = {
    val out = new BytesOut
    all.foreach(StateWrite.encode(_, out))
    out.take()
  }

  /** Arrays as what is in them. */
  private def plain(value: Any): Any = value match {
    case array: Array[Byte] => array.toSeq
    case some: Iterable[_] => some.map(plain)
    case Some(one) => Some(plain(one))
    case row: Product => row.productIterator.map(plain).toSeq
    case other => other
  }

  test("what is asked and written comes home as it was") {
    requests.foreach(r => assert(plain(StateRequest.decode(r.encoded)) == plain(r)))
    assert(plain(StateWrite.decodeAll(encoded(writes))) == plain(writes))
    val rows =
      StateAnswer.Rows(3, Seq(StateBytes(bytes(1), bytes()), StateBytes(bytes(2), bytes(3))), areLast = true)
    assert(plain(StateAnswer.readRows(StateAnswer.rows(rows))) == plain(rows))
    val values = Seq(null, bytes(), bytes(7))
    assert(plain(StateAnswer.readValues(StateAnswer.values(values))) == plain(values))
    val opened = StateAnswer.Opened(1, 2, 0, hasBaseId = true)
    assert(StateAnswer.readOpened(StateAnswer.opened(opened)) == opened)
    assert(StateAnswer.readTogetherOrNot(StateAnswer.togetherOrNot(None)).isEmpty)
    val together = StateAnswer.togetherOrNot(Some(StateAnswer.rows(rows)))
    assert(plain(StateAnswer.readTogetherOrNot(together)) == plain(Some(rows)))
    val committed = StateAnswer.Committed(
      StateStoreMetrics(3L, 4L, Map(StateStoreCustomSumMetric("name", "what") -> 5L), Map.empty),
      StateStoreCheckpointInfo(1, 2L, Some("id"), None)
    )
    Seq(None, Some(committed)).foreach(c =>
      assert(StateAnswer.readCommitted(StateAnswer.committed(c)) == c)
    )
    assert(StateAnswer.readNames(StateAnswer.names(Set("a", ""))) == Set("a", ""))
  }

  /** Reads it, or says that it cannot be read. */
  private def readOrRefused(read: => Any): Unit = Try(read) match {
    case Success(_) | Failure(_: IllegalArgumentException) => ()
    case Failure(other) => fail("another error than that the message cannot be read", other)
  }

  test("a message that is cut off or has more is refused, any other is read or refused") {
    requests.map(_.encoded).foreach { whole =>
      whole.indices.foreach { n =>
        intercept[IllegalArgumentException](StateRequest.decode(whole.take(n)))
      }
      intercept[IllegalArgumentException](StateRequest.decode(whole :+ 0.toByte))
    }
    val frame = encoded(writes)
    frame.indices.foreach(n => readOrRefused(StateWrite.decodeAll(frame.take(n))))
    val random = new Random(3)
    // Java's serialisation of what a family is has its own way with changed bytes.
    val plainOnes = requests.drop(2).map(_.encoded)
    (1 to 20000).foreach { _ =>
      def changed(whole: Array[Byte]): Array[Byte] = {
        val copy = whole.clone()
        copy(random.nextInt(copy.length)) = random.nextInt().toByte
        copy
      }
      readOrRefused(StateRequest.decode(changed(plainOnes(random.nextInt(plainOnes.size)))))
      readOrRefused(StateWrite.decodeAll(changed(frame)))
      readOrRefused(StateAnswer.readRows(changed(frame)))
      readOrRefused(StateAnswer.readValues(changed(frame)))
    }
  }

  // ---- home

  private val partition = new LonePartition(RemoteStateCheck.spec)
  private val notOpen = StateRequest.Open(StateStoreId("nowhere", 0L, 0), 0L, family).encoded

  test("home refuses numbers that it has not given") {
    val home = new HomeStores(LaneId(1), partition)
    requests.tail.dropRight(1).foreach { request =>
      intercept[IllegalArgumentException](home.answer(request.encoded))
    }
    intercept[IllegalArgumentException](home.apply(encoded(writes)))
  }

  private def inThread(body: => Any): (Thread, () => Try[Any]) = {
    @volatile var result: Try[Any] = null
    val thread = new Thread(() =>
      result = Try(try body
      catch { case e: InterruptedException => throw new RuntimeException(e) })
    )
    thread.start()
    (thread, () => { thread.join(); result })
  }

  test("a store that is not open yet is waited for, until the partition stops or somebody interrupts") {
    val (thread, ended) = inThread(new HomeStores(LaneId(1), partition).answer(notOpen))
    Thread.sleep(20L)
    assert(thread.isAlive)
    thread.interrupt()
    assert(ended().failed.get.getCause.isInstanceOf[InterruptedException])

    val stopping = new LonePartition(RemoteStateCheck.spec)
    val (_, stopped) = inThread(new HomeStores(LaneId(1), stopping).answer(notOpen))
    stopping.stopped = new RuntimeException("over")
    assert(stopped().failed.get.isInstanceOf[PartitionStopped])
  }

  // ---- keys that are expected

  test(
    "each expected key is given once for each column family, in the order of the rows, within a bound"
  ) {
    val toRow = UnsafeProjection.create(schema)
    val read = StateRead(0L, Seq(BoundReference(0, LongType, nullable = true)))
    def expecting(limit: Long) = {
      val keys = new ExpectedKeys(read, limit)
      Seq(3L, 1L, 3L, 2L).foreach(n => keys.add(toRow(InternalRow(n))))
      (table: Int, most: Int) => keys.take(table, most).map(_.getLong(0))
    }
    val take = expecting(limit = 1000L)
    assert(take(1, 2) == Seq(3L, 1L) && take(1, 2) == Seq(2L) && take(1, 2).isEmpty)
    assert(take(2, 9) == Seq(3L, 1L, 2L))
    assert(expecting(limit = 20L)(1, 9) == Seq(3L, 1L) && expecting(limit = 0L)(1, 9).isEmpty)
  }

  // ---- the provider

  test("a provider away from home has no database, and does nothing about it") {
    withFolder { folder =>
      val state = new HostStores(RemoteStateCheck.spec, LaneId(1), 1L << 20, answerOpen)
      val lane = new LoneLane(LaneId(1), None, Some(state))
      val provider = new ElasticStateStoreProvider
      LaneContext.within(lane) {
        RemoteStateCheck.open(
          provider,
          folder.resolve("state"),
          RemoteStateCheck.stateConf(),
          families = true
        )
        val read = provider.getReadStore(5L, None)
        val store = provider.upgradeReadStoreToWriteStore(read, 5L, None, forceSnapshotOnCommit = true)
        assert(store.version == 5L && store.id == provider.stateStoreId)
        assert(store.metrics == StateStoreMetrics(0, 0, Map.empty, Map.empty))
        assert(store.getStateStoreCheckpointInfo().stateStoreCkptId.contains(SharedStateStore.SealedMark))
        val ended = intercept[IllegalStateException](store.commit())
        assert(ended.getMessage.contains("away from home"))
        lane.restarting = true
        assert(store.commit() == 6L && store.hasCommitted && !store.iterator("default").hasNext)
        store.abort()
      }
      provider.supportedCustomMetrics
      provider.supportedInstanceMetrics
      provider.doMaintenance()
      provider.doSnapshotMaintenance()
      provider.doCleanupMaintenance()
      provider.close()
      provider.close()
      val lost = intercept[IllegalStateException](provider.getStore(5L, None, false, false))
      assert(lost.getMessage.contains("for lanes only"))
      assert(!Files.exists(folder.resolve("state")))
    }
  }

  private def answerOpen(request: Array[Byte]): Array[Byte] = StateRequest.decode(request) match {
    case _: StateRequest.Open => StateAnswer.opened(StateAnswer.Opened(0, 0, 0, hasBaseId = true))
    case other => fail(s"nobody should ask for $other")
  }
}
