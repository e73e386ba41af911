"""M/M/k queues and the Jackson network of them (Elasticutor, 2019, 4.1).

Formula (1) of the paper is lost in our source and was rebuilt from its definitions and Little's
law [R]; the recursion that evaluates Erlang C without factorials is ours [D].

    E[T](k) = (1/lambda_0) * sum_j lambda_j * E[T_j](k_j)
    E[T_j](k_j) = 1/mu_j + C(k_j, a_j) / (k_j*mu_j - lambda_j)   if k_j > a_j = lambda_j/mu_j
                  +inf                                           otherwise
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from laneshift.errors import InputError
from laneshift.inputcheck import number, vector, whole


def erlang_b(servers: int, offered_load: float) -> float:
    """Probability that all of ``servers`` are busy in a system without a queue.

    Args:
        servers: k >= 0.
        offered_load: a = lambda/mu, in cores, >= 0.

    Recursion B(n) = a*B(n-1) / (n + a*B(n-1)), B(0) = 1: no overflow for any k and a [D].
    """
    k = whole("servers", servers, low=0)
    a = number("offered_load", offered_load, low=0, unit="cores")
    return _erlang_b(k, a)


def _erlang_b(k: int, a: float) -> float:
    blocked = 1.0
    for n in range(1, k + 1):
        blocked = a * blocked / (n + a * blocked)
    return blocked


def erlang_c(servers: int, offered_load: float) -> float:
    """Probability that a row has to wait in M/M/k; 1.0 if k <= a (the queue never empties).

    Args:
        servers: k >= 1.
        offered_load: a = lambda/mu, in cores, >= 0.

    C = k*B / (k - a*(1-B)) with Erlang B [D].

    >>> round(erlang_c(3, 2.0), 4)  # three cores, two of them busy on average
    0.4444
    """
    k = whole("servers", servers, low=1)
    blocked = erlang_b(k, offered_load)
    return 1.0 if k <= offered_load else wait_probability(k, float(offered_load), blocked)


def wait_probability(servers: int, offered_load: float, blocked: float) -> float:
    """Erlang C from Erlang B ``blocked``, for ``servers`` > ``offered_load``; unchecked."""
    return servers * blocked / (servers - offered_load * (1.0 - blocked))


def sojourn_time(servers: int, arrival_rate: float, service_rate: float) -> float:
    """Mean time in an M/M/k queue, waiting and service, in the inverse unit of the rates.

    Args:
        servers: k >= 1.
        arrival_rate: lambda >= 0.
        service_rate: mu per server, > 0, in the same unit.

    Returns:
        E[T] (s if rates are per second), +inf if ``k <= lambda/mu``.

    >>> round(sojourn_time(3, arrival_rate=2000, service_rate=1000), 6)
    0.001444
    """
    k = whole("servers", servers, low=1)
    lam = number("arrival_rate", arrival_rate, low=0, unit="rows/s")
    mu = number("service_rate", service_rate, low=0, low_open=True, unit="rows/s")
    return _sojourn_time(k, lam, mu)


def _sojourn_time(k: int, lam: float, mu: float) -> float:
    a = lam / mu
    if k * mu <= lam or k <= a:  # the two tests can differ by rounding
        return math.inf
    return 1.0 / mu + wait_probability(k, a, _erlang_b(k, a)) / (k * mu - lam)


def network_sojourn_time(
    external_rate: float,
    arrival_rates: ArrayLike,
    service_rates: ArrayLike,
    servers: ArrayLike,
) -> float:
    """Mean time of a row in a Jackson network of M/M/k queues, formula (1) [R].

    Args:
        external_rate: lambda_0, rows per second that enter the topology, >= 0.
        arrival_rates: lambda_j, shape (m,), >= 0.
        service_rates: mu_j per core, shape (m,), > 0.
        servers: k_j, integers, shape (m,), >= 1.

    Returns:
        E[T] in the inverse unit of the rates; +inf if any queue is unstable; 0 without arrivals.

    Raises:
        InputError: out of range, or arrivals inside although nothing enters.
    """
    lam = vector("arrival_rates", arrival_rates, low=0, unit="rows/s")
    mu = vector("service_rates", service_rates, low=0, low_open=True, size=lam.size)
    k = np.asarray(servers)
    if k.shape != lam.shape or not np.issubdtype(k.dtype, np.integer):
        raise InputError("servers", f"{k.dtype} {k.shape}", f"integers {lam.shape}", "Align them.")
    if k.size and int(k.min()) < 1:
        raise InputError("servers", int(k.min()), "counts >= 1", "Give each queue a server.")
    entering = check_external_rate(external_rate, float(lam.sum()))
    if entering == 0:
        return 0.0
    total = math.fsum(
        rate * _sojourn_time(count, rate, speed)
        for rate, speed, count in zip(lam.tolist(), mu.tolist(), k.tolist(), strict=True)
        if rate > 0
    )
    return total / entering


def check_external_rate(external_rate: float, inner_rate: float) -> float:
    """lambda_0 as a float; it must be positive if any queue has arrivals."""
    entering = number("external_rate", external_rate, low=0, unit="rows/s")
    if entering == 0 and inner_rate > 0:
        raise InputError(
            "external_rate",
            external_rate,
            f"a number > 0, since partitions receive {inner_rate:g} rows/s",
            "Record the sources, or leave them out to count the head partitions.",
        )
    return entering
