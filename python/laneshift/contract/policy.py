"""The interface of every policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.flow import BUFFER_S, TARGET_UTILISATION, as_flow
from laneshift.contract.plan import Plan
from laneshift.inputcheck import number

__all__ = ["BufferPolicy", "Policy", "SizingPolicy"]

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Policy(ABC, Generic[S]):
    """A policy is a frozen dataclass: its fields are its parameters, each with a default.

    ``decide`` is a pure function: no clock (time is in the cluster load), no I/O, no randomness;
    the same cluster load and state always give the same answer. All memory is in the state, an
    immutable value that the caller keeps and hands back:

        state = policy.start()
        for load in loads:
            plan, state = policy.answer(load, state)

    ``answer`` takes what was measured; ``decide`` gets it as ``see`` shows it, so that no policy
    has to know how a micro-batch differs from a stream.

    Attributes:
        name: under which the registry lists it.
        summary: one line for ``laneshift policies``.
        source: where it comes from; a paper by short title and year (docs/papers.md).
        places: whether its plans say on which nodes cores are: a running query then has lanes on
            other executors.
        distributes: whether its plans say where keys go: on which lane a shard is, and of which
            keys work is apart from their state. Nobody else moves shards then.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str]
    places: ClassVar[bool] = False
    distributes: ClassVar[bool] = False

    @property
    def sizes(self) -> bool:
        """Whether its plans say how many cores there are; `lanes=auto` goes on if not."""
        return True

    @abstractmethod
    def start(self) -> S:
        """State before the first decision."""

    @abstractmethod
    def decide(self, cluster: ClusterLoad, state: S) -> tuple[Plan, S]:
        """Plan for ``cluster`` and the state for the next one.

        Raises:
            InputError: the cluster load lacks a measurement that the policy needs; names it.
        """

    def see(self, cluster: ClusterLoad) -> ClusterLoad:
        """What was measured as `decide` reads it: micro-batches as a flow of rows."""
        return as_flow(cluster)

    def answer(self, cluster: ClusterLoad, state: S) -> tuple[Plan, S]:
        """`decide` on what was measured."""
        return self.decide(self.see(cluster), state)


@dataclass(frozen=True, kw_only=True)
class SizingPolicy(Policy[S]):
    """A policy that sizes partitions for what they have to do.

    Attributes:
        target_utilisation: in micro-batch, the share of the trigger's interval that a batch may
            take, in (0, 1]; without an interval, the share of the time that lanes may work.
        target_batch_s: in micro-batch with an interval, how long a batch may take at most (s, > 0)
            where that is less, or none.
    """

    target_utilisation: float = TARGET_UTILISATION
    target_batch_s: float | None = None

    def __post_init__(self) -> None:
        number("target_utilisation", self.target_utilisation, low=0, low_open=True, high=1)
        if self.target_batch_s is not None:
            number("target_batch_s", self.target_batch_s, low=0, low_open=True, unit="s")

    def see(self, cluster: ClusterLoad) -> ClusterLoad:
        """As `Policy.see`, by this policy's targets."""
        return as_flow(cluster, self.target_utilisation, self.target_batch_s)


@dataclass(frozen=True, kw_only=True)
class BufferPolicy(SizingPolicy[S]):
    """A policy that steers by the occupancy of bounded buffers.

    Attributes:
        buffer_s: a partition's buffer holds the rows that it can serve in so long (s, > 0), or
            fewer where it has a smaller one.
    """

    buffer_s: float = BUFFER_S

    def __post_init__(self) -> None:
        super().__post_init__()
        number("buffer_s", self.buffer_s, low=0, low_open=True, unit="s")

    def see(self, cluster: ClusterLoad) -> ClusterLoad:
        """As `Policy.see`, with buffers of ``buffer_s``."""
        return as_flow(cluster, self.target_utilisation, self.target_batch_s, self.buffer_s)
