"""Of M/M/k queues how long a share of the rows waits; lanes, which have a queue each (ours)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from laneshift.errors import InputError
from laneshift.inputcheck import number, vector, whole
from laneshift.models.queueing import erlang_c

__all__ = ["lanes_sojourn_time", "wait_quantile"]


def wait_quantile(
    servers: int, arrival_rate: float, service_rate: float, probability: float
) -> float:
    """Time that a share ``probability`` of the rows of M/M/k waits at most (s, service excluded).

    The wait is 0 with probability 1-C, else exponential with rate k*mu - lambda; +inf if unstable.

    >>> round(wait_quantile(3, 2000, 1000, 0.99), 5)
    0.00379
    """
    p = number("probability", probability, low=0, high=1, high_open=True)
    k = whole("servers", servers, low=1)
    lam = number("arrival_rate", arrival_rate, low=0, unit="rows/s")
    mu = number("service_rate", service_rate, low=0, low_open=True, unit="rows/s")
    if k * mu <= lam:
        return math.inf
    c = erlang_c(k, lam / mu)
    return 0.0 if c <= 1.0 - p else math.log(c / (1.0 - p)) / (k * mu - lam)


def lanes_sojourn_time(
    lanes: int,
    arrival_rate: float,
    service_rate: float,
    shares: ArrayLike | None = None,
    variation: float = 1.0,
) -> float:
    """Mean time in ``lanes`` lanes with a queue each, waiting and service, ours [D].

    Rows go by key to the lane that owns their shard, whether another lane is free or not: k
    independent M/G/1 queues (Pollaczek-Khinchine), where `sojourn_time` has one queue for all.

        E[T] = 1/mu + sum_i p_i * (1 + cv^2)/2 * rho_i / (mu - lambda_i),  lambda_i = p_i*lambda

    It assumes that rows arrive at each lane as a Poisson process (many keys, none dominant), and
    that their costs do not depend on the lane.

    Args:
        lanes: k >= 1.
        arrival_rate: lambda of all lanes together, >= 0.
        service_rate: mu per lane, > 0, in the same unit.
        shares: p_i, each lane's share of the rows (the sum of its shards'), (k,), adding up to 1;
            None for even ones, the best that balancing can do.
        variation: cv, the standard deviation of a row's cost over its mean (>= 0): 1 as M/M/1 has
            it, 0 for equal costs.

    Returns:
        E[T] (s if rates are per second), +inf if a lane that gets rows cannot keep up.

    >>> from laneshift.models.queueing import sojourn_time
    >>> round(sojourn_time(16, 14_400, 1000), 4), round(lanes_sojourn_time(16, 14_400, 1000), 4)
    (0.0014, 0.01)
    """
    k = whole("lanes", lanes, low=1)
    lam = number("arrival_rate", arrival_rate, low=0, unit="rows/s")
    mu = number("service_rate", service_rate, low=0, low_open=True, unit="rows/s")
    cv = number("variation", variation, low=0)
    p = np.full(k, 1.0 / k) if shares is None else vector("shares", shares, low=0, size=k)
    if not math.isclose(float(p.sum()), 1.0, rel_tol=1e-6):
        raise InputError("shares", float(p.sum()), "shares that add up to 1", "Divide by the sum.")
    each = lam * p
    if bool(((each >= mu) & (each > 0)).any()):
        return math.inf
    wait = 0.5 * (1.0 + cv * cv) * (each / mu) / (mu - each)
    return 1.0 / mu + float((p * wait).sum())
