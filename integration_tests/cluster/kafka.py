"""A Kafka broker in a container, its topics read and written from here."""

from __future__ import annotations

import random
import socket
from base64 import urlsafe_b64encode
from collections import Counter
from pathlib import Path
from uuid import uuid4

from cluster.cluster import Cluster, Driver, until
from cluster.compare import Answers, count

from laneshift_demo.kafka.broker import PROPERTIES
from laneshift_demo.kafka.jars import fetch
from laneshift_demo.kafka.topics import QUIET, client, create_topics

PORT = 9092
CONNECTOR = "/opt/kafka-connector"


class Kafka:
    """A broker of one node, known by its IP address to the cluster and to this process."""

    def __init__(self, cluster: Cluster, jars: Path) -> None:
        self._engine = cluster.engine
        fetch("broker", jars)
        self.connector = [f"{CONNECTOR}/{jar.name}" for jar in fetch("connector", jars)]
        self.connector_volume = {CONNECTOR: str(jars / "connector")}
        properties = PROPERTIES.format(port=PORT, controller=PORT + 1, data="/tmp/kafka")
        (cluster.data / "kafka.properties").write_text(properties.replace("127.0.0.1", "ADDRESS"))
        java = "java -Xmx512m -XX:+UseSerialGC -cp '/opt/kafka/*'"
        storage = urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        steps = [
            'sed "s/ADDRESS/$(hostname -i)/g" /data/kafka.properties > /tmp/kafka.properties',
            f"{java} kafka.tools.StorageTool format -t {storage} -c /tmp/kafka.properties",
            f"exec {java} kafka.Kafka /tmp/kafka.properties",
        ]
        volumes = {"/opt/kafka": str(jars / "broker")}
        self._engine.start("kafka", "sh", "-c", " && ".join(steps), volumes=volumes)
        host = self._engine.address("kafka")
        self.address = f"{host}:{PORT}"

        def answers() -> bool:
            assert self._engine.exit_code("kafka") is None, self._engine.log("kafka")
            with socket.socket() as probe:
                probe.settimeout(1)
                return probe.connect_ex((host, PORT)) == 0

        until("the Kafka broker", answers)

    def topics(self, partitions: dict[str, int]) -> None:
        """Make topics with that many partitions each."""
        create_topics(self.address, partitions)

    def write_clicks(self, topic: str, rows: int) -> Counter[str]:
        """Write clicks at once, most of them on few pages; how many of each page.

        A page's clicks keep their order.
        """
        written: Counter[str] = Counter()
        rng = random.Random(2013)
        producer = client().Producer({"bootstrap.servers": self.address, **QUIET})
        for _ in range(rows):
            page = f"page-{int(300 * rng.random() ** 3)}"
            producer.produce(topic, key=page, value=str(rng.randrange(1000)))
            producer.poll(0)
            written[page] += 1
        assert producer.flush(60) == 0
        return written

    def read(self, topic: str, rows: int, writer: Driver) -> Answers:
        """The first ``rows`` messages of a topic with one partition, by key, in order."""
        kafka = client()
        settings = {"bootstrap.servers": self.address, "group.id": topic, **QUIET}
        consumer = kafka.Consumer(settings)
        consumer.assign([kafka.TopicPartition(topic, 0, 0)])
        found: Answers = {}

        def complete() -> bool:
            for message in consumer.consume(1000, timeout=0.5):
                assert message.error() is None, message.error()
                found.setdefault(message.key().decode(), []).append(message.value().decode())
            return count(found) >= rows

        writer.until(f"{rows} messages in {topic}", complete)
        consumer.close()
        return found

    def close(self) -> None:
        """End the broker."""
        self._engine.remove("kafka")
