package org.apache.spark.sql.laneshift

import java.nio.file.Files
import java.nio.file.attribute.PosixFilePermissions
import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.fs.{FSDataOutputStream, FsStatus, LocalFileSystem, Path, RawLocalFileSystem}
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/** Hadoop's file system of the local disk, which without Hadoop's native library runs `chmod` for every file that is made:
  * half of the time of a small batch.
  */
class NoForkFileSystem extends LocalFileSystem(new NoForkFileSystem.Raw) {
  override def getStatus(at: Path): FsStatus =
    NoForkFileSystem.free.fold(super.getStatus(at))(bytes => new FsStatus(bytes, 0L, bytes))

  override def copyToLocalFile(delete: Boolean, from: Path, to: Path): Unit = {
    NoForkFileSystem.fetched.add(from.toString)
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
    NoForkFileSystem.creates(path)
    super.create(path, permission, overwrite, bufferSize, replication, blockSize, progress)
  }

  override def copyFromLocalFile(delete: Boolean, overwrite: Boolean, from: Path, to: Path): Unit = {
    NoForkFileSystem.creates(to)
    super.copyFromLocalFile(delete, overwrite, from, to)
  }

  override def delete(path: Path, recursive: Boolean): Boolean = {
    NoForkFileSystem.deletes(path)
    super.delete(path, recursive)
  }
}

object NoForkFileSystem {

  /** Called before something is removed. */
  @volatile var deletes: Path => Unit = _ => ()

  /** Bytes that are free, if not what the disk has. */
  @volatile var free = Option.empty[Long]

  /** Called before a file is made. */
  @volatile var creates: Path => Unit = _ => ()

  /** What was copied out of it: tables of stores that are loaded. */
  val fetched: java.util.Set[String] = ConcurrentHashMap.newKeySet()

  private class Raw extends RawLocalFileSystem {
    override def setPermission(path: Path, permission: FsPermission): Unit = {
      val rights = PosixFilePermissions.fromString(
        permission.getUserAction.SYMBOL + permission.getGroupAction.SYMBOL + permission.getOtherAction.SYMBOL
      )
      Files.setPosixFilePermissions(pathToFile(path).toPath, rights)
    }
  }
}
