"""Finished batches become loads: chance is told from change, targets become time for lanes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from laneshift.autoscale.batch_rates import BatchRates, Done, Steady, stage_spans
from laneshift.autoscale.cores import lanes_not_running
from laneshift.contract.batch_load import BatchLoad
from laneshift.contract.flow import as_flow
from laneshift.contract.ids import OperatorId, PartitionId
from laneshift.contract.policy import Policy
from laneshift.contract.trace import from_json, to_json
from laneshift.errors import InputError
from laneshift.policies.registry import policy
from laneshift_lab.samples import cluster, partition


def batch(period_s: float = 5.0, work_s: float = 6.0, **others: float) -> BatchLoad:
    return BatchLoad(7, period_s, True, 3.0, 10_000, work_s, **others)


class TestSteady:
    """One quantity."""

    @pytest.mark.parametrize(("noise", "most"), [(0.02, 1), (0.05, 3), (0.1, 6)])
    def test_chance_is_shown_as_next_to_nothing(self, noise: float, most: int) -> None:
        rng = np.random.default_rng(3)
        steady = Steady()
        shown = [steady.add(100 * (1 + noise * rng.standard_normal())) for _ in range(200)]
        assert len(set(shown[20:])) <= most
        assert shown[-1] == pytest.approx(100, rel=0.1)

    @pytest.mark.parametrize(("after", "batches"), [(400.0, 1), (150.0, 1), (25.0, 2), (60.0, 2)])
    def test_a_change_is_seen_at_once_and_a_fall_when_it_lasts(
        self, after: float, batches: int
    ) -> None:
        rng = np.random.default_rng(4)
        steady = Steady()
        for _ in range(30):
            steady.add(100 * (1 + 0.03 * rng.standard_normal()))
        for n in range(batches):
            shown = steady.add(after)
            assert (shown == after) is (n == batches - 1)

    def test_a_single_low_batch_is_no_change(self) -> None:
        steady = Steady()
        before = [steady.add(100.0) for _ in range(10)][-1]
        steady.add(10.0)
        assert {steady.add(100.0) for _ in range(10)} == {before}

    def test_a_slow_rise_is_followed(self) -> None:
        steady = Steady()
        values = [100 * 1.03**n for n in range(60)]
        late = [value / steady.add(value) for value in values][10:]
        assert max(late) < 1.25


class TestAvailable:
    """Time that a target leaves for lanes."""

    def test_the_target_less_the_fixed_part(self) -> None:
        assert batch().available_s(0.7) == pytest.approx(3.5)
        assert batch(fixed_s=1.0).available_s(0.7) == pytest.approx(2.5)
        assert batch(fixed_s=1.0).available_s(0.7, 2.0) == pytest.approx(1.0)
        assert batch(fixed_s=1.0, waiting_s=0.5).available_s(0.7) == pytest.approx(2.0)
        assert batch(fixed_s=1.0, stage_share=0.4).available_s(0.7) == pytest.approx(1.0)

    def test_what_cannot_be_reached_is_not_chased(self) -> None:
        assert batch(fixed_s=3.6).available_s(0.7) > 0.2
        # Nor if the fixed part is longer than the interval: what lanes need stays bounded.
        late = [batch(period_s=1.0, fixed_s=fixed).available_s(0.8) for fixed in (0.6, 0.9, 1.3)]
        assert late == pytest.approx([0.24, 0.24, 0.24])
        assert batch(fixed_s=1.0).available_s(0.7, 0.5) == batch(fixed_s=1.0).available_s(0.7)
        assert batch(fixed_s=1.0).is_out_of_reach(0.7, 0.5)
        assert not batch(fixed_s=1.0).is_out_of_reach(0.7, None)

    def test_wrong_measurements_are_named(self) -> None:
        with pytest.raises(InputError, match="period_s"):
            batch(period_s=0.0)
        with pytest.raises(InputError, match="stage_share"):
            batch(stage_share=0.0)


def done(n: int, busy_s: float, *, lanes: int = 1, cores: int = 4, operator: str = "q:0") -> Done:
    took = busy_s / lanes
    return Done(PartitionId(f"{operator}.{n}"), OperatorId(operator), "1", cores, lanes,
                1000 * busy_s, busy_s, took)  # fmt: skip


def test_a_stage_is_as_long_as_its_longest_task_or_all_over_the_cores() -> None:
    assert stage_spans([done(0, 3.0), done(1, 1.0)]) == {"q:0": 3.0}
    assert stage_spans([done(n, 1.0) for n in range(10)]) == {"q:0": 2.5}
    assert stage_spans([done(0, 3.0), done(0, 1.0, operator="q:1")]) == {"q:0": 3.0, "q:1": 1.0}


def test_what_lanes_do_not_shorten_is_the_fixed_part() -> None:
    rates = BatchRates(5.0)
    loads = rates.add(1, 3.4, 5.0, [done(0, 6.0, lanes=2), done(1, 2.0)])
    assert loads[PartitionId("q:0.0")].fixed_s == pytest.approx(0.4)
    assert loads[PartitionId("q:0.0")].work_s == pytest.approx(6.0)
    assert loads[PartitionId("q:0.0")].rows == pytest.approx(6000)


def test_a_lane_with_more_to_do_than_others_is_no_fixed_part() -> None:
    """Else a hot key would make the target ever smaller and the lanes ever more."""
    uneven = Done(PartitionId("p"), OperatorId("o"), "1", 8, 4, 1000, 4.0, 3.0)
    load = BatchRates(5.0).add(1, 3.3, 5.0, [uneven])[PartitionId("p")]
    assert load.fixed_s <= 0.3 + 0.1 * 5.0


def test_a_commit_is_a_fixed_part_however_long() -> None:
    """3 s of work and a commit of 1 s: one lane would make 4 s of it, and 3.5 s is the target."""
    part = Done(PartitionId("p"), OperatorId("o"), "1", 8, 1, 1000, 3.0, 4.0)
    load = BatchRates(5.0).add(1, 4.0, 5.0, [part], commit_s=1.0)[PartitionId("p")]
    assert load.fixed_s == pytest.approx(1.0)
    assert load.work_s / load.available_s(0.7) == pytest.approx(3.0 / 2.5)


def test_rows_count_over_the_time_in_which_they_came() -> None:
    late = BatchRates(5.0)
    late.add(1, 15.0, 5.0, [done(0, 4.0)])
    # The batch before took three periods, so that this one has three times the rows.
    loads = late.add(2, 12.0, 15.0, [done(0, 12.0)])
    assert loads[PartitionId("q:0.0")].work_s == pytest.approx(4.0)


def test_a_batch_with_few_rows_says_nothing_of_what_a_row_costs() -> None:
    """A first batch of one row that took 16 ms: 3,000 rows were 47 s of work, and 14 lanes."""
    part = Done(PartitionId("p"), OperatorId("o"), "1", 8, 1, 1, 0.016, 0.016)
    rates = BatchRates(5.0)
    rates.add(0, 0.4, 5.0, [part])
    load = rates.add(1, 4.9, 5.0, [replace(part, rows=3000, busy_s=4.5, took_s=4.5)])[
        PartitionId("p")
    ]
    assert load.work_s == pytest.approx(4.5)
    for n in range(2, 8):
        few = replace(part, rows=50, busy_s=0.15, took_s=0.15)
        rates.add(n, 0.5, 5.0, [few])
        # A row of the small batches takes twice as long, until there is nothing but small batches.
        assert rates.cost_s(PartitionId("p")) == pytest.approx(0.0015)
    for n in range(8, 30):
        rates.add(n, 0.5, 5.0, [replace(part, rows=50, busy_s=0.15, took_s=0.15)])
    assert rates.cost_s(PartitionId("p")) == pytest.approx(0.003)


def test_a_hot_one_of_many_may_be_the_last_to_begin() -> None:
    parts = [done(0, 20.0), *(done(n, 1.0) for n in range(1, 50))]
    loads = BatchRates(60.0).add(1, 25.0, 60.0, parts)
    assert loads[PartitionId("q:0.0")].waiting_s == pytest.approx(49 / 4)
    assert loads[PartitionId("q:0.1")].waiting_s == 0.0


class TestFlow:
    """How policies read it."""

    def test_a_core_is_worth_the_time_that_the_target_leaves(self) -> None:
        part = replace(partition("p", {"n": 2}, offered_rate=2000), batch=batch())
        (seen,) = as_flow(cluster({"n": 8}, [part])).partitions
        assert seen.service_rate_per_core == pytest.approx(700)
        (seen,) = as_flow(cluster({"n": 8}, [part]), target_utilisation=0.5).partitions
        assert seen.service_rate_per_core == pytest.approx(500)

    @pytest.mark.parametrize(
        ("queue", "saturated", "occupancy"),
        [(0, False, 0.0), (500, False, 0.25), (90_000, False, 1.0), (0, True, 1.0)],
    )
    def test_occupancy_is_waiting_time_over_the_buffers(
        self, queue: float, saturated: bool, occupancy: float
    ) -> None:
        part = partition(
            "p", {"n": 2}, queue_rows=queue, queue_capacity_rows=87_381, saturated=saturated
        )
        snap = cluster({"n": 8}, [part])
        (seen,) = policy("craa").see(snap).partitions
        assert seen.queue_capacity_rows == 2000
        assert seen.queue_rows / seen.queue_capacity_rows == occupancy
        (seen,) = policy("craa", buffer_s=4.0).see(snap).partitions
        assert seen.queue_capacity_rows == 8000
        assert policy("laneshift").see(snap) == snap

    def test_a_smaller_buffer_stays_as_it_is(self) -> None:
        part = partition("p", {"n": 2}, queue_rows=90, queue_capacity_rows=100)
        (seen,) = policy("oera").see(cluster({"n": 8}, [part])).partitions
        assert (seen.queue_rows, seen.queue_capacity_rows) == (90, 100)

    @pytest.mark.parametrize(("rate", "occupancy"), [(1400, 0.0), (1700, 0.5), (2100, 1.0)])
    def test_a_batch_fills_its_buffer_between_the_target_and_the_interval(
        self, rate: float, occupancy: float
    ) -> None:
        part = replace(partition("p", {"n": 2}, offered_rate=rate), batch=batch())
        (seen,) = policy("kalman").see(cluster({"n": 8}, [part])).partitions
        assert seen.queue_capacity_rows is not None
        assert seen.queue_rows / seen.queue_capacity_rows == pytest.approx(occupancy, abs=1e-9)

    def test_a_policy_of_ones_own_sees_batches_as_a_flow_too(self) -> None:
        assert policy("static").see.__func__ is Policy.see  # type: ignore[attr-defined]

    def test_a_trace_keeps_what_was_measured(self) -> None:
        part = replace(partition("p", {"n": 2}, offered_rate=2000), batch=batch(fixed_s=0.5))
        snap = cluster({"n": 8}, [part])
        assert from_json(to_json(snap)) == snap

    @pytest.mark.parametrize(
        "wrong", [{"target_utilisation": 0.0}, {"target_utilisation": 1.1}, {"target_batch_s": 0.0}]
    )
    def test_targets_out_of_range_are_refused(self, wrong: dict[str, float]) -> None:
        for name in ("laneshift", "elasticutor", "craa", "oera"):
            with pytest.raises(InputError, match=next(iter(wrong))):
                policy(name, **wrong)
        with pytest.raises(InputError, match="buffer_s"):
            policy("craa", buffer_s=0.0)


def test_lanes_that_do_not_run_take_no_core() -> None:
    def stage(*work_s: float) -> list[object]:
        return [
            replace(partition(f"p{n}", {"n": 1}), batch=batch(work_s=w))
            for n, w in enumerate(work_s)
        ]

    assert lanes_not_running([stage(1.0, 1.0)], 8) == 0  # type: ignore[list-item]
    assert lanes_not_running([stage(9.0, 1.0, 1.0)], 8) == 1  # type: ignore[list-item]
    assert lanes_not_running([stage(*[1.0] * 4)], 4) == 3  # type: ignore[list-item]
    assert lanes_not_running([[None] * 200], 4) == 199
    assert lanes_not_running([stage(1.0, 1.0), stage(1.0)], 8) == 1  # type: ignore[list-item]
