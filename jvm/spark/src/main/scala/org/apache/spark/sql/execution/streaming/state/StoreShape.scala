package org.apache.spark.sql.execution.streaming.state

import java.util.UUID

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.expressions.{BoundReference, CollationAwareMurmur3Hash, UnsafeProjection}
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  StatefulOperatorsUtils,
  StatePartitionKeyExtractorFactory
}
import org.apache.spark.sql.execution.streaming.operators.stateful.join.SymmetricHashJoinStateManager
import org.apache.spark.sql.execution.streaming.operators.stateful.transformwithstate.{
  StateStoreColumnFamilySchemaUtils,
  TransformWithStateOperatorProperties,
  TransformWithStateVariableInfo
}

/** One store of each partition of an operator, as its checkpoint describes it: what its bytes mean, and where a row of it
  * belongs. In Spark's package because all that it is made of is private to it.
  */
private[sql] final case class StoreShape(
    operatorId: Long,
    operatorName: String,
    storeName: String,
    families: Seq[StateStoreColFamilySchema],
    variables: Map[String, TransformWithStateVariableInfo],
    joinFormat: Option[Int],
    schemas: Option[StateSchemaBroadcast]
) {

  /** An operator with column families has others than the default one. */
  def hasFamilies: Boolean = !families.forall(StoreShape.isDefault)

  /** With what Spark opens the store: any family's schema where there is none of the default one. */
  def default: StateStoreColFamilySchema =
    families.find(StoreShape.isDefault).getOrElse {
      val any = families.head
      any.copy(keyStateEncoderSpec = Some(NoPrefixKeyStateEncoderSpec(any.keySchema)))
    }

  /** The operator whose rules Spark has for the same state: it has none for Real-time Mode's aggregation. */
  def keptLike: String =
    if (operatorName == StatefulOperatorsUtils.STATEFUL_STREAMLINE_AGGREGATE_EXEC_OP_NAME)
      StatefulOperatorsUtils.STATE_STORE_SAVE_EXEC_OP_NAME
    else operatorName

  /** Whether rows have a key that partitions are told by: all state of an operator without one is in the first partition. */
  def isKeyed: Boolean = families
    // transformWithState has the default family besides its own, and nothing in it.
    .filterNot(f =>
      StoreShape.isInternal(f.colFamilyName) || StoreShape.isDefault(f) && (hasFamilies || schemas.nonEmpty)
    )
    .forall(keyOf(_).partitionKeySchema.nonEmpty)

  /** What of a state row's key the shuffle hashed. */
  def keyOf(family: StateStoreColFamilySchema): StatePartitionKeyExtractor = {
    val name = family.colFamilyName
    val base = StateStoreColumnFamilySchemaUtils.getBaseStateName(name)
    StatePartitionKeyExtractorFactory
      .create(keptLike, family.keySchema, storeName, name, joinFormat, variables.get(base))
  }

  /** Below a checkpoint's folder of state. */
  def folder(stateRoot: Path, partition: Int): Path =
    StateStoreId(stateRoot.toString, operatorId, partition, storeName).storeCheckpointLocation()

  /** The id by which a partition's store was committed, among those of the commit log. */
  def checkpointId(ids: Option[Map[Long, Array[Array[String]]]], partition: Int): Option[String] =
    ids.flatMap(of =>
      SymmetricHashJoinStateManager.getStateStoreCheckpointId(
        storeName,
        partition,
        of.get(operatorId),
        joinFormat.exists(_ >= 3)
      )
    )
}

private[sql] object StoreShape {

  def of(
      stateRoot: Path,
      operator: OperatorStateMetadata,
      joinFormat: Option[Int],
      context: SparkContext,
      hadoop: Configuration
  ): Seq[StoreShape] = {
    val name = operator.operatorInfo.operatorName
    val withVariables = StatefulOperatorsUtils.TRANSFORM_WITH_STATE_OP_NAMES.contains(name)
    val variables = operator match {
      case v2: OperatorStateMetadataV2 if withVariables =>
        TransformWithStateOperatorProperties
          .fromJson(v2.operatorPropertiesJson)
          .stateVariables
          .map(v => v.stateName -> v)
          .toMap
      case _ => Map.empty[String, TransformWithStateVariableInfo]
    }
    operator.stateStoresMetadata.map { store =>
      val files = store match {
        case v2: StateStoreMetadataV2 => v2.stateSchemaFilePaths.map(new Path(_))
        case _ => Nil
      }
      val id = StateStoreId(
        stateRoot.toString,
        operator.operatorInfo.operatorId,
        StateStore.PARTITION_ID_TO_CHECK_SCHEMA,
        store.storeName
      )
      val families = new StateSchemaCompatibilityChecker(
        StateStoreProviderId(id, UUID.randomUUID()),
        hadoop,
        oldSchemaFilePaths = files,
        createSchemaDir = false
      ).readSchemaFile().map(withSpec(_, store))
      StoreShape(
        id.operatorId,
        name,
        store.storeName,
        families,
        variables,
        joinFormat.filter(_ => name == StatefulOperatorsUtils.SYMMETRIC_HASH_JOIN_EXEC_OP_NAME),
        Option.when(withVariables)(
          StateSchemaBroadcast(context.broadcast(
            StateSchemaMetadata.createStateSchemaMetadata(stateRoot.toString, hadoop, files.map(_.toString))
          ))
        )
      )
    }
  }

  /** Older schemas say nothing of how keys are encoded: it follows from how many columns of them are a prefix. */
  private def withSpec(
      family: StateStoreColFamilySchema,
      store: StateStoreMetadata
  ): StateStoreColFamilySchema =
    if (family.keyStateEncoderSpec.nonEmpty) family
    else
      family.copy(keyStateEncoderSpec =
        Some(
          if (store.numColsPrefixKey > 0)
            PrefixKeyScanStateEncoderSpec(family.keySchema, store.numColsPrefixKey)
          else NoPrefixKeyStateEncoderSpec(family.keySchema)
        )
      )

  private def isDefault(family: StateStoreColFamilySchema): Boolean =
    family.colFamilyName == StateStore.DEFAULT_COL_FAMILY_NAME

  def isInternal(family: String): Boolean = StateStoreColumnFamilySchemaUtils.isInternalColFamily(family)
}

/** Tells the partition of a state row by the bytes of its key, as the shuffle tells that of an input row. One thread's. */
private[sql] final class StoreRouter(shape: StoreShape, storeConf: StateStoreConf) {
  // Spark keeps encoders by this, and two threads may not share one.
  private val user = UUID.randomUUID().toString
  private val families = mutable.HashMap.empty[String, Array[Byte] => Int]

  /** What the shuffle hashed, of which the partition is the remainder. */
  def hashOf(family: String, key: Array[Byte]): Int = families.getOrElseUpdate(family, router(family))(key)

  private def router(name: String): Array[Byte] => Int = {
    val family = shape.families
      .find(_.colFamilyName == name)
      .getOrElse(throw new IllegalStateException(
        s"operator ${shape.operatorId} has writes of $name, which its checkpoint does not know"
      ))
    val spec = family.keyStateEncoderSpec.get
    val data = RocksDBStateStoreProvider.getDataEncoder(
      storeConf.stateStoreEncodingFormat,
      StateRowEncoderCacheKey(user, shape.operatorId, 0, shape.storeName, name),
      spec,
      family.valueSchema,
      shape.schemas,
      Some(name)
    )
    val encoder = RocksDBStateEncoder.getKeyEncoder(data, spec, shape.hasFamilies)
    val extractor = shape.keyOf(family)
    val fields = extractor.partitionKeySchema.fields.zipWithIndex.map { case (field, i) =>
      BoundReference(i, field.dataType, field.nullable)
    }
    val seed = 42 // HashPartitioning's
    val hashed = UnsafeProjection.create(Seq(CollationAwareMurmur3Hash(fields.toSeq, seed)))
    key => hashed(extractor.partitionKey(encoder.decodeKey(key))).getInt(0)
  }
}

private[sql] object StoreRouter {
  def partition(hash: Int, partitions: Int): Int = Math.floorMod(hash, partitions)
}
