package org.apache.spark.sql.execution.streaming.state

/** One write of a frame: as the operator made it, because a store keeps a list value by value. */
private[state] sealed trait StateWrite {
  def table: Int
  def key: Array[Byte]
}

private[state] object StateWrite {
  final case class Put(table: Int, key: Array[Byte], value: Array[Byte]) extends StateWrite
  final case class Remove(table: Int, key: Array[Byte]) extends StateWrite
  final case class PutList(table: Int, key: Array[Byte], values: List[Array[Byte]]) extends StateWrite
  final case class Merge(table: Int, key: Array[Byte], value: Array[Byte]) extends StateWrite
  final case class MergeList(table: Int, key: Array[Byte], values: List[Array[Byte]]) extends StateWrite

  def encode(write: StateWrite, out: BytesOut): Unit = {
    def begin(kind: Int) = out.byte(kind).number(write.table.toLong).array(write.key)
    write match {
      case Put(_, _, value) => begin(1).array(value)
      case Remove(_, _) => begin(2)
      case PutList(_, _, values) => begin(3).arrays(values)
      case Merge(_, _, value) => begin(4).array(value)
      case MergeList(_, _, values) => begin(5).arrays(values)
    }
    ()
  }

  /** All writes of a frame, in their order. */
  def decodeAll(bytes: Array[Byte]): Seq[StateWrite] = {
    val in = new BytesIn(bytes)
    val writes = Vector.newBuilder[StateWrite]
    while (in.hasMore) {
      val kind = in.byte()
      val (table, key) = (in.index(), in.array())
      writes += (kind match {
        case 1 => Put(table, key, in.array())
        case 2 => Remove(table, key)
        case 3 => PutList(table, key, in.several(in.array()).toList)
        case 4 => Merge(table, key, in.array())
        case 5 => MergeList(table, key, in.several(in.array()).toList)
        case other => in.broken(s"there is no write $other")
      })
    }
    writes.result()
  }
}
