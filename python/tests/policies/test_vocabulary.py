"""The words hold what they promise and refuse what they cannot hold."""

import math
from dataclasses import replace

import pytest

from laneshift.contract.cluster_load import ClusterLoad, SourceLoad
from laneshift.contract.ids import LaneId, LaneRef, NodeId, PartitionId, ShardId, SourceId
from laneshift.contract.plan import CoreChange, PlacementChange, Plan, ShardMove, Throttle
from laneshift.errors import InputError
from laneshift_lab.apply import apply_plan
from laneshift_lab.samples import cluster, partition, with_shards

P, Q = PartitionId("p"), PartitionId("q")


def two_nodes() -> ClusterLoad:
    p = with_shards(partition("p", {"a": 2}, offered_rate=900), [0.5, 0.2, 0.1, 0.1])
    q = with_shards(partition("q", {"b": 1, "a": 1}), [0.3, 0.4], first_shard=4)
    return cluster({"a": 4, "b": 2}, [p, q], edges=[("p", "q")])


def test_derived_values() -> None:
    snap = two_nodes()
    assert snap.total_cores == 6
    assert snap.partition(P).cores == 2 and snap.partition(Q).cores_on(NodeId("b")) == 1
    assert snap.partition(P).offered_load == pytest.approx(0.9)
    assert snap.heads == (P,) and snap.external_rate == 900
    assert snap.topological_order() == (P, Q)
    assert snap == two_nodes()


def test_sources_count_before_heads() -> None:
    source = SourceLoad(SourceId("s"), rate=7.0, feeds=(P,))
    assert replace(two_nodes(), sources=(source,)).external_rate == 7.0


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("offered_rate", -1.0),
        ("offered_rate", math.nan),
        ("offered_rate", math.inf),
        ("service_rate_per_core", 0.0),
        ("queue_capacity_rows", 0.0),
        ("selectivity", -0.1),
        ("efficiency", 0.0),
        ("efficiency", 1.5),
        ("state_bytes", -1.0),
        ("output_rate", math.nan),
        ("max_cores", 0),
    ],
)
def test_wrong_partition_fields_are_named(field: str, value: float) -> None:
    good = partition("p7", {"a": 1})
    with pytest.raises(InputError, match=rf"{field} of partition p7") as caught:
        replace(good, **{field: value})  # type: ignore[arg-type]
    assert ("0" in caught.value.expected or "1" in caught.value.expected) and caught.value.remedy


def test_wrong_cluster_loads_are_refused() -> None:
    p = partition("p", {"a": 2})
    with pytest.raises(InputError, match="placement on node a"):
        cluster({"a": 1}, [p])
    with pytest.raises(InputError, match="home of partition p"):
        cluster({"b": 1}, [p])
    with pytest.raises(InputError, match="partitions"):
        cluster({"a": 4}, [p, p])
    with pytest.raises(InputError, match="window_s"):
        cluster({"a": 2}, [p], window_s=0)
    with pytest.raises(InputError, match="nodes"):
        ClusterLoad(0.0, 1.0, (), ())
    with pytest.raises(InputError, match="edges"):
        cluster({"a": 2}, [p], edges=[("p", "nobody")])
    q = partition("q", {"a": 1})
    with pytest.raises(InputError, match="cycle"):
        cluster({"a": 3}, [p, q], edges=[("p", "q"), ("q", "p")]).topological_order()
    with pytest.raises(InputError, match=r"shards.load_cores\[1\]"):
        with_shards(p, [1.0, -1.0])
    with pytest.raises(InputError, match=r"shards.lane of partition p"):
        with_shards(p, [1.0, 1.0], lane=[0, 9])


def test_apply_adds_lanes_moves_shards_and_drains_removed_lanes() -> None:
    snap = two_nodes()
    plan = Plan(
        core_changes=(CoreChange(P, 2, 3), CoreChange(Q, 2, 1)),
        placement_changes=(
            PlacementChange(P, NodeId("b"), 0, 1),
            PlacementChange(Q, NodeId("a"), 1, 0),
        ),
        shard_moves=(ShardMove(ShardId(1), LaneRef(P, LaneId(1)), LaneRef(P, LaneId(2))),),
    )
    after = apply_plan(snap, plan)
    p, q = after.partition(P), after.partition(Q)
    assert p.cores == 3 and [lane.node for lane in p.lanes] == ["a", "a", "b"]
    assert p.shards is not None and p.shards.lane.tolist() == [0, 2, 0, 1]
    assert q.shards is not None and q.shards.lane.tolist() == [0, 0]
    assert [lane.lane for lane in q.lanes] == [0]
    assert apply_plan(snap, Plan()) == snap


def test_apply_moves_between_partitions_of_one_operator() -> None:
    move = ShardMove(ShardId(0), LaneRef(P, LaneId(0)), LaneRef(Q, LaneId(1)))
    after = apply_plan(two_nodes(), Plan(shard_moves=(move,)))
    p, q = after.partition(P).shards, after.partition(Q).shards
    assert p is not None and p.shard.tolist() == [1, 2, 3]
    assert q is not None and q.shard.tolist() == [4, 5, 0] and q.lane.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    "plan",
    [
        Plan(placement_changes=(PlacementChange(P, NodeId("a"), 1, 2),)),
        Plan(placement_changes=(PlacementChange(P, NodeId("a"), 2, 4),)),
        Plan(core_changes=(CoreChange(P, 2, 3),)),
        Plan(shard_moves=(ShardMove(ShardId(0), LaneRef(P, LaneId(1)), LaneRef(P, LaneId(0))),)),
        Plan(shard_moves=(ShardMove(ShardId(0), LaneRef(P, LaneId(0)), LaneRef(P, LaneId(7))),)),
    ],
)
def test_plans_of_another_cluster_are_refused(plan: Plan) -> None:
    with pytest.raises(InputError):
        apply_plan(two_nodes(), plan)


def test_plan_parts_are_checked() -> None:
    with pytest.raises(InputError, match="after of partition p"):
        CoreChange(P, 2, 2)
    with pytest.raises(InputError, match="rate of throttle p"):
        Throttle(P, -1.0)
    with pytest.raises(InputError, match="target"):
        ShardMove(ShardId(0), LaneRef(P, LaneId(0)), LaneRef(P, LaneId(0)))
    assert Plan().is_empty and Plan().feasible and Plan(notes=(("x", 1.0),)).note("x") == 1.0
