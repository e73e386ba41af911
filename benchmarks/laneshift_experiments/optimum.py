"""Algorithm 1 against the optimum: small random instances, solved by integer programming."""

from __future__ import annotations

import numpy as np

from laneshift.errors import InputError
from laneshift.models.assignment import Demand


def random_demand(rng: np.random.Generator, m: int, n: int) -> Demand:
    """m partitions on n nodes: everyone holds at least one core, the targets fit the cluster."""
    held = rng.integers(0, 3, (m, n))
    held[np.arange(m), rng.integers(0, n, m)] += 1
    cores = held.sum(axis=0) + rng.integers(0, 3, n)
    targets = 1 + rng.multinomial(rng.integers(0, cores.sum() - m + 1), np.full(m, 1 / m))
    return Demand(
        placement=held,
        targets=targets,
        node_cores=cores,
        state_bytes=rng.integers(0, 1000, m).astype(np.float64),
        homes=rng.integers(0, n, m),
        data_intensity=rng.choice([0.0, 300.0, 900.0, 3000.0], m),
    )


def optimum(case: Demand) -> float:
    """Least C(X | X~) with X_j >= k_j: state leaving a node is linear in x once X_j is fixed.

    One binary per (partition, total) picks X_j; per total, integers x_ij and leaving state. Data
    intensity is not looked at. Errors: ``InputError`` without scipy.
    """
    try:
        from scipy.optimize import Bounds, LinearConstraint, milp
    except ImportError as cause:
        raise InputError("scipy", "missing", "scipy", "pip install scipy.") from cause
    m, n = case.placement.shape
    held = case.placement.sum(axis=1)
    options = [
        (j, total)
        for j in range(m)
        for total in range(int(case.targets[j]), int(max(case.targets[j], held[j])) + 1)
    ]
    width = 1 + 2 * n  # binary, x_i, out_i
    size = len(options) * width
    cost, integrality = np.zeros(size), np.zeros(size)
    upper = np.full(size, np.inf)
    rows: list[np.ndarray] = []
    low: list[float] = []
    high: list[float] = []

    def add(row: np.ndarray, lo: float, hi: float) -> None:
        rows.append(row)
        low.append(lo)
        high.append(hi)

    for o, (j, total) in enumerate(options):
        at = o * width
        integrality[at : at + 1 + n] = 1
        upper[at] = 1
        cost[at + 1 + n : at + width] = case.state_bytes[j]
        row = np.zeros(size)
        row[at + 1 : at + 1 + n] = 1
        row[at] = -total
        add(row, 0, 0)
        for i in range(n):
            upper[at + 1 + i] = total
            row = np.zeros(size)
            row[at + 1 + n + i] = 1
            row[at + 1 + i] = 1 / total
            row[at] = -case.placement[j, i] / held[j]
            add(row, 0, np.inf)
    for j in range(m):
        row = np.zeros(size)
        row[[o * width for o, (p, _) in enumerate(options) if p == j]] = 1
        add(row, 1, 1)
    for i in range(n):
        row = np.zeros(size)
        row[[o * width + 1 + i for o in range(len(options))]] = 1
        add(row, 0, float(case.node_cores[i]))
    found = milp(
        cost,
        constraints=LinearConstraint(np.array(rows), low, high),
        integrality=integrality,
        bounds=Bounds(0, upper),
    )
    if not found.success:
        raise InputError("case", case.targets, "targets that fit the cluster", found.message)
    return float(found.fun)
