package org.apache.spark.sql.execution.streaming.state

import scala.util.Try

import org.rocksdb.{RocksDB => Native}

/** The native database in Spark's wrapper.
  *
  * Before Spark closes one it waits for its compactions, those included that wait in line behind other databases': an executor
  * has one thread for the compactions of all, and one takes seconds with a store of gigabytes. The database's own way to close takes
  * out of the line what has not begun.
  */
private[state] object NativeDatabase {
  private val field = Try {
    val found = classOf[RocksDB].getDeclaredField("db")
    found.setAccessible(true)
    found
  }.toOption.filter(_.getType == classOf[Native])

  /** Whether there is a database in this Spark's wrapper as we know it; otherwise it is closed by Spark alone. */
  def isKnown: Boolean = field.isDefined

  /** Closes it, if it is open. Nothing may count as loaded then. */
  def close(of: RocksDB): Unit =
    for (field <- field; open <- Option(field.get(of).asInstanceOf[Native])) {
      field.set(of, null)
      open.closeE()
    }
}
