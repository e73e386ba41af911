package org.apache.spark.sql.laneshift.ui

import java.time.{Instant, ZoneId}
import java.time.format.DateTimeFormatter
import java.util.Locale

import scala.xml.{Node, NodeSeq, Unparsed}

import org.apache.spark.sql.laneshift.api.QueryView
import org.apache.spark.sql.laneshift.control.{Decision, HandoffRecord, PartitionSite}

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

  // ---- a query

  def query(q: QueryView): Seq[Node] = {
    val named = q.run.name.fold(q.run.id)(n => s"$n (${q.run.id})")
    <h4>Query {named}</h4> ++ q.operators.flatMap(operator)
  }

  private def operator(partitions: Seq[PartitionSite]): Seq[Node] = {
    val spec = partitions.head.view.spec
    val lanes = partitions.map(_.view.lanes).sum
    val mode = if (spec.realTime) "Real-time Mode" else "micro-batches"
    val when = spec.granularity.name match {
      case "between-batches" => "shards move between two batches"
      case _ => "shards move between two rows"
    }
    <div>
      <p class="ls-operator">Operator {spec.key.operatorId}, <code>{spec.name}</code>, in {mode}: {
      counted(partitions.size, "partition")
    } of
        state on {counted(lanes, "lane")}; {when}.</p>
      <table class="table table-sm ls-grid">
        <thead><tr><th>Partition</th><th>Lanes: share of the last half second that each worked</th>
          <th>Shards: the darker, the more load; the number is the lane</th></tr></thead>
        <tbody>{partitions.map(partition)}</tbody>
      </table>
    </div>
  }

  private def partition(p: PartitionSite): Node = {
    val v = p.view
    val busy = v.laneBusy.padTo(v.lanes, 0.0).take(v.lanes)
    val queued = v.queueRows.padTo(v.lanes, 0L).take(v.lanes)
    <tr class="ls-partition">
      <td>
        <b>{v.index}</b> on executor {p.executor.id} ({p.executor.host})<br/>
        {rate(v.rowsInPerSecond)} rows/s in, {rate(v.rowsOutPerSecond)} out<br/>
        {counted(v.handoffs, "move")} of shards{
      if (v.pauseUs.count > 0)
        s"; a shard stood still for ${ms(v.pauseUs.p50)}, at the 99th percentile ${ms(v.pauseUs.p99)}"
      else ""
    }
        {if (v.running) NodeSeq.Empty else <br/> ++ <i>between two batches</i>}
      </td>
      <td>{
      busy.zip(queued).zipWithIndex.map { case ((share, rows), lane) => this.lane(lane, share, rows) }
    }</td>
      <td><div class="ls-shards">{shards(v.loads, v.routing)}</div></td>
    </tr>
  }

  private def lane(number: Int, busy: Double, queued: Long): Node = {
    val percent = math.round(100 * busy)
    <div class="ls-lane">
      <b>lane {number}</b>
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
        val said = d.changes.map(c => (s"${c.partition}: ${c.before} to ${c.after} lanes", c.reason)) ++
          d.notes.map("" -> _) ++ d.error.map(e => "failed; queries keep their lanes" -> e)
        said.map { case (what, why) =>
          <tr><td>{time(d.timeMs)}</td><td>{d.policy}</td><td>{what}{
            if (d.applied || what.isEmpty) "" else " (not carried out)"
          }</td><td>{why}</td></tr>
        }
      }
      <h4>What the scheduler decided, newest first</h4>
      <table class="table table-sm table-striped" id="ls-decisions">
        <thead><tr><th>Time</th><th>Policy</th><th>Lanes</th><th>Because</th></tr></thead>
        <tbody>{rows}</tbody>
      </table>
    }

  // ---- moves

  private val Width = 900
  private val Height = 150
  private val SpanMs = 300000L
  private val LabelWidth = 60

  /** @param queries the names of queries by their ids, where they have one */
  def moves(recent: Seq[HandoffRecord], queries: Map[String, String], nowMs: Long): Seq[Node] = {
    val newest = recent.takeRight(20).reverse
    if (newest.isEmpty) NodeSeq.Empty
    else
      <h4>Moves of shards</h4> ++
        <p>Each dot is a shard that moved in the last five minutes: the higher, the longer its rows waited. The colour says why
          it moved:<br/>{
          Why.all.map(w => <span class="ls-why"><i style={s"background: ${w.colour}"}></i>{w.words}</span>)
        }
        </p> ++
        timeline(recent.filter(nowMs - _.timeMs < SpanMs), nowMs) ++
        <table class="table table-sm table-striped" id="ls-moves">
          <thead><tr><th>Time</th><th>Query</th><th>Partition</th><th>Shard</th><th>From lane</th><th>To lane</th><th>Why</th>
            <th>Its rows waited</th><th>Rows that waited</th></tr></thead>
          <tbody>{newest.map(h => move(h, queries.getOrElse(h.key.queryId, h.key.queryId)))}</tbody>
        </table>
  }

  private def timeline(shown: Seq[HandoffRecord], nowMs: Long): Node = {
    def x(timeMs: Long): Double =
      LabelWidth + (Width - LabelWidth - 4) * (1 - (nowMs - timeMs).toDouble / SpanMs)
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
    <svg class="ls-timeline" viewBox={s"0 0 $Width ${Height + 20}"} width={Width.toString} role="img"
      aria-label="moves over time">
      {
      lines.map { case (ns, label) =>
        <g><line x1={LabelWidth.toString} x2={Width.toString} y1={number(y(ns))} y2={number(y(ns))}/>
        <text x="0" y={number(y(ns) + 4)}>{label}</text></g>
      }
    }
      {
      (0 to 5).map { minute =>
        <text x={number(x(nowMs - minute * 60000L) - (if (minute == 0) 22 else 14))} y={
          (Height + 15).toString
        }>{
          if (minute == 0) "now" else s"-$minute min"
        }</text>
      }
    }
      {
      shown.map { h =>
        <circle cx={number(x(h.timeMs))} cy={number(y(h.pauseNs.toDouble))} r="2.5" fill={
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
      Why("motion", "#718096", "the fault mode")
    )
    def of(reason: String): Why = all.find(_.reason == reason).getOrElse(all.last)
  }

  private def move(h: HandoffRecord, query: String): Node =
    <tr><td>{time(h.timeMs)}</td><td>{query}, operator {h.key.operatorId}</td><td>{h.partition}</td><td>{
      h.shard
    }</td>
      <td>{h.from}</td><td>{h.to}</td><td>{Why.of(h.reason).words}</td><td>{
      if (h.pauseNs > 0) ms(h.pauseNs / 1e3) else "not at all (between batches)"
    }</td><td>{h.movedRows}</td></tr>

  // ---- words and numbers

  private val Clock = DateTimeFormatter.ofPattern("HH:mm:ss.SSS").withZone(ZoneId.systemDefault())
  private def time(ms: Long): String = Clock.format(Instant.ofEpochMilli(ms))
  private def number(v: Double): String = String.format(Locale.ROOT, "%.1f", v)
  private def rate(v: Double): String = String.format(Locale.ROOT, if (v < 10) "%,.1f" else "%,.0f", v)
  private def ms(us: Double): String = {
    val format = if (us < 100) "%.0f µs" else if (us < 1e5) "%.1f ms" else "%,.0f ms"
    String.format(Locale.ROOT, format, if (us < 100) us else us / 1e3)
  }
  private def counted(n: Long, what: String): String = f"$n%,d $what${if (n == 1) "" else "s"}"
}
