"""A Kafka source that is held back in micro-batches."""

from __future__ import annotations

import json

import pytest
from cluster.cluster import ELASTIC, JAR, Cluster
from cluster.kafka import Kafka

pytestmark = pytest.mark.timeout(1500)

ROWS, PARTITIONS, OWN_LIMIT, RATE = 9_000, 2, 1_000, 100.0


def test_kafka_held_back(cluster: Cluster, kafka: Kafka) -> None:
    kafka.topics({"held": PARTITIONS})
    written = kafka.write_clicks("held", ROWS)
    driver = cluster.submit(
        *("held.py", kafka.address, "held", str(OWN_LIMIT), str(RATE)),
        *("/data/held", "/data/held.json"),
        conf={**ELASTIC, "spark.jars": ",".join([*kafka.connector, JAR])},
        env={"PYTHONPATH": "/opt/laneshift/python"},
        volumes=kafka.connector_volume,
        master="local[4]",
    )
    driver.succeed()
    seen = json.loads((cluster.data / "held.json").read_text())
    batches = {int(number): (rows, took) for number, (rows, took) in seen["batches"].items()}
    before, under = seen["before"], seen["under"]
    # The one that was on its way may have read its rows; so may the one after the limit's end.
    free = [rows for n, (rows, _) in batches.items() if n <= before or n > under + 2]
    held = [batches[n][0] for n in range(before + 3, under + 1)]
    longest = max(batches[n][1] for n in range(before + 1, under + 1))
    assert len(held) >= 2 and len(free) >= 3
    assert all(rows <= RATE * max(1.0, longest) for rows in held), batches
    # Spark rounds each topic partition's part of a limit down.
    assert all(OWN_LIMIT - PARTITIONS < rows <= OWN_LIMIT for rows in free[:-1]), batches
    assert sum(rows for rows, _ in batches.values()) == ROWS
    assert seen["counts"] == written
