package org.apache.spark.sql.laneshift.spec

import java.util.{LinkedHashMap, Map => JMap}

/** What was used last, `most` at most: the rest is forgotten. Whoever shares it holds a lock. */
private[laneshift] final class RecentlyUsed[K, V](most: Int) extends LinkedHashMap[K, V](16, 0.75f, true) {
  override protected def removeEldestEntry(eldest: JMap.Entry[K, V]): Boolean = size > most
}
