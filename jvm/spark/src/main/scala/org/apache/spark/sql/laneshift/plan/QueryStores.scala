package org.apache.spark.sql.laneshift.plan

import java.util.IdentityHashMap

import org.apache.spark.sql.execution.streaming.state.{ElasticStateStoreProvider, RocksDBStateStoreProvider}
import org.apache.spark.sql.internal.SQLConf

/** Which provider a query's operators open their stores with: ours, by the name in the session that Spark has made for the
  * query's run. It is there from our rule until the last of the plan's regions has made its RDDs, and Spark's name at any
  * other time: what `foreachBatch` runs in that session, and the queries that it starts there, are not ours.
  */
private[plan] object QueryStores {
  private val Key = SQLConf.STATE_STORE_PROVIDER_CLASS.key
  private val Sparks = classOf[RocksDBStateStoreProvider].getName

  def ours(conf: SQLConf): Unit = conf.setConfString(Key, ElasticStateStoreProvider.className)

  /** Only a name of ours gives way: nobody else's configuration is touched. */
  def sparks(conf: SQLConf): Unit =
    if (conf.getConf(SQLConf.STATE_STORE_PROVIDER_CLASS) == ElasticStateStoreProvider.className)
      conf.setConfString(Key, Sparks)

  /** How many regions are making their RDDs now, by session: one inside the other, because an operator makes those below it
    * first, and at a time, because Spark broadcasts a side of a join from a thread of its own.
    */
  private val making = new IdentityHashMap[SQLConf, Int]

  /** Makes RDDs whose stores are ours. */
  def within[T](conf: SQLConf)(body: => T): T = {
    making.synchronized {
      making.merge(conf, 1, (a, b) => a + b)
      ours(conf)
    }
    try body
    finally making.synchronized {
        if (making.merge(conf, -1, (a, b) => a + b) == 0) {
          making.remove(conf)
          sparks(conf)
        }
      }
  }
}
