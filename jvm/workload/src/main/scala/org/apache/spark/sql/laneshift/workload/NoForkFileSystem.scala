package org.apache.spark.sql.laneshift.workload

import java.nio.file.Files
import java.nio.file.attribute.PosixFilePermissions

import org.apache.hadoop.fs.{LocalFileSystem, Path, RawLocalFileSystem}
import org.apache.hadoop.fs.permission.FsPermission

/** Hadoop's file system of the local disk, which without Hadoop's native library runs `chmod` for every file that is made:
  * half of the time of a small batch.
  */
class NoForkFileSystem extends LocalFileSystem(new NoForkFileSystem.Raw)

private object NoForkFileSystem {

  class Raw extends RawLocalFileSystem {
    override def setPermission(path: Path, permission: FsPermission): Unit = {
      val rights = PosixFilePermissions.fromString(
        permission.getUserAction.SYMBOL + permission.getGroupAction.SYMBOL + permission.getOtherAction.SYMBOL
      )
      Files.setPosixFilePermissions(pathToFile(path).toPath, rights)
    }
  }
}
