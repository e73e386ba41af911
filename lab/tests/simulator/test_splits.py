"""Split keys: the fluid against the exact event simulation, plans that split, wrong inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneshift.contract.ids import KeyId, PartitionId
from laneshift.contract.plan import KeySplit, Plan
from laneshift.errors import InputError
from laneshift.policies.registry import policy
from laneshift_lab.simulator import Cluster, Engine, Operator, Scenario, Simulation, Split, simulate
from laneshift_lab.simulator.event import Case, Outcome, run_events
from laneshift_lab.simulator.rates import Constant
from laneshift_lab.simulator.workload import ZipfKeys

#: One shard per key; key 0 is too hot for one lane at 1 ms a row and 1,400 rows/s.
SHARES = (0.8, 0.1, 0.05, 0.05)
HOMES = (0, 1, 2, 3)


@dataclass(frozen=True)
class Fixed:
    weights: tuple[float, ...] = SHARES

    @property
    def n_keys(self) -> int:
        return len(self.weights)

    def changes(self, duration_s: float) -> Iterator[tuple[float, np.ndarray]]:
        yield 0.0, np.array(self.weights)


def split_run(
    split: Split, ways: int, rate: float, seconds: float, queue: float = 1e5, **engine: object
) -> Simulation:
    """The fluid of the cases below: one partition, four lanes, key 0 split from the start."""
    op = Operator(
        "o", partitions=1, shards=4, cost_cv2=1.0, lane_queue_rows=queue, split=split, row_bytes=0
    )
    set_up = Engine(paradigm="static", step_s=0.01, **engine)  # type: ignore[arg-type]
    run = Simulation(
        Scenario(Cluster(1, 4), (op,), Fixed(), Constant(rate), seconds, set_up, cores=(4,))
    )
    run.keys.slot_of = [np.arange(4)]
    run.keys.set(0, np.array(SHARES))
    run.control.apply(split_plan("0", ways), 0.0, 1.0)
    return run


def split_plan(key: str, ways: int, partition: str = "o-0") -> Plan:
    return Plan(key_splits=(KeySplit(PartitionId(partition), KeyId(key), ways),))


def exact(split: Split, ways: int, rate: float, seconds: float, queue: float = 1e5) -> Outcome:
    # The fluid puts new parts on the lanes with least load: 2, 3, then 1.
    splits = ((0.0, 0, (2, 3, 1)[: ways - 1]),) if ways > 1 else ()
    return run_events(
        Case(rate, SHARES, HOMES, 4, 1e-3, seconds, splits=splits, split=split, queue_rows=queue)
    )


MERGE = Split(tick_s=0.01, merge_s=2e-3)
JOIN = Split(how="broadcast", copy_s=2e-4)


@pytest.mark.parametrize("split", [MERGE, JOIN], ids=["merge", "broadcast"])
@pytest.mark.parametrize(
    "ways", [*(pytest.param(n, marks=pytest.mark.deep("policies")) for n in (1, 2, 3)), 4]
)
def test_saturated_throughput_is_the_exact_one(split: Split, ways: int) -> None:
    """The hottest lane's CPU bounds the partition; merges and copies take their part of it."""
    seconds = 6.0
    out = exact(split, ways, 8000.0, seconds, queue=40)
    rate = len(out.order) / max(out.busy_s)  # the busiest lane never idles
    got = split_run(split, ways, math.inf, seconds, queue=40).run().mean("throughput", 1.0)
    assert got == pytest.approx(rate, rel=0.05)


def test_merging_costs_what_is_stated() -> None:
    """(n - 1) partials per tick, each merge_s; whole keys and joins merge nothing."""
    out = exact(MERGE, 3, 1000.0, 5.0)
    assert out.merges == pytest.approx(2 * 5.0 / MERGE.tick_s, abs=2)
    assert MERGE.merging(3) == pytest.approx(2 * 2e-3 / 0.01)
    assert (MERGE.work(3, 1e-3), JOIN.work(3, 1e-3)) == (1.0, pytest.approx(1.4))
    assert (MERGE.copies(3), JOIN.copies(3), JOIN.merging(3)) == (1, 3, 0.0)
    joined = exact(JOIN, 3, 1000.0, 5.0)
    rows = sum(1 for part, _ in joined.order if part % 4 == 0)
    whole = sum(joined.busy_s) - 2 * JOIN.copy_s * rows
    assert whole == pytest.approx(len(joined.order) * 1e-3, rel=0.05), "copies come on top"


@pytest.mark.parametrize("ways", [2, 3])
def test_latency_below_saturation_is_near_the_exact_one(ways: int) -> None:
    rate = 1000.0
    run = split_run(MERGE, ways, rate, 20.0).run()
    mean = np.mean(exact(MERGE, ways, rate, 20.0).sojourn_s)
    assert run.mean("latency_mean_s", 2) == pytest.approx(mean, rel=0.2)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from(["merge", "broadcast"]), st.sampled_from([3.0, 1e9]))
def test_rows_and_order_survive_splits_and_moves(seed: int, how: str, queue: float) -> None:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.random(20) * 0.4).tolist()
    splits = tuple((t, int(rng.integers(4)), tuple(rng.permutation(4)[: rng.integers(3)].tolist()))
                   for t in times)  # fmt: skip
    moves = tuple((t, int(rng.integers(4)), int(rng.integers(4))) for t in times)
    # A re-split gives part 2 another lane while rows wait on the old one: order within a part is
    # promised from one split to the next, so each shard is split once here.
    once = {shard: (t, shard, lanes) for t, shard, lanes in reversed(splits)}
    case = Case(
        2000, SHARES, HOMES, 4, 1e-3, 0.4, moves=moves, move_s=1e-3, queue_rows=queue, seed=seed,
        splits=tuple(sorted(once.values())), split=Split(how=how, tick_s=0.05),
    )  # fmt: skip
    out = run_events(case)
    assert len(out.sojourn_s) == len(out.order) == out.arrived
    assert out.order_violations() == 0
    assert len(set(out.order)) == out.arrived


@pytest.mark.parametrize("split", [MERGE, JOIN], ids=["merge", "broadcast"])
def test_a_key_is_split_merged_and_split_again_without_losing_a_row(split: Split) -> None:
    run = split_run(split, 3, 900.0, 9.0)
    state = run.layout.state_bytes.sum()
    steps = iter([(3.0, 1), (5.0, 4), (7.0, 2)])
    due, ways = next(steps)
    seen = []
    decide = run.keys.step

    def step() -> None:
        nonlocal due, ways
        if run.fluid.steps * 0.01 >= due:
            run.control.apply(split_plan("0", ways), due, 1.0)
            seen.append(run.keys.ways(0, 0))
            due, ways = next(steps, (math.inf, 0))
        decide()

    run.keys.step = step  # type: ignore[method-assign]
    result = run.run()
    assert seen == [1, 4, 2]
    assert result.notes["conservation_error_rows"] < 1e-6
    assert result.column("throughput")[1:3].mean() == pytest.approx(900, rel=0.02)
    used = run.layout.lane != run.layout.spare
    assert used.sum() == 4 + 1, "slots of merged parts are free again"
    if split is JOIN:
        assert run.layout.state_bytes.sum() == pytest.approx(state), "state moves, none is made"
        assert run.layout.state_bytes[~used].sum() == 0


def test_a_policy_splits_the_key_that_its_cluster_load_names() -> None:
    """laneshift with split_above on a hot key: more than what one lane serves."""
    keys = ZipfKeys(200, 2.5, 0, 1)
    rate = {}
    for above in ("none", "0.5"):
        op = Operator("o", partitions=2, shards=32, split=Split(slots=64))
        scene = Scenario(Cluster(2, 8), (op,), keys, Constant(4000.0), 20.0)
        parameters = {} if above == "none" else {"split_above": float(above)}
        rate[above] = simulate(scene, policy("laneshift", **parameters)).mean("throughput", 10)
    assert rate["none"] < 1600, "one lane serves 1,000 rows/s, the hottest key has 75%"
    assert rate["0.5"] > 0.98 * 4000, "all that is offered"


def test_copies_of_a_join_take_the_link() -> None:
    """One home, parts on other nodes: broadcast rows cost bytes per part."""
    sent = {}
    for split in (MERGE, JOIN):
        op = Operator("o", partitions=1, shards=4, split=split, out_bytes=0.0)
        engine = Engine(paradigm="executor-centric", balance_s=1e3)
        scene = Scenario(Cluster(4, 1), (op,), Fixed(), Constant(500.0), 5.0, engine, cores=(4,))
        run = Simulation(scene)
        run.keys.slot_of = [np.arange(4)]
        run.keys.set(0, np.array(SHARES))
        run.control.apply(split_plan("0", 4), 0.0, 1.0)
        sent[split.how] = run.run().notes["remote_bytes"]
    stored, others = 500 * 5 * 0.8 * 0.75 * 128.0, 500 * 5 * 0.2 * 128.0
    assert sent["merge"] == pytest.approx(stored + others, rel=0.05)
    assert sent["broadcast"] == pytest.approx(4 * stored + others, rel=0.08)


def apply(plan: Plan, split: Split | None, paradigm: str = "static") -> None:
    op = Operator("o", partitions=2, shards=4, split=split)
    engine = Engine(paradigm=paradigm)
    run = Simulation(Scenario(Cluster(1, 8), (op,), Fixed(), Constant(1.0), 1.0, engine))
    run.keys.slot_of = [np.array([0, 1, 2, op.slots])]
    run.keys.set(0, np.array(SHARES))
    run.control.apply(plan, 0.0, 1.0)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Split(slots=0), r"slots: found 0, expected a whole number >= 1 and <= 4096"),
        (lambda: Split(how="twice"), "how: found 'twice', expected one of broadcast, merge"),
        (lambda: Split(tick_s=0.0), "tick_s: found 0.0"),
        (lambda: Split(merge_s=-1.0), "merge_s: found -1.0"),
        (lambda: Split(copy_s=math.nan), "copy_s"),
        (lambda: apply(split_plan("0", 2), None), r"key 0 of o'.*Give Operator o a Split"),
        (lambda: apply(split_plan("9", 2), MERGE), "key of key_splits: found '9'.*0 to 3"),
        (lambda: apply(split_plan("x", 2), MERGE), "key of key_splits: found 'x'"),
        (lambda: apply(split_plan("3", 2), MERGE), "partition of key 3: found 'o-0', expected o-1"),
        (lambda: apply(split_plan("0", 2, "p-7"), MERGE), "partition of key 0: found 'p-7'"),
        (lambda: apply(split_plan("0", 3), Split(slots=1)), "ways of key 0: found 3.*slots=1"),
        (lambda: apply(split_plan("0", 2), MERGE, "resource-centric"), "resource-centric"),
        (lambda: Operator("o", source_rows=0.0), r"source_rows of .*number > 0"),
        (lambda: Case(1.0, [1.0], [0], 1, 1e-3, 1.0, splits=((0.0, 2, ()),)), r"splits\[0\] shard"),
        (lambda: Case(1.0, [1.0], [0], 1, 1e-3, 1.0, splits=((0.0, 0, (3,)),)), "lanes"),
    ],
)  # fmt: skip
def test_wrong_inputs(make: Callable[[], object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        make()
