package laneshift.testing

class CoveringSuite extends LimitedSuite {
  test("any two values meet, in few cases, the same ones each time") {
    val sizes = Seq(5, 2, 3, 2, 2)
    val cases = Covering.pairs(sizes)
    for {
      i <- sizes.indices
      j <- i + 1 until sizes.size
      a <- 0 until sizes(i)
      b <- 0 until sizes(j)
    } assert(cases.exists(one => one(i) == a && one(j) == b))
    assert(cases.size < 20 && cases == Covering.pairs(sizes))
  }
}
