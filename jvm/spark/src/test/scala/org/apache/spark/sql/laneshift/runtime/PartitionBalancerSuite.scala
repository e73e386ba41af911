package org.apache.spark.sql.laneshift.runtime

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.laneshift.spec.ElasticOptions

import laneshift.testing.LimitedSuite

class PartitionBalancerSuite extends LimitedSuite {

  test("while a planner decides, shards stay; after its time, or once it lets go, they move again") {
    val second = 1000000000L
    var nowNs = -5L * second
    val options = ElasticOptions.from(new SQLConf).copy(shards = 4, balance = true, threshold = 1.2)
    val balancer = new PartitionBalancer(options, () => nowNs)
    balancer.remember(Array(8.0, 8.0, 0.0, 0.0))
    def moves: Boolean = balancer.route(Array(0, 0, 1, 1), 2).toSeq != Seq(0, 0, 1, 1)
    assert(moves)
    balancer.rest(10.0)
    nowNs += 10 * second - 1
    assert(!moves)
    nowNs += 1
    assert(moves)
    balancer.rest(10.0)
    assert(!moves)
    balancer.rest(0.0)
    assert(moves)
  }
}
