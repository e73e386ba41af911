package org.apache.spark.sql.execution.streaming.state

import java.nio.file.Files

import org.apache.hadoop.conf.Configuration

import org.apache.spark.{SparkEnv, TaskContext, TaskContextImpl}
import org.apache.spark.sql.laneshift.ElasticSession

import laneshift.testing.LimitedSuite

class WriteRecordSuite extends LimitedSuite with ElasticSession {
  private val hadoop = new Configuration

  private def inTask(records: String)(body: TaskContextImpl => Unit): Unit = {
    assert(spark.version.nonEmpty, "Spark's environment")
    val task = TaskContext.empty()
    task.getLocalProperties.setProperty(WriteRecord.Folder, records)
    task.getLocalProperties.setProperty(WriteRecord.Stores, "/stores")
    TaskContext.setTaskContext(task)
    try body(task)
    finally TaskContext.unset()
  }

  test("what a task has written is kept where Spark keeps such things, until the task is over") {
    withFolder { at =>
      inTask(at.toString) { task =>
        assert(WriteRecord.wanted("/others/0/1", hadoop).isEmpty)
        val record = WriteRecord.wanted("/stores/0/1", hadoop).get
        record.add(RecordedWrite.Put, "default", Array[Byte](1), Array[Byte](2))
        val folders = SparkEnv.get.blockManager.diskBlockManager.localDirs.map(_.toPath)
        assert(record.file.exists && folders.exists(record.file.toPath.startsWith(_)))
        task.markTaskCompleted(None)
        assert(!record.file.exists)
        record.drop()
      }
    }
  }

  test("a task whose thread has the properties of a rescale that is over records nothing") {
    withFolder { at =>
      val records = Files.createDirectory(at.resolve("records"))
      inTask(records.toString) { _ =>
        assert(WriteRecord.wanted("/stores/0/1", hadoop).nonEmpty)
        Files.delete(records)
        assert(WriteRecord.wanted("/stores/0/1", hadoop).isEmpty)
      }
    }
  }
}
