package laneshift.testing

import java.nio.file.{Files, Path, Paths}
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.scalatest.Args

/** What the suite that runs has cost so far, by kind: what starts something dear says so here, where it starts it. */
object Spent {
  private val counts = new ConcurrentHashMap[String, Long]
  private val used = ConcurrentHashMap.newKeySet[Any]

  /** Waits for what is counted later than it happens. */
  @volatile var settle: () => Unit = () => ()

  def one(kind: String): Unit = { counts.merge(kind, 1L, (a, b) => a + b); () }

  /** One for each suite that asks for the same, however often. */
  def once(kind: String, what: Any): Unit = if (used.add(kind -> what)) one(kind)

  /** Counts nothing: of what suites share, and whichever is the first makes. */
  def free[T](make: => T): T = {
    settle()
    val before = new ConcurrentHashMap(counts)
    try make
    finally {
      settle()
      counts.clear()
      counts.putAll(before)
    }
  }

  /** What was spent since the last call. */
  def take(): Map[String, Long] = {
    settle()
    val taken = counts.asScala.toMap
    counts.clear()
    used.clear()
    taken
  }
}

/** What each suite may cost in the gate, as counts that are the same on every machine: `Suite: 12 queries, 30 batches`. A suite or a
  * kind that is not named has nothing.
  */
final class Budgets(file: Path) {

  def all: Map[String, Map[String, Long]] =
    Files.readAllLines(file).asScala.collect { case s"$suite: $kinds" =>
      suite -> kinds.split(", ").collect { case s"$n $kind" => kind -> n.toLong }.toMap
    }.toMap

  /** Fails if a suite has cost more; `complete`: all of its tests of the gate have run, and are green. */
  def hold(suite: String, spent: Map[String, Long], complete: Boolean): Unit = {
    val budget = all.getOrElse(suite, Map.empty)
    if (Budgets.renewed && complete) renew(suite, spent)
    else {
      val over = spent.toSeq.sorted.collect {
        case (kind, n) if n > Budgets.withSlack(kind, budget.getOrElse(kind, 0L)) =>
          s"$n $kind instead of ${budget.getOrElse(kind, 0L)}"
      }
      if (over.nonEmpty) throw new IllegalStateException(
        s"$suite costs more than it may: ${over.mkString(", ")}. Prove the same with less, or change its line of " +
          s"${file.getFileName} (make test-jvm ONLY='*$suite' BUDGETS=renew) and say in the commit why it is worth that."
      )
    }
  }

  private def renew(suite: String, spent: Map[String, Long]): Unit = {
    val lines = (all - suite ++ Option.when(spent.nonEmpty)(suite -> spent)).toSeq.sortBy(_._1).map {
      case (name, kinds) =>
        s"$name: ${kinds.toSeq.sortBy(_._1).map { case (kind, n) => s"$n $kind" }.mkString(", ")}"
    }
    Files.write(file, lines.asJava)
    ()
  }
}

object Budgets {
  val ofGate = new Budgets(Paths.get(System.getProperty("laneshift.repo"), "jvm", "budgets.txt"))

  val areHeld: Boolean = !Deep.isAsked

  private val renewed = sys.env.get("LANESHIFT_BUDGETS").contains("renew")

  /** Rows that come while a batch starts are of this one or of the next: the one kind that is not the same in every run. */
  private def withSlack(kind: String, n: Long): Long = if (kind == "batches") n + n / 4 + 2 else n

  /** Whether a run is of all tests that a suite has in the gate. */
  def isAll(test: Option[String], args: Args): Boolean =
    test.isEmpty && args.filter.tagsToInclude.isEmpty && args.filter.dynaTags.testTags.isEmpty
}
