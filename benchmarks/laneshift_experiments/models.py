"""The models themselves: Jackson's sojourn time, Algorithm 1's cost, and the time of a decision."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.partition_load import PartitionLoad
from laneshift.models.assignment import Demand, moved_bytes, schedule
from laneshift.models.improve import improve
from laneshift.models.queueing import network_sojourn_time
from laneshift.partitioning.model import Loads, Routing
from laneshift.policies.registry import BUILT_IN, policy
from laneshift_experiments.base import (
    Cell,
    Chart,
    Experiment,
    Options,
    Progress,
    Report,
    Samples,
    Statement,
    Table,
)
from laneshift_experiments.optimum import optimum, random_demand
from laneshift_lab.partitioning import PARTITIONERS, partitioner
from laneshift_lab.samples import cluster, partition, with_shards
from laneshift_lab.simulator.workload import zipf

#: Cores per queue: one queue each, then three in a row (a network).
SHAPES = ((1,), (2,), (4,), (8,), (32,), (3, 4, 2))


def simulated_sojourn(
    cores: Sequence[int], utilisation: float, rows: int, rng: np.random.Generator
) -> float:
    """Mean time (in mean service times) of rows through queues in a row, first come first served.

    Exact for Poisson arrivals and exponential service (Kiefer-Wolfowitz, row by row). The arrival
    rate gives the queue with fewest cores ``utilisation``. The first tenth does not count.
    """
    at = np.cumsum(rng.exponential(1.0 / (utilisation * min(cores)), rows))
    entered = at
    for k in cores:
        free = [0.0] * k
        left = np.empty(rows)
        work = rng.exponential(1.0, rows).tolist()
        for r, (when, w) in enumerate(zip(at.tolist(), work, strict=True)):
            i = free.index(min(free))
            free[i] = max(when, free[i]) + w
            left[r] = free[i]
        order = np.argsort(left, kind="stable")
        at, entered = left[order], entered[order]
    return float((at - entered)[rows // 10 :].mean())


def sojourn(options: Options, progress: Progress) -> Report:
    """Jackson's E[T] beside the simulated sojourn over the utilisation."""
    values = options.sweep((0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95))
    rows: list[tuple[Cell, ...]] = []
    for i, rho in enumerate(values):
        for cores in SHAPES:
            name = " -> ".join(f"M/M/{k}" for k in cores)
            progress(i / len(values), f"{name} at {rho:g}")
            lam = rho * min(cores)
            model = network_sojourn_time(lam, [lam] * len(cores), [1.0] * len(cores), list(cores))
            # Near saturation the queue remembers for long: rows ~ 1 / (1 - rho)^2.
            count = int(min(20_000 / (1.0 - rho), 400_000))
            found = Samples.of(
                simulated_sojourn(cores, rho, count, np.random.default_rng([seed, *cores]))
                for seed in range(1, options.seeds + 1)
            )
            error = 100 * (model / found.mean - 1)
            rows.append((name, rho, model, found.mean, found.sd, error))
    columns = ("queues", "utilisation", "model", "simulated", "simulated_sd", "error_percent")
    table = Table(columns, tuple(rows))
    worst = max(rows, key=lambda row: abs(float(row[5])))
    statements = (
        Statement(
            "E[T] of the model is within 15% of the simulated mean at utilisation 0.5 to 0.95",
            "ours [D]", f"largest difference {float(worst[5]):+.1f}%: {worst[0]} at {worst[1]}",
            abs(float(worst[5])) <= 15.0,
        ),
    )  # fmt: skip
    charts = (Chart("utilisation", "error_percent", "queues", "model against simulation, %"),)
    notes = (
        "Poisson arrivals, exponential service, times in mean service times.",
        "Lanes with queues of their own and uneven shards wait longer than M/M/k: that is what "
        "laneshift's strain corrects; it is not part of this comparison.",
    )
    return Report(table, statements, charts, notes)


def cost_ratios(seed: int, count: int, exchanges: bool) -> list[float]:
    """State moved / least possible, for ``count`` instances; inf where the least is nothing."""
    rng, out = np.random.default_rng(seed), []
    for _ in range(count):
        case = random_demand(rng, int(rng.integers(2, 5)), int(rng.integers(2, 4)))
        case = Demand(**{**vars(case), "data_intensity": np.zeros(len(case.targets))})
        found = schedule(case)
        ours, best = found.moved_bytes, optimum(case)
        if exchanges:
            better = improve(case, found.placement, payback_s=0.0)
            ours = moved_bytes(case.placement, better, case.state_bytes)
        same = ours <= best + 1e-6
        out.append(1.0 if same else ours / best if best > 1e-6 else np.inf)
    return out


def migration(options: Options, progress: Progress) -> Report:
    """Algorithm 1's state moved against the optimum."""
    rows: list[tuple[Cell, ...]] = []
    for i, (name, exchanges) in enumerate((("Algorithm 1", False), ("with exchanges", True))):
        progress(i / 2, name)
        ratios = np.array(cost_ratios(20, 200, exchanges))
        finite = ratios[np.isfinite(ratios)]
        tail = np.quantile(finite, [0.75, 0.9, 0.95, 1.0])
        rows.append(
            (name, len(ratios), float(np.median(ratios)), *(float(q) for q in tail),
             100 * float((ratios == 1.0).mean()), 100 * float(np.isinf(ratios).mean()))
        )  # fmt: skip
    columns = (
        "placement", "instances", "median", "p75", "p90", "p95", "largest", "optimal_percent",
        "optimum_moves_nothing_percent",
    )  # fmt: skip
    table = Table(columns, tuple(rows))
    median = table.one("median", placement="Algorithm 1")
    statements = (
        Statement(
            "the median of Algorithm 1 is within 10% of the optimum", "ours [D]",
            f"{median:.3f}; 90% {table.one('p90', placement='Algorithm 1'):.2f}, largest "
            f"{table.one('largest', placement='Algorithm 1'):.1f}", median <= 1.1,
        ),
        Statement(
            "exchanges shorten the tail", "ours [D]",
            f"largest {table.one('largest', placement='with exchanges'):.1f}, optimal in "
            f"{table.one('optimal_percent', placement='with exchanges'):.0f}%",
            table.one("largest", placement="with exchanges")
            < table.one("largest", placement="Algorithm 1"),
        ),
    )  # fmt: skip
    notes = (
        "200 random instances of 2 to 4 partitions on 2 or 3 nodes, seed 20, whatever --seeds "
        "says; the optimum by mixed-integer programming (scipy, HiGHS).",
        "Instances in which the optimum moves nothing and ours does have no ratio: they count as "
        "infinite in the median, not in the other quantiles; the last column is their share.",
    )
    return Report(table, statements, (), notes)


def busy_cluster(nodes: int, cores: int, parts: int, seed: int, busy: float = 0.7) -> ClusterLoad:
    """Half of the cores are held, loads are shuffled so that most partitions change."""
    rng = np.random.default_rng(seed)
    free = np.full(nodes, cores)
    made: list[PartitionLoad] = []
    weight = rng.dirichlet(np.full(parts, 2.0)) * nodes * cores * busy
    for j in range(parts):
        held: dict[str, int] = {}
        for _ in range(max(1, nodes * cores // 2 // parts)):
            i = int(rng.choice(np.flatnonzero(free > 0)))
            free[i] -= 1
            held[f"n{i}"] = held.get(f"n{i}", 0) + 1
        made.append(
            with_shards(
                partition(
                    f"p{j}", held, home=f"n{j % nodes}", offered_rate=float(weight[j]) * 1000.0,
                    service_rate=1000.0, state_bytes=float(rng.integers(0, 10**8)),
                    data_bytes_per_s=float(rng.choice([1e5, 4e6, 2e7])),
                    queue_capacity_rows=1000.0, queue_rows=float(rng.integers(0, 1000)),
                ),
                (rng.dirichlet(np.ones(32)) * float(weight[j])).tolist(), first_shard=32 * j,
            )
        )  # fmt: skip
    return cluster({f"n{i}": cores for i in range(nodes)}, made)


def cpu_ms(works: Sequence[Callable[[], Any]]) -> tuple[float, float]:
    """(median, longest) CPU time of the works (ms), each done once before it is measured."""
    took = []
    for work in works:
        work()
        start = time.process_time()
        work()
        took.append(1e3 * (time.process_time() - start))
    return statistics.median(took), max(took)


def growth(options: Options, progress: Progress) -> Report:
    """CPU time of a policy's decision over nodes, and of a partitioner's plan over keys."""
    rows: list[tuple[Cell, ...]] = []
    sizes = [int(v) for v in options.sweep((8, 16, 32, 64, 128))]
    seeds = range(1, options.seeds + 1)
    for i, size in enumerate(sizes):
        cases = [busy_cluster(size, 8, size, seed) for seed in seeds]
        for name in BUILT_IN:
            progress(i / len(sizes), f"{name}, {size} nodes")
            chosen = policy(name)
            works = [partial(chosen.decide, case, chosen.start()) for case in cases]
            rows.append((name, "policy", size, *cpu_ms(works)))
    keys = [1000 * size // 8 for size in sizes]
    for i, count in enumerate(keys):
        for name in PARTITIONERS:
            progress(i / len(keys), f"{name}, {count} keys")
            plans: list[Callable[[], Any]] = []
            for seed in seeds:
                rng = np.random.default_rng(seed)
                side = rng.integers(0, 2, count)
                loads = Loads.of(rng.permutation(zipf(count, 0.8)) * 1e4, side=side)
                routing = Routing.at_home(rng.integers(0, 32, count), 32)
                plans.append(partial(partitioner(name).plan, loads, routing, 0.1))
            rows.append((name, "planner", count, *cpu_ms(plans)))
    columns = ("name", "kind", "size", "cpu_ms", "cpu_ms_longest")
    table = Table(columns, tuple(rows))
    small, large = sizes[0], sizes[-1]
    middle = 32 if 32 in sizes else large

    def line(name: str, over: Sequence[int]) -> str:
        each = ", ".join(f"{n}: {table.one('cpu_ms', name=name, size=n):.1f}" for n in over)
        return f"{name} {each} ms"

    statements = (
        Statement(
            "Elasticutor's scheduler takes a few ms and grows slightly", "[S]",
            line("elasticutor", sizes), table.one("cpu_ms", name="elasticutor", size=middle) < 20,
        ),
        Statement(
            "every policy takes 5 ms at most on 32 nodes x 8 cores x 32 partitions",
            "goal of ours [D]",
            "; ".join(line(name, [middle]) for name in BUILT_IN),
            all(table.one("cpu_ms", name=name, size=middle) <= 5 for name in BUILT_IN),
        ),
        Statement(
            "laneshift decides in less than a tenth of its 2 s period", "goal of ours [D]",
            line("laneshift", sizes), table.one("cpu_ms", name="laneshift", size=middle) < 200,
        ),
        Statement(
            "for 10,000 keys QMMP takes at most 10 ms and MNRT 100 ms", "goal of ours [D]",
            line("qmmp", keys) + "; " + line("mnrt", keys),
            table.one("cpu_ms", name="qmmp", size=keys[-1]) <= 10
            and table.one("cpu_ms", name="mnrt", size=keys[-1]) <= 100,
        ),
    )  # fmt: skip
    charts = tuple(
        Chart("size", "cpu_ms", "name", f"CPU ms, {kind}: {of}", True, True, ("kind", kind))
        for kind, of in (("policy", "nodes"), ("planner", "keys"))
    )
    notes = (
        f"Policies: n nodes x 8 cores, n partitions with 32 shards each, n from {small} to {large},"
        " half of the cores to be handed out anew, first decision.",
        "Planners: size is the number of keys, Zipf 0.8, over 32 targets, tolerance 0.1.",
        "The median over the seeds of CPU time on the machine at hand: it differs from run to run.",
    )
    return Report(table, statements, charts, notes)


EXPERIMENTS = (
    Experiment("model-sojourn", "models", "Jackson's E[T] against simulation", sojourn),
    Experiment("model-migration", "models", "Algorithm 1 against the optimum", migration),
    Experiment("model-growth", "models", "Time of a decision over size", growth),
)
