package org.apache.spark.sql.laneshift.workload

/** `format("laneshift-nexmark")`: the people, auctions and bids of the NEXMark benchmark, in micro-batches, in Real-time
  * Mode and as a batch. See `docs/workload.md`.
  *
  * The proportions, the ranges of ids and prices and the way in which sellers, auctions and bidders become hot follow
  * Apache Beam's NEXMark suite, which names them; the rows themselves are our own, since each must follow from its
  * number alone.
  *
  * In Spark's package with the workload source, from which it takes options, offsets, pacing and the reader.
  */
package object nexmark
