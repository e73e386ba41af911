"""The micro-benchmark of Elasticutor (its section 5), in every paradigm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from laneshift.contract.policy import Policy
from laneshift.policies.registry import policy
from laneshift_experiments.base import Options, Samples
from laneshift_lab.simulator import Cluster, Engine, Operator, Result, Scenario, Simulation
from laneshift_lab.simulator.rates import Constant
from laneshift_lab.simulator.workload import ZipfKeys

SYSTEMS = ("static", "resource-centric", "elasticutor")
#: Shards moved by one global synchronisation of RC [A]: chosen so that its dips after a shuffle
#: last the stated 10-20 s, hence no evidence for that figure. 1 is the prototype's way [XP].
RC_BATCH = 4
#: Windows before this time (s) do not count: the start places shards without knowing the load.
WARM_UP_S = 20.0

#: Where our defaults are not what the experiments compare: as printed, surplus cores are kept until
#: somebody claims them; buffers are short, and what waits in them is served within a window.
PRINTED: dict[str, dict[str, Any]] = {
    **{n: {"release_surplus": False} for n in ("elasticutor", "naive-ec", "resource-centric")},
    "laneshift": {"drain_s": 0.0},
}


def policy_of(system: str, given: Mapping[str, Any] | None = None) -> Policy[Any]:
    """The policy of a system as the papers print it, but for ``given``."""
    return policy(system, **(PRINTED.get(system, {}) | dict(given or {})))


@dataclass(frozen=True)
class Micro:
    """Parameters of a run; defaults are the paper's [S] where it states them.

    rate: rows/s, inf saturates. y, z: executors and shards per executor of Elasticutor; static and
    RC get one executor per core and the same number of shards per operator (8192) [S].
    """

    omega: float = 2.0
    skew: float = 0.5
    keys: int = 10_000
    cost_s: float = 1e-3
    row_bytes: float = 128.0
    state_bytes: float = 32 * 1024.0
    rate: float = math.inf
    y: int = 32
    z: int = 256
    step_s: float = 0.02
    queue_rows: float = 128.0
    rc_batch: int = RC_BATCH


def scenario(system: str, m: Micro, options: Options, seconds: float, seed: int) -> Scenario:
    """The cluster, operator and keys of one run."""
    cores = options.nodes * options.cores
    elastic = system not in ("static", "resource-centric")
    shards = max(8192 // cores, 1)
    op = Operator(
        "calculator",
        partitions=min(m.y, cores) if elastic else cores,
        shards=m.z if elastic else shards,
        cost_s=m.cost_s,
        row_bytes=m.row_bytes,
        out_bytes=m.row_bytes,
        state_bytes=m.state_bytes,
        lane_queue_rows=max(m.queue_rows, 2.5 * m.step_s / m.cost_s),
    )
    paradigm = system if not elastic else "executor-centric"
    engine = Engine(paradigm=paradigm, step_s=m.step_s, rc_moves_per_sync=m.rc_batch)
    keys = ZipfKeys(m.keys, m.skew, m.omega, seed)
    cluster = Cluster(options.nodes, options.cores)
    return Scenario(cluster, (op,), keys, Constant(m.rate), seconds, engine, seed=seed)


def run(
    system: str,
    m: Micro,
    options: Options,
    seconds: float,
    seed: int,
    given: tuple[tuple[str, Any], ...] = (),
) -> Result:
    """One run of one system; ``given``: parameters of its policy."""
    chosen = policy_of(system, dict(given))
    return Simulation(scenario(system, m, options, seconds, seed), chosen).run()


def throughput(system: str, m: Micro, options: Options, seconds: float) -> Samples:
    """Rows/s after the warm-up, a value per seed."""
    warm = min(WARM_UP_S, seconds / 2)
    return Samples.of(
        run(system, m, options, seconds, seed).mean("throughput", warm)
        for seed in range(1, options.seeds + 1)
    )
