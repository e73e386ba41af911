package org.apache.spark.sql.laneshift.workload.replay

import org.apache.spark.sql.catalyst.analysis.Resolver
import org.apache.spark.sql.laneshift.workload.WorkloadOptionException
import org.apache.spark.sql.types._

/** The columns of the stream.
  *
  * @param key the column that chooses a row's partition
  * @param sent the column that the source fills
  */
private[replay] final case class ReplayColumns(schema: StructType, key: Option[Int], sent: Option[Int]) {

  /** The columns that come from the files. */
  def ofFiles: StructType = StructType(schema.indices.filterNot(sent.contains).map(schema(_)))
}

private[replay] object ReplayColumns {

  /** The files' schema with the column that the source fills: last, unless the files have it. */
  def ofFiles(files: StructType, options: ReplayOptions, same: Resolver): StructType =
    options.sentColumn.fold(files) { name =>
      val filled = StructField(name, LongType)
      files.indexWhere(f => same(f.name, name)) match {
        case -1 => files.add(filled)
        case i => StructType(files.updated(i, filled))
      }
    }

  /** Finds the options' columns in the stream's schema. */
  def resolve(schema: StructType, options: ReplayOptions, same: Resolver): ReplayColumns = {
    def find(option: String, name: String, allowed: String)(fits: DataType => Boolean): Int = {
      val i = schema.indexWhere(f => same(f.name, name))
      if (i < 0 || !fits(schema(i).dataType)) {
        val found = schema.map(f => s"${f.name} ${f.dataType.sql}").mkString(", ")
        throw new WorkloadOptionException(
          s"Option '$option' of ${ReplayOptions.Source} is '$name', but must be $allowed of the stream, which has: " +
            s"$found. Name another column, change the schema, or leave the option out."
        )
      }
      i
    }
    val sent = options.sentColumn.map(find("sentColumn", _, "a BIGINT or TIMESTAMP column") {
      case LongType | TimestampType => true
      case _ => false
    })
    val key = options.partitionBy.map(find("partitionBy", _, "a column of simple type") {
      case _: StructType | _: MapType | _: ArrayType | VariantType => false
      case _ => true
    })
    if (key.isDefined && key == sent)
      throw new WorkloadOptionException(
        s"Option 'partitionBy' of ${ReplayOptions.Source} is '${options.partitionBy.get}', but must be a column of " +
          "the files, and 'sentColumn' names the same one. Name another column."
      )
    ReplayColumns(schema.asNullable, key, sent)
  }
}
