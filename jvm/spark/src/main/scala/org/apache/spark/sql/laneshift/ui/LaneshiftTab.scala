package org.apache.spark.sql.laneshift.ui

import scala.xml.Node

import org.json4s.JValue

import org.apache.spark.sql.laneshift.api.LaneshiftGateway
import org.apache.spark.sql.laneshift.driver.{Decision, DriverState, LaneshiftSample, QueryRecord}
import org.apache.spark.sql.laneshift.runtime.HandoffRecord
import org.apache.spark.ui.{SparkUI, SparkUITab, UIUtils, WebUIPage}

import jakarta.servlet.http.HttpServletRequest

/** What the tab shows: of a live application as it is now and was in the last minutes, or of all of a finished one's life
  * (`fromMs` to `toMs`). Samples and moves are oldest first, decisions newest first.
  *
  * @param rescales in words, by run
  */
private[laneshift] final case class TabContent(
    live: Boolean,
    queries: Seq[QueryRecord],
    samples: Seq[LaneshiftSample],
    decisions: Seq[Decision],
    moves: Seq[HandoffRecord],
    fromMs: Long,
    toMs: Long,
    rescales: Map[String, String] = Map.empty
)

/** The tab "Laneshift" of Spark's UI. */
private[laneshift] final class LaneshiftTab(ui: SparkUI, content: () => TabContent)
    extends SparkUITab(ui, "laneshift") {
  override val name: String = "Laneshift"
  attachPage(new LaneshiftPage(this, content))
  ui.attachTab(this)
}

private[laneshift] object LaneshiftTab {
  private val Moves = 2000
  private val Shown = 20
  private val SpanMs = 300000L

  def live(ui: SparkUI, driver: DriverState): LaneshiftTab = new LaneshiftTab(ui, () => now(driver))

  private def now(driver: DriverState): TabContent = {
    val now = System.currentTimeMillis()
    val queries = QueryRecord.of(driver.views())
    TabContent(
      live = true,
      queries,
      driver.journal.recent,
      driver.decisions.newest(Shown),
      driver.executors.handoffs(Moves, None).map(_._2),
      now - SpanMs,
      now,
      queries.flatMap(q => driver.runs.get(q.runId).flatMap(_.rescale).map(q.runId -> _.words)).toMap
    )
  }
}

private final class LaneshiftPage(tab: LaneshiftTab, content: () => TabContent) extends WebUIPage("") {

  override def render(request: HttpServletRequest): Seq[Node] = {
    val again = Option(request.getParameter("every")).flatMap(_.toIntOption).filter(s => s >= 1 && s <= 3600)
    def page: Seq[Node] = {
      val c = content()
      val axis = TimeAxis(c.fromMs, c.toMs, c.live)
      Sections.styles ++ (if (c.live) Sections.reload(again) else Sections.finished(c)) ++
        (if (c.queries.isEmpty) Sections.nothing
         else c.queries.flatMap(q => Sections.query(q, c.live, c.rescales.get(q.runId)))) ++
        Sections.course(c.samples, axis) ++ Sections.decisions(c.decisions) ++
        Sections.moves(c.moves, c.queries.flatMap(q => q.name.map(q.id -> _)).toMap, axis)
    }
    UIUtils.headerSparkPage(request, "Laneshift", page, tab)
  }

  /** At `/laneshift/json/` of a live application, for `laneshift top` and other programs. */
  override def renderJson(request: HttpServletRequest): JValue =
    LaneshiftGateway.statusJson(LaneshiftPage.Told)
}

private object LaneshiftPage {

  /** Decisions in the JSON. */
  val Told = 50
}
