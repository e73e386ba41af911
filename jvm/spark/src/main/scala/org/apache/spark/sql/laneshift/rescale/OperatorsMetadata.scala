package org.apache.spark.sql.laneshift.rescale

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.state.{OperatorStateMetadataV2, OperatorStateMetadataWriter}

/** What operators say of their stores. Only the newer kind has a file for each batch that changes it; Spark does not go by
  * the number in the older one.
  */
private[rescale] object OperatorsMetadata {

  /** Says below `stateRoot` that operators have so many partitions from `batch` on. */
  def writeChanged(checkpoint: Checkpoint, stateRoot: Path, batch: Long, partitions: Int): Unit =
    checkpoint.operators(math.min(batch, checkpoint.lastCommitted.getOrElse(batch))).foreach {
      case v2: OperatorStateMetadataV2 =>
        val changed =
          v2.copy(stateStoreInfo = v2.stateStoreInfo.map(_.copy(numPartitions = partitions)))
        val folder = new Path(stateRoot, v2.operatorInfo.operatorId.toString)
        delete(checkpoint, folder, batch)
        OperatorStateMetadataWriter
          .createWriter(folder, checkpoint.hadoop, v2.version, Some(batch))
          .write(changed)
      case _ => ()
    }

  /** Spark keeps a file that is there already. */
  def delete(checkpoint: Checkpoint, operator: Path, batch: Long): Unit = {
    checkpoint.fs.delete(OperatorStateMetadataV2.metadataFilePath(operator, batch), false)
    ()
  }
}
