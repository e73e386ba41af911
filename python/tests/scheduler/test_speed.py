"""Decision times that the documentation promises, with room for a busy machine."""

import time
from typing import Any

import numpy as np

from laneshift.scheduler.policies.base import Policy
from laneshift.scheduler.policies.elasticutor import Elasticutor
from laneshift.scheduler.policies.laneshift import Laneshift
from laneshift.scheduler.samples import partition, snapshot
from laneshift.scheduler.vocabulary import PartitionSnapshot, Snapshot


def cluster(nodes: int, cores: int, parts: int, seed: int, busy: float = 0.7) -> Snapshot:
    """Half of the cores are held, loads are shuffled so that most partitions change."""
    rng = np.random.default_rng(seed)
    free = np.full(nodes, cores)
    made: list[PartitionSnapshot] = []
    weight = rng.dirichlet(np.full(parts, 2.0)) * nodes * cores * busy
    for j in range(parts):
        held: dict[str, int] = {}
        for _ in range(max(1, nodes * cores // 2 // parts)):
            i = int(rng.choice(np.flatnonzero(free > 0)))
            free[i] -= 1
            held[f"n{i}"] = held.get(f"n{i}", 0) + 1
        made.append(
            partition(
                f"p{j}",
                held,
                home=f"n{j % nodes}",
                offered_rate=float(weight[j]) * 1000.0,
                service_rate=1000.0,
                state_bytes=float(rng.integers(0, 10**8)),
                data_bytes_per_s=float(rng.choice([1e5, 4e6, 2e7])),
            )
        )
    return snapshot({f"n{i}": cores for i in range(nodes)}, made)


def median_ms(policy: Policy[Any], cases: list[Snapshot]) -> float:
    """Median CPU time of one decision (ms); other work on the machine does not count."""
    times = []
    for case in cases:
        start = time.process_time()
        policy.decide(case, policy.start())
        times.append(time.process_time() - start)
    return float(np.median(times)) * 1e3


def test_elasticutor_decides_in_milliseconds() -> None:
    """32 nodes x 8 cores x 32 partitions: <= 5 ms on a quiet core; 4 times that is a regression."""
    cases = [cluster(32, 8, 32, seed) for seed in range(15)]
    found = median_ms(Elasticutor(target_s=0.0012), cases)
    print(f"elasticutor, 32 x 8 x 32: median {found:.2f} ms")
    assert found <= 20.0


if __name__ == "__main__":
    policies = (Elasticutor(target_s=0.0012), Laneshift(target_s=0.0012))
    for size in (8, 16, 32, 64, 128):
        made = [cluster(size, 8, size, seed) for seed in range(30)]
        found = ", ".join(f"{each.name} {median_ms(each, made):.2f} ms" for each in policies)
        print(f"{size:4d} nodes x 8 cores x {size:4d} partitions: {found}")
