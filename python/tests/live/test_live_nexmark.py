"""NEXMark's queries under laneshift: their answers are those of a batch run by stock Spark."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from laneshift_bench.nexmark import (
    MICRO,
    REAL_TIME,
    batch_lines,
    difference,
    final,
    options,
    python_query,
    streamed,
)
from laneshift_bench.nexmark_queries import QUERIES, Query
from laneshift_bench.sides import Side

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.live

LANES = Side("3 lanes", {"lanes": "3", "maxLanes": "3", "balance.enabled": "true"})
BY_NAME = {query.name: query for query in QUERIES}
GATE = [("q5", MICRO), ("q18", MICRO)]
"""A window with a join above it, and the newest of each key."""
CASES = [
    pytest.param(
        query,
        mode,
        id=f"{query.name}-{mode}",
        marks=() if (query.name, mode) in GATE else pytest.mark.deep("pairs"),
    )
    for query in QUERIES
    for mode in (MICRO, REAL_TIME)
    if mode == MICRO or query.real_time
]
# 12 s of event time a batch: windows of ten seconds close in all but the first.
SOURCE = options(3000, 4) | {"rowsPerSecond": 250}


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    return spark.newSession()


@pytest.mark.parametrize(("query", "mode"), CASES)
def test_the_stream_has_the_batch_answer(
    session: SparkSession, tmp_path: Path, query: Query, mode: str
) -> None:
    source = (
        SOURCE | {"eventsPerBatch": 500, "totalEvents": 1500} if python_query(query) else SOURCE
    )
    expected = batch_lines(session, query, source)
    found = streamed(session, tmp_path, LANES, query, source, mode, batch="1 second")
    assert difference(query, found, expected) == ""


def test_a_row_that_is_lost_or_comes_twice_is_found() -> None:
    query = BY_NAME["q1"]
    rows = [json.dumps({"auction": n, "price": n}) for n in (1, 2, 2)]
    assert difference(query, (rows, ""), rows) == ""
    assert difference(query, (rows[:2], ""), rows).startswith(
        "0 of the stream only, 1 of the batch"
    )
    assert difference(query, ([*rows, rows[0]], ""), rows).startswith("1 of the stream only, 0 ")
    assert difference(query, (rows, ""), []) == "the batch has no answer"


def test_of_updates_the_last_counts_and_open_windows_do_not() -> None:
    rows = [json.dumps({"auction": 1, "day": "d", "bids": n}) for n in (1, 3, 2)]
    assert final(BY_NAME["q17"], rows) == Counter(
        [json.dumps(json.loads(rows[-1]), sort_keys=True)]
    )
    windows = [json.dumps({"auction": 1, "n": 1, "end": end}) for end in ("10:00", "10:10")]
    assert final(BY_NAME["q5"], windows, "10:05").total() == 1
    totals = [json.dumps({"bidder": 7, "end": end, "n": 2}) for end in ("10:00", "10:10", "10:10")]
    assert final(BY_NAME["q12"], totals) == Counter({"7": 4})
