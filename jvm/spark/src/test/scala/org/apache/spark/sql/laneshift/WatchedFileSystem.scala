package org.apache.spark.sql.laneshift

import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.fs.{FSDataOutputStream, FsStatus, Path}
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

import org.apache.spark.sql.laneshift.workload.NoForkFileSystem

/** The local disk, on which a test sees what is made, copied out and removed, and may fail it. */
class WatchedFileSystem extends NoForkFileSystem {
  override def getStatus(at: Path): FsStatus =
    WatchedFileSystem.free.fold(super.getStatus(at))(bytes => new FsStatus(bytes, 0L, bytes))

  override def copyToLocalFile(delete: Boolean, from: Path, to: Path): Unit = {
    WatchedFileSystem.fetched.add(from.toString)
    super.copyToLocalFile(delete, from, to)
  }

  override def create(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable
  ): FSDataOutputStream = {
    WatchedFileSystem.creates(path)
    super.create(path, permission, overwrite, bufferSize, replication, blockSize, progress)
  }

  override def copyFromLocalFile(delete: Boolean, overwrite: Boolean, from: Path, to: Path): Unit = {
    WatchedFileSystem.creates(to)
    super.copyFromLocalFile(delete, overwrite, from, to)
  }

  override def delete(path: Path, recursive: Boolean): Boolean = {
    WatchedFileSystem.deletes(path)
    super.delete(path, recursive)
  }
}

object WatchedFileSystem {

  /** Called before something is removed. */
  @volatile var deletes: Path => Unit = _ => ()

  /** Bytes that are free, if not what the disk has. */
  @volatile var free = Option.empty[Long]

  /** Called before a file is made. */
  @volatile var creates: Path => Unit = _ => ()

  /** What was copied out of it: tables of stores that are loaded. */
  val fetched: java.util.Set[String] = ConcurrentHashMap.newKeySet()
}
