package org.apache.spark.sql.execution.streaming.state

import java.io.{File, IOException}
import java.nio.file.{Files, StandardCopyOption}

import scala.collection.{Map => AnyMap}
import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.hadoop.fs.{FileSystem, FilterFileSystem, Path}

/** Tables of the newest version of each store that a rescale has open on this executor, by the names that they have where the
  * checkpoint is: so a query that goes over to those stores need not fetch them. A name ends in a random id, so that no two
  * files have the same one, and a table never changes. Links to files, which cost no room.
  *
  * Guarded by this object: a store's own thread keeps, the query's take, Spark's maintenance drops.
  */
private[state] object KeptTables {
  private val tables = new mutable.HashMap[String, File]

  /** Keeps what is in `folder` under these names, and lets go what else there is of the store.
    *
    * @param store a folder that goes when the store is closed
    * @param names by file
    */
  def keep(store: File, folder: File, names: AnyMap[String, String]): Unit = synchronized {
    store.mkdirs()
    val kept = Option(store.listFiles).toSeq.flatten
    val wanted = names.values.toSet
    kept.filterNot(f => wanted(f.getName)).foreach(drop)
    names.foreach { case (file, name) =>
      val link = new File(store, name)
      if (!link.exists) Files.createLink(link.toPath, new File(folder, file).toPath)
      tables(name) = link
    }
  }

  /** Forgets the store, which is closed. */
  def dropAll(store: File): Unit = synchronized(Option(store.listFiles).toSeq.flatten.foreach(drop))

  private def drop(file: File): Unit = {
    tables.remove(file.getName)
    file.delete()
    ()
  }

  /** Puts the table of this name at `to`, if it is kept. */
  def give(name: String, to: File): Boolean = synchronized {
    find(name).exists { from =>
      try {
        try Files.createLink(to.toPath, from.toPath)
        catch {
          // Another disk.
          case _: IOException | _: UnsupportedOperationException =>
            Files.copy(from.toPath, to.toPath, StandardCopyOption.REPLACE_EXISTING)
        }
        true
      } catch {
        case NonFatal(_) =>
          to.delete()
          false
      }
    }
  }

  private def find(name: String): Option[File] = tables.get(name)

  /** A file system from which nothing is fetched that is kept here. */
  private final class Finding(of: FileSystem) extends FilterFileSystem(of) {
    override def copyToLocalFile(from: Path, to: Path): Unit =
      if (!give(from.getName, new File(to.toUri))) super.copyToLocalFile(from, to)
  }

  def finding(of: FileSystem): FileSystem = new Finding(of)
}
