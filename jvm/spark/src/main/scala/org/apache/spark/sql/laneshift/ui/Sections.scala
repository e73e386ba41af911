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
    .ls-bar { width: 10em; flex: none; height: .8em; background: #e6e9ee; border-radius: 2px; }
    .ls-bar i { display: block; height: 100%; background: #2b6cb0; border-radius: 2px; }
    .ls-shards { display: flex; flex-wrap: wrap; width: 23.6em; }
    .ls-shards span { width: 1.9em; height: 1.5em; line-height: 1.5em; text-align: center; font-size: .75em;
      border: 1px solid #fff; color: #1a202c; }
    .ls-shards span.dark { color: #fff; }
    .ls-grid td { vertical-align: top; padding-right: 2em; }
    .ls-timeline text { font-size: 11px; fill: #4a5568; }
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
      <p>Operator {spec.key.operatorId}, <code>{spec.name}</code>, in {mode}: {
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
    <tr>
      <td>
        <b>{v.index}</b> on executor {p.executor.id} ({p.executor.host})<br/>
        {rate(v.rowsInPerSecond)} rows/s in, {rate(v.rowsOutPerSecond)} out<br/>
        {counted(v.handoffs, "shard")} moved{
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
      <table class="table table-sm table-striped">
        <thead><tr><th>Time</th><th>Policy</th><th>Lanes</th><th>Because</th></tr></thead>
        <tbody>{rows}</tbody>
      </table>
    }

  // ---- moves

  private val Width = 900
  private val Height = 150
  private val SpanMs = 300000L
  private val LabelWidth = 60

  def moves(recent: Seq[HandoffRecord], nowMs: Long): Seq[Node] = {
    val shown = recent.filter(h => h.pauseNs > 0 && nowMs - h.timeMs < SpanMs)
    val newest = recent.takeRight(20).reverse
    if (newest.isEmpty) NodeSeq.Empty
    else
      <h4>Moves of shards</h4> ++
        <p>Each dot is a shard that moved in the last five minutes: the higher, the longer its rows waited. Blue: to even out
          loads; orange: because the number of lanes changed; green: by a user's command; grey: by the fault mode.</p> ++
        timeline(shown, nowMs) ++
        <table class="table table-sm table-striped">
          <thead><tr><th>Time</th><th>Operator</th><th>Partition</th><th>Shard</th><th>From lane</th><th>To lane</th><th>Why</th>
            <th>Its rows waited</th><th>Rows that waited</th></tr></thead>
          <tbody>{newest.map(move)}</tbody>
        </table>
  }

  private def timeline(shown: Seq[HandoffRecord], nowMs: Long): Node = {
    def x(timeMs: Long): Double = LabelWidth + (Width - LabelWidth) * (1 - (nowMs - timeMs).toDouble / SpanMs)
    // From 10 microseconds at the bottom to one second at the top.
    def y(ns: Double): Double = Height * (1 - (math.log10(math.min(1e9, math.max(1e4, ns))) - 4) / 5)
    val lines = Seq(1e5 -> "0.1 ms", 1e6 -> "1 ms", 1e7 -> "10 ms", 1e8 -> "100 ms")
    <svg class="ls-timeline" width={Width.toString} height={
      (Height + 20).toString
    } role="img" aria-label="moves over time">
      {
      lines.map { case (ns, label) =>
        <g><line x1={LabelWidth.toString} x2={Width.toString} y1={number(y(ns))} y2={
          number(y(ns))
        } stroke="#e2e8f0"/>
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
        <circle cx={number(x(h.timeMs))} cy={number(y(h.pauseNs.toDouble))} r="2.5" fill={colour(h.reason)}
        fill-opacity="0.7"/>
      }
    }
    </svg>
  }

  private def colour(reason: String): String = reason match {
    case "balance" => "#2b6cb0"
    case "scale" => "#dd6b20"
    case "user" => "#2f855a"
    case _ => "#718096"
  }

  private def move(h: HandoffRecord): Node = {
    val why = h.reason match {
      case "balance" => "to even out loads"
      case "scale" => "the number of lanes changed"
      case "user" => "a user's command"
      case _ => "the fault mode"
    }
    <tr><td>{time(h.timeMs)}</td><td>{h.key.operatorId}</td><td>{h.partition}</td><td>{h.shard}</td><td>{
      h.from
    }</td><td>{h.to}</td>
      <td>{why}</td><td>{if (h.pauseNs > 0) ms(h.pauseNs / 1e3) else "not at all (between batches)"}</td><td>{
      h.movedRows
    }</td></tr>
  }

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
