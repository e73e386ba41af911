package laneshift.testing

import java.nio.file.{Files, Paths}
import java.util.concurrent.CountDownLatch

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.scalatest.{Args, BeforeAndAfterAll, Failed, Filter, Succeeded}
import org.scalatest.events.Event

/** What decides which tests run, and what ends one that hangs. */
class TiersSuite extends LimitedSuite {
  private val Direct = "(?m)^(abstract )?(class|trait) .* extends Any(FunSuite|.*Spec)".r

  test("the rooms of the build are those of the tags") {
    assert(System.getProperty("laneshift.deep.rooms").split(',').toSeq == Deep.all.map(_.room))
  }

  test("every suite has the limit") {
    val jvm = Paths.get(System.getProperty("laneshift.repo"), "jvm")
    val unlimited = Seq("core", "spark").map(jvm.resolve(_).resolve("src/test")).flatMap { folder =>
      Using.resource(Files.walk(folder)) {
        _.iterator.asScala.filter(_.toString.endsWith(".scala")).toSeq
          .filter(file => Direct.findFirstIn(Files.readString(file)).nonEmpty)
      }
    }
    assert(unlimited.map(_.getFileName.toString) == Seq("LimitedSuite.scala"), "extend LimitedSuite instead")
  }

  test("a suite of a room has nothing to run in the gate, and all of its tests in its room") {
    var began = false
    class Sample extends LimitedSuite with DeepSuite with BeforeAndAfterAll {
      override def beforeAll(): Unit = began = true
      override def room: Deep = Deep.Kills
      test("one")(())
      test("of two rooms", Deep.Pairs)(())
    }
    val suite = new Sample
    val gate = Filter(tagsToExclude = Deep.all.map(_.name).toSet)
    assert(suite.expectedTestCount(gate) == 0)
    assert(suite.expectedTestCount(Filter(tagsToInclude = Some(Set(Deep.Kills.name)))) == 2)
    assert(suite.expectedTestCount(Filter(tagsToInclude = Some(Set(Deep.Pairs.name)))) == 1)
    suite.run(
      None,
      Args((_: Event) => (), filter = gate)
    )
    assert(!began)
  }

  test("a test that hangs is interrupted and fails, with its name; one that does not goes on as it was") {
    val hangs = new CountDownLatch(1)
    @volatile var said = ""
    val outcome = TestLimit.within("the test", limitMs = 1L, said = _) { hangs.await(); Succeeded }
    assert(said.contains("TiersSuite"), "where it was")
    outcome match {
      case Failed(error) => assert(error.getMessage.startsWith("the test is not done within 0.001 s"))
      case other => fail(other.toString)
    }
    assert(!Thread.interrupted())
    assert(TestLimit.within("the test", limitMs = 60000L)(Succeeded) == Succeeded)
  }

  test("a suite that costs more than its budget fails, and is told how it may go on") {
    val file = Files.createTempFile("budgets", ".txt")
    try {
      Files.writeString(file, "Known: 8 batches, 2 queries, 3 stock sides\n")
      val budgets = new Budgets(file)
      def told(suite: String, spent: (String, Long)*) =
        intercept[IllegalStateException](budgets.hold(suite, spent.toMap, complete = false)).getMessage
      budgets.hold("Known", Map("queries" -> 2L, "batches" -> 12L), complete = false)
      val said = told("Known", "queries" -> 3L, "stock sides" -> 3L)
      assert(said.startsWith("Known costs more than it may: 3 queries instead of 2."), said)
      assert(said.contains("ONLY='*Known' BUDGETS=renew"), said)
      assert(told("Known", "processes" -> 1L).contains("1 processes instead of 0"))
      assert(told("Known", "batches" -> 13L).contains("13 batches instead of 8"))
      assert(told("New", "queries" -> 1L).contains("1 queries instead of 0"))
    } finally Files.delete(file)
  }

  test("what a test costs is held against its suite's budget, and what is shared is nobody's") {
    assume(!Deep.isAsked, "the deep tier has no budgets")
    class Sample extends LimitedSuite {
      test("dear") {
        Spent.one("queries")
        Spent.free(Spent.one("queries"))
        (1 to 2).foreach(_ => Spent.once("stock sides", "of this"))
      }
    }
    val dear = intercept[IllegalStateException](new Sample().run(Some("dear"), Args((_: Event) => ())))
    assert(dear.getMessage.contains("1 queries instead of 0, 1 stock sides instead of 0"))
    assert(Spent.take().isEmpty)
  }
}
