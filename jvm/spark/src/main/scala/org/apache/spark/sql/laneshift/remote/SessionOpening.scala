package org.apache.spark.sql.laneshift.remote

import java.io.{ByteArrayInputStream, InputStream, ObjectInputStream, ObjectStreamClass}
import java.util.UUID

import org.apache.hadoop.conf.Configuration

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.laneshift.lane.TaskIdentity
import org.apache.spark.sql.laneshift.spec.ElasticSpec
import org.apache.spark.util.SerializableConfiguration

/** What a host must know to run a lane of a partition.
  *
  * @param body the RDD that a lane computes, in bytes
  * @param split its partition, in bytes
  * @param lane the lane's number at home
  * @param cacheBytes how much state it may keep in memory
  */
private[remote] final case class SessionOpening(
    spec: ElasticSpec,
    task: TaskIdentity,
    lane: Int,
    body: Array[Byte],
    split: Array[Byte],
    cacheBytes: Long
)

/** Reads a lane's body on a host. Whatever in it names the query's run names another one: state stores are known by their run, and
  * the run's own are home's (design fact 12). Spark writes the run's name also into the Hadoop configuration that all bodies of a
  * process share, and reads it there when a store reports its commit: a host's body has one of its own.
  */
private[remote] object HostBody {

  def read(opening: SessionOpening, loader: ClassLoader): RDD[InternalRow] = {
    val run = UUID.fromString(opening.spec.key.runId)
    val in = new Reading(new ByteArrayInputStream(opening.body), loader, run, standIn(run))
    try in.readObject().asInstanceOf[RDD[InternalRow]]
    finally in.close()
  }

  /** The run as which a host opens the stores of `run`. */
  def standIn(run: UUID): UUID = UUID.nameUUIDFromBytes(s"laneshift host of $run".getBytes("UTF-8"))

  /** What was broadcast, but a copy of it if it is a configuration. */
  private final class OwnConfiguration(shared: Broadcast[_]) extends Broadcast[Any](shared.id) {
    private lazy val own = shared.value match {
      case conf: SerializableConfiguration => new SerializableConfiguration(new Configuration(conf.value))
      case other => other
    }
    override protected def getValue(): Any = own
    override protected def doUnpersist(blocking: Boolean): Unit = ()
    override protected def doDestroy(blocking: Boolean): Unit = ()
  }

  private final class Reading(in: InputStream, loader: ClassLoader, run: UUID, instead: UUID)
      extends ObjectInputStream(in) {
    enableResolveObject(true)

    override protected def resolveObject(found: AnyRef): AnyRef = found match {
      case `run` => instead
      case shared: Broadcast[_] => new OwnConfiguration(shared)
      case other => other
    }

    override protected def resolveClass(description: ObjectStreamClass): Class[_] =
      // Without the loader only for primitive types, which it does not know.
      try Class.forName(description.getName, false, loader)
      catch { case _: ClassNotFoundException => super.resolveClass(description) }

    override protected def resolveProxyClass(interfaces: Array[String]): Class[_] = {
      val loaded = interfaces.map(Class.forName(_, false, loader))
      java.lang.reflect.Proxy.newProxyInstance(loader, loaded, (_, _, _) => null).getClass
    }
  }
}
