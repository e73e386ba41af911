package laneshift.lane.explore

import java.util.SplittableRandom

import laneshift.lane.{InletLimits, QueueTime}

/** How a lane's operators treat rows and recalls (docs/handoff.md, section 5). */
sealed trait Granularity

object Granularity {
  case object MidBatch extends Granularity
  case object MidBatchRestart extends Granularity
  case object BetweenBatches extends Granularity
}

/** The small partition that one schedule runs. Bytes are those of rows. */
final case class Scenario(
    shards: Int,
    keys: Int,
    lanes: Int,
    maxLanes: Int,
    granularity: Granularity,
    blockRows: Int,
    limits: InletLimits,
    outletBytes: Long,
    rowBytes: Int,
    /** Draws a key as the least of so many: 1 is no skew. */
    skew: Int,
    batches: Int,
    /** Of each batch, read one after the other. */
    inputs: Int,
    /** Of the store at the end of each batch, and the bound of rows that wait for one lane in each. */
    scans: Int,
    scanBytes: Long,
    /** Most rows and wishes of a batch. */
    rows: Int,
    wishes: Int,
    remote: RemoteScenario = RemoteScenario.None
) {
  def shardOf(key: Int): Int = key % shards
}

/** Its remote lanes. */
final case class RemoteScenario(
    lanes: Int,
    /** Bytes of rows that a host may have without having acknowledged them. */
    windowBytes: Long,
    /** Most openings, releases and losses of a batch. */
    fates: Int,
    /** Hosts are lost. */
    losses: Boolean
)

object RemoteScenario {
  val None: RemoteScenario = RemoteScenario(lanes = 0, windowBytes = 0, fates = 0, losses = false)

  def draw(random: SplittableRandom, granularity: Granularity): RemoteScenario =
    if (granularity == Granularity.BetweenBatches || random.nextInt(4) > 0) None
    else RemoteScenario(
      lanes = 1 + random.nextInt(2),
      windowBytes = 1L + random.nextInt(if (random.nextBoolean()) 20 else 80),
      fates = random.nextInt(6),
      // Where a loss fails the batch, it shall not be all that happens.
      losses = random.nextInt(if (granularity == Granularity.MidBatch) 4 else 3) > 0 ==
        (granularity == Granularity.MidBatch)
    )
}

object Scenario {
  private def drawTime(random: SplittableRandom): Option[QueueTime] =
    Option.when(random.nextBoolean())(QueueTime(1L + random.nextInt(100), 1L + random.nextInt(3)))

  def draw(random: SplittableRandom): Scenario = {
    def upTo(n: Int): Int = 1 + random.nextInt(n)
    val shards = upTo(6)
    val maxLanes = upTo(4)
    val tiny = random.nextInt(3) == 0
    val granularity = random.nextInt(10) match {
      case 0 => Granularity.BetweenBatches
      case 1 | 2 | 3 => Granularity.MidBatchRestart
      case _ => Granularity.MidBatch
    }
    val remote = RemoteScenario.draw(random, granularity)
    Scenario(
      shards,
      keys = shards + random.nextInt(4),
      lanes = upTo(maxLanes),
      maxLanes,
      granularity,
      blockRows = upTo(4),
      InletLimits(maxLanes, queueBytes = upTo(if (tiny) 2 else 60), remote.lanes, drawTime(random)),
      outletBytes = upTo(40),
      rowBytes = if (random.nextInt(4) == 0) 100 else 10,
      skew = upTo(3),
      batches = upTo(3),
      inputs = if (granularity == Granularity.BetweenBatches) upTo(3) else 1,
      scans = random.nextInt(3),
      scanBytes = upTo(40),
      rows = random.nextInt(if (remote.lanes > 0) 40 else 30),
      wishes = random.nextInt(if (remote.lanes > 0) 30 else 14),
      remote
    )
  }
}
