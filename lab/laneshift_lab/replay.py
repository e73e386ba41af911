"""A recorded trace, decided again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.plan import Plan
from laneshift.contract.policy import Policy

__all__ = ["Replayed", "replay"]


@dataclass(frozen=True, slots=True)
class Replayed:
    """A recorded cluster load and what a policy answers to it."""

    cluster: ClusterLoad
    plan: Plan


def replay(recorded: Iterable[ClusterLoad], policy: Policy[Any]) -> Iterator[Replayed]:
    """Decisions of ``policy`` on recorded cluster loads, its state carried from one to the next of
    each island.

    The cluster loads are what was measured, so the decisions have no effect on later ones: replay
    answers "what would it have decided", the simulator answers "what would have happened".
    """
    states: dict[str, Any] = {}
    for cluster in recorded:
        state = states[cluster.island] if cluster.island in states else policy.start()
        plan, states[cluster.island] = policy.answer(cluster, state)
        yield Replayed(cluster, plan)
