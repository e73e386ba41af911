"""One hot state partition: a stream that has it, and how long a batch of it must take at least.

A unit of work is one key's in one partition; work that waits for a core is taken whole (a task of
stock Spark), or divided as one likes (lanes; no single key matters here).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from laneshift import inputcheck

FloatArray = NDArray[np.float64]
Key = tuple[int, float]
"""A key's hash, as Spark's shuffle has it, and its share of a batch's rows."""


@dataclass(frozen=True)
class Hot:
    """Equally likely keys, of which the hot partition has ``times`` as many as each other one.

    Attributes:
        partitions: state partitions.
        times: the hot partition's work over each other one's (1: balanced).
        at: the hot partition's number, so how many tasks Spark starts before it.
    """

    partitions: int
    times: int
    at: int = 0

    def __post_init__(self) -> None:
        inputcheck.whole("partitions", self.partitions, "At least one.", low=1, high=100_000)
        inputcheck.whole("times", self.times, "1 is balanced.", low=1, high=10**9)
        inputcheck.whole("at", self.at, "A partition.", low=0, high=self.partitions - 1)

    @classmethod
    def of_all_others(cls, partitions: int, times: int, at: int = 0) -> Hot:
        """The hot one has ``times`` as much as all others together."""
        return cls(partitions, times * (partitions - 1), at)

    @property
    def work(self) -> FloatArray:
        """Each partition's share of the work, float64 (partitions,), summing up to 1."""
        work = np.ones(self.partitions)
        work[self.at] = self.times
        shares: FloatArray = work / work.sum()
        return shares

    @property
    def share(self) -> float:
        """The hot partition's."""
        return float(self.work[self.at])

    @property
    def kept(self) -> float:
        """The share of evenly spread keys that :meth:`thin` keeps."""
        return (self.times + self.partitions - 1) / (self.times * self.partitions)

    def thin(self, rows: DataFrame, partitions: int | None = None) -> DataFrame:
        """Rows of all keys of the hot partition, and of one in ``times`` of the others' keys.

        ``key`` is what the query groups or joins by. ``partitions`` is that of the hash which is
        meant, if the query has another number of them.
        """
        own = f"pmod(hash(key), {partitions or self.partitions}) = {self.at}"
        # Another hash than the shuffle's, or partitions would keep all of their keys or none.
        return rows.where(sf.expr(f"{own} OR pmod(xxhash64(key), {self.times}) = 0"))

    def renamed(self, rows: DataFrame, keys: int) -> DataFrame:
        """Rows of keys 0 to ``keys`` - 1, which become the first so many that :meth:`thin` keeps.

        No row is lost, so that a source need not make those of many other keys first; the keys are
        in the plan, so there are some thousands at most.
        """
        every = rows.sparkSession.range(round(1.5 * keys / self.kept) + 1000)
        kept = self.thin(every.withColumnRenamed("id", "key")).limit(keys).collect()
        # Of the same type, or they have other hashes.
        names = sf.lit([row.key for row in kept]).cast("array<bigint>")
        return rows.withColumn("key", sf.element_at(names, (sf.col("key") + 1).cast("int")))

    def stock(self, cores: int) -> float:
        """Length of a batch whose work is 1 in tasks, which start in the order of their numbers."""
        return in_order(self.work.tolist(), cores)

    def ideal(self, cores: int) -> float:
        """The same with work that any core may do at any time."""
        return float(self.work.sum()) / cores

    def anywhere(self, cores: int) -> float:
        """:meth:`stock`'s mean over all places of the hot partition among the others."""
        places = [Hot(self.partitions, self.times, at) for at in range(self.partitions)]
        return float(np.mean([place.stock(cores) for place in places]))


def of_keys(batches: Sequence[Sequence[Key]], partitions: int, cores: int) -> float:
    """:meth:`Hot.stock` of batches with these keys, on average."""
    lengths = []
    for keys in batches:
        work = [0.0] * partitions
        for code, share in keys:
            work[code % partitions] += share
        lengths.append(in_order(work, cores))
    return float(np.mean(lengths))


def undivided(batches: Sequence[Sequence[Key]], cores: int) -> float:
    """The same with keys that any core may have, each of them whole."""
    return float(np.mean([max(1 / cores, *(share for _, share in keys)) for keys in batches]))


def in_order(work: Sequence[float], cores: int) -> float:
    """When the last task is over: each one goes to the core that is free first, in their order."""
    inputcheck.whole("cores", cores, "At least one.", low=1, high=100_000)
    free = [0.0] * cores
    for each in work:
        heapq.heapreplace(free, free[0] + each)
    return max(free)
