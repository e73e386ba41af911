package org.apache.spark.sql.laneshift.kills

import java.io.File
import java.lang.management.ManagementFactory
import java.nio.file.{Files, Paths}
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.{AtomicInteger, AtomicReference}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.laneshift.ElasticSession
import org.apache.spark.sql.laneshift.rescale.TakeOver

/** `make deep ROOMS=kills ONLY=RescaleKills KILLS=300`: drivers and executors killed at random steps and moments while the
  * numbers of state partitions change all the time, under queries that check their own rows. A third are drivers, in processes of
  * their own, each life elastic or, now and then, stock Spark on the same checkpoints. Throws at the first lost, doubled or
  * reordered row, if a life does not go on from what the one before has left, and if the state in the end is not what the input
  * says. Every seed is a run of its own: 300 kills may be three runs of a hundred.
  */
object RescaleKills {

  /** Of fewer every one may hit a rescale of the executors' part, and none come to its end. */
  private val Fewest = 12

  /** So many kills for each pair of checkpoints. */
  private val Lives = 12

  private val Steps =
    Seq("reading", "caught up", "placed", "marked", "offsets", "metadata", "committed", "done")

  /** Behind these stock Spark may find what it calls an unfinished repartitioning. */
  private val Open = Set("offsets", "placed", "metadata")

  def main(args: Array[String]): Unit = {
    val kills = args(0).toIntOption.filter(_ >= Fewest).getOrElse {
      System.err.println(
        s"KILLS is '${args(0)}'; allowed are whole numbers from $Fewest, as in make deep ROOMS=kills KILLS=300"
      )
      sys.exit(2)
    }
    val seed = if (args.length > 1) args(1).toLong else System.nanoTime() % 1000000L
    println(s"$kills kills during rescales, seed $seed")
    val begun = System.nanoTime()
    val struck = new Struck
    val drivers = kills / 3
    val lived = (0 until drivers).grouped(Lives).zipWithIndex.map { case (piece, i) =>
      livesOf(new Random(seed + i), piece.size, format = 1 + i % 2, struck)
    }.sum
    val (rows, done) = executors(seed, kills - drivers, struck)
    println(
      f"$kills kills during rescales ($struck), ${lived + rows}%,d rows: 0 lost, doubled or reordered; " +
        f"$done rescales done beside executors that died; ${(System.nanoTime() - begun) / 1e9}%.0f s; seed $seed"
    )
    // Spark's threads would keep this process.
    System.exit(0)
  }

  /** What was killed, and where. */
  private final class Struck {
    private val counts = mutable.LinkedHashMap.empty[String, Int]
    def add(what: String): Unit = synchronized { counts(what) = counts.getOrElse(what, 0) + 1 }
    override def toString: String =
      synchronized(counts.toSeq.sorted.map { case (what, n) => s"$n $what" }.mkString(", "))
  }

  // ---- drivers

  /** Rows of two queries, on checkpoints that `kills` drivers have died on. */
  private def livesOf(random: Random, kills: Int, format: Int, struck: Struck): Long =
    ElasticSession.withFolder { folder =>
      def orders(kind: String, halt: String) =
        RescaleLife.Orders(folder, kind, random.nextLong(1L << 40), format.toString, halt)
      var (killed, halted) = (0, Option.empty[String])
      var mayBeStock = false
      while (killed < kills) {
        val stock = mayBeStock && random.nextInt(4) == 0
        val step = if (stock || random.nextBoolean()) "" else Steps(random.nextInt(Steps.size))
        val life = new Life(orders(if (stock) "stock" else "elastic", step))
        val code = if (step.isEmpty) life.killWithin(random.nextInt(8000).toLong) else life.halted()
        if (code == RescaleLife.Refused) {
          if (!stock || halted.exists(!Open(_)))
            throw new Wrong(s"a life was refused behind a kill at '${halted.getOrElse("a random moment")}'")
          mayBeStock = false
        } else {
          val where = if (step.isEmpty) None else Some(step).filterNot(_ => life.wasKilled)
          struck.add(s"drivers ${where.fold("at random moments")(s => s"behind '$s'")}")
          halted = where
          killed += 1
          mayBeStock = true
          val side = if (stock) "stock" else "elastic"
          println(s"driver $killed of $kills, format $format, $side: ${where.getOrElse("killed")}")
        }
      }
      new Life(orders("last", "")).rows()
    }

  /** One process. */
  private final class Life(orders: RescaleLife.Orders) {
    private val log = orders.folder.resolve("life.log")
    private val process = {
      val options =
        ManagementFactory.getRuntimeMXBean.getInputArguments.asScala.toSeq ++ RandomKills.ShortLived
      val java = Paths.get(System.getProperty("java.home"), "bin", "java").toString
      val classes = Seq("-cp", System.getProperty("java.class.path"))
      val main = RescaleLife.getClass.getName.stripSuffix("$")
      new ProcessBuilder((java +: (options ++ classes ++ (main +: orders.arguments))).asJava)
        .redirectErrorStream(true)
        .redirectOutput(ProcessBuilder.Redirect.to(new File(log.toString)))
        .start()
    }

    /** From outside. */
    var wasKilled = false

    private def told: String = Files.readString(log)

    private def kill(): Unit = {
      wasKilled = process.isAlive
      process.destroyForcibly()
      ()
    }

    private def waitFor(seconds: Long)(reached: => Boolean): Boolean = {
      val deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds)
      while (process.isAlive && !reached && System.nanoTime() < deadline) Thread.sleep(20L)
      process.isAlive
    }

    /** Kills it, some time after its batches have begun. */
    def killWithin(ms: Long): Int = {
      val alive = waitFor(StartS)(told.contains(RescaleLife.Running))
      val began = told.contains(RescaleLife.Running)
      if (began) Thread.sleep(ms)
      kill()
      if (alive && !began) throw new Wrong(s"a life had no batch in $StartS s: ${told.takeRight(4000)}")
      ended()
    }

    /** Waits until it has come to its step; one that does not is killed. */
    def halted(): Int = {
      waitFor(StepS)(reached = false)
      kill()
      ended()
    }

    /** Waits for what it says in the end. */
    def rows(): Long = {
      waitFor(StartS)(reached = false)
      kill()
      val code = process.waitFor()
      if (code != 0) throw new Wrong(s"the last life ended with $code: ${told.takeRight(4000)}")
      val said = told.linesIterator.filter(_.startsWith(RescaleLife.Rows))
      said.map(_.drop(RescaleLife.Rows.length).toLong).sum
    }

    private def ended(): Int = {
      val code = process.waitFor()
      if (code != RescaleLife.Killed && code != RescaleLife.Refused)
        throw new Wrong(s"a life ended with $code: ${told.takeRight(4000)}")
      code
    }
  }

  /** So long a life may take to begin, and to come to its step, on a machine that has other work. */
  private val StartS = 1800L
  private val StepS = 300L

  // ---- executors

  /** Rows, and rescales that were done. */
  private def executors(seed: Long, kills: Int, struck: Struck): (Long, Int) = {
    val random = new Random(seed)
    val rescaled = new Rescaled(random)
    val dead = new AtomicInteger
    val due = new AtomicReference[String]("")
    var (since, next) = (System.nanoTime(), 0L)

    def killOne(where: String): Unit = {
      // This process has no other children.
      val processes = ProcessHandle.current().children().iterator().asScala.toSeq.sortBy(_.pid)
      if (processes.nonEmpty && processes(random.nextInt(processes.size)).destroyForcibly()) {
        struck.add(s"executors $where")
        println(s"executor ${dead.incrementAndGet()} of $kills: $where")
      }
    }
    def turn(spark: ClassicSession): Int = {
      spark.streams.active.foreach(rescaled.again)
      val now = System.nanoTime()
      if (due.get.nonEmpty && now - since > LateNs && due.getAndSet("").nonEmpty)
        killOne("at random moments")
      else if (due.get.isEmpty && now > next) {
        since = now
        next = now + TimeUnit.MILLISECONDS.toNanos(1500L + random.nextInt(4000))
        if (random.nextBoolean()) due.set(Steps(random.nextInt(Steps.size)))
        else killOne("at random moments")
      }
      150
    }
    val more = Seq(
      "spark.sql.laneshift.motion.tasks" -> "true",
      "spark.sql.shuffle.partitions" -> "3"
    ) ++ RescaleLife.Forgetful
    val rows = RandomKills.withSession("local-cluster[2,3,1024]", more: _*) { spark =>
      TakeOver.passed = step => {
        if (step == "reading") Thread.sleep(RescaleLife.ReadingMs)
        if (due.compareAndSet(step, "")) killOne(s"behind '$step'")
      }
      try RandomKills.microBatches(spark, seed, () => turn(spark), () => dead.get >= kills)
      finally TakeOver.passed = _ => ()
    }
    rescaled.failed.distinct.foreach(println)
    if (rescaled.done == 0) throw new Wrong(s"none of the rescales came to its end: ${rescaled.failed}")
    (rows, rescaled.done)
  }

  /** A step that has not come by then is not waited for. */
  private val LateNs = 20L * 1000000000L
}
