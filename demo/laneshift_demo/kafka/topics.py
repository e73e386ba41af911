"""The demo's side of Kafka: topics, the producer of flights, the consumer of answers."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any
from zlib import crc32

from laneshift_demo.failure import DemoError
from laneshift_demo.question import SCHEMA
from laneshift_demo.updates import Updates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from laneshift_demo.stream import Stream

TICK_S = 0.002
# librdkafka's own log; what goes wrong for good is raised by the calls.
QUIET = {"log_level": 0}


def client() -> Any:
    """The module ``confluent_kafka``. Errors: DemoError if it is not installed."""
    try:
        import confluent_kafka
    except ImportError as cause:
        raise DemoError("The Kafka client is missing: `make setup` brings it.") from cause
    return confluent_kafka


def create_topics(
    address: str, partitions: dict[str, int], config: dict[str, str] | None = None
) -> None:
    """Make topics with that many partitions each, and these settings.

    Errors: DemoError if the broker refuses.
    """
    client()
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    topics = [
        NewTopic(name, num_partitions=n, config=config or {}) for name, n in partitions.items()
    ]
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


class TopicFeed:
    """Sends each flight as a JSON message when it is due, on a thread of its own; an airport's
    flights go to one partition."""

    def __init__(self, stream: Stream, address: str, topic: str, partitions: int) -> None:
        self._stream = stream
        self._topic = topic
        self._partitions = partitions
        self._error: BaseException | None = None
        self._stopped = threading.Event()
        self._producer = client().Producer(
            {"bootstrap.servers": address, "linger.ms": 1, "enable.idempotence": True, **QUIET}
        )

    def start(self, start_s: float) -> None:
        """Begin; the first row is due at ``start_s`` (s since 1970)."""
        self._thread = threading.Thread(
            target=self._run, args=(start_s,), name="demo-feed", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Send no more. Raises what went wrong while sending."""
        self._stopped.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self, start_s: float) -> None:
        try:
            rows = self._stream.table.to_pylist()
            sent = 0
            while sent < len(rows) and not self._stopped.wait(TICK_S):
                due = self._stream.due(time.time() - start_s)
                for number in range(sent, due):
                    at_us = int((start_s + number / self._stream.rows_per_s) * 1e6)
                    self._produce(rows[number] | {"sent_us": at_us})
                sent = due
                self._producer.poll(0)
            if self._producer.flush(30):
                raise DemoError("Kafka took no message for 30 s; is the broker still running?")
        except BaseException as error:
            self._error = error

    def _produce(self, row: dict[str, Any]) -> None:
        message, partition = json.dumps(row), crc32(row["dest"].encode()) % self._partitions
        while True:
            try:
                self._producer.produce(self._topic, message, partition=partition)
                break
            except BufferError:
                self._producer.poll(0.1)


class TopicTail:
    """Reads the answers from a topic of one partition; each came when the broker had it."""

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
            self.updates.add(at_us, value.decode("utf-8"))

    def close(self) -> None:
        """Stop reading."""
        self._stopped.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                messages = self._consumer.consume(500, timeout=0.02)
                for message in messages:
                    if message.error() is not None:
                        raise DemoError(f"Kafka: {message.error()}")
                with self._lock:
                    self._arrived += [(_came_us(message), message.value()) for message in messages]
        except BaseException as error:
            self._error = error


def _came_us(message: Any) -> int:
    """The end of the millisecond in which the broker took a message (microseconds since 1970)."""
    return int(message.timestamp()[1]) * 1000 + 999
