"""Beside its queries laneshift changes nothing: answers, sessions and checkpoints are stock's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from live.conftest import run_app
from live.harmless_app import SCHEMA, aggregated, by_rows, in_pandas, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.live

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
SPARKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STOCK = {"spark.sql.laneshift.enabled": "false"}

Case = Callable[["DataFrame"], "DataFrame"]


def lanes(n: int) -> dict[str, str]:
    return {
        "spark.sql.laneshift.enabled": "true",
        "spark.sql.laneshift.lanes": str(n),
        "spark.sql.laneshift.maxLanes": "8",
    }


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session of the test's own: what one leaves in it is nobody else's."""
    return spark.newSession()


def configure(session: SparkSession, options: dict[str, str]) -> None:
    for key, value in options.items():
        session.conf.set(key, value)


@contextmanager
def unchanged(session: SparkSession) -> Iterator[None]:
    """Every setting of the session is afterwards what it was."""
    before = dict(session.conf.getAll)
    yield
    assert dict(session.conf.getAll) == before


def rows(first: int, count: int) -> pd.DataFrame:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    numbers = range(first, first + count)
    return pd.DataFrame(
        {
            "key": [f"key-{(i * i) % 41}" for i in numbers],
            "value": [i * 7 % 101 for i in numbers],
            "time": [start + timedelta(milliseconds=40 * i) for i in numbers],
        }
    )


def add(folder: Path, first: int, count: int) -> Path:
    """One file more for a stream."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True)
    table = pa.Table.from_pandas(rows(first, count), preserve_index=False)
    pq.write_table(table, folder / f"{first:09d}.parquet", coerce_timestamps="us")
    return folder


def in_pandas_groups(static: DataFrame) -> DataFrame:
    def total(part: pd.DataFrame) -> pd.DataFrame:
        key, n, total = part["key"].iloc[0], len(part), part["value"].sum()
        return pd.DataFrame({"key": [key], "n": [n], "total": [total]})

    return static.groupBy("key").applyInPandas(total, "key STRING, n LONG, total LONG")


def windowed(static: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    late: DataFrame = static.withWatermark("time", "1 second")
    return late.groupBy(F.window("time", "2 seconds"), "key").agg(F.count("*"), F.sum("value"))


def sessions(static: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    return static.groupBy(F.session_window("time", "900 milliseconds"), "key").agg(F.sum("value"))


def distinct(static: DataFrame) -> DataFrame:
    return static.dropDuplicates(["key", "value"]).select("key", "value")


def joined(static: DataFrame) -> DataFrame:
    totals = aggregated(static).withColumnRenamed("key", "k")
    return static.join(totals, static["key"] == totals["k"], "left_outer")


def limited(static: DataFrame) -> DataFrame:
    return aggregated(static).orderBy("total", "key").limit(7)


CASES: list[Case] = [
    in_pandas,
    by_rows,
    in_pandas_groups,
    aggregated,
    windowed,
    sessions,
    distinct,
    joined,
    limited,
]


def answer(session: SparkSession, case: Case, folder: Path) -> list[tuple[Any, ...]]:
    found = case(session.read.schema(SCHEMA).parquet(str(folder))).collect()
    assert found
    return sorted(tuple(row) for row in found)


@pytest.mark.parametrize(
    ("case", "numbers"),
    [
        *(pytest.param(case, (3,), id=f"{case.__name__}-3") for case in CASES[:3]),
        *(
            pytest.param(case, (1, 3, 8), id=case.__name__, marks=pytest.mark.deep("pairs"))
            for case in CASES
        ),
    ],
)
def test_a_batch_query_is_stocks(
    session: SparkSession, tmp_path: Path, case: Case, numbers: tuple[int, ...]
) -> None:
    folder = add(tmp_path / "in", 0, 600)
    configure(session, STOCK)
    stock = answer(session, case, folder)
    for n in numbers:
        configure(session, lanes(n))
        with unchanged(session):
            assert answer(session, case, folder) == stock, f"{n} lanes"
            case(session.read.schema(SCHEMA).parquet(str(folder))).explain()


@pytest.mark.parametrize("case", [in_pandas, by_rows, aggregated], ids=lambda c: c.__name__)
def test_explain_of_a_stream_changes_nothing(
    session: SparkSession, tmp_path: Path, case: Case, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(session, lanes(3))
    source = session.readStream.schema(SCHEMA).parquet(str(add(tmp_path / "in", 0, 10)))
    with unchanged(session):
        case(source).explain(True)
    assert "Physical Plan" in capsys.readouterr().out


def providers(checkpoint: Path) -> set[str]:
    """What the checkpoint's batches say of the state store."""
    offsets = [p for p in (checkpoint / "offsets").iterdir() if p.name.isdigit()]
    assert offsets
    return {json.loads(p.read_text().splitlines()[1])["conf"][PROVIDER] for p in offsets}


def around(session: SparkSession, folder: Path, at: Path) -> list[list[Any]]:
    """A stream whose batches run a stateful batch query and start a stream of their own."""
    found: list[list[Any]] = []

    def body(batch: DataFrame, batch_id: int) -> None:
        batch = batch.persist()  # computed once (docs/design.md, fact 18)
        static = session_of(batch).createDataFrame(batch.collect(), batch.schema)
        found.extend(list(row) for row in in_pandas(static).collect())
        found.extend(list(row) for row in by_rows(batch).collect())
        found.extend(stream(session_of(batch), "in_pandas", folder, at / f"in_pandas-{batch_id}"))
        found.extend(stream(session_of(batch), "aggregated", folder, at / "aggregated-inner"))
        batch.unpersist()

    query = (
        session.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder))
        .dropDuplicates(["key", "value"])
        .writeStream.foreachBatch(body)
        .option("checkpointLocation", str(at / "outer"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sorted(found)


def session_of(batch: DataFrame) -> SparkSession:
    return batch.sparkSession


@pytest.mark.deep("pairs")
def test_checkpoints_go_on_without_the_plugin(session: SparkSession, tmp_path: Path) -> None:
    names = ("in_pandas", "by_rows", "aggregated")
    source = add(tmp_path / "in", 0, 400)

    def first(at: Path) -> list[Any]:
        """A batch query, EXPLAIN and streams, which leave checkpoints in `at`."""
        answer(session, in_pandas, source)
        in_pandas(session.readStream.schema(SCHEMA).parquet(str(source))).explain()
        made = [stream(session, name, source, at / name) for name in names]
        return [*made, around(session, source, at)]

    configure(session, STOCK)
    stock = first(tmp_path / "stock")
    configure(session, lanes(3))
    with unchanged(session):
        elastic = first(tmp_path / "elastic")
    assert elastic == stock
    written = [*names, "in_pandas-0", "aggregated-inner"]
    for name in [*written, "outer"]:
        assert providers(tmp_path / "elastic" / name) == {SPARKS}, name

    add(source, 400, 200)
    configure(session, STOCK)
    expected = [stream(session, n.split("-")[0], source, tmp_path / "stock" / n) for n in written]
    left = [tmp_path / "elastic" / name for name in written]
    app = Path(__file__).with_name("harmless_app.py")
    plain = run_app(app, source, *left, limit_s=240)
    assert "laneshift" not in plain["jars"]
    assert [plain["rows"][str(folder)] for folder in left] == expected
