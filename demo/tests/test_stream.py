"""The stream: real flights in their order, hot spells, and which rows have no answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from laneshift_demo.stream import (
    HOT_SHARE,
    Spell,
    Stream,
    make_stream,
    random_airports,
    write_parquet,
)

AIRPORTS = np.array(["BOS", "IAH", "LAX", "MIA", "ORD"])


def flights(rows: int = 1000) -> pa.Table:
    numbers = np.arange(rows)
    return pa.table(
        {
            "event_s": numbers,
            "dest": AIRPORTS[numbers % 5],
            "carrier": ["UA"] * rows,
            "dep_delay": pa.array(numbers, pa.int32()),
            "distance": pa.array(numbers, pa.int32()),
        }
    )


def made(seconds: float = 32.0) -> Stream:
    return make_stream(flights(), [(("LAX", "MIA"), 1), (("ORD",), 3)], 500.0, seconds, seed=1)


def test_the_spells_are_between_calm_times_and_hot() -> None:
    stream = made()
    assert stream.rows == 16_000
    assert stream.seconds == 32.0
    assert stream.spells == (
        Spell(2000, 8000, ("LAX", "MIA"), 1),
        Spell(8000, 14000, ("ORD",), 3),
    )
    assert [stream.hot_at(s) for s in (3.9, 4.0, 15.9, 16.0, 27.9, 28.0)] == [
        (), ("LAX", "MIA"), ("LAX", "MIA"), ("ORD",), ("ORD",), ()
    ]  # fmt: skip
    dest = np.array(stream.table["dest"].to_pylist())
    calm = 1 - HOT_SHARE
    hot = np.isin(dest[2000:8000], ["LAX", "MIA"]).mean()
    assert hot == pytest.approx(HOT_SHARE + calm * 2 / 5, abs=0.03)
    assert np.isin(dest[:2000], ["LAX", "MIA"]).mean() == pytest.approx(2 / 5, abs=0.03)


def test_every_airports_flights_come_in_their_order() -> None:
    table = made().table
    assert table["seq"].to_pylist() == list(range(table.num_rows))
    # The spell's own flights and those between them are two sequences, each in order.
    calm = table.slice(0, 2000)["dep_delay"].to_numpy()
    assert (np.diff(calm) % 1000 == 1).all()
    first = table.slice(8000, 6000)
    ord_delays = first.filter(pa.compute.equal(first["dest"], "ORD"))["dep_delay"].to_numpy()
    assert set(ord_delays % 5) == {4}


def test_the_same_seed_makes_the_same_stream() -> None:
    assert made().table.equals(made().table)
    other = make_stream(flights(), [(("LAX", "MIA"), 1), (("ORD",), 3)], 500.0, 32.0, seed=2)
    assert not made().table.equals(other.table)


def test_random_airports_are_any_and_no_two_spells_share_one() -> None:
    names = [f"A{number:02d}" for number in range(60)]
    table = pa.table({"dest": names * 3})
    found = random_airports(table, seed=1)
    assert found == random_airports(table, seed=1) != random_airports(table, seed=2)
    assert [(len(airports), partition) for airports, partition in found] == [(8, None)] * 3
    drawn = [name for airports, _ in found for name in airports]
    assert len(set(drawn)) == 24 and set(drawn) < set(names)


def test_rows_are_due_at_the_rate_and_no_more_than_there_are() -> None:
    stream = made()
    assert [stream.due(s) for s in (-1.0, 0.0, 1.0, 32.0, 99.0)] == [0, 0, 500, 16_000, 16_000]
    np.testing.assert_allclose(stream.due_s(np.array([0, 250])), [0.0, 0.5])


def test_unanswered_rows_are_those_behind_each_airports_count() -> None:
    stream = made()
    dest = stream.table["dest"].to_pylist()
    counts = {name: dest.count(name) for name in AIRPORTS.tolist()}
    assert stream.unanswered(counts).size == 0
    counts["BOS"] -= 2
    del counts["ORD"]
    boston = [i for i, name in enumerate(dest) if name == "BOS"]
    chicago = [i for i, name in enumerate(dest) if name == "ORD"]
    assert stream.unanswered(counts).tolist() == sorted(boston[-2:] + chicago)
    assert stream.unanswered({}).tolist() == list(range(stream.rows))


def test_parquet_files_hold_the_rows_in_order(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = made(2.0).table
    folder = write_parquet(table, tmp_path / "rows", rows_per_file=300)
    files = sorted(folder.glob("*.parquet"))
    assert len(files) == 4
    assert pa.concat_tables([pq.read_table(file) for file in files]).equals(table)
