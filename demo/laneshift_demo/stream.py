"""The demo's stream: real flights in their order, and hot airports that change.

In a hot spell most rows are flights to a few airports, as when a storm makes their flights be told
again and again. The hot airports are the busiest of those that Spark's hash puts into one of
stock's state partitions, the case in which a fixed partitioning leaves most cores idle; or any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from laneshift_demo.settings import CORES, PARTITIONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOT_SHARE = 0.6
"""Part of a hot spell's rows that are flights to its airports."""
HOT_AIRPORTS = 8
HOT_WORDS = {
    "shared": "whose keys share one of stock's state partitions",
    "random": "drawn at random",
}
HOT_SPELLS = 3
CALM = 0.125
"""Part of the stream before the first spell, and after the last."""

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Spell:
    """Rows ``begin`` to ``end`` (excluded) of the stream, of which most go to these airports.

    If their keys are in one of stock's state partitions, they are in one of laneshift's, too:
    ``partition``.
    """

    begin: int
    end: int
    airports: tuple[str, ...]
    partition: int | None


@dataclass(frozen=True, slots=True)
class Stream:
    """What all runs read: row i is due i / ``rows_per_s`` seconds after the start."""

    table: Any
    spells: tuple[Spell, ...]
    rows_per_s: float

    @property
    def rows(self) -> int:
        """How many there are."""
        return int(self.table.num_rows)

    @property
    def seconds(self) -> float:
        """When the last row is due (s)."""
        return self.rows / self.rows_per_s

    def hot_at(self, seconds: float) -> tuple[str, ...]:
        """The airports that are hot so long after the start."""
        row = seconds * self.rows_per_s
        return next((s.airports for s in self.spells if s.begin <= row < s.end), ())

    def due(self, seconds: float) -> int:
        """Rows that are due so long after the start."""
        return min(self.rows, max(0, int(seconds * self.rows_per_s)))

    def due_s(self, rows: IntArray) -> NDArray[np.float64]:
        """When rows are due (s after the start), by their numbers."""
        return rows / self.rows_per_s

    def unanswered(self, counts: dict[str, int]) -> IntArray:
        """Numbers of the rows that are not among the first ``counts[airport]`` of an airport."""
        dest = np.asarray(self.table["dest"].to_numpy(zero_copy_only=False)).astype(str)
        names, which = np.unique(dest, return_inverse=True)
        left = [np.flatnonzero(which == i)[counts.get(n, 0) :] for i, n in enumerate(names)]
        return np.sort(np.concatenate(left)) if left else np.empty(0, dtype=np.int64)


Hot = tuple[tuple[str, ...], int | None]
"""A spell's airports, and their state partition of laneshift if they share one."""


def random_airports(flights: Any, seed: int) -> list[Hot]:
    """Of each hot spell any airports, each as likely as the others; no two spells share one."""
    names = sorted(flights["dest"].unique().to_pylist())
    drawn = np.random.default_rng(seed).permutation(names)[: HOT_SPELLS * HOT_AIRPORTS]
    spells = drawn.reshape(HOT_SPELLS, HOT_AIRPORTS).tolist()
    return [(tuple(spell), None) for spell in spells]


def hot_airports(spark: SparkSession, flights: Any) -> list[Hot]:
    """Of each hot spell the airports, which share a state partition.

    They are the busiest of one of stock's state partitions: of those with the most flights that
    laneshift's fewer partitions keep apart, too, so that each spell is hot elsewhere.
    """
    by_flights = flights.group_by("dest").aggregate([("dest", "count")])
    busiest = by_flights.sort_by([("dest_count", "descending"), ("dest", "ascending")]).to_pylist()
    listed = ", ".join(f"('{row['dest']}')" for row in busiest)
    placed = spark.sql(f"SELECT dest, pmod(hash(dest), {CORES}) FROM VALUES {listed} AS t(dest)")
    partition = {dest: int(number) for dest, number in placed.collect()}
    weight = np.zeros(CORES)
    for row in busiest:
        weight[partition[row["dest"]]] += row["dest_count"]
    chosen: list[int] = []
    for number in np.argsort(-weight):
        if int(number) % PARTITIONS not in {one % PARTITIONS for one in chosen}:
            chosen.append(int(number))
    its = {
        number: tuple(row["dest"] for row in busiest if partition[row["dest"]] == number)
        for number in chosen[:HOT_SPELLS]
    }
    return [(names[:HOT_AIRPORTS], number % PARTITIONS) for number, names in its.items()]


def make_stream(
    flights: Any, hot: Sequence[Hot], rows_per_s: float, seconds: float, seed: int
) -> Stream:
    """Deal the flights out: each airport's flights in their order, from the first again at the end.

    Args:
        flights: a table as :func:`laneshift_demo.flights.load` gives it.
        hot: airports of each spell; spells are equally long.
    """
    import pyarrow as pa

    random = np.random.default_rng(seed)
    rows = max(1, round(rows_per_s * seconds))
    edges = np.linspace(CALM * rows, (1 - CALM) * rows, len(hot) + 1).astype(int).tolist()
    spells = tuple(
        Spell(begin, end, airports, partition)
        for begin, end, (airports, partition) in zip(edges, edges[1:], hot, strict=False)
    )
    chosen = np.full(rows, -1, dtype=np.int64)
    dest = np.asarray(flights["dest"].to_numpy(zero_copy_only=False)).astype(str)
    for spell in spells:
        there = np.arange(spell.begin, spell.end)
        there = there[random.random(there.size) < HOT_SHARE]
        which = random.integers(len(spell.airports), size=there.size)
        for number, airport in enumerate(spell.airports):
            its = np.flatnonzero(dest == airport)
            slots = there[which == number]
            chosen[slots] = its[np.arange(slots.size) % its.size]
    others = np.flatnonzero(chosen < 0)
    chosen[others] = np.arange(others.size) % flights.num_rows
    columns = ("dest", "carrier", "dep_delay", "distance")
    table = flights.select(columns).take(pa.array(chosen)).combine_chunks()
    table = table.add_column(0, "seq", pa.array(np.arange(rows)))
    return Stream(table, spells, rows_per_s)


def write_parquet(table: Any, folder: Path, rows_per_file: int = 50_000) -> Path:
    """Write the table as files whose names sort in the rows' order."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for number, start in enumerate(range(0, table.num_rows, rows_per_file)):
        pq.write_table(table.slice(start, rows_per_file), folder / f"part-{number:05d}.parquet")
    return folder
