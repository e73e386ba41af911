package org.apache.spark.sql.laneshift.plan

import java.lang.reflect.Field

import scala.util.Try

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.runtime.RealTimeModeAllowlist

import sun.misc.Unsafe

/** Spark's list of the operators that a Real-time query may have, which laneshift's are added to (decision 30).
  *
  * Spark keeps it private, and asks it for each batch, after the plan is made. Whoever plans a batch calls this, on any query's thread.
  */
private[laneshift] object RealTimeAllowlist {

  /** What may be in a plan in place of, or above, operators that are on Spark's list. */
  private val ours = Set(
    classOf[ElasticExec],
    classOf[ElasticStreamlineAggregateExec],
    classOf[ElasticTransformWithStateExec],
    classOf[LaneInputExec],
    classOf[RowWiseExec],
    classOf[StockExec]
  ).map(_.getName)

  /** Spark's check, which throws. Tests put one here that refuses ours. */
  @volatile var check: SparkPlan => Unit =
    RealTimeModeAllowlist.checkAllowedPhysicalOperator(_, throwException = true)

  /** Once in a JVM. It throws where the JVM lets nobody change such a field, or Spark has no such list. */
  private lazy val added: Unit = {
    val list = opened(RealTimeModeAllowlist.getClass, "allowedOperators")
    val unsafe = opened(classOf[Unsafe], "theUnsafe").get(null).asInstanceOf[Unsafe]
    val names = list.get(RealTimeModeAllowlist).asInstanceOf[Set[String]] ++ ours
    unsafe.putObjectVolatile(unsafe.staticFieldBase(list), unsafe.staticFieldOffset(list), names)
  }

  /** Whether Spark's check takes this plan of its own operators. */
  def takes(plan: SparkPlan): Boolean = Try(check(plan)).isSuccess

  /** Whether it takes laneshift's in such a plan as well. It is asked, since a list that was compiled in would stay as it was. */
  def takesOurs(plan: SparkPlan): Boolean = {
    Try(added)
    takes(StockExec("", plan, ourStores = false))
  }

  private def opened(owner: Class[_], name: String): Field = {
    val field = owner.getDeclaredField(name)
    field.setAccessible(true)
    field
  }
}
