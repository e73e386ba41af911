package org.apache.spark.sql.execution.streaming.state

import java.nio.file.Path
import java.util.UUID

import scala.collection.mutable
import scala.util.Random

import org.apache.hadoop.conf.Configuration
import org.scalatest.Assertions._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.laneshift.body._
import org.apache.spark.sql.laneshift.spec._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import laneshift.ids.LaneId
import laneshift.lane.{EndScans, ScanSource}

/** A partition whose shards a test moves, without threads. */
private[state] final class LonePartition(override val spec: ElasticSpec) extends SharedPartition {
  private val things = mutable.Map.empty[AnyRef, AnyRef]
  @volatile var owners: Array[Int] = Array.fill(spec.options.shards)(0)
  @volatile var stopped: Throwable = _

  def move(shard: Int, lane: Int): Unit = owners = owners.updated(shard, lane)

  override def participants: Int = 0
  override def routing: Array[Int] = owners
  override def failure: Throwable = stopped
  override def awaitWanted(): Unit = ()
  override def keptBytes(operatorId: Long): Long = 0L
  override def shared[T <: AnyRef](key: AnyRef)(open: => T): T =
    things.synchronized(things.getOrElseUpdate(key, open).asInstanceOf[T])
  override def sharedNow(key: AnyRef): Option[AnyRef] = things.synchronized(things.get(key))
  override def withTaskContext[T](body: => T): T = body
  override def scanTogether(lane: LaneId, what: Any)(
      open: => ScanSource[StateBytes]
  ): EndScans[StateBytes]#Part = throw new UnsupportedOperationException("nothing ends here")
}

private[state] final class LoneLane(
    override val lane: LaneId,
    override val partition: Option[SharedPartition],
    override val remoteState: Option[RemoteState]
) extends LaneContext {
  @volatile var restarting = false
  override def input(index: Int): Iterator[InternalRow] = Iterator.empty
  override def currentShard: Int = 0
  override def isRestarting: Boolean = restarting
  override def inputsEnded: Boolean = false
  override def perShard[T](operatorId: Long, write: T => Unit)(make: => T): IndexedSeq[T] = Vector(make)
  override def ownShards: Seq[Int] = Nil
}

/** Random operations of local lanes and lanes away from home on one store, between which shards move, against the same
  * operations on a store of Spark's own. The wire is a queue of frames in front of each question.
  */
object RemoteStateCheck {

  /** A state row's key: what was shuffled by, and something else. */
  private final case class Key(group: Long, rest: Long)
  private type Value = (Long, String)

  private val keySchema = new StructType().add("group", LongType).add("rest", LongType)
  private val valueSchema = new StructType().add("n", LongType).add("s", StringType)
  private val toKey = UnsafeProjection.create(keySchema)
  private val toPrefix = UnsafeProjection.create(new StructType().add("group", LongType))
  private val toValue = UnsafeProjection.create(valueSchema)
  private val hash = UnsafeProjection.create(
    Seq(new CollationAwareMurmur3Hash(Seq(BoundReference(0, LongType, nullable = true)), 42))
  )

  private def row(key: Key): UnsafeRow = toKey(InternalRow(key.group, key.rest)).copy()
  private def prefix(group: Long): UnsafeRow = toPrefix(InternalRow(group)).copy()
  private def row(value: Value): UnsafeRow =
    toValue(InternalRow(value._1, UTF8String.fromString(value._2))).copy()
  private def key(row: UnsafeRow): Key = Key(row.getLong(0), row.getLong(1))
  private def value(row: UnsafeRow): Value =
    if (row == null) null else (row.getLong(0), Option(row.getUTF8String(1)).fold(null: String)(_.toString))

  private final case class Family(name: String, spec: KeyStateEncoderSpec, isList: Boolean) {
    val schema: FamilySchema = FamilySchema(keySchema, valueSchema, spec, isList)
    val hasPrefix: Boolean = spec.isInstanceOf[PrefixKeyScanStateEncoderSpec]
    val hasRange: Boolean = spec.isInstanceOf[RangeKeyScanStateEncoderSpec]
    def addTo(store: StateStore): Unit =
      store.createColFamilyIfAbsent(name, keySchema, valueSchema, spec, isList, isInternal = false)
  }

  private val default =
    Family(StateStore.DEFAULT_COL_FAMILY_NAME, NoPrefixKeyStateEncoderSpec(keySchema), isList = false)
  private val others = Seq(
    Family("values", NoPrefixKeyStateEncoderSpec(keySchema), isList = false),
    Family("lists", NoPrefixKeyStateEncoderSpec(keySchema), isList = true),
    Family("map", PrefixKeyScanStateEncoderSpec(keySchema, 1), isList = false),
    Family("lists by prefix", PrefixKeyScanStateEncoderSpec(keySchema, 1), isList = true),
    Family("by time", RangeKeyScanStateEncoderSpec(keySchema, Seq(1)), isList = false)
  )

  /** Few of each, so that lanes come upon what others have left. */
  val Shards = 5
  private val Groups = 8
  private val Rests = 3
  private val Locals = Seq(0, 1)
  private val Hosts = Seq(2, 3)

  val spec: ElasticSpec = {
    val options = ElasticOptions.from(new SQLConf).copy(
      shards = Shards,
      lanes = Some(4),
      maxLanes = 4,
      remoteLanes = 2,
      remoteCacheBytes = 1L << 20,
      hotKeys = "none",
      balance = false
    )
    val operator = OperatorSpec(
      OperatorKey("query", "run", 0L),
      "operator",
      batchId = 0L,
      realTime = false,
      HandoffMode.MidBatch,
      partitions = 2,
      options,
      upstream = Nil,
      tasks = 2
    )
    ElasticSpec(
      operator,
      inputs = Nil,
      outputs = Nil,
      stateKeys = Map(0L -> StateKey(Seq(0), grouped = false)),
      onceMetrics = Set.empty,
      StateMetrics(Set.empty, Set.empty, Set.empty, Set.empty),
      sentAt = None,
      slots = 1,
      readsAhead = false,
      usesPython = false,
      commitsFirst = false
    )
  }

  private def shardOf(group: Long): Int =
    new ShardOfHash(spec.partitions, Shards)(hash(InternalRow(group)).getInt(0))

  def stateConf(options: (String, String)*): StateStoreConf = {
    val conf = new SQLConf
    options.foreach { case (k, v) => conf.setConfString(s"spark.sql.streaming.stateStore.$k", v) }
    new StateStoreConf(conf)
  }

  def open[P <: StateStoreProvider](provider: P, folder: Path, conf: StateStoreConf, families: Boolean): P = {
    val hadoop = new Configuration
    hadoop.set(StreamExecution.RUN_ID_KEY, UUID.randomUUID().toString)
    provider.init(
      StateStoreId(folder.toString, 0L, 0),
      keySchema,
      valueSchema,
      default.spec,
      families,
      conf,
      hadoop
    )
    provider
  }

  /** One lane's stores: two views, as an operator has that reads by one and writes by the other. */
  private final class Views(provider: ElasticStateStoreProvider, context: LoneLane, families: Seq[Family]) {
    val stores: Seq[StateStore] = LaneContext.within(context) {
      Seq(
        provider.getReadStore(0L, None),
        provider.getStore(0L, None, forceSnapshotOnCommit = false, loadEmpty = false)
      )
    }
    stores.foreach(store => families.foreach(_.addTo(store)))
  }

  /** A lane away from home, and its wire. */
  private final class Host(
      val lane: Int,
      provider: ElasticStateStoreProvider,
      partition: LonePartition,
      families: Seq[Family],
      val cacheBytes: Long
  ) {
    val home = new HomeStores(LaneId(lane), partition)
    val frames = mutable.Queue.empty[Array[Byte]]
    val toldLater = mutable.Set.empty[Int]
    val state = new HostStores(
      spec,
      LaneId(lane),
      cacheBytes,
      question => {
        deliver()
        home.answer(question)
      }
    )
    val views = new Views(provider, new LoneLane(LaneId(lane), None, Some(state)), families)

    /** A row has ended. */
    def frame(): Unit = state.sendWrites(frames += _)
    def deliver(): Unit = while (frames.nonEmpty) home.apply(frames.dequeue())
    def tell(shard: Int): Unit = if (toldLater.remove(shard)) state.arrived(Seq(shard))
    def end(): Unit = {
      frame()
      deliver()
      home.close()
    }
  }

  private final class OpenScan(
      val lane: Int,
      val rows: StateStoreIterator[UnsafeRowPair],
      expected: Seq[(Key, Value)],
      what: String
  ) {
    private val due = mutable.Queue.from(expected)

    /** Takes some rows; true if the scan is over. */
    def read(most: Int): Boolean = {
      var left = most
      while (left > 0 && rows.hasNext) {
        val pair = rows.next()
        val found = (key(pair.key), value(pair.value))
        assert(due.nonEmpty, s"$what: $found is too much")
        assert(found == due.dequeue(), what)
        left -= 1
      }
      if (left > 0) assert(due.isEmpty, s"$what: rows are missing")
      left > 0
    }
  }

  /** `steps` random operations. */
  def run(seed: Long, folder: Path, steps: Int = 400): Unit = new Run(seed, folder).all(steps)

  private final class Run(seed: Long, folder: Path) {
    private val random = new Random(seed)
    private val withFamilies = random.nextInt(5) > 0
    private val commas = random.nextBoolean()
    private val conf = stateConf(
      "rocksdb.mergeOperatorVersion" -> (if (commas) "1" else "2"),
      "rowChecksum.enabled" -> random.nextBoolean().toString,
      "rocksdb.trackTotalNumberOfRows" -> random.nextBoolean().toString
    )
    private val made =
      if (withFamilies) random.shuffle(others).take(1 + random.nextInt(3)) else Nil
    private val families = if (made.isEmpty || random.nextBoolean()) default +: made else made

    private val partition = new LonePartition(spec)
    private val stock = open(new RocksDBStateStoreProvider, folder.resolve("stock"), conf, withFamilies)
    private val reference = stock.getStore(0L)
    private val provider = open(new ElasticStateStoreProvider, folder.resolve("ours"), conf, withFamilies)
    private val locals = Locals.map { i =>
      i -> new Views(provider, new LoneLane(LaneId(i), Some(partition), None), made)
    }.toMap
    private val away =
      LaneContext.within(new LoneLane(LaneId(2), None, Some(new HostStores(spec, LaneId(2), 0L, identity)))) {
        open(new ElasticStateStoreProvider, folder.resolve("ours"), conf, withFamilies)
      }
    private val hosts = mutable.Map.empty[Int, Host]
    private val scans = mutable.ArrayBuffer.empty[OpenScan]
    private var values = 0L

    private def newHost(lane: Int): Unit =
      hosts(lane) = new Host(lane, away, partition, made, Seq(0L, 700L, 3000L, 1L << 20)(random.nextInt(4)))

    def all(steps: Int): Unit =
      try {
        made.foreach(_.addTo(reference))
        Hosts.foreach(newHost)
        (0 until Shards).foreach(s => partition.move(s, random.nextInt(4)))
        (1 to steps).foreach { step =>
          withClue(s"seed $seed, step $step: ")(this.step())
        }
        withClue(s"seed $seed, end: ") {
          scans.foreach(scan => assert(scan.read(Int.MaxValue)))
          hosts.values.foreach(_.end())
          sameContent()
        }
      } finally {
        locals.values.flatMap(_.stores).foreach(_.abort())
        partition.sharedNow(provider.stateStoreId).foreach(_.asInstanceOf[SharedStateStore].base.abort())
        reference.abort()
        Seq(provider, away, stock).foreach(_.close())
      }

    private def sameContent(): Unit = {
      val base = partition.sharedNow(provider.stateStoreId).get.asInstanceOf[SharedStateStore].base
      (default +: made).foreach { family =>
        assert(content(base, family) == content(reference, family), family.name)
      }
      assert(base.allColumnFamilyNames == reference.allColumnFamilyNames)
    }

    private def content(store: StateStore, family: Family): Seq[(Key, Value)] = {
      val rows =
        if (family.isList) store.iteratorWithMultiValues(family.name) else store.iterator(family.name)
      try rows.map(pair => (key(pair.key), value(pair.value))).toVector
      finally rows.close()
    }

    // ---- steps

    private def step(): Unit = random.nextInt(200) match {
      case n if n < 20 => move()
      case n if n < 30 => hosts.values.foreach(h => if (random.nextBoolean()) h.frame())
      case n if n < 40 => hosts.values.foreach(h => if (random.nextBoolean()) h.deliver())
      case n if n < 44 && scans.size < 3 => scan()
      case n if n < 54 && scans.nonEmpty => readScan()
      case 54 => restart()
      case 55 if made.nonEmpty => dropFamily()
      case 56 => familyNames()
      case _ => operate()
    }

    private def ofLane(lane: Int): Views = locals.getOrElse(lane, hosts(lane).views)
    private def view(lane: Int): StateStore = ofLane(lane).stores(random.nextInt(2))

    /** As the protocol has it: what a host has written of a shard is at home before the shard goes, and a host hears of a
      * shard before it touches it.
      */
    private def move(): Unit = {
      val shard = random.nextInt(Shards)
      val (from, to) = (partition.owners(shard), random.nextInt(4))
      if (from != to) {
        hosts.get(from).foreach { host =>
          host.frame()
          host.deliver()
        }
        partition.move(shard, to)
        hosts.get(to).foreach(_.toldLater += shard)
      }
    }

    /** A host's session ends, and another begins. */
    private def restart(): Unit = {
      val lane = Hosts(random.nextInt(Hosts.size))
      (0 until Shards).filter(partition.owners(_) == lane).foreach(partition.move(_, random.nextInt(2)))
      scans.filter(_.lane == lane).foreach(scan => if (random.nextBoolean()) scan.rows.close())
      scans.filterInPlace(_.lane != lane)
      hosts(lane).end()
      newHost(lane)
    }

    private val everDropped = mutable.Set.empty[String]

    /** Each lane's operators do so before their first row; the first of them means all that there was. */
    private def dropFamily(): Unit = {
      val family = made(random.nextInt(made.size))
      val lane = random.nextInt(4)
      hosts.values.filter(_.lane != lane).foreach { host =>
        host.frame()
        host.deliver()
        host.state.arrived(0 until Shards)
      }
      if (random.nextBoolean()) hosts.get(lane).foreach(_.frame())
      scans.foreach(_.rows.close())
      scans.clear()
      val dropped = view(lane).removeColFamilyIfExists(family.name)
      if (everDropped.add(family.name)) {
        assert(dropped == reference.removeColFamilyIfExists(family.name))
        family.addTo(reference)
      } else assert(!dropped, "what others have written since would be lost")
      (0 to 3).flatMap(ofLane(_).stores).foreach(family.addTo)
    }

    private def familyNames(): Unit =
      assert(view(random.nextInt(4)).allColumnFamilyNames == reference.allColumnFamilyNames)

    private def operate(): Unit = {
      val lane = random.nextInt(4)
      val groups = (0L until Groups.toLong).filter(g => partition.owners(shardOf(g)) == lane)
      if (groups.nonEmpty) {
        val group = groups(random.nextInt(groups.size))
        hosts.get(lane).foreach(_.tell(shardOf(group)))
        (0 to random.nextInt(4)).foreach(_ => operate(lane, families(random.nextInt(families.size)), group))
        hosts.get(lane).foreach { host =>
          assert(host.state.cachedBytes <= host.cacheBytes)
          if (random.nextInt(3) == 0) host.frame()
        }
      }
    }

    private def someKey(group: Long): Key = Key(group, random.nextInt(Rests).toLong)

    private def someValue(): Value = {
      values += 1
      (values, if (random.nextInt(5) == 0) null else "x" * random.nextInt(60))
    }

    private def someValues(): Array[UnsafeRow] =
      Array.fill((if (commas) 1 else 0) + random.nextInt(3))(row(someValue()))

    /** The same on both sides. */
    private def both(lane: Int)(write: StateStore => Unit): Unit = {
      write(reference)
      write(view(lane))
    }

    private def operate(lane: Int, family: Family, group: Long): Unit = {
      val k = row(someKey(group))
      random.nextInt(10) match {
        case 0 | 1 if family.isList =>
          val v = row(someValue())
          both(lane)(_.merge(k, v, family.name))
        case 2 if family.isList =>
          val vs = someValues()
          both(lane)(_.mergeList(k, vs, family.name))
        case 3 if family.isList =>
          val vs = someValues()
          both(lane)(_.putList(k, vs, family.name))
        case 0 | 1 | 2 =>
          val v = row(someValue())
          both(lane)(_.put(k, v, family.name))
        case 4 => both(lane)(_.remove(k, family.name))
        case 5 if family.hasPrefix => prefixScan(lane, family, group)
        case 6 if family.hasRange && random.nextInt(3) == 0 => deleteRange(lane, family)
        case 6 => assert(view(lane).keyExists(k, family.name) == reference.keyExists(k, family.name))
        case 7 if !family.isList =>
          val keys = Array.fill(random.nextInt(4))(row(someKey(group)))
          def get(store: StateStore) = store.multiGet(keys, family.name).map(value).toSeq
          assert(get(view(lane)) == get(reference))
        case _ => read(lane, family, k)
      }
    }

    private def read(lane: Int, family: Family, k: UnsafeRow): Unit =
      if (family.isList) {
        def get(store: StateStore) = store.valuesIterator(k, family.name).map(value).toVector
        assert(get(view(lane)) == get(reference), s"$family ${key(k)}")
      } else {
        def get(store: StateStore) = value(store.get(k, family.name))
        assert(get(view(lane)) == get(reference), s"$family ${key(k)}")
      }

    private def prefixScan(lane: Int, family: Family, group: Long): Unit = {
      def scan(store: StateStore) = {
        val rows =
          if (family.isList) store.prefixScanWithMultiValues(prefix(group), family.name)
          else store.prefixScan(prefix(group), family.name)
        rows.map(pair => (key(pair.key), value(pair.value))).toVector
      }
      assert(scan(view(lane)) == scan(reference), s"prefix scan of $family by lane $lane")
    }

    private def owned(lane: Int, rows: Iterator[UnsafeRowPair]): Vector[(Key, Value)] =
      rows.map(pair => (key(pair.key), value(pair.value)))
        .filter(r => partition.owners(shardOf(r._1.group)) == lane).toVector

    private def deleteRange(lane: Int, family: Family): Unit = {
      val (start, end) = (row(Key(0L, random.nextInt(Rests).toLong)), row(Key(0L, random.nextInt(4).toLong)))
      if (key(start).rest < key(end).rest) {
        tellNobody(lane)
        owned(lane, reference.rangeScan(Some(start), Some(end), family.name)).foreach { case (k, _) =>
          reference.remove(row(k), family.name)
        }
        view(lane).deleteRange(start, end, family.name)
      }
    }

    /** Scans see every shard that home has dealt to the lane; in half of the cases it has heard of them by then. */
    private def tellNobody(lane: Int): Unit =
      if (random.nextBoolean()) hosts.get(lane).foreach(host => (0 until Shards).foreach(host.tell))

    private def scan(): Unit = {
      val lane = random.nextInt(4)
      val family = families(random.nextInt(families.size))
      tellNobody(lane)
      val ranged = family.hasRange && random.nextBoolean()
      val (start, end) =
        if (!ranged) (None, None)
        else
          (
            Option.when(random.nextInt(4) > 0)(row(Key(0L, random.nextInt(2).toLong))),
            Option.when(random.nextInt(4) > 0)(row(Key(5L, 2L)))
          )
      def open(store: StateStore) =
        if (ranged) store.rangeScan(start, end, family.name)
        else if (family.isList) store.iteratorWithMultiValues(family.name)
        else store.iterator(family.name)
      val expected = owned(lane, open(reference))
      val scanned = new OpenScan(lane, open(view(lane)), expected, s"scan of $family by lane $lane")
      if (!scanned.read(random.nextInt(10))) scans += scanned
      // What it has found it may read, whether or not it has heard of the shards.
      expected.take(3).foreach { case (k, _) => read(lane, family, row(k)) }
    }

    private def readScan(): Unit = {
      val at = random.nextInt(scans.size)
      if (random.nextInt(6) == 0) scans.remove(at).rows.close()
      else if (scans(at).read(random.nextInt(10))) scans.remove(at)
      ()
    }
  }
}
