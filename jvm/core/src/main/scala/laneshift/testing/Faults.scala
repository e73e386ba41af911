package laneshift.testing

/** A planted bug: something that the tests must notice when it is switched on. Never on outside tests; asked only on paths
  * that are rare (a handoff, a commit, a scan), so that it costs nothing per row.
  */
sealed abstract class Fault(val name: String, val what: String)

object Fault {
  case object QueueNotRecalled
      extends Fault("queue-not-recalled", "rows in the source lane's queue stay there when their shard moves")
  case object RemainderDropped
      extends Fault("remainder-dropped", "rows that the source lane had taken but not processed are lost")
  case object RemainderBehindQueue
      extends Fault(
        "remainder-behind-queue",
        "rows that the source lane had taken but not processed come behind those in its queue"
      )
  case object SettledUnderTheLane
      extends Fault("settled-under-the-lane", "a shard goes although its lane is in the middle of its rows")
  case object ReadAheadLeft
      extends Fault("read-ahead-left", "a shard leaves an idle lane that has read rows ahead")
  case object BeforeItsFirstRow
      extends Fault(
        "before-its-first-row",
        "a shard leaves a lane that is at its timers but has taken no row"
      )
  case object RoutingNotSwitched
      extends Fault("routing-not-switched", "the routing table is not changed at the end of a handoff")
  case object EndBeforeHandoffs
      extends Fault("end-before-handoffs", "the input ends while handoffs are in flight")
  case object ReceiverNotWoken
      extends Fault("receiver-not-woken", "a waiting receiver is not told that a handoff has settled")
  case object LaneNotWoken
      extends Fault("lane-not-woken", "a waiting lane is not told of the rows that come with a shard")
  case object RecallForgotten
      extends Fault("recall-forgotten", "letting one shard go clears the marks of the lane's other recalls")
  case object MovedAtTheEnd extends Fault("moved-at-the-end", "a shard moves although the input is ending")
  case object LeftOnRetired
      extends Fault("left-on-retired", "a shard on its way to a lane that is retired meanwhile stays there")
  case object RetiredNotAwaited
      extends Fault("retired-not-awaited", "the commit does not wait for lanes that were retired")
  case object QueueUnbounded extends Fault("queue-unbounded", "queued rows push back on nobody")
  case object FailureUnheard
      extends Fault("failure-unheard", "a waiting receiver is not told that the partition has failed")
  case object CachePerLane
      extends Fault(
        "cache-per-lane",
        "groups that are not written yet stay with the lane that had their shard"
      )
  case object OutputsAfterSwitch
      extends Fault("outputs-after-switch", "the source lane's last outputs follow the switch")
  case object RestartScans
      extends Fault("restart-scans", "a lane that restarts evicts as if the batch were over")
  case object RestartSeals extends Fault("restart-seals", "the end of a body that is to restart is a seal")
  case object RestartReported
      extends Fault("restart-reported", "what a body that is to restart says of its store is reported")
  case object EncoderShared extends Fault("encoder-shared", "lanes share one state encoder")
  case object CommitTwice extends Fault("commit-twice", "the store is committed when the first lane seals it")
  case object SealAfterFailure
      extends Fault("seal-after-failure", "a lane seals the store although the partition has failed")
  case object ScanUnfiltered extends Fault("scan-unfiltered", "a lane's scan yields every lane's rows")
  case object MetricsPerLane extends Fault("metrics-per-lane", "store metrics are reported by every lane")
  case object WrongShardHash
      extends Fault("wrong-shard-hash", "state rows are dealt to shards by another hash than input rows")
  case object CheckpointIdPerLane
      extends Fault("checkpoint-id-per-lane", "every lane reports a checkpoint id of its own")
  case object RightByLeftHash
      extends Fault("right-by-left-hash", "rows of every input are dealt to shards by the hash of the first")
  case object BoundaryBehindRowsOnly
      extends Fault("boundary-behind-rows-only", "idle lanes are not told that the next input begins")
  case object FieldsOfFirstInput
      extends Fault("fields-of-first-input", "rows of every input are read with the first one's fields")
  case object OpenUntilLastInput
      extends Fault(
        "open-until-last-input",
        "no store can be committed before the last of several inputs ends"
      )
  case object NotDrained
      extends Fault("not-drained", "a task that takes only some rows ends before its lanes have committed")

  case object ScanDecodesAhead
      extends Fault(
        "scan-decodes-ahead",
        "a scan decodes its next row into the one that the operator still holds"
      )
  case object ScanTakesNewShards
      extends Fault(
        "scan-takes-new-shards",
        "a scan yields rows of shards that have come since it was opened"
      )
  case object TimersUnfiltered
      extends Fault("timers-unfiltered", "a lane fires the timers of every lane's keys")
  case object GroupedKeyFlat
      extends Fault(
        "grouped-key-flat",
        "the shard of a timer or map entry is found without going down to its grouping key"
      )
  case object FamilyEncoderShared
      extends Fault("family-encoder-shared", "lanes share the encoder of a column family")
  case object VariablesPerLane
      extends Fault("variables-per-lane", "the state variables of a processor are counted by every lane")
  case object ScanOpenedEarly
      extends Fault("scan-opened-early", "a shared scan opens while other lanes still have rows to write")
  case object LeftLaneAwaited
      extends Fault("left-lane-awaited", "a shared scan waits for lanes that have ended without it")
  case object LaterScanAwaited
      extends Fault("later-scan-awaited", "a shared scan waits for a lane that waits for the next one")
  case object DealtWithoutBound
      extends Fault("dealt-without-bound", "rows are dealt to a lane however many wait for it")
  case object ProviderByBatch
      extends Fault("provider-by-batch", "stores are Spark's own until the first batch that is elastic")
  case object SealBeforeWrites
      extends Fault("seal-before-writes", "a lane seals the store before it has done its writes")
  case object ReadsPastWrites
      extends Fault("reads-past-writes", "a lane does not read what it has written and not yet done")
  case object ArrivalUnheard
      extends Fault(
        "arrival-unheard",
        "a lane away from home reads what it knew of a shard before the shard was elsewhere"
      )
  case object ScanPastFrame
      extends Fault("scan-past-frame", "a scan away from home does not see writes that have not come home")
  case object MergeUnseen
      extends Fault(
        "merge-unseen",
        "what a lane away from home knows of a key is not changed by what it merges onto it"
      )

  case object CountedUnstarted
      extends Fault("counted-unstarted", "a lane that could not start is waited for at the end")

  case object ArrivalNotTold
      extends Fault("arrival-not-told", "a host goes on with what it knew of a shard before it was elsewhere")
  case object HostNotAsked
      extends Fault("host-not-asked", "a shard leaves a host that is at its rows")
  case object KeptRowsDropped
      extends Fault("kept-rows-dropped", "rows that a lost host had not worked on are lost with it")
  case object RecalledRowsDone
      extends Fault("recalled-rows-done", "a host works on rows of a shard that it has given up")
  case object FrameAppliedTwice extends Fault("frame-applied-twice", "home applies a host's frame twice")
  case object CoveredRowsKept
      extends Fault("covered-rows-kept", "rows that a frame covers are kept, and done again elsewhere")
  case object KeptRowsForgotten
      extends Fault(
        "kept-rows-forgotten",
        "rows that a host was sent are forgotten before a frame covers them"
      )
  case object LastRowAgain
      extends Fault("last-row-again", "the last row that a frame covers is counted to those behind it")
  case object FrameSplit
      extends Fault("frame-split", "a host's frame ends between what a row writes and what it puts out")
  case object RecalledInARow
      extends Fault("recalled-in-a-row", "a host gives a shard up in the middle of a row")
  case object HostNotAwaited
      extends Fault("host-not-awaited", "a shard leaves a remote lane that waits for its host's frames")
  case object LostFrameApplied
      extends Fault("lost-frame-applied", "frames of a host that was given up are applied")
  case object LeavesUnwritten
      extends Fault("leaves-unwritten", "a lane is not told that a shard leaves for another executor")
  case object LeavesUnasked
      extends Fault("leaves-unasked", "a shard leaves for another executor without its idle lane")
  case object KeptRowsBehindQueue
      extends Fault(
        "kept-rows-behind-queue",
        "rows that a host was sent and has not done come behind those in its lane's queue"
      )
  case object RemoteLeftAtTheEnd
      extends Fault("remote-left-at-the-end", "shards stay on remote lanes at the end of the input")
  case object PokeUnheard
      extends Fault("poke-unheard", "a waiting remote lane is not told of what its host sends")
  case object WindowIgnored
      extends Fault("window-ignored", "a host is sent rows however many it has not acknowledged")
  case object LostUnderWay
      extends Fault("lost-under-way", "shards that were to leave a lane stay there when it is lost")
  case object SlotNotCleared
      extends Fault("slot-not-cleared", "recalls of a remote lane outlive its session")
  case object HoldsForEver
      extends Fault(
        "holds-for-ever",
        "a host that gave up its last rows is still taken to hold some: its lane never ends"
      )
  case object DealsOutOfOrder
      extends Fault("deals-out-of-order", "outputs of a later deal come before those of an earlier one")
  case object NextDealWaits
      extends Fault("next-deal-waits", "outputs that are next wait for room behind those that wait for them")
  case object NextDealNotWoken
      extends Fault("next-deal-not-woken", "a lane that waits with outputs is not told that they are next")
  case object FlushForgotten
      extends Fault("flush-forgotten", "a lane that reads ahead is not asked for what follows from its rows")
  case object AnsweredUnput
      extends Fault(
        "answered-unput",
        "a lane says that it is done with rows before their outputs are put out"
      )
  case object AnsweredEarly
      extends Fault("answered-early", "outputs of a deal end it, whoever else may still put some out")
  case object TwoPullers
      extends Fault("two-pullers", "rows that follow each other go to the deals of two lanes")
  case object PullNotPassedOn
      extends Fault("pull-not-passed-on", "nobody is told that rows are free to be taken again")
  case object TakenUntold
      extends Fault("taken-untold", "the receiver is not told that a lane that reads ahead has made room")

  case object WorksWithoutTurn
      extends Fault(
        "works-without-turn",
        "a thread whose turn was taken while it waited goes on without one"
      )
  case object ReadsAsTheTask
      extends Fault(
        "reads-as-the-task",
        "a partition of a task with several reads the rows of the task's number"
      )
  case object OncePerTask
      extends Fault("once-per-task", "what counts once per store is counted once per task of several stores")
  case object UntoldFetchFailure
      extends Fault(
        "untold-fetch-failure",
        "a task of several partitions does not tell that it lacks a shuffle's rows"
      )
  case object LastPartitionUndrained
      extends Fault("last-partition-undrained", "a task of several partitions ends with the first of them")
  case object CommitKeepsTurn
      extends Fault("commit-keeps-turn", "nothing of a task goes on while one of its stores is committed")

  case object BoundaryUntold
      extends Fault("boundary-untold", "a host is not told that the next input begins")
  case object LeftOutAtTheEnd
      extends Fault("left-out-at-the-end", "the commit does not wait for lanes elsewhere")
  case object SealPastFrame
      extends Fault("seal-past-frame", "a lane elsewhere seals a store before its last writes are in it")
  case object SharedScanPastFrame
      extends Fault("shared-scan-past-frame", "a scan of all lanes does not wait for a host's writes")
  case object CommitUntold
      extends Fault("commit-untold", "nobody reports a commit that a lane elsewhere has made")

  case object KeyInTwoStores
      extends Fault("key-in-two-stores", "a rescale writes each row into the next new partition, too")
  case object RecordedForgotten
      extends Fault(
        "recorded-forgotten",
        "a rescale does not bring later batches' writes into the new stores"
      )
  case object CommitUnasked
      extends Fault("commit-unasked", "the last lane commits although nobody takes all that was put out")
  case object ReadAsOfBegin
      extends Fault("read-as-of-begin", "a rescale reads each old store as of the batch that it began behind")
  case object RecordedTwice
      extends Fault(
        "recorded-twice",
        "a rescale brings in what a store has written before it was read, too"
      )
  case object AnyBatchUndone
      extends Fault(
        "any-batch-undone",
        "a take-over that was cut short is undone although Spark has planned that batch since"
      )
  case object WatermarkKept
      extends Fault(
        "watermark-kept",
        "Spark keeps the watermark that it has asked for under a take-over's number"
      )
  case object PartitionsUntold
      extends Fault("partitions-untold", "a query is not told of its new number of partitions")
  case object IdsUntold extends Fault("ids-untold", "a query opens the new stores by the old ones' ids")
  case object PlacedTooEarly
      extends Fault(
        "placed-too-early",
        "new stores' files are placed, by versions, while Spark may still open the old ones"
      )
  case object OldDeletedEarly
      extends Fault("old-deleted-early", "a take-over deletes the old stores' files before it is committed")

  case object OperatorsUntold
      extends Fault(
        "operators-untold",
        "operators' metadata is not told of a take-over's number of partitions"
      )

  case object PlannerUnheard
      extends Fault("planner-unheard", "shards move by themselves while a planner decides where they go")

  case object AnothersTable
      extends Fault("anothers-table", "a query takes another store's table for one of its new stores")

  val all: Seq[Fault] = Seq(
    QueueNotRecalled,
    RemainderDropped,
    RemainderBehindQueue,
    SettledUnderTheLane,
    ReadAheadLeft,
    BeforeItsFirstRow,
    RoutingNotSwitched,
    EndBeforeHandoffs,
    ReceiverNotWoken,
    LaneNotWoken,
    RecallForgotten,
    MovedAtTheEnd,
    LeftOnRetired,
    RetiredNotAwaited,
    QueueUnbounded,
    FailureUnheard,
    CachePerLane,
    OutputsAfterSwitch,
    RestartScans,
    RestartSeals,
    RestartReported,
    EncoderShared,
    CommitTwice,
    SealAfterFailure,
    ScanUnfiltered,
    MetricsPerLane,
    WrongShardHash,
    CheckpointIdPerLane,
    RightByLeftHash,
    BoundaryBehindRowsOnly,
    FieldsOfFirstInput,
    OpenUntilLastInput,
    NotDrained,
    ScanDecodesAhead,
    ScanTakesNewShards,
    TimersUnfiltered,
    GroupedKeyFlat,
    FamilyEncoderShared,
    VariablesPerLane,
    ScanOpenedEarly,
    LeftLaneAwaited,
    LaterScanAwaited,
    DealtWithoutBound,
    ProviderByBatch,
    SealBeforeWrites,
    ReadsPastWrites,
    CountedUnstarted,
    ArrivalNotTold,
    HostNotAsked,
    KeptRowsDropped,
    RecalledRowsDone,
    ArrivalUnheard,
    ScanPastFrame,
    MergeUnseen,
    FrameAppliedTwice,
    CoveredRowsKept,
    KeptRowsForgotten,
    LastRowAgain,
    FrameSplit,
    RecalledInARow,
    HostNotAwaited,
    LostFrameApplied,
    LeavesUnwritten,
    LeavesUnasked,
    KeptRowsBehindQueue,
    RemoteLeftAtTheEnd,
    PokeUnheard,
    WindowIgnored,
    LostUnderWay,
    SlotNotCleared,
    HoldsForEver,
    DealsOutOfOrder,
    NextDealWaits,
    NextDealNotWoken,
    FlushForgotten,
    AnsweredUnput,
    AnsweredEarly,
    TwoPullers,
    PullNotPassedOn,
    WorksWithoutTurn,
    ReadsAsTheTask,
    OncePerTask,
    UntoldFetchFailure,
    LastPartitionUndrained,
    CommitKeepsTurn,
    TakenUntold,
    BoundaryUntold,
    LeftOutAtTheEnd,
    SealPastFrame,
    SharedScanPastFrame,
    CommitUntold,
    KeyInTwoStores,
    RecordedForgotten,
    CommitUnasked,
    ReadAsOfBegin,
    RecordedTwice,
    AnyBatchUndone,
    WatermarkKept,
    PartitionsUntold,
    IdsUntold,
    PlacedTooEarly,
    OldDeletedEarly,
    OperatorsUntold,
    AnothersTable,
    PlannerUnheard
  )
}

object Faults {
  @volatile private var active: Fault = _

  def isOn(fault: Fault): Boolean = active eq fault

  /** Runs `body` with one planted bug in place of the one there was. Tests only. */
  def withFault[T](fault: Fault)(body: => T): T = {
    val before = active
    active = fault
    try body
    finally active = before
  }
}
