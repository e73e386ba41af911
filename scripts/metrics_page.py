"""Writes docs/metrics.md: what is measured, by what name, in what unit.

python scripts/metrics_page.py
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from laneshift.contract.metrics import METRICS, Metric

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
SERVLET = "org.apache.spark.metrics.sink.PrometheusServlet"
HEAD = """# Metrics

Made by `python scripts/metrics_page.py` from `python/laneshift/metrics.json`, which the plugin,
the Python package and their tests share.

## Of running queries
`laneshift.attach(spark).snapshot()` and `/laneshift/json/` of Spark's UI have them by `name`, per
query, operator and partition, and per executor. Rates are those of the last half second. A row's
bytes are those of Spark's binary row format. What a state store says of itself is of its last
commit: in Real-time Mode that is the end of a batch.

Spark's metrics system has those with a `gauge`: each executor its own under
`plugin.org.apache.spark.sql.laneshift.LaneshiftPlugin.GAUGE`, and the driver those of all
executors together under `plugin.org.apache.spark.sql.laneshift.LaneshiftPlugin.application.GAUGE`,
so that it is enough to ask the driver. They are sums over partitions, and percentiles those of the
worst partition. Besides there are `partitions` and, on the driver, `queries` and `rescales` under
way: how many there are. Gauges of rescales are the driver's only.

"""
MIDDLE = """
### For Prometheus and Grafana
Spark's UI gives the driver's gauges at `http://DRIVER:4040/metrics/prometheus/` with these two:

```properties
spark.metrics.conf.driver.sink.prometheusServlet.class=<SERVLET>
spark.metrics.conf.driver.sink.prometheusServlet.path=/metrics/prometheus
```

There `lanes`, for one, is `metrics_NAMESPACE_driver_PLUGIN_application_lanes_Value`, where PLUGIN
is `plugin_org_apache_spark_sql_laneshift_LaneshiftPlugin` and the namespace the application's id,
or what `spark.metrics.namespace` says. Executors' own gauges leave them by the sinks of Spark's
`metrics.properties`, such as JMX or Graphite.

[grafana/laneshift.json](grafana/laneshift.json) is a dashboard over them, whatever the namespace:
import it, and choose the Prometheus that scrapes the driver. A test checks each of its expressions
against a live driver.

### Latency
`spark.sql.laneshift.latencyColumn` names a timestamp column of the answers, say `max(timestamp) AS
sent` of the rows that an answer is made of. Each output is then as old as that column says when it
leaves the elastic operator. Spark's own progress has no latency of rows.

### Lanes
Lanes are numbered without gaps from 0: those that shards may come to, local ones first, then those
on other executors, then those that still have shards to give away. So the number of a lane changes
when others come or go. The history of handoffs has the numbers inside: there a lane on another
executor has one from `max_lanes` on, and its executor stands beside it.

A partition also has `elsewhere`, a list of its lanes on
[other executors](parallelism.md#lanes-on-other-executors), `wanted_elsewhere`, how many it is to
have on which, at most `max_elsewhere` in all, and `elsewhere_note`, why the last of them that was
wanted and is not there is not. Of each lane:

| field | unit | what it is |
|---|---|---|
| `lane` | | Its number; -1 while shards neither are on it nor may come to it. |
| `executor` | | Id of the executor that runs it. |
| `open` | | Whether it takes part; its session is being opened otherwise. |
| `kept_bytes` | bytes | Rows that it was sent and has not acknowledged. |
| `rows_sent` | rows | Rows that it was sent since its session began, in this batch. |
| `frames` | count | Answers with what followed from rows. |
| `state_reads` | count | Questions about state that it did not have: reads of keys, and scans. |
| `bytes_sent` | bytes | All messages to it. |
| `bytes_received` | bytes | All messages from it. |

`lanes` counts those of them that shards may come to. What `lane_busy` shows of one is the share of
time in which rows that it was sent were not acknowledged, the way over the network included.

### Hottest keys
A partition of an operator with state has `hot_keys`: the keys that have the most of its rows, the
hottest first, all that have a twentieth of them or more. Rows are sampled, about one in 32, into a
sketch of frequent items ([Apache DataSketches](https://datasketches.apache.org/)); what it says is
of the last 10 to 20 s, or of more where rows are few. The tab and `laneshift top` show them, too.

| field | unit | what it is |
|---|---|---|
| `key` | | The hash that Spark's shuffle takes of the key, in hexadecimal digits. |
| `value` | | The key itself, only if `hotKeys.show` is `values`: it may be personal data. |
| `share` | 0 to 1 | Its part of the partition's rows, measured on the sample. |

## Of policies and the simulator
What a [policy](policies/README.md) sees, plans and predicts; the simulator measures the same.

"""


def table(metrics: Iterable[Metric], gauge: bool) -> str:
    """The metrics as a table, in the order of the vocabulary."""
    head = "| name | of each | unit | what it is |" + (" gauge |" if gauge else "")
    lines = [head, "|---" * (head.count("|") - 1) + "|"]
    for m in metrics:
        line = f"| `{m.name}` | {m.scope.value} | {m.unit} | {m.sentence} |"
        lines.append(line + (f" {f'`{m.gauge}`' if m.gauge else ''} |" if gauge else ""))
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page as it should be."""
    live = [m for m in METRICS.values() if m.live]
    others = [m for m in METRICS.values() if not m.live]
    return (
        HEAD
        + table(live, gauge=True)
        + MIDDLE.replace("<SERVLET>", SERVLET)
        + table(others, gauge=False)
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
