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
}
