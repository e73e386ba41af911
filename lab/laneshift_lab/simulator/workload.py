"""Key weights over time: Zipf with shuffles, drifting stocks, microblog topics.

A workload gives ``weights(t)``, shape (K,), summing to 1, piecewise constant in time, and the times
at which it changes. All randomness comes from the seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from laneshift import inputcheck
from laneshift.errors import InputError
from laneshift.inputcheck import FloatArray, IntArray
from laneshift.partitioning.choices import mix64

__all__ = [
    "FixedKeys",
    "Keys",
    "StockKeys",
    "TopicKeys",
    "ZipfKeys",
    "shard_shares",
    "shards_of_keys",
    "zipf",
]


class Keys(Protocol):
    """A key distribution that changes at known times."""

    @property
    def n_keys(self) -> int:
        """K."""

    def changes(self, duration_s: float) -> Iterator[tuple[float, FloatArray]]:
        """(time, weights (K,)) from time 0 on, in order."""


def zipf(n_keys: int, skew: float) -> FloatArray:
    """(K,) weights ~ 1 / rank^skew, summing to 1.

    >>> zipf(4, 1.0).round(2).tolist()
    [0.48, 0.24, 0.16, 0.12]
    """
    inputcheck.whole("n_keys", n_keys, "At least one key.", low=1)
    inputcheck.number("skew", skew, "0 is uniform.", low=0.0)
    weight = np.arange(1, n_keys + 1, dtype=np.float64) ** -skew
    total: FloatArray = weight / weight.sum()
    return total


@dataclass(frozen=True)
class ZipfKeys:
    """The micro-benchmark's keys [S]: 10,000, skew 0.5, ``omega`` random shuffles per minute."""

    n_keys: int = 10_000
    skew: float = 0.5
    omega: float = 2.0
    seed: int = 1

    def __post_init__(self) -> None:
        inputcheck.number("omega", self.omega, "Shuffles per minute.", low=0.0)

    def changes(self, duration_s: float) -> Iterator[tuple[float, FloatArray]]:
        """A new permutation every 60 / omega seconds."""
        rng = np.random.default_rng(self.seed)
        weight = zipf(self.n_keys, self.skew)
        yield 0.0, rng.permutation(weight)
        if self.omega <= 0:
            return
        period, i = 60.0 / self.omega, 1
        while i * period < duration_s:
            yield i * period, rng.permutation(weight)
            i += 1


@dataclass(frozen=True)
class FixedKeys:
    """Weights that never change, >= 0, made to sum to 1."""

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        found = inputcheck.vector("weights", self.weights, "One weight per key.")
        if not found.sum() > 0:
            raise InputError("weights", self.weights, "at least one above 0", "Give the keys rows.")

    @property
    def n_keys(self) -> int:
        """K."""
        return len(self.weights)

    def changes(self, duration_s: float) -> Iterator[tuple[float, FloatArray]]:
        """The weights at time 0, and no change."""
        del duration_s
        weight = np.array(self.weights)
        yield 0.0, weight / weight.sum()


@dataclass(frozen=True)
class StockKeys:
    """SSE-like orders [A]: the real data are not to be had, so hot stocks are generated.

    Log-weights follow a mean-reverting random walk (half-life ``half_life_s``) around a Zipf base
    of ``skew``; a stock bursts (x ``burst``) for about ``burst_s`` seconds every ``burst_every_s``.
    Weights change every ``every_s`` seconds.
    """

    n_keys: int = 2_000
    skew: float = 0.7
    volatility: float = 0.5
    half_life_s: float = 60.0
    burst: float = 20.0
    burst_s: float = 20.0
    burst_every_s: float = 15.0
    every_s: float = 1.0
    seed: int = 1

    def changes(self, duration_s: float) -> Iterator[tuple[float, FloatArray]]:
        """Weights every ``every_s``."""
        rng = np.random.default_rng(self.seed)
        base = np.log(rng.permutation(zipf(self.n_keys, self.skew)))
        keep = 0.5 ** (self.every_s / self.half_life_s)
        step = self.volatility * np.sqrt(1 - keep**2)
        walk = rng.normal(0, self.volatility, self.n_keys)
        until = np.zeros(self.n_keys)
        for i in range(int(np.ceil(duration_s / self.every_s))):
            now = i * self.every_s
            if rng.random() < self.every_s / self.burst_every_s:
                until[rng.integers(self.n_keys)] = now + rng.exponential(self.burst_s)
            weight = np.exp(base + walk) * np.where(until > now, self.burst, 1.0)
            yield now, weight / weight.sum()
            walk = keep * walk + step * rng.normal(0, 1, self.n_keys)


@dataclass(frozen=True)
class TopicKeys:
    """Microblog topics (TOPK): Zipf, and every ``every_s`` some topics swap their popularity."""

    n_keys: int = 50_000
    skew: float = 1.0
    churn: float = 0.05
    every_s: float = 10.0
    seed: int = 1

    def changes(self, duration_s: float) -> Iterator[tuple[float, FloatArray]]:
        """A share ``churn`` of the topics is permuted at each change."""
        rng = np.random.default_rng(self.seed)
        weight = rng.permutation(zipf(self.n_keys, self.skew))
        for i in range(int(np.ceil(duration_s / self.every_s))):
            yield i * self.every_s, weight.copy()
            some = rng.choice(self.n_keys, int(self.churn * self.n_keys), replace=False)
            weight[some] = rng.permutation(weight[some])


def shards_of_keys(
    n_keys: int, partitions: int, shards: int, salt: int, slots: int | None = None
) -> IntArray:
    """(K,) operator-wide shard of each key: partition by one hash, shard by an independent one.

    Two hashes, because with one and a common factor a partition sees only some shards [D].
    slots: distance between two partitions' first shards; None: ``shards``.
    """
    ids, width = np.arange(n_keys), shards if slots is None else slots
    return (mix64(ids, 100 + salt) % partitions) * width + mix64(ids, 200 + salt) % shards


def shard_shares(weights: FloatArray, shard_of_key: IntArray, n_shards: int) -> FloatArray:
    """(n_shards,) share of the rows that each shard gets."""
    return np.bincount(shard_of_key, weights=weights, minlength=n_shards).astype(np.float64)
