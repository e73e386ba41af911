"""How many cores: the least that meets a mean-latency target (Elasticutor, 2019, 4.2).

Greedy: start from the least stable allocation floor(a_j)+1, then give one core at a time to the
partition with the largest drop lambda_j * (E[T_j](k_j) - E[T_j](k_j + 1)) until the target is met
or the budget is spent [S]. Reported optimal where it finds a solution [S]; it is, because each
E[T_j] is convex and decreasing in k_j [D].

Edge cases are not specified by the source; ours [D]:

* no arrivals at j: k_j = 1;
* target below (1/lambda_0) * sum_j a_j: unreachable, answered with the least stable allocation
  rather than chased to the budget;
* least stable allocation above the budget: overload; cores go one by one to the partition with
  the highest a_j/k_j, each keeps at least one (a rule of proportion in whole cores);
* budget spent: the best allocation within it, marked as such;
* a partition that its own limit keeps from its part gets its limit, and the others are sized for
  the target: in it every queue's rows may take the same multiple of their service time.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from laneshift.inputcheck import number, vector, whole
from laneshift.models.queueing import (
    check_external_rate,
    erlang_b,
    sojourn_time,
    wait_probability,
)


class Outcome(Enum):
    """How an allocation ended."""

    MET = "met"
    BUDGET = "budget"
    UNREACHABLE = "unreachable"
    OVERLOAD = "overload"
    CORE_LIMIT = "core-limit"


@dataclass(frozen=True)
class Allocation:
    """Core counts and what they promise.

    Attributes:
        cores: k_j, int64 (m,), each >= 1.
        sojourn_s: E[T](k), +inf if a queue is unstable.
        outcome: MET, or why not.
        wanted_cores: cores that the target (or, in overload, stability) would need; None if no
            number would do.
        limited: partitions whose own limit is in the way, bool (m,). With the outcome
            `CORE_LIMIT` all others are sized for the target.
        least_s: with the outcome `UNREACHABLE`, the mean time with however many cores (s).
    """

    cores: NDArray[np.int64]
    sojourn_s: float
    outcome: Outcome
    wanted_cores: int | None
    limited: NDArray[np.bool_]
    least_s: float = 0.0


def least_stable(arrival_rates: ArrayLike, service_rates: ArrayLike) -> NDArray[np.int64]:
    """floor(lambda_j/mu_j) + 1 per partition, int64 (m,); 1 where nothing arrives.

    >>> least_stable([1500, 0], [1000, 1000]).tolist()
    [2, 1]
    """
    lam = vector("arrival_rates", arrival_rates, low=0, unit="rows/s")
    mu = vector("service_rates", service_rates, low=0, low_open=True, size=lam.size)
    return np.floor(lam / mu).astype(np.int64) + 1


def allocate_cores(
    external_rate: float,
    arrival_rates: ArrayLike,
    service_rates: ArrayLike,
    target_s: float,
    budget: int,
    limits: ArrayLike | None = None,
) -> Allocation:
    """Fewest cores with E[T](k) <= ``target_s``, at most ``budget`` in total.

    Args:
        external_rate: lambda_0 (rows/s), > 0 if anything arrives.
        arrival_rates: lambda_j (rows/s), shape (m,), >= 0.
        service_rates: mu_j per core (rows/s), shape (m,), > 0.
        target_s: T_max (s), > 0.
        budget: cores available, >= m (one for each partition).
        limits: most cores that each partition can use, shape (m,), >= 1; None for no limit [D].

    Raises:
        InputError: out of range.
    """
    lam = vector("arrival_rates", arrival_rates, low=0, unit="rows/s")
    mu = vector("service_rates", service_rates, low=0, low_open=True, size=lam.size)
    entering = check_external_rate(external_rate, float(lam.sum()))
    target = number("target_s", target_s, low=0, low_open=True, unit="s")
    available = whole(
        "budget",
        budget,
        low=lam.size,
        unit="cores (one for each partition)",
        remedy="Add nodes or merge partitions.",
    )
    limit = np.full(lam.size, NO_LIMIT, dtype=np.int64)
    if limits is not None:
        given = vector("limits", limits, low=1, size=lam.size, finite=False)
        limit = np.minimum(given, NO_LIMIT).astype(np.int64)
    return _allocate(entering, lam, mu, target, available, limit)


NO_LIMIT = 2**31
"""More cores than any partition can use."""


def _allocate(
    entering: float,
    lam: NDArray[np.float64],
    mu: NDArray[np.float64],
    target: float,
    available: int,
    limit: NDArray[np.int64],
) -> Allocation:
    start, load = least_stable(lam, mu), lam / mu
    limited = start > limit
    if int(np.minimum(start, limit).sum()) > available:
        return _overload(load, start, limit, available)
    if not limited.any():
        found = _search(entering, lam, mu, target, available, limit, start)
        if found.outcome not in (Outcome.BUDGET, Outcome.CORE_LIMIT):
            return found
        limited = _too_slow(entering, lam, mu, target, available, limit)
        if not limited.any() or int(np.where(limited, limit, start).sum()) > available:
            return found
    cores, rest = np.where(limited, limit, 1), ~limited
    outcome, sojourn, wanted, least = Outcome.CORE_LIMIT, math.inf, None, 0.0
    if rest.any():
        part = float(load[rest].sum() / load.sum())
        left = available - int(limit[limited].sum())
        found = _allocate(entering * part, lam[rest], mu[rest], target, left, limit[rest])
        cores[rest], limited[rest] = found.cores, found.limited
        if found.outcome is not Outcome.MET:
            outcome, least = found.outcome, found.least_s
            if found.wanted_cores is not None:
                wanted = available - left + found.wanted_cores
    if not (start > limit).any():
        sojourn = _Search(entering, lam, mu, cores, cores).sojourn()
    return Allocation(cores, sojourn, outcome, wanted, limited, least)


def _search(
    entering: float,
    lam: NDArray[np.float64],
    mu: NDArray[np.float64],
    target: float,
    available: int,
    limit: NDArray[np.int64],
    start: NDArray[np.int64],
) -> Allocation:
    """The greedy, from ``start``, which is stable and within the limits."""
    none = np.zeros(lam.size, dtype=np.bool_)
    search = _Search(entering, lam, mu, start, np.minimum(limit, available))
    if entering == 0 or search.sojourn() <= target:
        return Allocation(start, search.sojourn(), Outcome.MET, int(start.sum()), none)
    least = float((lam / mu).sum()) / entering
    if least >= target:
        return Allocation(start, search.sojourn(), Outcome.UNREACHABLE, None, none, least)
    while search.sojourn() > target:
        if search.used + 1 > available:
            reached = search.result(), search.sojourn()
            wanted = _cores_without_budget(search, target)
            return Allocation(*reached, Outcome.BUDGET, wanted, none)
        if not search.step():
            at = search.result()
            return Allocation(at, search.sojourn(), Outcome.CORE_LIMIT, None, at >= limit)
    return Allocation(search.result(), search.sojourn(), Outcome.MET, search.used, none)


def _too_slow(
    entering: float,
    lam: NDArray[np.float64],
    mu: NDArray[np.float64],
    target: float,
    available: int,
    limit: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Partitions that at their limits take longer than their part of the target, bool (m,).

    None if others can make up for them, with however many cores.
    """
    least = [
        sojourn_time(k, rate, speed) if k <= available else 1.0 / speed
        for k, rate, speed in zip(limit.tolist(), lam.tolist(), mu.tolist(), strict=True)
    ]
    rows = lam * least
    if float(rows.sum()) < target * entering:
        return np.zeros(lam.size, dtype=np.bool_)
    load = lam / mu
    return np.asarray((limit <= available) & (rows > target * entering / load.sum() * load))


@dataclass(frozen=True)
class Network:
    """What one query asks for; as the arguments of `allocate_cores`."""

    external_rate: float
    arrival_rates: NDArray[np.float64]
    service_rates: NDArray[np.float64]
    target_s: float
    limits: NDArray[np.int64] | None = None


def allocate_shared(networks: Sequence[Network], budget: int) -> list[Allocation]:
    """`allocate_cores` for several queries that share ``budget``, each for a target of its own.

    Where the budget does not suffice for all [D]: if it does not even keep all queues stable, cores
    go to the highest a_j/k_j of all queries; else each gets its least stable allocation, and the
    others go one by one to the query whose mean time is the largest multiple of its target, there
    to the partition that gains most, until it has what it would have alone.
    """
    alone = [
        allocate_cores(
            n.external_rate, n.arrival_rates, n.service_rates, n.target_s, budget, n.limits
        )
        for n in networks
    ]
    if len(networks) == 1 or sum(int(found.cores.sum()) for found in alone) <= budget:
        return alone
    starts = [least_stable(n.arrival_rates, n.service_rates) for n in networks]
    limits = [
        np.full(start.size, NO_LIMIT, dtype=np.int64) if n.limits is None else n.limits
        for n, start in zip(networks, starts, strict=True)
    ]
    least = [np.minimum(pair[0], pair[1]) for pair in zip(starts, limits, strict=True)]
    if sum(int(counts.sum()) for counts in least) > budget:
        load = np.concatenate([n.arrival_rates / n.service_rates for n in networks])
        cores = share_cores(load, np.concatenate(least), budget)
        ends = np.cumsum([start.size for start in starts])
        return [
            Allocation(part, math.inf, Outcome.OVERLOAD, int(start.sum()), start > limit)
            for part, start, limit in zip(np.split(cores, ends[:-1]), starts, limits, strict=True)
        ]
    return _share_by_lateness(networks, alone, least, starts, budget)


def _share_by_lateness(
    networks: Sequence[Network],
    alone: list[Allocation],
    least: list[NDArray[np.int64]],
    starts: list[NDArray[np.int64]],
    budget: int,
) -> list[Allocation]:
    searches, counts = [], [each.copy() for each in least]
    stable = [counted >= start for counted, start in zip(least, starts, strict=True)]
    for n, found, counted, keeps_up in zip(networks, alone, least, stable, strict=True):
        load = n.arrival_rates / n.service_rates
        part = float(load[keeps_up].sum() / load.sum()) if load.sum() > 0 else 1.0
        searches.append(
            _Search(
                n.external_rate * part,
                n.arrival_rates[keeps_up],
                n.service_rates[keeps_up],
                counted[keeps_up],
                found.cores[keeps_up],
            )
        )
    late = [
        (-s.sojourn() / n.target_s, q)
        for q, (s, n) in enumerate(zip(searches, networks, strict=True))
    ]
    heapq.heapify(late)
    left = budget - sum(int(counted.sum()) for counted in least)
    while left > 0 and late:
        _, q = heapq.heappop(late)
        if searches[q].step():
            left -= 1
            heapq.heappush(late, (-searches[q].sojourn() / networks[q].target_s, q))
    shared = []
    for found, search, counted, keeps_up in zip(alone, searches, counts, stable, strict=True):
        counted[keeps_up] = search.result()
        if (counted == found.cores).all():
            shared.append(found)
            continue
        wanted = int(found.cores.sum()) if found.wanted_cores is None else found.wanted_cores
        sojourn = search.sojourn() if keeps_up.all() else math.inf
        shared.append(Allocation(counted, sojourn, Outcome.BUDGET, wanted, found.limited))
    return shared


class _Search:
    """The greedy search; keeps Erlang B of every queue so that one more core costs O(log m)."""

    def __init__(
        self,
        entering: float,
        lam: NDArray[np.float64],
        mu: NDArray[np.float64],
        start: NDArray[np.int64],
        cap: NDArray[np.int64],
    ) -> None:
        self._entering = entering
        self._lam = lam.tolist()
        self._mu = mu.tolist()
        self._load = (lam / mu).tolist()
        self._k: list[int] = start.tolist()
        self._cap: list[int] = cap.tolist()
        self._blocked = [erlang_b(k, a) for k, a in zip(self._k, self._load, strict=True)]
        self._time = [self._queue(j, self._k[j], b) for j, b in enumerate(self._blocked)]
        self._heap = [self._entry(j) for j in range(lam.size) if self._can_grow(j)]
        heapq.heapify(self._heap)
        self.used: int = sum(self._k)
        self._total = self._summed = self._exact()

    def sojourn(self) -> float:
        return self._total

    def result(self) -> NDArray[np.int64]:
        return np.array(self._k, dtype=np.int64)

    def lift_limits(self) -> None:
        self._cap = [2**62] * len(self._k)
        self._heap = [self._entry(j) for j in range(len(self._k)) if self._can_grow(j)]
        heapq.heapify(self._heap)

    def step(self) -> bool:
        """Give one core to the partition that gains most; False if none can grow."""
        if not self._heap:
            return False
        _, j, blocked, after = heapq.heappop(self._heap)
        self._k[j] += 1
        self.used += 1
        before = self._time[j]
        self._blocked[j], self._time[j] = blocked, after
        self._total -= self._lam[j] * (before - after) / self._entering
        # The exact sum costs O(m): only where rounding could decide.
        if math.isinf(before) or self.used % 64 == 0 or self._total < 1e-3 * self._summed:
            self._total = self._summed = self._exact()
        if self._can_grow(j):
            heapq.heappush(self._heap, self._entry(j))
        return True

    def _can_grow(self, j: int) -> bool:
        return self._lam[j] > 0 and self._k[j] < self._cap[j]

    def _entry(self, j: int) -> tuple[float, int, float, float]:
        a, k = self._load[j], self._k[j] + 1
        blocked = a * self._blocked[j] / (k + a * self._blocked[j])
        after = self._queue(j, k, blocked)
        # Two unstable sizes differ by nothing; prefer to make a queue stable over all else.
        gain = 0.0 if math.isinf(after) else self._lam[j] * (self._time[j] - after)
        return -gain, j, blocked, after

    def _queue(self, j: int, k: int, blocked: float) -> float:
        spare = k * self._mu[j] - self._lam[j]
        if spare <= 0 or k <= self._load[j]:
            return math.inf
        return float(1.0 / self._mu[j] + wait_probability(k, self._load[j], blocked) / spare)

    def _exact(self) -> float:
        if self._entering == 0:
            return 0.0
        terms = (r * t for r, t in zip(self._lam, self._time, strict=True) if r > 0)
        return math.fsum(terms) / self._entering


def _cores_without_budget(search: _Search, target: float) -> int | None:
    """Cores that would meet the target; None if more than 2^16 beyond what there is."""
    search.lift_limits()
    for _ in range(65536):
        if search.sojourn() <= target:
            return search.used
        search.step()
    return None


def share_cores(load: ArrayLike, most: ArrayLike, available: int) -> NDArray[np.int64]:
    """Share too few cores so that the highest utilisation a_j/k_j is as low as can be [D].

    Everyone gets one; the others go one by one to the partition with the highest a_j/k_j.

    Args:
        load: a_j, demand in cores, shape (m,), >= 0.
        most: cores that partition j can use, integers, shape (m,), >= 1.
        available: cores in all, >= m.
    """
    demand = vector("load", load, low=0, unit="cores")
    ceiling = vector("most", most, low=1, size=demand.size, unit="cores").astype(np.int64)
    budget = whole("available", available, low=demand.size, unit="cores")
    cores = np.ones(demand.size, dtype=np.int64)
    heap = [(-float(a), j) for j, a in enumerate(demand) if ceiling[j] > 1]
    heapq.heapify(heap)
    for _ in range(budget - demand.size):
        if not heap:
            break
        _, j = heapq.heappop(heap)
        cores[j] += 1
        if cores[j] < ceiling[j]:
            heapq.heappush(heap, (-float(demand[j]) / int(cores[j]), j))
    return cores


def _overload(
    load: NDArray[np.float64],
    start: NDArray[np.int64],
    limit: NDArray[np.int64],
    available: int,
) -> Allocation:
    cores = share_cores(load, np.minimum(start, limit), available)
    limited = start > limit
    return Allocation(cores, math.inf, Outcome.OVERLOAD, int(start.sum()), limited)
