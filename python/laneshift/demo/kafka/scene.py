"""The Kafka demo's scene: flights from one topic, answers to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laneshift.demo.feed import SLICE_S, SLICES_PER_BATCH
from laneshift.demo.kafka.topics import TopicFeed, TopicTail, create_topics, read_rows
from laneshift.demo.scene import Scene
from laneshift.demo.settings import PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def kafka_scene(
    spark: SparkSession, mode: str, table: Any, address: str, rows_per_s: float
) -> Scene:
    """Topics of their own for each mode. The answers' topic has one partition, which keeps the
    order of every key."""
    from pyspark.sql import functions as F  # noqa: N812

    source, sink = f"flights-{mode}", f"answers-{mode}"
    per_batch = max(1, int(rows_per_s * SLICE_S) * SLICES_PER_BATCH)
    create_topics(address, {source: PARTITIONS, sink: 1})

    def write(answer: DataFrame) -> DataStreamWriter:
        value = F.concat_ws(",", F.col("sent_us").cast("string"), "line")
        return (
            answer.select(value.alias("value"))
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", address)
            .option("kafka.linger.ms", "0")
            .option("topic", sink)
        )

    return Scene(
        rows=read_rows(spark, address, source, per_batch if mode == "micro-batch" else None),
        write=write,
        feed=TopicFeed(table, rows_per_s, address, source, PARTITIONS),
        tail=TopicTail(address, sink),
    )
