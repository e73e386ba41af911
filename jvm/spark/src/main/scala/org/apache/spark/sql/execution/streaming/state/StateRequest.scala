package org.apache.spark.sql.execution.streaming.state

import org.apache.spark.sql.laneshift.body.StateBytes

/** What a host asks of home. Stores and tables, the column families of a store, go by numbers that home gives. */
private[state] sealed trait StateRequest {
  def encoded: Array[Byte]
}

private[state] object StateRequest {

  final case class Open(id: StateStoreId, version: Long, schema: FamilySchema) extends StateRequest {
    override def encoded: Array[Byte] = new BytesOut()
      .byte(1)
      .text(id.checkpointRootLocation)
      .number(id.operatorId)
      .number(id.partitionId.toLong)
      .text(id.storeName)
      .number(version)
      .serialized(schema)
      .take()
  }

  final case class CreateFamily(store: Int, name: String, schema: FamilySchema, isInternal: Boolean)
      extends StateRequest {
    override def encoded: Array[Byte] =
      of(2, store).text(name).serialized(schema).bool(isInternal).take()
  }

  final case class RemoveFamily(store: Int, name: String) extends StateRequest {
    override def encoded: Array[Byte] = of(3, store).text(name).take()
  }

  final case class FamilyNames(store: Int) extends StateRequest {
    override def encoded: Array[Byte] = of(4, store).take()
  }

  final case class Get(table: Int, keys: Seq[Array[Byte]]) extends StateRequest {
    override def encoded: Array[Byte] = of(5, table).arrays(keys).take()
  }

  /** The value of a key, and of as many of those that will be asked for next as fit an answer. */
  final case class GetAhead(table: Int, key: Array[Byte], next: Seq[Array[Byte]]) extends StateRequest {
    override def encoded: Array[Byte] = of(13, table).array(key).arrays(next).take()
  }

  final case class PrefixScan(table: Int, prefix: Array[Byte]) extends StateRequest {
    override def encoded: Array[Byte] = of(6, table).array(prefix).take()
  }

  /** Of the lane's shards. */
  final case class Scan(table: Int, start: Option[Array[Byte]], end: Option[Array[Byte]])
      extends StateRequest {
    override def encoded: Array[Byte] =
      of(7, table).arrayOrNull(start.orNull).arrayOrNull(end.orNull).take()
  }

  final case class More(scan: Int) extends StateRequest {
    override def encoded: Array[Byte] = of(8, scan).take()
  }

  final case class CloseScan(scan: Int) extends StateRequest {
    override def encoded: Array[Byte] = of(9, scan).take()
  }

  /** Does these writes, which may be none, behind all that was sent before. */
  final case class Write(writes: Array[Byte]) extends StateRequest {
    override def encoded: Array[Byte] = new BytesOut().byte(10).array(writes).take()
  }

  /** The lane's next scan with all others. */
  final case class ScanTogether(table: Int, start: Option[Array[Byte]], end: Option[Array[Byte]])
      extends StateRequest {
    override def encoded: Array[Byte] =
      of(11, table).arrayOrNull(start.orNull).arrayOrNull(end.orNull).take()
  }

  /** The lane has written all it will write. */
  final case class Seal(store: Int) extends StateRequest {
    override def encoded: Array[Byte] = of(12, store).take()
  }

  private def of(kind: Int, number: Int): BytesOut = new BytesOut().byte(kind).number(number.toLong)

  def decode(bytes: Array[Byte]): StateRequest = {
    val in = new BytesIn(bytes)
    val request = in.byte() match {
      case 1 =>
        val id = StateStoreId(in.text(), in.number(), in.index(), in.text())
        Open(id, in.number(), in.serialized(classOf[FamilySchema]))
      case 2 => CreateFamily(in.index(), in.text(), in.serialized(classOf[FamilySchema]), in.bool())
      case 3 => RemoveFamily(in.index(), in.text())
      case 4 => FamilyNames(in.index())
      case 5 => Get(in.index(), in.several(in.array()))
      case 6 => PrefixScan(in.index(), in.array())
      case 7 => Scan(in.index(), Option(in.arrayOrNull()), Option(in.arrayOrNull()))
      case 8 => More(in.index())
      case 9 => CloseScan(in.index())
      case 10 => Write(in.array())
      case 11 => ScanTogether(in.index(), Option(in.arrayOrNull()), Option(in.arrayOrNull()))
      case 12 => Seal(in.index())
      case 13 => GetAhead(in.index(), in.array(), in.several(in.array()))
      case other => in.broken(s"there is no request $other")
    }
    in.end()
    request
  }
}

/** What home answers. */
private[state] object StateAnswer {

  final case class Opened(store: Int, table: Int, delimiterSize: Int, hasBaseId: Boolean)

  /** Some rows of a scan, and whether they were the last. */
  final case class Rows(scan: Int, rows: Seq[StateBytes], areLast: Boolean)

  def opened(answer: Opened): Array[Byte] = new BytesOut()
    .number(answer.store.toLong)
    .number(answer.table.toLong)
    .number(answer.delimiterSize.toLong)
    .bool(answer.hasBaseId)
    .take()

  def readOpened(bytes: Array[Byte]): Opened =
    read(bytes)(in => Opened(in.index(), in.index(), in.index(), in.bool()))

  def table(number: Int): Array[Byte] = new BytesOut().number(number.toLong).take()
  def readTable(bytes: Array[Byte]): Int = read(bytes)(_.index())

  def bool(value: Boolean): Array[Byte] = new BytesOut().bool(value).take()
  def readBool(bytes: Array[Byte]): Boolean = read(bytes)(_.bool())

  def names(all: Set[String]): Array[Byte] = {
    val out = new BytesOut().number(all.size.toLong)
    all.foreach(out.text)
    out.take()
  }
  def readNames(bytes: Array[Byte]): Set[String] = read(bytes)(in => in.several(in.text()).toSet)

  /** Null where a key has no value. */
  def values(all: Seq[Array[Byte]]): Array[Byte] = {
    val out = new BytesOut().number(all.size.toLong)
    all.foreach(out.arrayOrNull)
    out.take()
  }
  def readValues(bytes: Array[Byte]): Seq[Array[Byte]] = read(bytes)(in => in.several(in.arrayOrNull()))

  def rows(answer: Rows): Array[Byte] = {
    val out = new BytesOut().number(answer.scan.toLong).bool(answer.areLast).number(answer.rows.size.toLong)
    answer.rows.foreach(row => out.array(row.key).array(row.value))
    out.take()
  }
  def readRows(bytes: Array[Byte]): Rows = read(bytes) { in =>
    val (scan, areLast) = (in.index(), in.bool())
    Rows(scan, in.several(StateBytes(in.array(), in.array())), areLast)
  }

  /** None if other lanes scan something else at this point. */
  def togetherOrNot(answer: Option[Array[Byte]]): Array[Byte] =
    new BytesOut().arrayOrNull(answer.orNull).take()
  def readTogetherOrNot(bytes: Array[Byte]): Option[Rows] =
    read(bytes)(in => Option(in.arrayOrNull())).map(readRows)

  /** What the lane is to report whose seal was the commit. */
  final case class Committed(metrics: StateStoreMetrics, info: StateStoreCheckpointInfo)

  def committed(answer: Option[Committed]): Array[Byte] = {
    val out = new BytesOut().bool(answer.isDefined)
    answer.foreach(out.serialized)
    out.take()
  }
  def readCommitted(bytes: Array[Byte]): Option[Committed] =
    read(bytes)(in => Option.when(in.bool())(in.serialized(classOf[Committed])))

  val done: Array[Byte] = Array.emptyByteArray

  private def read[T](bytes: Array[Byte])(body: BytesIn => T): T = {
    val in = new BytesIn(bytes)
    val answer = body(in)
    in.end()
    answer
  }
}
