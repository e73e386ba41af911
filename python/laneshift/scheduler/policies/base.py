"""The interface of every policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from laneshift.scheduler.cluster_load import ClusterLoad
from laneshift.scheduler.plan import Plan

__all__ = ["Policy"]

S = TypeVar("S")


@dataclass(frozen=True, kw_only=True)
class Policy(ABC, Generic[S]):
    """A policy is a frozen dataclass: its fields are its parameters, each with a default.

    ``decide`` is a pure function: no clock (time is in the cluster load), no I/O, no randomness;
    the same cluster load and state always give the same answer. All memory is in the state, an
    immutable value that the caller keeps and hands back:

        state = policy.start()
        for cluster load in cluster loads:
            plan, state = policy.decide(cluster load, state)

    Attributes:
        name: under which the registry lists it.
        summary: one line for ``laneshift policies``.
        source: where it comes from; a paper by short title and year (docs/papers.md).
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    source: ClassVar[str]

    @abstractmethod
    def start(self) -> S:
        """State before the first decision."""

    @abstractmethod
    def decide(self, cluster: ClusterLoad, state: S) -> tuple[Plan, S]:
        """Plan for ``cluster`` and the state for the next one.

        Raises:
            InputError: the cluster load lacks a measurement that the policy needs; names it.
        """
