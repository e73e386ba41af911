package org.apache.spark.sql.laneshift.workload

/** `format("laneshift-replay")`: a file's rows as a stream, for demos and tests, in micro-batches and in Real-time
  * Mode. See `docs/workload.md`. The driver reads the files once, when a query starts, and deals their rows out
  * to blocks of encoded rows, one a partition, which it broadcasts.
  *
  * In Spark's package with the workload source, from which it takes options, offsets, pacing and the reader;
  * it also asks a plan of the classic session for its encoded rows.
  */
package object replay
