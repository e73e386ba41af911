package org.apache.spark.sql.laneshift.ui

import java.time.{Instant, ZoneId}
import java.time.format.DateTimeFormatter
import java.util.Locale

import scala.xml.{Node, NodeSeq, Unparsed}

import org.apache.spark.sql.laneshift.driver.{
  Decision,
  LaneshiftSample,
  OperatorRecord,
  PartitionRecord,
  QueryRecord
}
import org.apache.spark.sql.laneshift.runtime.HandoffRecord
import org.apache.spark.util.Utils

/** The parts of the tab. Each says in words what it shows: there is no legend to look up. */
private object Sections {

  private val Style = """
    .ls-lane { white-space: nowrap; display: flex; align-items: center; gap: .6em; height: 1.5em; }
    .ls-lane b { width: 4em; font-weight: normal; }
    .ls-bar { width: 10em; flex: none; height: .8em; background: rgba(128, 138, 155, .2);
      border-radius: 2px; }
    .ls-bar i { display: block; height: 100%; background: #2b6cb0; border-radius: 2px; }
    .ls-shards { display: flex; flex-wrap: wrap; width: 23.6em; }
    .ls-shards span { width: 1.9em; height: 1.5em; line-height: 1.5em; text-align: center; font-size: .75em;
      border: 1px solid var(--bs-body-bg, #fff); color: #1a202c; }
    .ls-shards span.dark { color: #fff; }
    .ls-grid td { vertical-align: top; padding-right: 2em; }
    .ls-timeline { display: block; margin-bottom: 1em; max-width: 100%; }
    .ls-timeline text { font-size: 11px; fill: currentColor; opacity: .8; }
    .ls-timeline line { stroke: currentColor; opacity: .15; }
    .ls-why { white-space: nowrap; margin-right: 1em; }
    .ls-why i { display: inline-block; width: .7em; height: .7em; border-radius: 50%; margin-right: .3em; }
  """

  val styles: Seq[Node] = <style>{Unparsed(Style)}</style>

  def reload(everyS: Option[Int]): Seq[Node] = everyS match {
    case Some(s) =>
      <meta http-equiv="refresh" content={s.toString}/> ++
        <p>This page loads again every {s} s. <a href="?">Stop</a></p>
    case None => <p>As of now. <a href="?every=2">Load again every 2 s</a></p>
  }

  val nothing: Seq[Node] =
    <p>No elastic query runs. Stateful streaming queries appear here with their first batch; EXPLAIN says why one
      stays stock Spark.</p>

  def finished(c: TabContent): Seq[Node] =
    <p>From {time(c.fromMs)} to {time(c.toMs)}, as the event log has it: {
      counted(c.queries.size, "run")
    } of elastic queries, each as it was
      when it ended or was last seen whole.</p>

  // ---- a query

  def query(q: QueryRecord, live: Boolean, rescale: Option[String]): Seq[Node] =
    <h4>Query {q.title}</h4> ++ rescale.toSeq.map(words =>
      <p class="ls-rescale">{words}.</p>
    ) ++ q.operators.flatMap(operator(_, live))

  private def operator(o: OperatorRecord, live: Boolean): Seq[Node] = {
    val mode = if (o.realTime) "Real-time Mode" else "micro-batches"
    val when = o.handoff match {
      case "between-batches" => "shards move between two batches"
      case "dealt" => "without state, rows go to any lane and come out in order"
      case _ => "shards move between two rows"
    }
    // None in event logs that were written before there were tasks of several partitions.
    val grouped = o.tasks > 0 && o.tasks < o.partitions.size
    val tasks = if (grouped) s" in ${counted(o.tasks, "task")}" else ""
    val span = if (live) "the last" else "its last"
    <div>
      <p class="ls-operator">Operator {o.operatorId}, <code>{o.name}</code>, in {mode}: {
      counted(o.partitions.size, "partition") + tasks
    } on {counted(o.lanes, "lane")}; {when}.</p>
      <table class="table table-sm ls-grid">
        <thead><tr><th>Partition</th><th>Lanes: share of {span} half second that each worked</th>
          <th>Shards: the darker, the more load; the number is the lane</th></tr></thead>
        <tbody>{o.partitions.map(partition(_, live))}</tbody>
      </table>
    </div>
  }

  private def partition(p: PartitionRecord, live: Boolean): Node = {
    val lines = Seq(
      Some(
        if (live)
          s"${rate(p.rowsInPerSecond)} rows/s in (${bytes(p.bytesInPerSecond)}/s), ${rate(p.rowsOutPerSecond)} out (${bytes(p.bytesOutPerSecond)}/s)"
        else s"${counted(p.rowsIn, "row")} in, ${rate(p.rowsOut.toDouble)} out"
      ),
      Option.when(p.stateRows > 0)(s"state: ${counted(p.stateRows, "key")}, ${bytes(p.stateBytes.toDouble)}"),
      Option.when(p.latencies > 0)(
        s"age of outputs: ${ms(p.latencyP50Ms * 1e3)}, at the 99th percentile ${ms(p.latencyP99Ms * 1e3)}"
      ),
      Option.when(p.hottest.nonEmpty)(
        p.hottest.take(HotShown).map { case (key, share) => s"$key ${math.round(100 * share)} %" }
          .mkString("hottest keys, by their share of its rows: ", ", ", "")
      ),
      Some(counted(p.handoffs, "move") + " of shards" + (
        if (p.pauses == 0) ""
        else s"; a shard stood still for ${ms(p.pauseP50Us)}, at the 99th percentile ${ms(p.pauseP99Us)}"
      ))
    ).flatten
    <tr class="ls-partition">
      <td>
        <b>{p.index}</b> on executor {p.executor} ({p.host})
        {lines.map(line => <br/> ++ scala.xml.Text(line))}
        {if (p.running || !live) NodeSeq.Empty else <br/> ++ <i>between two batches</i>}
      </td>
      <td>{
      p.laneBusy.zip(p.queueRows).zipWithIndex.toSeq.map { case ((share, rows), lane) =>
        this.lane(lane, p.executorOf(lane), share, rows)
      }
    }</td>
      <td><div class="ls-shards">{shards(p.loads, p.routing)}</div></td>
    </tr>
  }

  /** Keys of a partition in the tab: the snapshot has all. */
  private val HotShown = 5

  private def lane(number: Int, executor: Option[String], busy: Double, queued: Long): Node = {
    val percent = math.round(100 * busy)
    <div class="ls-lane">
      <b>lane {number}{executor.fold("")(id => s" on executor $id")}</b>
      <div class="ls-bar"><i style={s"width: $percent%"}></i></div>
      <span>{percent} %{if (queued > 0) s", ${counted(queued, "row")} wait" else ""}</span>
    </div>
  }

  private def shards(loads: Array[Double], routing: Array[Int]): Seq[Node] = {
    val most = loads.foldLeft(0.0)(math.max)
    loads.indices.map { s =>
      val share = if (most > 0) loads(s) / most else 0.0
      val light = math.round(96 - 60 * share)
      <span class={if (light < 60) "dark" else ""} style={s"background: hsl(212, 60%, $light%)"}
        title={s"shard $s on lane ${routing(s)}: load ${rate(loads(s))} a second"}>{routing(s)}</span>
    }
  }

  // ---- decisions

  def decisions(newest: Seq[Decision]): Seq[Node] =
    if (newest.isEmpty) NodeSeq.Empty
    else {
      val rows = newest.flatMap { d =>
        val said = d.changes.map(c => (c.what, c.reason)) ++
          d.notes.map("" -> _) ++ d.error.map(e => "failed; queries keep their lanes" -> e)
        said.map { case (what, why) =>
          <tr><td>{time(d.timeMs)}</td><td>{d.policy}</td><td>{what}{
            if (d.applied || what.isEmpty) "" else " (not carried out)"
          }</td><td>{why}</td></tr>
        }
      }
      <h4>What the autoscaler decided, newest first</h4>
      <table class="table table-sm table-striped" id="ls-decisions">
        <thead><tr><th>Time</th><th>Policy</th><th>Lanes</th><th>Because</th></tr></thead>
        <tbody>{rows}</tbody>
      </table>
    }

  // ---- over time

  private val Small = 70

  /** Lanes and rows per second of each operator, one below the other. */
  def course(samples: Seq[LaneshiftSample], axis: TimeAxis): Seq[Node] = {
    val points = for {
      sample <- samples if axis.has(sample.timeMs)
      query <- sample.queries
      o <- query.operators
    } yield (query.runId, query.title, o.operatorId) -> (sample.timeMs -> o)
    val byOperator = points.groupMap(_._1)(_._2).toSeq.filter(_._2.size > 1).sortBy(_._2.head._1)
    if (byOperator.isEmpty) NodeSeq.Empty
    else
      <h4>Over time</h4> ++ byOperator.flatMap { case ((_, title, operatorId), course) =>
        <p>Query {title}, operator {operatorId}:</p> ++
          line("rows/s in", rates(course.map { case (t, o) => t -> o.rowsIn }), axis, "#2b6cb0") ++
          line("lanes", course.map { case (t, o) => t -> o.lanes.toDouble }, axis, "#dd6b20") ++
          line("rows wait", course.map { case (t, o) => t -> o.queuedRows.toDouble }, axis, "#718096")
      }
  }

  /** Rows per second between a sample and the next; none are counted where a partition went to another executor. */
  private def rates(counts: Seq[(Long, Long)]): Seq[(Long, Double)] = counts.zip(counts.tail).map {
    case ((before, less), (now, more)) =>
      now -> math.max(0.0, (more - less) * 1e3 / math.max(1L, now - before))
  }

  private def line(what: String, points: Seq[(Long, Double)], axis: TimeAxis, colour: String): Node = {
    val most = math.max(1.0, points.map(_._2).max)
    def y(v: Double): Double = 10 + (Small - 12) * (1 - v / most)
    val drawn = points.map { case (t, v) => s"${number(axis.x(t))},${number(y(v))}" }.mkString(" ")
    <svg class="ls-timeline ls-course" viewBox={s"0 0 ${TimeAxis.Width} ${Small + 18}"} width={
      TimeAxis.Width.toString
    } role="img" aria-label={what}>
      <text x="0" y="14">{rate(most)}</text><text x="0" y={(Small / 2 + 6).toString}>{what}</text>
      <text x="0" y={Small.toString}>0</text>
      {Seq(0.0, most).map(axis.line(_, y))}
      <polyline points={drawn} fill="none" stroke={colour} stroke-width="1.5"/>
      {axis.labels(Small + 14)}
    </svg>
  }

  // ---- moves

  private val Height = 150

  /** @param queries the names of queries by their ids, where they have one */
  def moves(recent: Seq[HandoffRecord], queries: Map[String, String], axis: TimeAxis): Seq[Node] = {
    val newest = recent.takeRight(20).reverse
    if (newest.isEmpty) NodeSeq.Empty
    else
      <h4>Moves of shards</h4> ++
        <p>Each dot is a shard that moved{
          if (axis.live) " in the last five minutes" else " (at most 50 in a sample)"
        }: the higher, the longer its rows waited. The colour says why it moved:<br/>{
          Why.all.map(w => <span class="ls-why"><i style={s"background: ${w.colour}"}></i>{w.words}</span>)
        }</p> ++
        timeline(recent.filter(h => axis.has(h.timeMs)), axis) ++
        <table class="table table-sm table-striped" id="ls-moves">
          <thead><tr><th>Time</th><th>Query</th><th>Partition</th><th>Shard</th><th>From lane</th><th>To lane</th><th>Why</th>
            <th>Its rows waited</th><th>Rows that waited</th></tr></thead>
          <tbody>{newest.map(h => move(h, queries.getOrElse(h.key.queryId, h.key.queryId)))}</tbody>
        </table>
  }

  private def timeline(shown: Seq[HandoffRecord], axis: TimeAxis): Node = {
    // From no wait at the bottom over 10 microseconds to one second at the top.
    def y(ns: Double): Double =
      if (ns <= 0) Height - 4.0
      else (Height - 20) * (1 - (math.log10(math.min(1e9, math.max(1e4, ns))) - 4) / 5) + 4
    val lines = Seq(
      0.0 -> "no wait",
      1e4 -> "10 µs",
      1e5 -> "0.1 ms",
      1e6 -> "1 ms",
      1e7 -> "10 ms",
      1e8 -> "100 ms",
      1e9 -> "1 s"
    )
    <svg class="ls-timeline ls-dots" viewBox={s"0 0 ${TimeAxis.Width} ${Height + 20}"} width={
      TimeAxis.Width.toString
    } role="img" aria-label="moves over time">
      {
      lines.map { case (ns, label) =>
        <g>{axis.line(ns, y)}<text x="0" y={number(y(ns) + 4)}>{label}</text></g>
      }
    }
      {axis.labels(Height + 15)}
      {
      shown.map { h =>
        <circle cx={number(axis.x(h.timeMs))} cy={number(y(h.pauseNs.toDouble))} r="2.5" fill={
          Why.of(h.reason).colour
        } fill-opacity="0.7"/>
      }
    }
    </svg>
  }

  /** Why a shard moved: its dot's colour, and in words. */
  private final case class Why(reason: String, colour: String, words: String)

  private object Why {
    val all: Seq[Why] = Seq(
      Why("balance", "#2b6cb0", "to even out loads"),
      Why("scale", "#dd6b20", "the number of lanes changed"),
      Why("user", "#2f855a", "a user's command"),
      Why("host-lost", "#c53030", "its lane's executor was lost"),
      Why("motion", "#718096", "the fault mode")
    )
    def of(reason: String): Why = all.find(_.reason == reason).getOrElse(all.last)
  }

  private def move(h: HandoffRecord, query: String): Node =
    <tr><td>{time(h.timeMs)}</td><td>{query}, operator {h.key.operatorId}</td><td>{h.partition}</td><td>{
      h.shard
    }</td>
      <td>{lane(h.from, h.fromExecutor)}</td><td>{lane(h.to, h.toExecutor)}</td><td>{
      Why.of(h.reason).words
    }</td><td>{
      if (h.pauseNs > 0) ms(h.pauseNs / 1e3) else "not at all (between batches)"
    }</td><td>{h.movedRows}</td></tr>

  private def lane(number: Int, executor: String): String =
    if (executor == null || executor.isEmpty) number.toString else s"$number on executor $executor"

  // ---- words and numbers

  private val Clock = DateTimeFormatter.ofPattern("HH:mm:ss.SSS").withZone(ZoneId.systemDefault())
  private def bytes(n: Double): String = Utils.bytesToString(n.toLong)
  private def time(ms: Long): String = Clock.format(Instant.ofEpochMilli(ms))
  def number(v: Double): String = String.format(Locale.ROOT, "%.1f", v)
  private def rate(v: Double): String = String.format(Locale.ROOT, if (v < 10) "%,.1f" else "%,.0f", v)
  private def ms(us: Double): String = {
    val format = if (us < 100) "%.0f µs" else if (us < 1e5) "%.1f ms" else "%,.0f ms"
    String.format(Locale.ROOT, format, if (us < 100) us else us / 1e3)
  }
  private def counted(n: Long, what: String): String = f"$n%,d $what${if (n == 1) "" else "s"}"
}

/** The time axis of the pictures: minutes back from now in a live application, else the clock. */
private[ui] final case class TimeAxis(fromMs: Long, toMs: Long, live: Boolean) {
  import TimeAxis._

  def has(timeMs: Long): Boolean = timeMs >= fromMs && timeMs <= toMs

  def x(timeMs: Long): Double =
    LabelWidth + (Width - LabelWidth - 4) * (timeMs - fromMs).toDouble / math.max(1L, toMs - fromMs)

  def line(value: Double, y: Double => Double): Node = {
    val at = Sections.number(y(value))
    <line x1={LabelWidth.toString} x2={Width.toString} y1={at} y2={at}/>
  }

  def labels(y: Int): Seq[Node] = (0 to Steps).map { i =>
    val at = fromMs + (toMs - fromMs) * i / Steps
    val (text, anchor) =
      if (!live) (Minutes.format(Instant.ofEpochMilli(at)), if (i == Steps) "end" else "middle")
      else if (i == Steps) ("now", "end")
      else (s"-${Steps - i} min", "middle")
    <text x={Sections.number(x(at))} y={y.toString} text-anchor={anchor}>{text}</text>
  }
}

private[ui] object TimeAxis {
  val Width = 900
  private val LabelWidth = 60
  private val Steps = 5
  private val Minutes = DateTimeFormatter.ofPattern("HH:mm:ss").withZone(ZoneId.systemDefault())
}
