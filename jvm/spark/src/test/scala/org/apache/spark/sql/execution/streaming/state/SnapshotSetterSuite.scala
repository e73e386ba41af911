package org.apache.spark.sql.execution.streaming.state

import laneshift.testing.LimitedSuite

class SnapshotSetterSuite extends LimitedSuite {

  test("Spark's store has the setter that a forced snapshot under lanes needs") {
    val setters = classOf[RocksDBStateStoreProvider#RocksDBStateStore].getMethods
      .filter(_.getName.endsWith("forceSnapshotOnCommit_$eq"))
    assert(setters.length == 1 && setters.head.getParameterTypes.toSeq == Seq(classOf[Boolean]))
  }
}
