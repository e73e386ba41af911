package laneshift.testing

import scala.util.control.NonFatal

import org.scalatest.{Args, Filter, Reporter, Stopper, Suite}
import org.scalatest.events.{Event, SuiteAborted, TestFailed}

/** Runs the gate's tests of some suites with one planted bug, until one of them is red: `GateWithBug FAULT SUITE...`. It says which
  * one noticed. `scripts/strength.py` starts one such process for each bug.
  */
object GateWithBug {
  def main(args: Array[String]): Unit = {
    val fault = Fault.all
      .find(_.name == args.head)
      .getOrElse(sys.error(
        s"There is no planted bug '${args.head}': ${Fault.all.map(_.name).mkString(", ")}"
      ))
    val stopper = Stopper.default
    @volatile var noticed = Option.empty[String]
    val reporter: Reporter = (event: Event) =>
      if (noticed.isEmpty) {
        noticed = event match {
          case e: TestFailed =>
            println(e.message)
            Some(s"${e.suiteName}: ${e.testName}")
          case e: SuiteAborted => Some(s"${e.suiteName}: ${e.message}")
          case _ => None
        }
        if (noticed.nonEmpty) stopper.requestStop()
      }
    Budgets.areHeld = false
    val gate = Filter(tagsToExclude = Deep.all.map(_.name).toSet)
    Faults.withFault(fault) {
      args.tail.iterator.takeWhile(_ => noticed.isEmpty).foreach { name =>
        try {
          val suite = Class.forName(name).getDeclaredConstructor().newInstance().asInstanceOf[Suite]
          suite.run(None, Args(reporter, stopper, gate))
        } catch { case NonFatal(error) => noticed = noticed.orElse(Some(s"$name: $error")) }
      }
    }
    println(noticed.fold("Nobody noticed.")(test => s"Noticed by $test"))
    // Threads that the bug has left hanging must not keep this process.
    System.out.flush()
    Runtime.getRuntime.halt(if (noticed.isEmpty) 0 else 1)
  }
}
