package laneshift.testing

class CoveringSuite extends LimitedSuite {
  test("any two values that may meet do, in few cases, the same ones each time") {
    def odd(one: Seq[Int]) = !(one(0) == 2 && one(1) == 1)
    val cases = Covering.pairs(Seq(5, 2, 3, 2, 2))(odd)
    for (a <- 0 until 5; b <- 0 until 3) assert(cases.exists(c => c(0) == a && c(2) == b))
    for (a <- 0 until 5; b <- 0 until 2)
      assert(cases.exists(c => c(0) == a && c(1) == b) == ((a, b) != ((2, 1))))
    assert(cases.forall(odd) && cases.size < 20 && cases == Covering.pairs(Seq(5, 2, 3, 2, 2))(odd))
  }
}
