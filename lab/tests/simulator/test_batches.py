"""Micro-batches under every policy: steady under a steady load, quick in a burst, thrifty."""

from __future__ import annotations

from typing import Any

import pytest

from laneshift.errors import InputError
from laneshift.policies.registry import PLANNERS, defaults, names, policy
from laneshift_lab.simulator.batches import BatchRun, BatchScene, run_batches
from laneshift_lab.simulator.rates import Constant, Levels, Rate

DEEP = pytest.mark.deep("policies")
# A half minute has thirty turns of the loop to a batch.
TRIGGERS = [1.0, 5.0, pytest.param(30.0, marks=DEEP)]
SEEDS = [0, *(pytest.param(seed, marks=DEEP) for seed in (1, 2))]
SIZING = [name for name in names() if name not in ("static", *PLANNERS)]


def by_tier(of: list[str]) -> list[Any]:
    """In the gate the policy that users get; the others are deep."""
    return [name if name == "laneshift" else pytest.param(name, marks=DEEP) for name in of]


def even(partitions: int) -> tuple[float, ...]:
    return (1.0 / partitions,) * partitions


def one_hot(partitions: int, times: float) -> tuple[float, ...]:
    """Shares of which the middle one is so many times the others."""
    total = partitions - 1 + times
    return tuple((times if n == partitions // 2 else 1.0) / total for n in range(partitions))


def scene(
    interval_s: float | None,
    rate: Rate,
    *,
    shares: tuple[float, ...] | None = None,
    cost_s: float = 1e-4,
    lanes: int = 2,
    cores: int = 16,
    fixed_s: float | None = None,
    most_rows: float | None = None,
    seed: int = 1,
) -> BatchScene:
    if fixed_s is None:
        fixed_s = 0.15 if interval_s == 1.0 else 0.3
    return BatchScene(
        rate,
        shares or even(2),
        cost_s,
        interval_s,
        fixed_s=fixed_s,
        cores=cores,
        lanes=lanes,
        most_rows=most_rows,
        seed=seed,
    )


def settled(run: BatchRun, batches: int = 10) -> float:
    return run.batches[batches].begin_s


@pytest.mark.parametrize("interval_s", TRIGGERS)
@pytest.mark.parametrize("name", by_tier([name for name in names() if name not in PLANNERS]))
def test_half_of_the_interval_is_no_reason_to_change(name: str, interval_s: float) -> None:
    """20,000 rows/s, 2 partitions of 2 lanes, which need half of the trigger's interval."""
    run = run_batches(policy(name), scene(interval_s, Constant(20_000)), 60 * interval_s)
    assert run.changes == ()
    assert run.missed_after(0.0) == 0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("lanes", [1, 7])
@pytest.mark.parametrize("interval_s", TRIGGERS)
@pytest.mark.parametrize("name", by_tier(SIZING))
def test_a_wrong_count_is_mended_once_and_for_all(
    name: str, interval_s: float, lanes: int, seed: int
) -> None:
    at = scene(interval_s, Constant(20_000), cost_s=1.4e-4, lanes=lanes, seed=seed)
    run = run_batches(policy(name), at, 80 * interval_s)
    assert run.changes
    assert run.changes_after(settled(run, 15)) <= 1
    assert run.missed_after(settled(run, 6)) == 0
    assert 0.9 < run.core_s(settled(run, 15)) / run.oracle_core_s(0.7, settled(run, 15)) < 1.7


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("interval_s", TRIGGERS)
def test_laneshift_takes_what_an_oracle_takes(interval_s: float, seed: int) -> None:
    for cost_s in (0.6e-4, 1e-4, 1.6e-4, 2.3e-4):
        at = scene(interval_s, Constant(20_000), cost_s=cost_s, lanes=4, seed=seed)
        run = run_batches(policy("laneshift"), at, 80 * interval_s)
        since = settled(run)
        assert run.core_s(since) == pytest.approx(run.oracle_core_s(0.7, since), rel=0.15)
        assert run.missed_after(since) == 0


@pytest.mark.parametrize("name", by_tier(SIZING))
def test_many_partitions_one_of_them_hot(name: str) -> None:
    """The hot one has most of the rows and gets lanes although there are 200 on 4 cores."""
    shares = one_hot(200, times=200)
    at = scene(5.0, Constant(20_000), shares=shares, cost_s=1.1e-4, lanes=1, cores=4)
    run = run_batches(policy(name), at, 150.0)
    last = run.batches[-1]
    assert last.lanes[100] > 1
    assert max(n for p, n in enumerate(last.lanes) if p != 100) == 1
    assert last.took_s < 0.75 * 5.0 < run.batches[0].took_s
    assert run.changes_after(settled(run)) <= 1


@pytest.mark.parametrize("phase", [0.0, 0.4])
@pytest.mark.parametrize("interval_s", TRIGGERS)
@pytest.mark.parametrize("name", by_tier([name for name in SIZING if name != "median"]))
def test_a_burst_is_met_and_let_go(name: str, interval_s: float, phase: float) -> None:
    begin_s, length_s = (20 + phase) * interval_s, 12 * interval_s
    rate = Levels(((5000.0, begin_s), (20_000.0, length_s), (5000.0, 60 * interval_s)))
    at = scene(interval_s, rate, cost_s=2e-4, lanes=1)
    run = run_batches(policy(name), at, begin_s + length_s + 20 * interval_s)
    total = {b.begin_s: sum(b.lanes) for b in run.batches}
    # The first batch that is all burst was planned before it; lanes of these operators change
    # between two batches, so that the second one after it is the first that can have them.
    full = [b for b in run.batches if begin_s + interval_s <= b.begin_s <= begin_s + length_s]
    assert all(total[b.begin_s] >= 6 for b in full[2:])
    over = [b for b in run.batches if b.begin_s > begin_s + length_s + interval_s]
    # Those that hold surplus back let it go in two steps where a batch was half burst.
    after = 8 if "release_after_s" in defaults(name) else 5
    assert sum(over[after].lanes) <= 3
    assert max(total.values()) <= 12
    assert run.missed_after(begin_s + length_s + 3 * interval_s) == 0


@pytest.mark.parametrize("name", SIZING)
def test_back_to_back_keeps_up_and_holds(name: str) -> None:
    run = run_batches(policy(name), scene(None, Constant(20_000), cost_s=1.2e-4, lanes=1), 120.0)
    since = 60.0
    late = [b for b in run.batches if b.begin_s >= since]
    assert run.changes_after(since) <= 1
    assert max(b.took_s for b in late) < 3.0  # else each batch is longer than the one before
    assert run.core_s(since) / run.oracle_core_s(0.7, since) < 1.7


@pytest.mark.parametrize("name", ["laneshift", "elasticutor"])
def test_what_never_ends_gets_cores_as_long_as_they_help(name: str) -> None:
    """A source that always has more: 20,000 rows a batch, three quarters of them in one of four."""
    at = scene(
        None, Constant(1e6), shares=(0.75, 0.0833, 0.0833, 0.0834), cost_s=3e-4, lanes=1,
        cores=4, most_rows=20_000, fixed_s=0.2,
    )  # fmt: skip
    run = run_batches(policy(name), at, 120.0)
    assert run.batches[-1].lanes[0] == 4
    assert max(run.batches[-1].lanes[1:]) == 1
    assert run.batches[-1].took_s < 0.5 * run.batches[0].took_s
    assert run.changes_after(60.0) <= 1


def test_a_higher_target_takes_fewer_lanes() -> None:
    held = []
    for target in (0.4, 0.7, 1.0):
        run = run_batches(
            policy("laneshift", target_utilisation=target), scene(5.0, Constant(20_000)), 200.0
        )
        held.append(sum(run.batches[-1].lanes))
        assert run.batches[-1].took_s <= target * 5.0 * 1.05
    assert held == sorted(held, reverse=True)
    assert held[0] > held[1]


def test_a_time_per_batch_is_kept() -> None:
    at = scene(30.0, Constant(2000), cost_s=1e-3)
    assert run_batches(policy("laneshift"), at, 600.0).batches[-1].took_s > 12.0
    named = policy("laneshift", target_batch_s=8.0)
    assert run_batches(named, at, 600.0).batches[-1].took_s < 8.4


def test_a_batch_that_is_mostly_planning_is_not_chased_with_lanes() -> None:
    at = scene(1.0, Constant(2000), fixed_s=0.8)
    run = run_batches(policy("elasticutor"), at, 60.0)
    assert sum(run.batches[-1].lanes) <= 6


@pytest.mark.parametrize(
    ("wrong", "field"),
    [({"interval_s": 0.0}, "interval_s"), ({"cores": 0}, "cores"), ({"cost_s": -1.0}, "cost_s")],
)
def test_wrong_scenes_name_the_field(wrong: dict[str, float], field: str) -> None:
    values = {"rate": Constant(1.0), "shares": (1.0,), "cost_s": 1.0, "interval_s": 1.0} | wrong
    with pytest.raises(InputError, match=field):
        BatchScene(**values)  # type: ignore[arg-type]
