"""EQ5, B_NCI and TOPK: what flows between their operators, and that policies run on them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from laneshift.contract.plan import KeySplit, Plan
from laneshift.errors import InputError
from laneshift.policies.registry import policy
from laneshift_lab.simulator import Cluster, Engine, Operator, Scenario, Simulation, simulate
from laneshift_lab.simulator.rates import Constant
from laneshift_lab.simulator.topologies import (
    LINEITEM,
    TOPOLOGIES,
    Cpu,
    Topology,
    band_join,
    eq5,
    partial_counts,
    topk,
    topology,
)
from laneshift_lab.simulator.workload import ZipfKeys

RATE = 5000.0


def flows(found: Topology, seconds: float = 20.0) -> tuple[dict[str, float], dict[str, float]]:
    """(rows/s in, rows/s out) per operator of a run that keeps up."""
    run = Simulation(found.scenario(Cluster(4, 8), Constant(RATE), seconds))
    result = run.run()
    assert result.notes["conservation_error_rows"] < 1e-6
    assert result.rows[-1].backlog == 0
    names = [op.name for op in found.operators]
    out = [op.selectivity for op in found.operators]
    per_s = run.fluid.totals.arrived / seconds
    served = run.fluid.totals.served / seconds * out
    return dict(zip(names, per_s.tolist(), strict=True)), dict(
        zip(names, served.tolist(), strict=True)
    )


def test_every_line_item_of_eq5_joins_one_supplier() -> None:
    came, went = flows(eq5(rate=RATE))
    assert went["lineitem"] == pytest.approx(RATE, rel=0.01)
    assert went["supplier"] == pytest.approx(RATE * 10_000 / LINEITEM, rel=0.01)
    assert went["nation"] == pytest.approx(RATE * 25 / LINEITEM, rel=0.02)
    assert came["lineitem"] == pytest.approx(RATE * (1 + 10_000 / LINEITEM), rel=0.01)


def test_the_band_join_gets_a_seventh_and_a_hundredth() -> None:
    came, _ = flows(band_join(rate=RATE))
    assert came["trucks"] == came["no-instructions"] == pytest.approx(RATE)
    assert came["band"] == pytest.approx(RATE * (1 / 7 + 0.01), rel=0.01)


def test_topk_sends_one_partial_count_per_topic_and_tick() -> None:
    came, _ = flows(topk(rate=RATE, topics=2000, tick_s=2.0))
    rng = np.random.default_rng(1)
    posts = rng.poisson(RATE * 2.0, 20)
    weight = np.arange(1, 2001.0) ** -1
    topics = [np.unique(rng.choice(2000, n, p=weight / weight.sum())).size for n in posts]
    assert came["top"] == pytest.approx(np.mean(topics) / 2.0, rel=0.02)


def test_splitting_the_hottest_topic_lifts_topk() -> None:
    found = topk(2.0, rate=RATE, topics=1000, partitions=2, shards=16)
    rate = []
    for ways in (1, 4):
        run = Simulation(found.scenario(Cluster(2, 8), Constant(np.inf), 10.0))
        run.keys.set(0, next(iter(found.keys.changes(10.0)))[1])
        top = int(np.argmax(run.keys._weights[0]))
        home = run.layout.part_name[int(run.keys.slot_of[0][top]) // found.operators[0].slots]
        if ways > 1:
            run.control.apply(Plan(key_splits=(KeySplit(home, str(top), ways),)), 0.0, 1.0)  # type: ignore[arg-type]
        rate.append(run.run().mean("throughput", 3.0))
    assert rate[1] > 1.5 * rate[0]


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_policies_run_on_every_topology_and_repeat(name: str) -> None:
    scene = topology(name, rate=RATE).scenario(Cluster(4, 8), Constant(RATE), 10.0)
    first, again = (simulate(scene, policy("elasticutor")) for _ in range(2))
    assert first == again
    assert first.notes["conservation_error_rows"] < 1e-6


def test_an_operator_may_read_source_and_upstream() -> None:
    """Back-pressure counts both: the source gets what the upstream's rows leave over."""
    ops = (
        Operator("a", 1, lane_queue_rows=250, shards=8, cost_s=2e-4, keys=ZipfKeys(100, 0.0, 0.0)),
        Operator("b", 1, shards=8, cost_s=1e-3, upstream=("a",), source_rows=0.5),
    )
    engine = Engine(paradigm="static", measure_noise=False)
    keys = ZipfKeys(5000, 0.0, 0.0)
    scene = Scenario(Cluster(1, 4), ops, keys, Constant(np.inf), 8.0, engine, (1, 1))
    result = simulate(scene)
    assert result.mean("throughput", 3) == pytest.approx(1000, rel=0.02)
    # Of each source row, 1 goes to a, then to b, and 0.5 straight to b; both count as arrived.
    assert result.mean("queued", 3) < 400


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: topology("eq6"), "topology: found 'eq6', expected one of b_nci, eq5, topk"),
        (lambda: eq5(rate=0.0), "rate: found 0.0"),
        (lambda: eq5(scale=0.0), "scale: found 0.0"),
        (lambda: eq5(window_s=-1.0), "window_s"),
        (lambda: band_join(orders=0), "orders: found 0"),
        (lambda: topk(tick_s=0.0), "tick_s: found 0.0"),
        (lambda: topk(topics=0), "n_keys: found 0"),
        (lambda: Cpu(receive_s=0.0), "receive_s"),
        (lambda: Cpu(compare_s=-1.0), "compare_s"),
    ],
)
def test_wrong_inputs(make: Callable[[], object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        make()


def test_partial_counts_of_busy_and_idle_topics() -> None:
    assert partial_counts(np.array([1e6, 0.0]), 0.5) == pytest.approx(2.0)
