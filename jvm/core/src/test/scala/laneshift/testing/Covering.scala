package laneshift.testing

import scala.util.Random

/** Few cases in which any two values of two factors meet: most mistakes are of one factor or of two together. */
object Covering {

  /** Cases as numbers of values, one for each factor, whose counts of values are `sizes`. The same cases for the same
    * arguments: always one of those that have most pairs which are not met yet, until all are met.
    */
  def pairs(sizes: Seq[Int]): Seq[Seq[Int]] = {
    val all = new Random(1L).shuffle(sizes.foldLeft(Seq(Seq.empty[Int])) { (begun, size) =>
      begun.flatMap(one => (0 until size).map(one :+ _))
    })

    @scala.annotation.tailrec
    def more(found: Seq[Seq[Int]], open: Set[(Int, Int, Int, Int)]): Seq[Seq[Int]] =
      if (open.isEmpty) found
      else {
        val best = all.maxBy(met(_).count(open))
        more(found :+ best, open -- met(best))
      }
    more(Nil, all.flatMap(met).toSet).sortBy(_.head)
  }

  /** The pairs of a case: a factor, its value, a later factor, its value. */
  private def met(one: Seq[Int]): Seq[(Int, Int, Int, Int)] =
    for (a <- one.indices; b <- a + 1 until one.size) yield (a, one(a), b, one(b))
}
