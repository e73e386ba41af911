package org.apache.spark.sql.execution.streaming.state

import java.nio.ByteBuffer
import java.util.{ArrayDeque, HashMap}

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.laneshift.body.{SharedPartition, StateBytes}

import laneshift.ids.LaneId
import laneshift.lane.{EndScans, PartitionStopped}

/** The stores of a partition for one of its lanes that runs elsewhere: does the lane's writes and answers what it asks, both
  * in the order in which they come. One thread uses it, and closes it before the task ends.
  */
private[sql] final class HomeStores(lane: LaneId, partition: SharedPartition) {
  import HomeStores._

  private val stores = new ArrayBuffer[Store]
  private val tables = new ArrayBuffer[Table]
  private val scans = new HashMap[Int, OpenScan]
  private var lastScan = 0

  /** Does what the lane has written, all of it or, if it cannot be read, nothing. */
  def apply(writes: Array[Byte]): Unit = {
    val all = StateWrite.decodeAll(writes)
    all.foreach(write => numbered(tables, write.table))
    // What has been written to a table is gone with it, though it comes later.
    all.foreach(write => if (!tables(write.table).isRemoved) tables(write.table).write(write))
    stores.foreach(_.writes.settle())
  }

  def answer(request: Array[Byte]): Array[Byte] = StateRequest.decode(request) match {
    case open: StateRequest.Open => StateAnswer.opened(opened(open))
    case StateRequest.CreateFamily(store, name, schema, isInternal) =>
      val at = numbered(stores, store)
      at.shared.createFamily(name, schema, isInternal)
      StateAnswer.table(table(at, name, schema))
    case StateRequest.RemoveFamily(store, name) =>
      val at = numbered(stores, store)
      at.encoders.remove(name)
      val isRemoved = at.shared.removeFamily(name)
      if (isRemoved) tables.find(_.is(at, name)).foreach(_.isRemoved = true)
      StateAnswer.bool(isRemoved)
    case StateRequest.FamilyNames(store) =>
      StateAnswer.names(numbered(stores, store).shared.base.allColumnFamilyNames)
    case StateRequest.Get(table, keys) =>
      StateAnswer.values(there(table).get(keys))
    case StateRequest.GetAhead(table, key, next) =>
      StateAnswer.values(there(table).getAhead(key, next))
    case StateRequest.PrefixScan(table, prefix) =>
      rows(there(table).prefixScan(prefix))
    case StateRequest.Scan(table, start, end) =>
      rows(there(table).scan(start, end))
    case StateRequest.More(scan) =>
      rows(Option(scans.get(scan)).getOrElse(unknown(s"scan $scan")), scan)
    case StateRequest.CloseScan(scan) =>
      Option(scans.remove(scan)).foreach(_.close())
      StateAnswer.done
    case StateRequest.Write(writes) =>
      apply(writes)
      StateAnswer.done
    case StateRequest.ScanTogether(table, start, end) =>
      StateAnswer.togetherOrNot(there(table).scanTogether(start, end).map(rows))
    case StateRequest.Seal(store) => StateAnswer.committed(numbered(stores, store).seal())
  }

  /** Ends the scans that are still open. */
  def close(): Unit = {
    scans.values.forEach(_.close())
    scans.clear()
  }

  // ---- stores and tables

  /** The local lanes open the stores: one that they have not come to yet is waited for. */
  private def opened(open: StateRequest.Open): StateAnswer.Opened = {
    val shared = awaited(open.id)
    if (shared.base.version != open.version)
      throw new IllegalStateException(
        s"lane ${lane.value} wants version ${open.version} of ${open.id}, which is open in version ${shared.base.version}"
      )
    if (!stores.exists(_.shared eq shared)) stores += new Store(shared, lane, partition)
    val store = stores.indexWhere(_.shared eq shared)
    val default = table(stores(store), StateStore.DEFAULT_COL_FAMILY_NAME, open.schema)
    StateAnswer.Opened(store, default, shared.db.delimiterSize, shared.hasBaseId)
  }

  private def awaited(id: StateStoreId): SharedStateStore = {
    var found = partition.sharedNow(id)
    while (found.isEmpty) {
      if (partition.failure != null) throw new PartitionStopped(partition.failure)
      Thread.sleep(1L)
      found = partition.sharedNow(id)
    }
    found.get.asInstanceOf[SharedStateStore]
  }

  /** The number of a column family. One that was removed and made again is another table. */
  private def table(store: Store, name: String, schema: FamilySchema): Int = {
    store.encoders.add(name, schema)
    if (!tables.exists(_.is(store, name))) tables += new Table(store, name)
    tables.indexWhere(_.is(store, name))
  }

  private def there(table: Int): Table = {
    val found = numbered(tables, table)
    if (found.isRemoved) unknown(s"removed table $table")
    found
  }

  private def numbered[T](all: ArrayBuffer[T], number: Int): T =
    if (number < all.size) all(number) else unknown(s"number $number")

  private def unknown(what: String): Nothing =
    throw new IllegalArgumentException(s"lane ${lane.value} asks for what it has not opened: $what")

  // ---- scans

  private def rows(scan: OpenScan): Array[Byte] = {
    lastScan += 1
    scans.put(lastScan, scan)
    rows(scan, lastScan)
  }

  /** The next rows of the lane: none only if they are the last. */
  private def rows(scan: OpenScan, number: Int): Array[Byte] = {
    var some = scan.fetch()
    while (some.isEmpty && !scan.isOver) some = scan.fetch()
    if (scan.isOver) scans.remove(number)
    StateAnswer.rows(StateAnswer.Rows(number, some, scan.isOver))
  }
}

private object HomeStores {

  /** A store that the lane has opened, with encoders of its own here, too. */
  private final class Store(val shared: SharedStateStore, lane: LaneId, partition: SharedPartition) {
    private val id = shared.base.id
    val encoders = new LaneEncoders(id, shared.db.delimiterSize, shared.encoding, s"${lane.value} at home")
    val shards = new LaneShards(lane, partition, id.operatorId, encoders)
    val writes: LaneWrites = shared.writes(lane)

    /** What the lane is to report, if its seal was the commit. */
    def seal(): Option[StateAnswer.Committed] = {
      shared.seal(lane)
      Option.when(shared.isCommitter(lane))(
        StateAnswer.Committed(shared.base.metrics, shared.base.getStateStoreCheckpointInfo())
      )
    }

    def together(what: StoreScan): Option[EndScans[StateBytes]#Part] =
      Option(partition.scanTogether(lane, what)(shared.scan(what, NativeScan.ForSeveral)))
  }

  private final class Table(store: Store, family: String) {
    var isRemoved = false

    private val shared = store.shared
    private val db = shared.db

    def is(store: Store, name: String): Boolean = !isRemoved && (this.store eq store) && family == name

    def get(keys: Seq[Array[Byte]]): Seq[Array[Byte]] =
      if (keys.size == 1) Seq(db.get(keys.head, family)) else db.multiGet(keys.toArray, family).toSeq

    /** The first value, and as many of the others, in order, as fit an answer. */
    def getAhead(key: Array[Byte], next: Seq[Array[Byte]]): Seq[Array[Byte]] = {
      var bytes = 0L
      (Iterator(key) ++ next.iterator.takeWhile(_ => bytes < AnswerBytes)).map { key =>
        val value = db.get(key, family)
        if (value != null) bytes += value.length
        value
      }.toVector
    }

    def prefixScan(prefix: Array[Byte]): OpenScan =
      new LoneScan(shared.prefixScan(prefix, family, NativeScan.ForSeveral), _ => true)

    /** Which shards are the lane's is read before the scan opens, as for a scan at home. */
    def scan(start: Option[Array[Byte]], end: Option[Array[Byte]]): OpenScan = {
      val owns = store.shards.ownership(family)
      val encoder = store.encoders(family).key
      new LoneScan(
        shared.scan(between(start, end), NativeScan.ForSeveral),
        key => owns(encoder.decodeKey(key))
      )
    }

    /** None if other lanes scan something else at this point. */
    def scanTogether(start: Option[Array[Byte]], end: Option[Array[Byte]]): Option[OpenScan] =
      store.together(between(start, end)).map { part =>
        val owner = store.shards.owner(family)
        val encoder = store.encoders(family).key
        new ScanPart(part, key => owner(encoder.decodeKey(key)))
      }

    private def between(start: Option[Array[Byte]], end: Option[Array[Byte]]): StoreScan =
      StoreScan(shared.base.id, family, start.map(ByteBuffer.wrap), end.map(ByteBuffer.wrap))

    def write(write: StateWrite): Unit = write match {
      case StateWrite.Put(_, key, value) => store.writes.put(key, value, family, keep = true)
      case StateWrite.Remove(_, key) => store.writes.remove(key, family, keep = true)
      case StateWrite.PutList(_, key, values) => direct(db.putList(key, values, family))
      case StateWrite.Merge(_, key, value) => direct(db.merge(key, value, family))
      case StateWrite.MergeList(_, key, values) => direct(db.mergeList(key, values, family))
    }

    private def direct(write: => Unit): Unit = store.writes.settled(shared.lock.synchronized(write))
  }

  private trait OpenScan {

    /** Some of the lane's rows; maybe none, though there are more. */
    def fetch(): Seq[StateBytes]

    /** There are no more rows to fetch. */
    def isOver: Boolean
    def close(): Unit
  }

  private final class LoneScan(source: NativeScan, owns: Array[Byte] => Boolean) extends OpenScan {
    override def fetch(): Seq[StateBytes] = source.fetch().asScala.filter(row => owns(row.key)).toVector
    override def isOver: Boolean = source.isOver
    override def close(): Unit = source.close()
  }

  /** The lane's part of a scan that all lanes make. */
  private final class ScanPart(part: EndScans[StateBytes]#Part, owner: Array[Byte] => Int) extends OpenScan {
    private var taken = new ArrayDeque[StateBytes]
    private var ended = false

    override def fetch(): Seq[StateBytes] = {
      if (taken.isEmpty && !ended) {
        taken = part.take(row => owner(row.key))
        ended = taken.isEmpty
      }
      val some = Vector.newBuilder[StateBytes]
      var bytes = 0L
      while (!taken.isEmpty && bytes < AnswerBytes) {
        bytes += taken.peekFirst.size
        some += taken.pollFirst()
      }
      some.result()
    }
    override def isOver: Boolean = ended && taken.isEmpty
    override def close(): Unit = part.close()
  }

  /** Rows of a scan or values in one answer, and one more. */
  private val AnswerBytes = 128L * 1024
}
