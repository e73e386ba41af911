"""elasticutor, naive-ec and static: worked examples end to end, invariants, edge cases."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneshift.contract.cluster_load import ClusterLoad, SourceLoad
from laneshift.contract.ids import PartitionId, QueryId, SourceId
from laneshift.contract.partition_load import PartitionLoad
from laneshift.contract.plan import Plan, Reason
from laneshift.errors import InputError
from laneshift.policies.elasticutor import Elasticutor
from laneshift.policies.naive_ec import NaiveEc
from laneshift.policies.registry import policy
from laneshift.policies.static import Static
from laneshift_lab.apply import apply_plan
from laneshift_lab.samples import cluster, partition


def chain(placement: list[dict[str, int]], **change: float) -> ClusterLoad:
    """Elasticutor, 2019, 4.2: lambda (100, 100, 60), mu (50, 30, 40), lambda_0 = 100."""
    rates = [(100.0, 50.0), (100.0, 30.0), (60.0, 40.0)]
    parts = [
        partition(name, held, offered_rate=lam, service_rate=mu, home="n0", **change)  # type: ignore[arg-type]
        for name, held, (lam, mu) in zip("abc", placement, rates, strict=True)
    ]
    return cluster({"n0": 4, "n1": 4, "n2": 4}, parts, edges=[("a", "b"), ("b", "c", 0.6)])


START: list[dict[str, int]] = [{"n0": 3}, {"n1": 4}, {"n2": 2}]


def test_counts_of_the_worked_example() -> None:
    plan, _ = Elasticutor(target_s=0.1).decide(chain(START), Elasticutor().start())
    counts = {c.partition: (c.before, c.after) for c in plan.core_changes}
    assert counts == {"b": (4, 5), "c": (2, 3)}
    assert plan.feasible and plan.note("predicted_latency_mean") == pytest.approx(
        0.086124, abs=5e-7
    )
    after = apply_plan(chain(START), plan)
    again, _ = Elasticutor(target_s=0.1).decide(after, Elasticutor().start())
    assert again.is_empty


@pytest.mark.parametrize(
    ("target", "reason"),
    [(0.05, Reason.UNREACHABLE_TARGET), (0.0690, Reason.BUDGET)],
)
def test_infeasibility_is_reported(target: float, reason: Reason) -> None:
    plan, _ = Elasticutor(target_s=target).decide(chain(START), Elasticutor().start())
    assert [s.reason for s in plan.shortfalls] == [reason]
    assert not plan.feasible and plan.shortfalls[0].message


@pytest.mark.parametrize("name", ["elasticutor", "laneshift", "resource-centric"])
def test_a_target_below_a_rows_cost_says_what_a_row_costs(name: str) -> None:
    part = partition("a", {"n": 1}, offered_rate=100, service_rate=50)
    chosen = policy(name, target_s=0.019)
    plan, _ = chosen.decide(cluster({"n": 9}, [part]), chosen.start())
    (short,) = plan.shortfalls
    assert short.reason is Reason.UNREACHABLE_TARGET and short.wanted_cores is None
    assert "0.019 s" in short.message and "0.02 s" in short.message


def test_overload_is_reported_and_uses_every_core() -> None:
    part = [partition(n, {"n": 1}, offered_rate=r, service_rate=1) for n, r in (("a", 9), ("b", 3))]
    snap = cluster({"n": 8}, part)
    plan, _ = Elasticutor().decide(snap, Elasticutor().start())
    assert [s.reason for s in plan.shortfalls] == [Reason.OVERLOAD]
    assert [p.cores for p in apply_plan(snap, plan).partitions] == [6, 2]


def test_max_cores_is_kept() -> None:
    part = partition("a", {"n": 1}, offered_rate=9.5, service_rate=1, max_cores=4)
    plan, _ = Elasticutor().decide(cluster({"n": 32}, [part]), Elasticutor().start())
    assert plan.core_changes[0].after == 4
    assert plan.shortfalls[0].reason is Reason.CORE_LIMIT


def two_queries() -> ClusterLoad:
    """Many cheap rows in one query, few dear ones in the other; one core of 8 is left over."""
    cheap = partition("a:0.0", {"n": 1}, offered_rate=10_000, service_rate=100_000, query="a")
    dear = partition(
        "b:0.0", {"n": 3}, offered_rate=250, service_rate=100, query="b", operator="dear"
    )
    return cluster({"n": 8}, [cheap, dear])


@pytest.mark.parametrize("name", ["elasticutor", "naive-ec", "resource-centric", "laneshift"])
def test_each_query_has_a_target_of_its_own(name: str) -> None:
    chosen = policy(name, target_s=0.015)
    plan, _ = chosen.decide(two_queries(), chosen.start())
    counts = {change.partition: change.after for change in plan.core_changes}
    assert counts == {"b:0.0": 4} and plan.feasible
    pooled = [replace(part, query=QueryId("")) for part in two_queries().partitions]
    plan, _ = chosen.decide(replace(two_queries(), partitions=tuple(pooled)), chosen.start())
    assert not plan.core_changes  # the cheap rows' mean hides the dear ones


def test_what_enters_a_query_is_what_its_sources_give() -> None:
    snap = two_queries()
    assert snap.external_rate_of(QueryId("a")) == 10_000 and snap.external_rate == 10_250
    fed = SourceLoad(SourceId("b:source"), 240.0, feeds=(PartitionId("b:0.0"),))
    snap = replace(snap, sources=(fed,))
    assert snap.external_rate_of(QueryId("b")) == 240
    assert snap.external_rate_of(QueryId("a")) == 10_000


def test_a_partition_at_its_limit_leaves_the_target_to_the_others() -> None:
    stuck = partition("a", {"n": 1}, offered_rate=10_000, service_rate=1000, max_cores=8)
    free = partition("b", {"n": 1}, offered_rate=2990, service_rate=1000)
    for name in ("elasticutor", "laneshift"):
        chosen = policy(name, target_s=0.002)
        plan, _ = chosen.decide(cluster({"n": 64}, [stuck, free]), chosen.start())
        assert {c.partition: c.after for c in plan.core_changes} == {"a": 8, "b": 4}
        assert [short.reason for short in plan.shortfalls] == [Reason.CORE_LIMIT]
        assert "met by a," in plan.shortfalls[0].message


def test_surplus_is_kept_as_printed_on_request() -> None:
    idle = cluster({"n": 8}, [partition("a", {"n": 6}, offered_rate=1, service_rate=1000)])
    chosen = Elasticutor(release_surplus=False, release_after_s=0)
    keep, _ = chosen.decide(idle, chosen.start())
    assert keep.is_empty
    at_once = Elasticutor(release_after_s=0)
    give, _ = at_once.decide(idle, at_once.start())
    assert give.core_changes[0].after == 1


@pytest.mark.parametrize("name", ["elasticutor", "naive-ec", "resource-centric"])
def test_lanes_that_are_not_needed_go_after_ten_seconds(name: str) -> None:
    """As docs/autoscaling.md shows it, without a parameter: 1 -> 3 -> 1 lanes."""
    chosen = policy(name, target_s=0.05)
    state, counts = chosen.start(), []
    snap = cluster({"n": 8}, [partition("a", {"n": 1}, service_rate=1000)], window_s=1.0)
    for second in range(40):
        rate = 2100.0 if 2 <= second < 12 else 200.0
        part = replace(snap.partitions[0], offered_rate=rate)
        snap = replace(snap, time_s=float(second), partitions=(part,))
        plan, state = chosen.decide(snap, state)
        snap = apply_plan(snap, plan)
        counts.append(snap.partitions[0].cores)
    assert counts == [1] * 2 + [3] * 20 + [1] * 18


def test_what_was_needed_in_those_seconds_stays() -> None:
    """Load that dips for a window and comes back changes nothing, growth comes at once."""
    chosen = Elasticutor(release_after_s=3)
    state, counts = chosen.start(), []
    snap = cluster({"n": 8}, [partition("a", {"n": 6}, service_rate=1000)], window_s=1.0)
    for second, rate in enumerate((100, 3500, 100, 100, 100, 100, 100, 5500, 100, 7500)):
        part = replace(snap.partitions[0], offered_rate=float(rate))
        snap = replace(snap, time_s=float(second), partitions=(part,))
        plan, state = chosen.decide(snap, state)
        snap = apply_plan(snap, plan)
        counts.append(snap.partitions[0].cores)
    assert counts == [6, 6, 6, 4, 4, 4, 4, 6, 6, 8]


def test_back_pressure_doubles_the_demand() -> None:
    kwargs = {"offered_rate": 2000.0, "service_rate": 1000.0}
    known = cluster({"n": 32}, [partition("a", {"n": 2}, **kwargs)])  # type: ignore[arg-type]
    unknown = cluster({"n": 32}, [partition("a", {"n": 2}, saturated=True, **kwargs)])  # type: ignore[arg-type]
    first = Elasticutor().decide(known, Elasticutor().start())[0].core_changes[0].after
    second = Elasticutor().decide(unknown, Elasticutor().start())[0].core_changes[0].after
    assert (first, second) == (3, 5)


def test_naive_moves_more_state() -> None:
    rng = np.random.default_rng(3)
    moved = {"elasticutor": 0.0, "naive-ec": 0.0}
    for _ in range(20):
        snap = random_cluster(rng, 8, 4, 6)
        for chosen in (Elasticutor(target_s=0.01), NaiveEc(target_s=0.01)):
            plan, _ = chosen.decide(snap, chosen.start())
            moved[chosen.name] += plan.note("migration_bytes") or 0.0
    assert moved["naive-ec"] > 1.5 * moved["elasticutor"] > 0


def random_cluster(rng: np.random.Generator, nodes: int, cores: int, parts: int) -> ClusterLoad:
    """Every partition holds 1..3 cores; loads between idle and beyond what it holds."""
    free = np.full(nodes, cores)
    made: list[PartitionLoad] = []
    for j in range(parts):
        held: dict[str, int] = {}
        for _ in range(int(rng.integers(1, 4))):
            i = int(rng.choice(np.flatnonzero(free > 0)))
            free[i] -= 1
            held[f"n{i}"] = held.get(f"n{i}", 0) + 1
        made.append(
            partition(
                f"p{j}",
                held,
                offered_rate=float(rng.uniform(0, 4000)),
                service_rate=1000.0,
                state_bytes=float(rng.integers(0, 10**8)),
                data_bytes_per_s=float(rng.choice([0, 1e5, 4e6])),
            )
        )
    return cluster({f"n{i}": cores for i in range(nodes)}, made)


@given(st.integers(0, 10**6), st.sampled_from([0.0005, 0.002, 0.01, 1.0]), st.booleans())
@settings(max_examples=50, deadline=None)
def test_invariants(seed: int, target: float, release: bool) -> None:
    snap = random_cluster(np.random.default_rng(seed), 4, 4, 5)
    policy = Elasticutor(target_s=target, release_surplus=release, release_after_s=0)
    plan, state = policy.decide(snap, policy.start())
    assert (plan, state) == policy.decide(snap, policy.start())
    after = apply_plan(snap, plan)  # raises if capacity is exceeded or the plan is no diff
    assert all(part.cores >= 1 for part in after.partitions)
    for part in after.partitions:
        if plan.feasible:
            assert part.cores > part.offered_load
    # the data intensity is per held core, so only the counts must come to rest at once
    second, _ = policy.decide(after, state)
    assert not second.core_changes


def test_static_never_changes() -> None:
    assert Static().decide(chain(START), Static().start()) == (Plan(), ())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("target_s", 0.0),
        ("target_s", float("nan")),
        ("phi_0", -1.0),
        ("smoothing", 0.0),
        ("smoothing", 1.1),
        ("release_after_s", -1.0),
        ("saturated_growth", 0.5),
    ],
)
def test_wrong_parameters_name_the_field(field: str, value: float) -> None:
    with pytest.raises(InputError, match=field):
        Elasticutor(**{field: value})  # type: ignore[arg-type]
