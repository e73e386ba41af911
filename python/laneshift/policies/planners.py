"""Planners of key distribution by name: each is a policy with its partitioner's name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from laneshift.partitioning.bi import Bi
from laneshift.partitioning.bi6 import Bi6
from laneshift.partitioning.dynamic import Dynamic
from laneshift.partitioning.mnrt import Mnrt
from laneshift.partitioning.model import Partitioner
from laneshift.partitioning.pkg import Pkg
from laneshift.partitioning.qmmp import Qmmp
from laneshift.partitioning.readj import Readj
from laneshift.partitioning.w_choices import WChoices
from laneshift.policies.key_planner import JoinPlanner, KeyPlanner, ScatterPlanner

_PAPER = "Data Distribution, 2017"


@dataclass(frozen=True, kw_only=True)
class QmmpPlanner(KeyPlanner):
    """Cuts overloaded lanes at the limit, in the order of shards, and fills others to the mean.

    Attributes:
        tolerance, sizing: as in every planner (docs/policies/planners.md).
    """

    name: ClassVar[str] = "qmmp"
    summary: ClassVar[str] = "shards to lanes, planned fast: cut at the limit, fill to the mean"
    source: ClassVar[str] = f"{_PAPER}, Algorithms 2 and 3; live: decision 20"

    @property
    def partitioner(self) -> Partitioner:
        """The algorithm."""
        return Qmmp()


@dataclass(frozen=True, kw_only=True)
class MnrtPlanner(KeyPlanner):
    """Prefers moves that merge or bring home, of shards with much load and little state.

    Attributes:
        tolerance, sizing: as in every planner (docs/policies/planners.md).
        tie_break, underloaded, merge_out_rank, giant_keys: as of the partitioner.
    """

    name: ClassVar[str] = "mnrt"
    summary: ClassVar[str] = "shards to lanes, few splits and little state moved"
    source: ClassVar[str] = f"{_PAPER}, Algorithms 2 and 4; live: decision 20"

    tie_break: str = "fits-first"
    underloaded: str = "below-mean"
    merge_out_rank: float = 2.5
    giant_keys: bool = False

    @property
    def partitioner(self) -> Partitioner:
        """The algorithm."""
        return Mnrt(self.tie_break, self.underloaded, self.merge_out_rank, self.giant_keys)


@dataclass(frozen=True, kw_only=True)
class ReadjPlanner(KeyPlanner):
    """Moves or swaps heavy shards between pairs of lanes; light ones go back to where they began.

    Attributes:
        tolerance, sizing: as in every planner (docs/policies/planners.md).
        heavy_share, halvings: as of the partitioner.
    """

    name: ClassVar[str] = "readj"
    summary: ClassVar[str] = "shards to lanes, heavy ones moved or swapped pair by pair"
    source: ClassVar[str] = f"{_PAPER}: a baseline; live: decision 20"

    heavy_share: float = 0.05
    halvings: int = 6

    @property
    def partitioner(self) -> Partitioner:
        """The algorithm."""
        return Readj(self.heavy_share, self.halvings)


@dataclass(frozen=True, kw_only=True)
class PkgPlanner(ScatterPlanner):
    """Partial key grouping: known hot keys are in two parts: their work goes apart, no shard moves.

    Attributes:
        tolerance, sizing: as in every planner (docs/policies/planners.md).
    """

    name: ClassVar[str] = "pkg"
    summary: ClassVar[str] = "hot keys' work apart, nothing moves"
    source: ClassVar[str] = f"{_PAPER}: a baseline; live: decision 20"

    @property
    def partitioner(self) -> Partitioner:
        """The algorithm."""
        return Pkg()


@dataclass(frozen=True, kw_only=True)
class WChoicesPlanner(ScatterPlanner):
    """As ``pkg``, but keys above a threshold are in as many parts as there are lanes.

    Attributes:
        tolerance, sizing: as in every planner (docs/policies/planners.md).
        hot_share: as of the partitioner.
    """

    name: ClassVar[str] = "w-choices"
    summary: ClassVar[str] = "hot keys' work apart, the hottest in as many parts as lanes"
    source: ClassVar[str] = "recalled, PKG's follow-up; live: decision 20"

    hot_share: float = 0.2

    @property
    def partitioner(self) -> Partitioner:
        """The algorithm."""
        return WChoices(self.hot_share)


@dataclass(frozen=True, kw_only=True)
class DynamicPlanner(JoinPlanner):
    """The matrix join: the work of every match goes over the largest power of two of lanes.

    Attributes:
        tolerance, sizing: as in every planner (docs/policies/planners.md).
    """

    name: ClassVar[str] = "dynamic"
    summary: ClassVar[str] = "joins: the work of every match over a power of two of lanes"
    source: ClassVar[str] = f"{_PAPER}: a baseline; live: decision 20"

    @property
    def partitioner(self) -> Partitioner:
        """The algorithm."""
        return Dynamic()


@dataclass(frozen=True, kw_only=True)
class BiPlanner(JoinPlanner):
    """The bipartite join: the work of every match goes over all lanes, two at least.

    Attributes:
        tolerance, sizing: as in every planner (docs/policies/planners.md).
    """

    name: ClassVar[str] = "bi"
    summary: ClassVar[str] = "joins: the work of every match over all lanes"
    source: ClassVar[str] = f"{_PAPER}: a baseline; live: decision 20"

    @property
    def partitioner(self) -> Partitioner:
        """The algorithm."""
        return Bi()


@dataclass(frozen=True, kw_only=True)
class Bi6Planner(JoinPlanner):
    """The bipartite join with subgroups, for twice as many lanes as there are groups at least.

    Attributes:
        tolerance, sizing: as in every planner (docs/policies/planners.md).
        groups: as of the partitioner.
    """

    name: ClassVar[str] = "bi6"
    summary: ClassVar[str] = "joins: the work of every match over all lanes, by subgroups"
    source: ClassVar[str] = f"{_PAPER}: a baseline; live: decision 20"

    groups: int = 6

    @property
    def partitioner(self) -> Partitioner:
        """The algorithm."""
        return Bi6(self.groups)
