package org.apache.spark.sql.laneshift.api

import java.nio.file.{Files, Paths}

import laneshift.testing.LimitedSuite

/** Messages against bytes that the documentation of protocol buffers has; what Python reads of them is in test_live_control.py. */
class MessageWriterSuite extends LimitedSuite {
  private val file = new ProtoFile("""
    |// Nothing of this is a field: int32 wrong = 9;
    |service S {
    |  rpc Call(Empty) returns (stream Test); // of = 3;
    |}
    |
    |message Empty {}
    |
    |message Test {
    |  int32 a = 1;
    |  string b = 2; // int32 wrong = 9;
    |  optional Test c = 3;
    |  repeated int32 d = 4;
    |  optional int64 e = 5;
    |  double f = 6;
    |  bool g = 7;
    |  repeated Test h = 8;
    |  repeated double i = 9;
    |  repeated string j = 10;
    |  map<string, int32> k = 11;
    |  int64 l = 12;
    |  optional bool m = 13;
    |}
    |""".stripMargin)
  private val writer = new MessageWriter(file)

  private def bytes(values: (String, Any)*): String =
    writer.message("Test", values.toMap).map(b => f"$b%02x").mkString(" ")

  test("Each kind of value") {
    assert(bytes("a" -> 150) == "08 96 01")
    assert(bytes("b" -> "testing") == "12 07 74 65 73 74 69 6e 67")
    assert(bytes("c" -> Map("a" -> 150)) == "1a 03 08 96 01")
    assert(bytes("d" -> Seq(3, 270, 86942)) == "22 06 03 8e 02 9e a7 05")
    assert(bytes("d" -> Array(3, 270, 86942)) == "22 06 03 8e 02 9e a7 05")
    assert(bytes("d" -> Array(1L)) == "22 01 01")
    assert(bytes("a" -> -1) == "08 ff ff ff ff ff ff ff ff ff 01")
    assert(bytes("l" -> Long.MaxValue) == "60 ff ff ff ff ff ff ff ff 7f")
    assert(bytes("f" -> 1.0) == "31 00 00 00 00 00 00 f0 3f" && bytes("f" -> 1) == bytes("f" -> 1.0))
    assert(bytes("f" -> Double.NaN) == "31 00 00 00 00 00 00 f8 7f")
    assert(bytes("g" -> true) == "38 01")
    assert(bytes("h" -> Seq(Map("a" -> 1), Map.empty, Map("a" -> 2))) == "42 02 08 01 42 00 42 02 08 02")
    assert(bytes("i" -> Array(1.0)) == "4a 08 00 00 00 00 00 00 f0 3f")
    assert(bytes("j" -> Seq("x", "")) == "52 01 78 52 00")
    assert(bytes("b" -> "\u00e9") == "12 02 c3 a9")
  }

  test("What is nothing is left out, unless that is told from what is not there") {
    val nothing =
      Seq[(String, Any)]("a" -> 0, "b" -> "", "d" -> Nil, "f" -> 0.0, "g" -> false, "h" -> Nil, "l" -> 0L)
    assert(bytes(nothing: _*) == "" && bytes("i" -> Array.empty[Double]) == "")
    assert(bytes("e" -> None) == "" && bytes("e" -> null) == "" && bytes("unknown" -> 1) == "")
    assert(bytes("e" -> 0L) == "28 00" && bytes("e" -> Some(0)) == "28 00" && bytes("m" -> false) == "68 00")
    assert(bytes("c" -> Map.empty) == "1a 00" && bytes("f" -> -0.0) == "31 00 00 00 00 00 00 00 80")
  }

  test("A message that outgrows its room is whole") {
    val numbers = Array.tabulate(100000)(i => i)
    val inside = Map[String, Any]("b" -> "x" * 5000, "d" -> numbers, "h" -> Seq.fill(300)(Map("a" -> 7)))
    val found = writer.message("Test", Map("c" -> inside))
    val part = writer.message("Test", inside)
    assert(part.length > 100000 && found.endsWith(part) && found.length == part.length + 4)
    assert(writer.field("Test", "c", inside).sameElements(found))
  }

  test("A value of another kind is an error") {
    Seq[(String, Any)](
      "a" -> "1",
      "a" -> 1.5,
      "a" -> 3000000000L,
      "b" -> 1,
      "c" -> 1,
      "d" -> 1,
      "d" -> Seq("x"),
      "f" -> "1",
      "g" -> 1,
      "h" -> Map.empty,
      "i" -> Array(1),
      "a" -> Array(1),
      "e" -> Seq(1)
    ).foreach { case wrong => intercept[IllegalArgumentException](bytes(wrong)) }
    intercept[IllegalArgumentException](writer.message("Nothing", Map.empty))
  }

  test("The control service's protocol is in the jar, and all of its snapshot's fields are read") {
    val repo = Paths.get(System.getProperty("laneshift.repo"))
    val text = Files.readString(repo.resolve("python/laneshift/control/v1/control.proto"))
    val messages = text.split("\nmessage ").drop(1).map(m => m.takeWhile(_ != ' ') -> m.takeWhile(_ != '}'))
    assert(messages.length > 40)
    messages.filterNot(_._2.contains("map<")).foreach { case (name, body) =>
      val fields = ProtoFile.control.fields(name)
      val lines = body.linesIterator.map(_.trim).filter(l => l.contains(" = ") && !l.startsWith("//")).toSeq
      assert(fields.size == lines.size, name)
      fields.foreach { case (field, f) => assert(lines.exists(_.contains(s" $field = ${f.number};")), field) }
    }
  }
}
