package org.apache.spark.sql.laneshift.plan

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import laneshift.testing.LimitedSuite

class ShardGroupsSuite extends LimitedSuite {
  private val project = UnsafeProjection.create(new StructType().add("s", StringType))

  private def row(text: String): UnsafeRow = project(InternalRow(UTF8String.fromString(text))).copy()
  private def text(row: UnsafeRow): String = row.getString(0)

  test("groups count their bytes, grown and shrunk ones too, and none when they are gone") {
    val groups = new ShardGroups
    groups.put(row("a"), row("x"))
    val one = groups.bytes
    assert(one > row("a").getSizeInBytes + row("x").getSizeInBytes)
    groups.put(row("b"), row("y"))
    assert(groups.bytes == 2 * one)
    groups.put(row("a"), row("x" * 100000))
    assert(groups.bytes > 100000 && groups.bytes < 100000 + 3 * one)
    groups.put(row("a"), row("x"))
    assert(groups.bytes == 2 * one)
    assert(text(groups.removeOldest()) == "y" && groups.bytes == one, "b was used before a")
    groups.removeOldest()
    assert(groups.isEmpty && groups.bytes == 0)
  }

  test("a group is a copy: the rows that it came from may change") {
    val groups = new ShardGroups
    val key = row("key")
    val value = row("value")
    groups.put(key, value)
    value.pointTo(row("other").getBytes, value.getSizeInBytes)
    assert(text(groups.get(row("key"))) == "value")
  }
}
