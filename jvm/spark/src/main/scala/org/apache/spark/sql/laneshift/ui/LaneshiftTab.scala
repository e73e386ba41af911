package org.apache.spark.sql.laneshift.ui

import scala.xml.Node

import org.json4s.JValue
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.laneshift.api.{Inventory, LaneshiftGateway}
import org.apache.spark.sql.laneshift.control.{Decisions, Executors, QueryInventory}
import org.apache.spark.ui.{SparkUI, SparkUITab, UIUtils, WebUIPage}

import jakarta.servlet.http.HttpServletRequest

/** The tab "Laneshift" of Spark's UI: elastic queries as they are now, what has moved lately, what a scheduler decided. */
private[laneshift] final class LaneshiftTab(ui: SparkUI) extends SparkUITab(ui, "laneshift") {
  override val name: String = "Laneshift"
  attachPage(new LaneshiftPage(this))
  ui.attachTab(this)
}

private final class LaneshiftPage(tab: LaneshiftTab) extends WebUIPage("") {

  override def render(request: HttpServletRequest): Seq[Node] = {
    val now = System.currentTimeMillis()
    val again = Option(request.getParameter("every")).flatMap(_.toIntOption).filter(s => s >= 1 && s <= 3600)
    val queries = Inventory.queries()
    val names = QueryInventory.all.flatMap(run => run.name.map(run.id -> _)).toMap
    val moves = Executors.handoffs(LaneshiftPage.Moves, None).map(_._2)
    def content: Seq[Node] =
      Sections.styles ++ Sections.reload(again) ++
        (if (queries.exists(_.operators.nonEmpty)) queries.flatMap(Sections.query) else Sections.nothing) ++
        Sections.decisions(Decisions.newest(LaneshiftPage.DecisionsShown)) ++
        Sections.moves(moves, names, now)
    UIUtils.headerSparkPage(request, "Laneshift", content, tab)
  }

  /** At `/laneshift/json/`, for `laneshift top` and other programs. */
  override def renderJson(request: HttpServletRequest): JValue =
    JsonMethods.parse(LaneshiftGateway.status(LaneshiftPage.Decisions))
}

private object LaneshiftPage {
  val Moves = 2000
  val Decisions = 50
  val DecisionsShown = 20
}
