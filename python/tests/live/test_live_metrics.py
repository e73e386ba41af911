"""Spark's metrics servlet of a live driver: every gauge, and all that the dashboard asks for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

import laneshift
from laneshift.contract.metrics import METRICS, Scope
from live.conftest import SHARDS, Counting, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.live

KEYS = len({v * v % 97 for v in range(97)})  # of `counting`
DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana" / "laneshift.json"
PLUGIN = "plugin_org_apache_spark_sql_laneshift_LaneshiftPlugin"
NAME = re.compile(r'__name__=~"([^"]+)"')


def shown(spark: SparkSession) -> dict[str, float]:
    """Laneshift's metrics as Prometheus would read them, by name."""
    with urlopen(f"{spark.sparkContext.uiWebUrl}/metrics/prometheus/", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    found = re.compile(rf"(metrics_\S*{PLUGIN}_\S+_Value)\{{[^}}]*\}} (\S+)")
    return {m[1]: float(m[2]) for m in map(found.fullmatch, lines) if m}


def expressions(node: Any) -> list[str]:
    """Everything in the dashboard that Prometheus is asked."""
    if isinstance(node, dict):
        mine = [v for k, v in node.items() if k in ("expr", "definition")]
        return mine + [e for v in node.values() for e in expressions(v)]
    return [e for v in node for e in expressions(v)] if isinstance(node, list) else []


def test_gauges_and_dashboard(
    spark: SparkSession, app: laneshift.Application, counting: Counting
) -> None:
    counting.add(5_000)
    app.query(counting.query).set_lanes(3)
    counting.add(5_000)

    def agreed() -> Any:
        (query,) = (q for q in app.snapshot().queries if q.id == counting.query.id)
        values = shown(spark)
        of_all = {n.split("_application_")[1]: v for n, v in values.items() if "_application_" in n}
        told = of_all.get("handoffs_Value") == query.operators[0].handoffs >= SHARDS
        # Other tests' queries have ended by now, and are forgotten.
        told = told and of_all.get("lanes_Value") == 6 == query.operators[0].lanes
        return told and (query, values, of_all)

    query, values, of_all = until(agreed)  # the gauges are of the last half second, or more
    parts = query.operators[0].partitions
    gauges = {m.gauge for m in METRICS.values() if m.gauge}
    counts = {"partitions", "queries", "rescales"}
    assert {name.removesuffix("_Value") for name in of_all} == gauges | counts
    of_executor = {n.split(f"{PLUGIN}_")[1] for n in values if "_application_" not in n}
    # The driver counts rescales, what waits at sources, and what Spark's scheduler leaves.
    of_rescales = {m.gauge for m in METRICS.values() if m.scope is Scope.RESCALE}
    counted_there = (gauges | {"partitions"}) - {"backlogRows", "idleCores"} - of_rescales
    assert of_executor == {f"{n}_Value" for n in counted_there}
    assert of_all["stateRows_Value"] == sum(p.state_rows for p in parts) == KEYS
    assert of_all["handoffs_Value"] == query.operators[0].handoffs >= SHARDS
    assert of_all["bytesIn_Value"] == sum(p.bytes_in for p in parts) > 0

    asked = expressions(json.loads(DASHBOARD.read_text()))
    assert len(asked) > 10
    for expression in asked:
        (wanted,) = NAME.findall(expression)
        assert [n for n in values if re.fullmatch(wanted, n)], f"no metric is named {wanted}"


def test_panels_say_what_they_show() -> None:
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        assert panel["title"] and panel["description"] and panel["targets"]
        assert panel["fieldConfig"]["defaults"]["unit"]
