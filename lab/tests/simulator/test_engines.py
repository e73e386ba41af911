"""The fluid engine against the exact event simulation, and the event simulation's guarantees."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneshift.contract.ids import PartitionId
from laneshift.contract.plan import Plan, Throttle
from laneshift.errors import InputError
from laneshift.policies.registry import policy
from laneshift_lab.simulator import Cluster, Engine, Fault, Operator, Scenario, Simulation, simulate
from laneshift_lab.simulator.event import Case, run_events
from laneshift_lab.simulator.rates import Constant
from laneshift_lab.simulator.workload import ZipfKeys


@dataclass(frozen=True)
class Fixed:
    """One key per shard, fixed weights."""

    weights: tuple[float, ...]

    @property
    def n_keys(self) -> int:
        return len(self.weights)

    def changes(self, duration_s: float) -> Iterator[tuple[float, np.ndarray]]:
        yield 0.0, np.array(self.weights)


def fluid(case: Case, engine: Engine, cluster: Cluster) -> Simulation:
    """The same case for the fluid engine: lanes on node 0 first."""
    op = Operator(
        "o", partitions=1, shards=len(case.share), cost_s=case.cost_s, cost_cv2=case.cv2,
        lane_queue_rows=min(case.queue_rows, 1e5),
    )  # fmt: skip
    scenario = Scenario(
        cluster, (op,), Fixed(tuple(case.share)), Constant(case.rate), case.duration_s, engine,
        cores=(case.lanes,),
    )  # fmt: skip
    run = Simulation(scenario)
    run.keys.slot_of = [np.arange(len(case.share))]
    return run


@pytest.mark.parametrize(
    "rho", [*(pytest.param(rho, marks=pytest.mark.deep("policies")) for rho in (0.3, 0.6)), 0.9]
)
@pytest.mark.parametrize("cv2", [0.0, 1.0])
def test_latency_of_the_fluid_is_near_the_exact_one(rho: float, cv2: float) -> None:
    """Mean within 15% (as for Jackson's E[T]), p99 within 70%: its spread is approximated."""
    case = Case(rho * 4000, [0.25] * 4, range(4), 4, 1e-3, 15.0, cv2=cv2)
    exact = run_events(case)
    run = fluid(case, Engine(paradigm="static", step_s=0.01), Cluster(1, 4)).run()
    assert run.mean("latency_mean_s", 2) == pytest.approx(np.mean(exact.sojourn_s), rel=0.15)
    assert run.mean("latency_p99_s", 2) == pytest.approx(
        np.quantile(exact.sojourn_s, 0.99), rel=0.7
    )


def test_saturated_throughput_equals_the_exact_one() -> None:
    """Two lanes, shares 0.6 / 0.4: head-of-line blocking caps both at mu / 0.6."""
    case = Case(10_000, [0.6, 0.4], [0, 1], 2, 1e-3, 2.0, cv2=0.0, queue_rows=50)
    exact = run_events(case)
    busy_s = sum(shard == 0 for shard, _ in exact.order) * case.cost_s  # lane 0 never idles
    rate = len(exact.order) / busy_s
    engine = Engine(paradigm="static", step_s=0.01)
    got = fluid(case, engine, Cluster(1, 2)).run().mean("throughput", 0.5)
    assert got == pytest.approx(rate, rel=0.03)


def test_sync_time_of_a_handoff_matches_the_exact_one() -> None:
    """A label waits behind the rows of its lane, both below and at saturation."""
    moves = tuple((0.5 + 0.05 * i, 0, (i + 1) % 2) for i in range(300))
    shares = [1 / 16] * 16
    case = Case(1000, shares, [i % 2 for i in range(16)], 2, 1e-3, 16.0, moves=moves, move_s=1e-3)
    exact = run_events(case)
    assert exact.order_violations() == 0
    assert len(exact.sojourn_s) == exact.arrived
    # M/M/1 at 0.5 holds one row on average: the label waits about 1 ms.
    assert np.mean(exact.sync_s) == pytest.approx(1e-3, rel=0.3)
    back = tuple((0.2 + 0.02 * i, i % 8, (i // 8 + i + 1) % 2) for i in range(96))
    start = [i % 2 for i in range(8)]
    saturated = Case(1e4, [1 / 8] * 8, start, 2, 1e-3, 3.0, queue_rows=20, moves=back)
    exact = run_events(saturated)
    run = fluid(saturated, Engine(step_s=0.002, balance_s=1e3, handoff_s=0.0), Cluster(1, 2))
    run.run()
    run.fluid.handoffs.begin(np.array([0, 3]), run.layout.lane[[1, 2]], run.fluid.lane_rows())
    for _ in range(50):
        run.fluid.step(math.inf)
    totals = run.fluid.handoffs.totals
    assert totals.local == 2
    assert totals.sync_s / 2 == pytest.approx(np.mean(exact.sync_s), rel=0.5)
    assert totals.sync_s / 2 == pytest.approx(20e-3, rel=0.3)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**31), st.integers(1, 4), st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([3.0, 20.0, math.inf]),
)  # fmt: skip
def test_order_and_rows_survive_any_moves(seed: int, lanes: int, cv2: float, queue: float) -> None:
    rng = np.random.default_rng(seed)
    moves = tuple(
        (float(t), int(rng.integers(6)), int(rng.integers(lanes)))
        for t in np.sort(rng.random(60) * 0.5)
    )
    case = Case(
        800 * lanes, rng.dirichlet(np.ones(6)).tolist(), rng.integers(0, lanes, 6).tolist(),
        lanes, 1e-3, 0.5, cv2, moves, float(rng.random() * 0.02), queue, seed,
    )  # fmt: skip
    out = run_events(case)
    assert out.order_violations() == 0
    assert len(out.sojourn_s) == out.arrived
    assert len(out.sync_s) == len(out.pause_s)


def micro(paradigm: str, omega: float, duration: float, **engine: float) -> Scenario:
    y, z = (8, 32) if paradigm == "executor-centric" else (32, 8)
    op = Operator("calc", partitions=y, shards=z)
    keys = ZipfKeys(1000, 0.7, omega, seed=3)
    settings_ = Engine(paradigm=paradigm, **engine)  # type: ignore[arg-type]
    return Scenario(Cluster(8, 4), (op,), keys, Constant(math.inf), duration, settings_)


@pytest.mark.parametrize(
    ("paradigm", "name"),
    [("static", "static"), ("resource-centric", "resource-centric"),
     ("executor-centric", "elasticutor"), ("executor-centric", "naive-ec")],
)  # fmt: skip
def test_nothing_is_lost_and_the_seed_decides(paradigm: str, name: str) -> None:
    first, second = (simulate(micro(paradigm, 4, 12), policy(name)) for _ in range(2))
    assert first == second
    assert first.notes["conservation_error_rows"] < 1e-3
    assert first.mean("throughput", 5) > 0


def test_shards_are_owned_once_and_cores_are_kept() -> None:
    run = Simulation(micro("executor-centric", 20, 15), policy("elasticutor"))
    run.record = True
    run.run()
    lay = run.layout
    assert (lay.lane_part[lay.lane] >= 0).all()
    shard_part = np.arange(lay.lane.size) // 32
    assert (lay.lane_part[lay.lane] == shard_part).all(), "a shard never leaves its partition"
    assert len(run.recorded) >= 3
    for shot in run.recorded:
        assert sum(p.cores for p in shot.partitions) <= 32


def test_elasticutor_beats_static_under_dynamics() -> None:
    static = simulate(micro("static", 4, 25), policy("static")).mean("throughput", 5)
    elastic = simulate(micro("executor-centric", 4, 25), policy("elasticutor"))
    assert elastic.mean("throughput", 5) > 1.15 * static
    assert elastic.notes["handoffs_local"] > 0


def test_back_pressure_holds_rows_back_and_loss_drops_them() -> None:
    op = Operator("o", partitions=2, shards=4)
    keys = Fixed((0.5, 0.5))
    for overflow in ("block", "lose"):
        engine = Engine(paradigm="static", overflow=overflow)
        scenario = Scenario(Cluster(1, 2), (op,), keys, Constant(4000.0), 5.0, engine)
        run = Simulation(scenario)
        run.keys.slot_of = [np.array([0, 4])]
        result = run.run()
        assert result.mean("throughput", 1) == pytest.approx(2000, rel=0.02)
        assert result.notes["conservation_error_rows"] < 1e-3
        lost, waiting = result.notes["lost_rows"], result.rows[-1].backlog
        assert (lost > 9000, waiting > 9000) == (overflow == "lose", overflow == "block")


def test_a_chain_is_held_back_by_its_slowest_operator() -> None:
    ops = (
        Operator("a", partitions=2, shards=8, cost_s=5e-4, selectivity=2.0),
        Operator("b", partitions=2, shards=8, cost_s=1e-3, upstream=("a",)),
    )
    keys = ZipfKeys(4000, 0.0, 0, 1)
    engine = Engine(paradigm="static", measure_noise=False)
    scenario = Scenario(Cluster(2, 4), ops, keys, Constant(math.inf), 8.0, engine, (1, 1, 3, 3))
    result = simulate(scenario)
    assert result.notes["conservation_error_rows"] < 1e-3
    # b has 6 cores: at most 6000 rows/s, fewer as its shards are uneven over 3 lanes each.
    assert 3000 < result.mean("throughput", 3) <= 6000
    assert result.mean("arrived", 3) == pytest.approx(result.mean("throughput", 3) / 2, rel=0.02)


def test_links_limit_remote_lanes() -> None:
    """One partition on many nodes: big rows are bound by the home's link, small ones are not."""
    rates = {}
    for row_bytes in (128.0, 65536.0):
        op = Operator("o", partitions=1, shards=64, row_bytes=row_bytes)
        keys = ZipfKeys(5000, 0.0, 0, 1)
        engine = Engine(measure_noise=False)
        scenario = Scenario(Cluster(8, 2), (op,), keys, Constant(math.inf), 6.0, engine)
        result = simulate(scenario)
        rates[row_bytes] = result.mean("throughput", 3)
        assert result.notes["remote_bytes"] > 0
    assert rates[128.0] > 10_000
    assert rates[65536.0] < 125e6 / 65536 * 1.2


def test_fault_and_recovery() -> None:
    op = Operator("o", partitions=4, shards=32)
    keys = ZipfKeys(2000, 0.0, 0, 1)
    engine = Engine(faults=(Fault(5.0, 1, 5.0),), restart_s=2.0)
    scenario = Scenario(Cluster(4, 4), (op,), keys, Constant(9000.0), 45.0, engine)
    result = simulate(scenario)
    rate = result.column("throughput")
    assert rate[6] < 0.2 * rate[3], "the partition at home on the node stands still"
    assert rate[-1] == pytest.approx(9000, rel=0.05)
    assert result.notes["replayed_rows"] > 0
    assert result.notes["conservation_error_rows"] < 1e-3


def test_remote_lane_fault_keeps_the_partition_running() -> None:
    op = Operator("o", partitions=1, shards=64)
    engine = Engine(faults=(Fault(5.0, 1, 5.0),))
    keys = ZipfKeys(2000, 0.0, 0, 1)
    result = simulate(Scenario(Cluster(4, 2), (op,), keys, Constant(4000.0), 20.0, engine))
    assert result.notes["lanes_lost"] == 2
    assert result.mean("throughput", 6) > 3000
    assert result.notes["replayed_rows"] > 0


def test_full_size_is_fast_enough() -> None:
    """Figure to reach: 32 x 8 cores x 10 simulated minutes at 1e5 rows/s in < 60 s; here 1/20."""
    op = Operator("calc", partitions=32, shards=256)
    start = time.thread_time()
    simulate(Scenario(Cluster(), (op,), ZipfKeys(), Constant(1e5), 30.0), policy("elasticutor"))
    assert time.thread_time() - start < 6.0


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Cluster(0), "nodes: found 0"),
        (lambda: Cluster(2, -1), "cores: found -1"),
        (lambda: Cluster(nic_bytes_s=math.nan), "nic_bytes_s"),
        (lambda: Operator("o", cost_s=0.0), "cost_s of operator o"),
        (lambda: Operator("o", selectivity=-1.0), "selectivity of operator o"),
        (lambda: Engine(paradigm="storm"), "paradigm: found 'storm', expected one of executor"),
        (lambda: Engine(theta=0.5), "theta"),
        (lambda: ZipfKeys(omega=-1.0), "omega"),
        (lambda: Constant(-1.0), "rate"),
        (lambda: micro("static", 2, -1.0), "duration_s"),
        (lambda: micro("static", 2, 5.0, step_s=1.0), "lane_queue_rows of calc.*at least 2000"),
        (
            lambda: Scenario(Cluster(1, 2), (Operator("o", 4),), ZipfKeys(), Constant(1.0), 1.0),
            "partitions: found 4, expected at most 2",
        ),
        (
            lambda: Scenario(
                Cluster(), (Operator("o", upstream=("x",)),), ZipfKeys(), Constant(1.0), 1.0
            ),
            "upstream of o: found 'x'",
        ),
        (lambda: Case(1.0, [0.5], [0], 1, 1e-3, 1.0), "shares that sum to 1"),
        (lambda: Case(1.0, [1.0], [1], 1, 1e-3, 1.0), r"lane\[0\]"),
    ],
)
def test_wrong_inputs(make, match: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=match):
        make()


def test_throttles_hold_for_their_windows_and_unknown_targets_are_refused() -> None:
    op = Operator("o", partitions=2, shards=8)
    engine = Engine(paradigm="static", policy_s=1.0)
    run = Simulation(
        Scenario(Cluster(1, 2), (op,), ZipfKeys(1000, 0.0, 0, 1), Constant(1000.0), 6.0, engine)
    )
    run.control.apply(Plan(throttles=(Throttle(PartitionId("o-0"), 100.0, 3),)), 0.0, 1.0)
    rate = run.run().column("throughput")
    assert rate[1] < 400, "the throttled partition stops the source: head of line"
    assert rate[-1] > 1000, "over after three windows, the backlog is worked off"
    with pytest.raises(InputError, match="throttle: found 'x', expected source or one of 2"):
        run.control.apply(Plan(throttles=(Throttle(PartitionId("x"), 1.0),)), 0.0, 1.0)


def test_a_label_never_waits_for_rows_that_left_its_lane() -> None:
    """Planted once by accident: labels counted rows of shards that had moved away, and stalled."""
    op = Operator("calc", partitions=32, shards=256)
    run = simulate(
        Scenario(Cluster(), (op,), ZipfKeys(omega=16), Constant(math.inf), 120.0),
        policy("elasticutor"),
    )
    assert run.column("throughput")[5:].min() > 30_000
