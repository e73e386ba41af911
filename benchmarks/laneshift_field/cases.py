"""What is asked of every system: rows, when they are due, cores, and what happens meanwhile."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SEED = 20130101
KILL = -1
"""As the cores of a change: a worker is killed."""


@dataclass(frozen=True)
class Case:
    """One scenario.

    Attributes:
        name, title: in tables and on the command line.
        stages: (rows/s, seconds), one after the other.
        changes: (seconds, cores): from then on a system may have so many emulated cores.
        cores: emulated cores at the start.
        cost_us: what a row costs on its core.
        keys: distinct ones.
        zipf: the r-th most frequent key has a share proportional to 1/r^zipf.
        shuffle_s: so often other keys become the frequent ones; 0 never.
        hot: share of one key beside that.
        warm_s: seconds at the start that are not counted.
    """

    name: str
    title: str
    stages: tuple[tuple[float, float], ...]
    changes: tuple[tuple[float, int], ...] = ()
    cores: int = 8
    cost_us: int = 1000
    keys: int = 2000
    zipf: float = 0.5
    shuffle_s: float = 0.0
    hot: float = 0.0
    warm_s: float = 10.0

    @property
    def seconds(self) -> float:
        """Until the last row is due."""
        return sum(seconds for _, seconds in self.stages)

    @property
    def kills(self) -> bool:
        """Whether a worker is killed: workers are processes of their own then."""
        return any(cores == KILL for _, cores in self.changes)

    @property
    def most(self) -> int:
        """The most emulated cores at a time."""
        return max([self.cores, *(cores for _, cores in self.changes)])

    def quick(self, by: float = 3.0) -> Case:
        """The same in a third of the time."""
        return replace(
            self,
            stages=tuple((rate, seconds / by) for rate, seconds in self.stages),
            changes=tuple((at / by, cores) for at, cores in self.changes),
            warm_s=self.warm_s / by,
        )

    @property
    def spark_stages(self) -> str:
        """The stages as the replay source takes them. They begin anew after the last row."""
        return ",".join(f"{rate:g}:{round(1e6 * seconds)}us" for rate, seconds in self.stages)


@dataclass(frozen=True)
class Rows:
    """Recorded rows in the order in which they are due."""

    keys: NDArray[np.int64]
    dues_us: NDArray[np.int64]

    def write(self, file: Path) -> None:
        """The one file that all systems read."""
        pairs = zip(self.keys.tolist(), self.dues_us.tolist(), strict=True)
        file.write_text("".join(f'{{"key":{key},"due_us":{due}}}\n' for key, due in pairs))

    @staticmethod
    def read(file: Path) -> Rows:
        """The same back."""
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        keys, dues = ([row[name] for row in rows] for name in ("key", "due_us"))
        return Rows(np.array(keys, np.int64), np.array(dues, np.int64))


def record(case: Case, seed: int = SEED) -> Rows:
    """The rows of a case: the same for the same seed."""
    random = np.random.default_rng(seed)
    dues = []
    begin_us = 0.0
    for rate, seconds in case.stages:
        count = round(rate * seconds)
        dues.append(begin_us + np.arange(count) * (1e6 / rate))
        begin_us += 1e6 * seconds
    dues_us = np.concatenate(dues).astype(np.int64)
    shares = 1.0 / np.arange(1, case.keys + 1) ** case.zipf
    ranks = random.choice(case.keys, size=len(dues_us), p=shares / shares.sum())
    if case.shuffle_s:
        periods = (dues_us // round(1e6 * case.shuffle_s)).astype(int)
        keys = np.empty_like(ranks)
        for period in range(periods.max() + 1):
            chosen = periods == period
            keys[chosen] = random.permutation(case.keys)[ranks[chosen]]
    else:
        keys = random.permutation(case.keys)[ranks]
    if case.hot:
        keys[random.random(len(keys)) < case.hot] = 0
    return Rows(keys.astype(np.int64), dues_us)


CASES = (
    Case(
        "skew",
        "other keys become hot every 4 s",
        stages=((6000.0, 60.0),),
        zipf=0.8,
        shuffle_s=4.0,
    ),
    Case(
        "burst",
        "eight times the load for 20 s, and the cores for it",
        stages=((700.0, 30.0), (5600.0, 20.0), (700.0, 40.0)),
        changes=((30.0, 8), (50.0, 2)),
        cores=2,
    ),
    Case(
        "rescale",
        "2, 4 and 2 cores",
        stages=((1400.0, 40.0), (2800.0, 40.0), (1400.0, 40.0)),
        changes=((40.0, 4), (80.0, 2)),
        cores=2,
    ),
    Case("hot", "one key has 60 % of the rows", stages=((1550.0, 60.0),), hot=0.6),
    Case(
        "hotter",
        "one key has 60 % of the rows, nearly twice what a core can do",
        stages=((3000.0, 60.0),),
        hot=0.6,
    ),
    Case(
        "kill",
        "a worker is killed",
        stages=((2800.0, 80.0),),
        changes=((40.0, KILL),),
        cores=4,
    ),
)
