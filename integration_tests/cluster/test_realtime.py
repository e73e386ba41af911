"""Real-time queries between two Kafka topics: lanes by an autoscaler, and one without state."""

from __future__ import annotations

import pytest
from cluster.cluster import ELASTIC, JAR, Cluster, Driver
from cluster.compare import Answers, Same
from cluster.kafka import Kafka

pytestmark = pytest.mark.timeout(1500)

ROWS = 12_000

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
}
AUTOSCALER = {
    **ELASTIC,
    "spark.sql.laneshift.lanes": "1",
    "spark.sql.laneshift.maxLanes": "3",
    "spark.sql.laneshift.autoscaler": "elasticutor",
}


ROW_WISE = {
    **ELASTIC,
    "spark.sql.laneshift.lanes": "3",
    "spark.sql.laneshift.stateless": "true",
}


def run(
    cluster: Cluster, kafka: Kafka, name: str, conf: dict[str, str], each: bool = False
) -> tuple[Driver, Answers]:
    """Let the application answer all clicks, then end it; what it wrote, by page, and its state."""
    checkpoint = f"/data/clicks-{name}"
    kafka.topics({name: 1})
    jars = [*kafka.connector, *([JAR] if conf else [])]
    driver = cluster.submit(
        *("clicks.py", kafka.address, "clicks", name, checkpoint, *(["--each"] if each else [])),
        conf={**SETTINGS, **conf, "spark.jars": ",".join(jars)},
        env={"PYTHONPATH": "/opt/laneshift/python"} if conf else {},
        volumes=kafka.connector_volume,
    )
    answers = kafka.read(name, ROWS, driver)
    goal = cluster.committed(checkpoint) + 2
    driver.until("all are committed", lambda: cluster.committed(checkpoint) >= goal)
    driver.kill()
    if each:
        return driver, answers
    (state,) = cluster.rows([], [checkpoint], SETTINGS)
    return driver, {**answers, "state": state}


def test_skew_with_autoscaler(cluster: Cluster, kafka: Kafka, same: Same) -> None:
    kafka.topics({"clicks": 2})
    kafka.write_clicks("clicks", ROWS)
    _, expected = run(cluster, kafka, "stock", {})
    driver, found = run(cluster, kafka, "elastic", AUTOSCALER)
    changes = [c for d in driver.decisions if d["applied"] for c in d["changes"]]
    assert any(c["after"] > c["before"] for c in changes), driver.tail()
    assert driver.most_lanes > 1
    same(found, expected, [driver])


def test_row_wise(cluster: Cluster, kafka: Kafka, same: Same) -> None:
    """Spark writes the progress of such a query beside it: no batch waits for its logs."""
    kafka.topics({"clicks": 2})
    kafka.write_clicks("clicks", ROWS)
    _, expected = run(cluster, kafka, "stock-each", {}, each=True)
    driver, found = run(cluster, kafka, "elastic-each", ROW_WISE, each=True)
    assert driver.rows_beside > 0, driver.tail()
    same(found, expected, [driver], state=False)
