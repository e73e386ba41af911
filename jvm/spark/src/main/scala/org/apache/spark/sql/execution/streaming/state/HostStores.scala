package org.apache.spark.sql.execution.streaming.state

import java.util.HashMap
import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.laneshift.body.RemoteState
import org.apache.spark.sql.laneshift.spec.ElasticSpec

import laneshift.ids.LaneId

/** The state stores of one lane away from home, which have nothing here but what the lane knows of them: what it has written
  * since its last frame, and a cache. Everything else is asked of home.
  *
  * The lane's thread uses it and those that work for it.
  *
  * @param cacheBytes of all stores together
  * @param ask sends a question home, behind all that was sent there before, and waits for its answer
  */
private[sql] final class HostStores(
    private[state] val spec: ElasticSpec,
    lane: LaneId,
    cacheBytes: Long,
    ask: Array[Byte] => Array[Byte]
) extends RemoteState {
  private val frame = new HostFrame
  private val cache = new HostCache(cacheBytes, spec.options.shards)
  private val tables = new ArrayBuffer[HashMap[String, Integer]]

  /** By input; keys in memory are few beside the values. */
  private val expected: Seq[Seq[ExpectedKeys]] =
    if (spec.isFixed) spec.inputs.map(_.reads.map(new ExpectedKeys(_, cacheBytes / HostStores.KeysShare)))
    else Nil

  /** The name of this lane's encoders: nobody else of this process may have the same. */
  private[state] val user = s"${lane.value} away ${HostStores.sessions.incrementAndGet()}"

  // ---- for the lane

  override def pendingBytes: Int = synchronized(frame.bytes)

  override def sendWrites(send: Array[Byte] => Unit): Unit = synchronized(send(frame.take()))

  override def awaitHome(): Unit = synchronized(doWrites(Array.emptyByteArray))

  private def doWrites(writes: Array[Byte]): Unit = {
    request(StateRequest.Write(writes))
    ()
  }

  override def arrived(shards: Seq[Int]): Unit = synchronized(cache.arrived(shards))

  def cachedBytes: Long = synchronized(cache.bytes)

  // ---- for its stores

  private[state] def open(id: StateStoreId, version: Long, schema: FamilySchema): StateAnswer.Opened =
    synchronized {
      val opened = StateAnswer.readOpened(request(StateRequest.Open(id, version, schema)))
      if (opened.store > tables.size)
        throw new IllegalArgumentException(
          s"home has opened ${tables.size} stores and calls one ${opened.store}"
        )
      if (opened.store == tables.size) tables += new HashMap
      tables(opened.store).put(StateStore.DEFAULT_COL_FAMILY_NAME, opened.table)
      opened
    }

  private[state] def createFamily(
      store: Int,
      name: String,
      schema: FamilySchema,
      isInternal: Boolean
  ): Unit = synchronized {
    val answer = request(StateRequest.CreateFamily(store, name, schema, isInternal))
    tables(store).put(name, StateAnswer.readTable(answer))
    ()
  }

  private[state] def removeFamily(store: Int, name: String): Boolean = synchronized {
    val table = tables(store).remove(name)
    if (table != null) {
      frame.forgetTable(table)
      cache.forgetTable(table)
    }
    StateAnswer.readBool(request(StateRequest.RemoveFamily(store, name)))
  }

  private[state] def familyNames(store: Int): Set[String] = synchronized {
    StateAnswer.readNames(request(StateRequest.FamilyNames(store)))
  }

  private[state] def table(store: Int, name: String): Int = synchronized {
    val table = tables(store).get(name)
    if (table == null) throw StateStoreErrors.unsupportedOperationOnMissingColumnFamily("access", name)
    table
  }

  /** All of a key's value.
    *
    * @param next what will be read next: some more of the table's keys, which are asked for along with it
    */
  private[state] def read(
      key: StateKey,
      shardOf: Array[Byte] => Int,
      next: => Seq[Array[Byte]]
  ): Held = synchronized {
    val held = known(key)
    if (held == null)
      ask(key, next.map(new StateKey(key.table, _)).filter(k => k != key && known(k) == null), shardOf)
    else held
  }

  private def ask(key: StateKey, next: Seq[StateKey], shardOf: Array[Byte] => Int): Held = {
    val answer =
      StateAnswer.readValues(request(StateRequest.GetAhead(key.table, key.bytes, next.map(_.bytes))))
    if (answer.isEmpty || answer.size > 1 + next.size)
      throw new IllegalArgumentException(s"${answer.size} values are no answer to ${1 + next.size} keys")
    next.zip(answer.tail).foreach { case (k, home) => learnt(k, home, shardOf) }
    learnt(key, answer.head, shardOf)
  }

  /** This row of the input comes soon, and tells what state will be read. */
  def expect(input: Int, row: UnsafeRow): Unit = if (expected.nonEmpty) synchronized {
    expected(input).foreach(_.add(row))
  }

  /** Some keys of this column family that will be read soon. */
  private[state] def soon(operatorId: Long, table: Int, schema: FamilySchema): Seq[UnsafeRow] =
    schema.keySpec match {
      case _: NoPrefixKeyStateEncoderSpec =>
        val ofOperator = expected.flatten.filter(_.operatorId == operatorId)
        ofOperator.filter(_.types == schema.key.map(_.dataType)).flatMap(_.take(table, HostStores.AskedAhead))
      case _ => Nil
    }

  /** All of the values of keys of one table. */
  private[state] def read(keys: Array[StateKey], shardOf: Array[Byte] => Int): Array[Held] = synchronized {
    val found = keys.map(known)
    val missing = keys.indices.filter(found(_) == null)
    if (missing.nonEmpty) {
      val answer =
        StateAnswer.readValues(request(StateRequest.Get(keys.head.table, missing.map(keys(_).bytes))))
      if (answer.size != missing.size)
        throw new IllegalArgumentException(s"${missing.size} values were asked of home, not ${answer.size}")
      missing.zip(answer).foreach { case (i, home) => found(i) = learnt(keys(i), home, shardOf) }
    }
    found
  }

  /** What is known here of all of a key's value, or null. */
  private def known(key: StateKey): Held = {
    val written = frame.get(key)
    if (written == null) cache.get(key) else if (written.isWhole) written else null
  }

  /** Home's value of a key is what this frame's writes come after. */
  private def learnt(key: StateKey, home: Array[Byte], shardOf: Array[Byte] => Int): Held = {
    val written = frame.get(key)
    val whole =
      if (written == null) Held.whole(home) else if (written.isWhole) written else written.onto(home)
    if (written != null) frame.known(key, whole)
    cache.put(key, whole)(shardOf(key.bytes))
    whole
  }

  /** A write that leaves `after`, whatever was there before. */
  private[state] def write(
      write: StateWrite,
      key: StateKey,
      after: Held,
      shardOf: Array[Byte] => Int
  ): Unit = synchronized {
    frame.add(write, key, after)
    cache.put(key, after)(shardOf(key.bytes))
    boundFrame()
  }

  /** Where operators hold rows until their input ends, what they write then is bounded by no window of rows. */
  private def boundFrame(): Unit = if (spec.isFixed && frame.bytes >= HostStores.FrameBytes) settle()

  /** All that was written here is in home's stores. */
  private[state] def settle(): Unit = synchronized(if (frame.bytes > 0) doWrites(frame.take()))

  /** The lane has written all it will write to the store. What it is to report, if it speaks for the store. */
  private[state] def seal(store: Int): Option[StateAnswer.Committed] = synchronized {
    settle()
    StateAnswer.readCommitted(request(StateRequest.Seal(store)))
  }

  /** A write that leaves `value` behind what was there before. */
  private[state] def merge(
      write: StateWrite,
      key: StateKey,
      value: Array[Byte],
      delimiter: Array[Byte],
      shardOf: Array[Byte] => Int
  ): Unit = synchronized {
    val written = frame.get(key)
    val before = if (written == null) cache.get(key) else written
    val after = (if (before == null) Held.Unknown else before).merge(value, delimiter)
    frame.add(write, key, after)
    if (after.isWhole) cache.put(key, after)(shardOf(key.bytes))
    boundFrame()
  }

  /** A scan of home's rows and of what this frame has written among the `wanted` keys. */
  private[state] def scan(
      scan: StateRequest,
      table: Int,
      wanted: Array[Byte] => Boolean,
      delimiter: Array[Byte]
  ): HostScan = synchronized {
    val written = frame.sorted(table, wanted)
    new HostScan(StateAnswer.readRows(request(scan)), written, delimiter, asked)
  }

  /** The lane's next scan with all others; none if they scan something else. */
  private[state] def scanTogether(scan: StateRequest, delimiter: Array[Byte]): Option[HostScan] =
    synchronized {
      settle()
      StateAnswer.readTogetherOrNot(request(scan)).map(new HostScan(_, Nil, delimiter, asked))
    }

  /** Every shard may have been elsewhere. */
  private[state] def forgetRead(): Unit = if (!spec.isFixed) synchronized(cache.forgetAll())

  private val asked: StateRequest => Array[Byte] = question => synchronized(request(question))

  private def request(question: StateRequest): Array[Byte] = ask(question.encoded)
}

private object HostStores {

  /** Keys that are asked for ahead of their reads in one question. */
  private val AskedAhead = 512

  /** Which part of the cache's size keys may have that are expected. */
  private val KeysShare = 4

  /** Writes that go home at once. */
  private val FrameBytes = 128 * 1024
  private val sessions = new AtomicLong
}
