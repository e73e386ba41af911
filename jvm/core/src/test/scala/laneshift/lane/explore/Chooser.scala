package laneshift.lane.explore

import java.util.SplittableRandom

/** Who goes on next: a schedule is nothing but the choices of this class. Delays are other actors' steps. */
sealed trait Chooser {

  /** One of the actors in the bit set `ready`, which is not empty. */
  def next(ready: Int): Int
}

object Chooser {
  def draw(random: SplittableRandom, actors: Int): Chooser = random.nextInt(10) match {
    case 0 | 1 | 2 => new Uniform(random)
    case 3 | 4 | 5 | 6 => new Biased(random, actors)
    case _ => new Priorities(random, actors)
  }

  private def nth(set: Int, n: Int): Int = {
    var rest = set
    var i = 0
    while (i < n) {
      rest &= rest - 1
      i += 1
    }
    Integer.numberOfTrailingZeros(rest)
  }

  final class Uniform(random: SplittableRandom) extends Chooser {
    override def next(ready: Int): Int = nth(ready, random.nextInt(Integer.bitCount(ready)))
  }

  /** Some actors starve for a long time, others run on and on; who they are changes now and then. */
  final class Biased(random: SplittableRandom, actors: Int) extends Chooser {
    private val weights = new Array[Int](actors)
    redraw()

    private def redraw(): Unit = {
      var i = 0
      while (i < actors) {
        weights(i) = 1 << (4 * random.nextInt(4))
        i += 1
      }
    }

    override def next(ready: Int): Int = {
      if (random.nextInt(40) == 0) redraw()
      var total = 0
      var i = 0
      while (i < actors) {
        if ((ready & (1 << i)) != 0) total += weights(i)
        i += 1
      }
      var at = random.nextInt(total)
      i = -1
      while (at >= 0) {
        i += 1
        if ((ready & (1 << i)) != 0) at -= weights(i)
      }
      i
    }
  }

  /** Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010): the ready actor of the highest priority runs; at a
    * few random steps the running one becomes the last.
    */
  final class Priorities(random: SplittableRandom, actors: Int) extends Chooser {
    private val order = Array.tabulate(actors)(identity)
    private var until = 0
    (actors - 1 to 1 by -1).foreach { i =>
      val j = random.nextInt(i + 1)
      val swapped = order(i)
      order(i) = order(j)
      order(j) = swapped
    }
    plan()

    private def plan(): Unit = until = 1 + random.nextInt(60)

    override def next(ready: Int): Int = {
      var i = 0
      while ((ready & (1 << order(i))) == 0) i += 1
      val actor = order(i)
      until -= 1
      if (until == 0) {
        System.arraycopy(order, i + 1, order, i, actors - 1 - i)
        order(actors - 1) = actor
        plan()
      }
      actor
    }
  }
}
