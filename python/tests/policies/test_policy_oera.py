"""oera and median: check values, settling, cycles of the printed form, orderings."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from fluid_chain import simulate
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import PartitionId
from laneshift.errors import InputError
from laneshift.policies.laneshift import Laneshift
from laneshift.policies.median import Median, MedianState
from laneshift.policies.oera import Oera, OeraState
from laneshift.policies.static import Static
from laneshift_lab.samples import cluster, partition

P = PartitionId("p")


def window(rate: float, cores: int, max_cores: int | None = None) -> ClusterLoad:
    """OERA 13: P_E=100, dt=10, Bs=5000."""
    part = partition(
        "p",
        {"n": cores},
        offered_rate=rate,
        service_rate=100,
        queue_capacity_rows=5000,
        max_cores=max_cores,
    )
    return cluster({"n": 100}, [part], window_s=10)


def count(policy: Oera, rate: float, cores: int, before: float) -> tuple[int, float]:
    """(new count, occupancy stored)."""
    plan, state = policy.decide(window(rate, cores), OeraState({P: before * 5000}))
    after = plan.core_changes[0].after if plan.core_changes else cores
    return after, state.level[P] / 5000


def test_worked_examples() -> None:
    literal = Oera(residue="stale", settle_guard=False)
    fresh = Oera(settle_guard=False)
    assert count(literal, 1500, 10, 0.1) == (12, 1.0)
    assert count(fresh, 1500, 12, 1.0) == (17, 1.0)
    assert count(literal, 600, 12, 0.5) == (5, 0.0)
    assert count(fresh, 600, 12, 0.5) == (3, 0.0)
    assert count(Oera(), 600, 12, 0.5) == (6, 0.0)
    assert count(literal, 100, 5, 0.0)[0] == 1


def test_inside_the_band_both_ends_included_nothing_changes() -> None:
    for occupancy in (0.2, 0.5, 0.8):
        assert count(Oera(), 1000, 10, occupancy)[0] == 10


def test_tasks_cap_the_count() -> None:
    plan, _ = Oera().decide(window(3000, 10, max_cores=16), Oera().start())
    assert plan.core_changes[0].after == 16


def test_measured_level_replaces_the_estimate() -> None:
    snap = window(1000, 10)
    full = replace(snap.partitions[0], queue_rows=4500.0)
    _, state = Oera(level="measured").decide(replace(snap, partitions=(full,)), Oera().start())
    assert state.level[P] == 4500.0


def distinct_tail(policy: Oera, rate: float, capacity: float, start: int) -> tuple[int, int]:
    """(changes in all, distinct counts in the last 20 of 80 windows) under a constant load."""
    run = simulate(policy, [rate] * 80, [(capacity, 100.0)], dt=10, cores=[start])
    held = [c[0] for c in run.cores]
    changes = sum(a != b for a, b in itertools.pairwise(held))
    return changes, len(set(held[-20:]))


@pytest.mark.parametrize("kappa", [0.02, 0.25, 0.67, 2, 10, 30])
@pytest.mark.parametrize(("residue", "most"), [("fresh", 2), ("stale", 4)])
def test_constant_load_settles_with_the_guard(kappa: float, residue: str, most: int) -> None:
    for rate in (150, 700, 990, 1230):
        for start in (1, 8, 40):
            changes, tail = distinct_tail(Oera(residue=residue), rate, kappa * 1000, start)
            assert tail == 1 and changes <= most


@pytest.mark.parametrize("kappa", [0.02, 0.25, 0.67, 2.0])
def test_without_the_guard_it_cycles_exactly_as_predicted(kappa: float) -> None:
    for rate in range(110, 900, 70):
        x = rate / 100
        fraction = x - (math.ceil(x) - 1)
        _, tail = distinct_tail(Oera(settle_guard=False), rate, kappa * 1000, math.ceil(x))
        assert (tail > 1) == (0.7 * kappa >= fraction)


def hump(seed: int, windows: int = 420) -> list[float]:
    """OERA 11: diurnal hump, 0.35 to 1.0 of 1800 rows/s, times 1 + 10% noise [A]."""
    t = np.arange(windows) / windows
    shape = 0.35 + 0.65 * np.sin(np.pi * t) ** 2
    noise = 1 + 0.1 * np.random.default_rng(seed).standard_normal(windows)
    return [float(rate) for rate in np.maximum(0, 1800 * shape * noise)]


@pytest.mark.deep("policies")
def test_orderings_over_seeds() -> None:
    """OERA 12, short windows: O fresh + guard loses least, then M, then S; O changes most."""
    lost: dict[str, list[float]] = {}
    used: dict[str, list[float]] = {}
    changes: dict[str, list[int]] = {}
    for seed in range(5):
        for name, policy in (
            ("fresh+guard", Oera()),
            ("stale literal", Oera(residue="stale", settle_guard=False)),
            ("median", Median()),
            ("static", Static()),
            ("laneshift", Laneshift(target_s=None)),
        ):
            run = simulate(policy, hump(seed), [(5000.0, 100.0)], dt=10, cores=[12])
            lost.setdefault(name, []).append(run.loss_percent[0])
            changes.setdefault(name, []).append(run.adjustments[0])
            used.setdefault(name, []).append(run.used[0])
    mean = {name: float(np.mean(values)) for name, values in lost.items()}
    for name, values in lost.items():
        print(
            f"{name:14s} lost {np.mean(values):.2f} +- {np.std(values):.2f} %, used"
            f" {np.mean(used[name]):.3f}, {np.mean(changes[name]):.0f} adjustments"
        )
    assert mean["laneshift"] < mean["fresh+guard"]
    assert np.mean(changes["laneshift"]) < np.mean(changes["fresh+guard"])
    assert mean["fresh+guard"] < mean["stale literal"] < mean["static"]
    assert mean["fresh+guard"] < mean["median"] < mean["static"]
    assert mean["fresh+guard"] == pytest.approx(0.48, abs=0.4)
    assert mean["static"] == pytest.approx(15.0, abs=2.0)


def test_median_of_an_interval_is_rounded_up() -> None:
    """OERA 13: history 3,4,4,5,5,6,6,7,8,9 -> 5.5 -> 6."""
    policy = Median(settle_guard=False)
    history = (3, 4, 4, 5, 5, 6, 6, 7, 8)
    # 9 * 10 * 100 = rate * 10 + 0 - 3500
    plan, state = policy.decide(window(1250, 20), MedianState({P: 0.0}, {P: history}))
    assert plan.core_changes[0].after == 6 and state.optimal[P] == ()


def test_median_changes_once_per_interval() -> None:
    run = simulate(Median(), hump(1, 42), [(5000.0, 100.0)], dt=10, cores=[12])
    changed = [w for w in range(1, 42) if run.cores[w] != run.cores[w - 1]]
    assert changed and all(w % 10 == 0 for w in changed)
    assert len(set(run.cores[:10])) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("occ_high", 0.1),
        ("occ_low", -0.1),
        ("occ_target", 0.95),
        ("residue", "old"),
        ("rounding", "up"),
        ("level", "guess"),
    ],
)
def test_wrong_parameters_name_the_field(field: str, value: object) -> None:
    with pytest.raises(InputError, match=field):
        Oera(**{field: value})  # type: ignore[arg-type]


def test_the_buffer_capacity_is_needed() -> None:
    bare = cluster({"n": 4}, [partition("p", {"n": 1}, offered_rate=1)])
    with pytest.raises(InputError, match="queue_capacity_rows of partition p"):
        Oera().decide(bare, Oera().start())
    with pytest.raises(InputError, match="interval"):
        Median(interval=0)
