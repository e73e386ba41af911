"""The Kafka demo's scene: flights in one topic, each query's answers in one of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneshift_demo.kafka.topics import TopicFeed, TopicTail, create_topics, read_rows
from laneshift_demo.scene import Tail
from laneshift_demo.settings import SOURCES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from laneshift_demo.stream import Stream

FLIGHTS = "flights"


class KafkaScene:
    """A topic of one partition for the answers of each query, which keeps every key's order; the
    topic of flights has an airport's flights in one partition, for the same reason."""

    def __init__(self, spark: SparkSession, stream: Stream, address: str) -> None:
        self._spark = spark
        self._address = address
        create_topics(address, {FLIGHTS: SOURCES})
        self._feed = TopicFeed(stream, address, FLIGHTS, SOURCES)

    def live_rows(self, start_s: float) -> DataFrame:
        return read_rows(self._spark, self._address, FLIGHTS, None)

    def batch_rows(self, per_batch: int) -> DataFrame:
        return read_rows(self._spark, self._address, FLIGHTS, per_batch)

    def sink(self, name: str, answers: DataFrame) -> tuple[DataStreamWriter, Tail]:
        topic = f"answers-{name}"
        create_topics(self._address, {topic: 1}, {"message.timestamp.type": "LogAppendTime"})
        writer = (
            answers.selectExpr("line AS value")
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", self._address)
            .option("kafka.linger.ms", "0")
            .option("topic", topic)
        )
        return writer, TopicTail(self._address, topic)

    def begin(self, start_s: float) -> None:
        self._feed.start(start_s)

    def end(self) -> None:
        self._feed.stop()
