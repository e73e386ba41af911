package org.apache.spark.sql.laneshift.kills

import java.nio.file.Path

import org.apache.spark.sql.classic.{SparkSession => ClassicSession}

/** What is left in a checkpoint in the end is what the input says. */
private[kills] object KeptState {

  /** Throws [[Wrong]] if it is not.
    *
    * @param rows of each of the keys, from 0 to `keys`
    */
  def check(spark: ClassicSession, validator: Validator, at: Path, keys: Int)(rows: Int => Long): Unit = {
    val reader = spark.read.format("statestore")
    val named = if (validator eq Validator.sequence) reader.option("stateVarName", "seen") else reader
    val found = named
      .load(at.toString)
      .select("key", "value")
      .collect()
      .map(r => s"${r.get(0)} ${r.get(1)}")
      .sorted
      .toSeq
    val due = (0 until keys).filter(rows(_) > 0).map(k => validator.stateOf(k, rows(k))).sorted
    if (found != due)
      throw new Wrong(s"${validator.name}, $at: the state is ${found.diff(due)}, not ${due.diff(found)}")
  }
}
