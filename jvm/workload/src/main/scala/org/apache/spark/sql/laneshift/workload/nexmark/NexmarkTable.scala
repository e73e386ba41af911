package org.apache.spark.sql.laneshift.workload.nexmark

import org.apache.spark.sql.types._

/** One of the three tables. Of each 50 events that follow each other, 1 is a person, 3 are auctions and 46 are bids, in
  * this order.
  *
  * @param first the place among 50 events of the table's first one
  * @param count how many of 50 events are the table's
  */
private[nexmark] final case class NexmarkTable(name: String, first: Int, count: Int, schema: StructType) {

  /** How many of the first `events` events are the table's. */
  def rowsOf(events: Long): Long =
    events / NexmarkTable.Epoch * count + Math.min(Math.max(events % NexmarkTable.Epoch - first, 0), count)

  /** The event that is the table's row `row`. */
  def event(row: Long): Long = row / count * NexmarkTable.Epoch + first + row % count
}

private[nexmark] object NexmarkTable {

  /** Events after which the kinds repeat. */
  val Epoch = 50

  private def schema(columns: (String, DataType)*): StructType =
    StructType(columns.map { case (name, kind) => StructField(name, kind, nullable = false) })

  val Person: NexmarkTable = NexmarkTable(
    "person",
    0,
    1,
    schema(
      "id" -> LongType,
      "name" -> StringType,
      "email_address" -> StringType,
      "credit_card" -> StringType,
      "city" -> StringType,
      "state" -> StringType,
      "date_time" -> TimestampType,
      "extra" -> StringType
    )
  )

  val Auction: NexmarkTable = NexmarkTable(
    "auction",
    1,
    3,
    schema(
      "id" -> LongType,
      "item_name" -> StringType,
      "description" -> StringType,
      "initial_bid" -> LongType,
      "reserve" -> LongType,
      "date_time" -> TimestampType,
      "expires" -> TimestampType,
      "seller" -> LongType,
      "category" -> LongType,
      "extra" -> StringType
    )
  )

  val Bid: NexmarkTable = NexmarkTable(
    "bid",
    4,
    46,
    schema(
      "auction" -> LongType,
      "bidder" -> LongType,
      "price" -> LongType,
      "channel" -> StringType,
      "url" -> StringType,
      "date_time" -> TimestampType,
      "extra" -> StringType
    )
  )

  val All: Seq[NexmarkTable] = Seq(Person, Auction, Bid)
}
