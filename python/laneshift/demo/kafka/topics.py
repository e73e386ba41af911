"""The demo's side of Kafka: topics, the producer of flights, the consumer of answers."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

from laneshift.demo.failure import DemoError
from laneshift.demo.feed import PacedFeed
from laneshift.demo.question import SCHEMA
from laneshift.demo.updates import Updates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# librdkafka's own log; what goes wrong for good is raised by the calls.
QUIET = {"log_level": 0}


def client() -> Any:
    """The module ``confluent_kafka``. Errors: DemoError if it is not installed."""
    try:
        import confluent_kafka
    except ImportError as cause:
        raise DemoError("The Kafka client is missing: pip install 'laneshift[kafka]'.") from cause
    return confluent_kafka


def create_topics(address: str, partitions: dict[str, int]) -> None:
    """Make topics with that many partitions each. Errors: DemoError if the broker refuses."""
    client()
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    topics = [NewTopic(name, num_partitions=n) for name, n in partitions.items()]
    for name, future in admin.create_topics(topics, request_timeout=30).items():
        try:
            future.result(30)
        except Exception as cause:
            raise DemoError(f"Kafka could not make the topic {name}: {cause}") from cause


def read_rows(
    spark: SparkSession, address: str, topic: str, rows_per_batch: int | None
) -> DataFrame:
    """The stream of a topic's flights, with the columns of the demo's question.

    ``rows_per_batch`` is the most that a micro-batch takes; Real-time Mode allows no such bound.
    """
    from pyspark.sql import functions as F  # noqa: N812

    stream = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", address)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
    )
    if rows_per_batch is not None:
        stream = stream.option("maxOffsetsPerTrigger", rows_per_batch)
    parsed = F.from_json(F.col("value").cast("string"), SCHEMA).alias("row")
    return stream.load().select(parsed).select("row.*")


class TopicFeed(PacedFeed):
    """Sends each flight as a JSON message, in turn to the topic's partitions."""

    def __init__(
        self, table: Any, rows_per_s: float, address: str, topic: str, partitions: int
    ) -> None:
        super().__init__(table, rows_per_s)
        self._topic = topic
        self._partitions = partitions
        self._sent = 0
        self._producer = client().Producer(
            {"bootstrap.servers": address, "linger.ms": 1, "enable.idempotence": True, **QUIET}
        )

    def send(self, number: int, rows: Any) -> None:
        for row in rows.to_pylist():
            row["sent_us"] = int(time.time() * 1e6)
            self._produce(json.dumps(row))
        if self._producer.flush(30):
            raise DemoError("Kafka took no message for 30 s; is the broker still running?")

    def _produce(self, message: str) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, message, partition=self._sent % self._partitions
                )
                break
            except BufferError:
                self._producer.poll(0.1)
        self._sent += 1


class TopicTail:
    """Reads the answers from a topic of one partition and notes when each one came."""

    def __init__(self, address: str, topic: str) -> None:
        self.updates = Updates()
        kafka = client()
        self._consumer = kafka.Consumer(
            {
                "bootstrap.servers": address,
                "group.id": f"demo-{topic}",
                "fetch.wait.max.ms": 5,
                **QUIET,
            }
        )
        self._consumer.assign([kafka.TopicPartition(topic, 0, 0)])
        self._arrived: list[tuple[int, bytes]] = []
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="demo-consumer", daemon=True)
        self._thread.start()

    def poll(self) -> None:
        """Take what has arrived. Raises what went wrong while reading."""
        if self._error is not None:
            raise self._error
        with self._lock:
            arrived, self._arrived = self._arrived, []
        for at_us, value in arrived:
            sent_us, line = value.decode("utf-8").split(",", 1)
            self.updates.add(at_us, int(sent_us), line)

    def close(self) -> None:
        """Stop reading."""
        self._stopped.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                messages = self._consumer.consume(500, timeout=0.02)
                now = int(time.time() * 1e6)
                for message in messages:
                    if message.error() is not None:
                        raise DemoError(f"Kafka: {message.error()}")
                with self._lock:
                    self._arrived += [(now, message.value()) for message in messages]
        except BaseException as error:
            self._error = error
