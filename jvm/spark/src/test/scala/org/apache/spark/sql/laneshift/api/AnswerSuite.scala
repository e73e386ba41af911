package org.apache.spark.sql.laneshift.api

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import laneshift.testing.LimitedSuite

class AnswerSuite extends LimitedSuite {
  private def read(value: => Any): JsonNode = new ObjectMapper().readTree(Answer(value))

  test("Every kind of value has its form in JSON") {
    val said = read(
      Map[String, Any](
        "text" -> "a \"b\"\n\u00e9",
        "none" -> None,
        "null" -> null,
        "some" -> Some(7),
        "long" -> Long.MaxValue,
        "yes" -> true,
        "ints" -> Array(1, 2),
        "longs" -> Array(3L),
        "fractions" -> Array(0.5, 2.0),
        "nothing" -> Array.empty[Int],
        "inside" -> Seq(Map("x" -> 1.5), Map.empty[String, Any])
      )
    ).get("ok")
    assert(said.get("text").asText == "a \"b\"\n\u00e9")
    assert(said.get("none").isNull && said.get("null").isNull)
    assert(
      said.get("some").asInt == 7 && said.get("long").asLong == Long.MaxValue && said.get("yes").isBoolean
    )
    assert(said.get("ints").toString == "[1,2]" && said.get("longs").toString == "[3]")
    assert(said.get("fractions").toString == "[0.5,2.0]" && said.get("nothing").toString == "[]")
    assert(said.get("inside").toString == """[{"x":1.5},{}]""")
  }

  test("A number is read as the one that was written") {
    val random = new scala.util.Random(1)
    val numbers =
      Array.fill(10000)(java.lang.Double.longBitsToDouble(random.nextLong())).filter(_.isFinite) ++
        Array(0.0, -0.0, 2e-3, 1e23, Double.MinPositiveValue, Double.MaxValue, 5.0)
    val said = read(numbers).get("ok")
    numbers.indices.foreach(i => assert(said.get(i).asDouble.equals(numbers(i)), numbers(i)))
  }

  test("What JSON has no number for is a text that Python reads as one") {
    val numbers = Array(Double.NaN, Double.PositiveInfinity, Double.NegativeInfinity)
    Seq[Any](numbers, numbers.toSeq).foreach(each =>
      assert(read(each).get("ok").toString == """["NaN","Infinity","-Infinity"]""")
    )
  }

  test("An error of ours is an answer, another value is none") {
    val said = read(throw ApiError.noSuchPartition(9, 2)).get("error")
    assert(said.get("condition").asText.startsWith("LANESHIFT_") && said.get("parameters").isObject)
    intercept[IllegalArgumentException](Answer(Seq(new Object)))
  }
}
