package org.apache.spark.sql.execution.streaming.state

import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID
import java.util.concurrent.{Executors, TimeUnit}

import org.apache.hadoop.conf.Configuration
import org.rocksdb.{Env, Priority}

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{LongType, StructType}
import org.apache.spark.util.Utils

import laneshift.testing.LimitedSuite

class NativeDatabaseSuite extends LimitedSuite {

  test("Spark's wrapper has the database where it is looked for") {
    assert(NativeDatabase.isKnown)
  }

  test("another version is loaded although a compaction waits in line") {
    val folder = Utils.createTempDir()
    val schema = new StructType().add("key", LongType)
    val env = Env.getDefault
    val threads = env.getBackgroundThreads(Priority.LOW)
    val worker = Executors.newSingleThreadExecutor()
    val conf = new SQLConf
    conf.setConf(SQLConf.STATE_STORE_PROVIDER_CLASS, ElasticStateStoreProvider.className)
    val hadoop = new Configuration
    // Or other suites would get its file system.
    hadoop.setBoolean("fs.file.impl.disable.cache", true)
    val provider = StateStoreProvider.createAndInit(
      StateStoreProviderId(StateStoreId(folder.toString, 0L, 0), UUID.randomUUID()),
      schema,
      schema,
      NoPrefixKeyStateEncoderSpec(schema),
      useColumnFamilies = false,
      StateStoreConf(conf),
      hadoop,
      useMultipleValuesPerKey = false,
      None
    ).asInstanceOf[ElasticStateStoreProvider]
    def put(store: StateStore, key: String, value: String): Unit =
      store.asInstanceOf[RocksDBStateStoreProvider#RocksDBStateStore].dbInstance()
        .put(key.getBytes(UTF_8), value.getBytes(UTF_8))
    def read(version: Long): Option[String] = {
      val store =
        provider.getReadStore(version, None).asInstanceOf[RocksDBStateStoreProvider#RocksDBStateStore]
      try Option(store.dbInstance().get("key".getBytes(UTF_8))).map(new String(_, UTF_8))
      finally store.release()
    }
    try {
      // Each commit adds a table: of four that overlap, a compaction is wanted.
      (0L until 8L).foreach { version =>
        val store = provider.getStore(version, None)
        // The line of an executor whose thread has other stores to do; opening one makes a thread.
        env.setBackgroundThreads(0, Priority.LOW)
        put(store, "key", s"value of ${version + 1}")
        put(store, s"other $version", UUID.randomUUID().toString)
        store.commit()
      }
      val found = worker.submit(() => read(3L)).get(60, TimeUnit.SECONDS)
      assert(found.contains("value of 3"))
      assert(read(8L).contains("value of 8"))
    } finally {
      env.setBackgroundThreads(math.max(1, threads), Priority.LOW)
      worker.shutdownNow()
      provider.close()
      Utils.deleteRecursively(folder)
    }
  }
}
