"""The arithmetic of the benchmarks `remote` and `cluster`, on runs that are made up: no Spark."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from laneshift.errors import InputError
from laneshift.plugin.handoff import Handoff
from laneshift_bench import cluster, processes, remote
from laneshift_bench.cluster_scale import EACH, NODES, Point, points, simulate
from laneshift_bench.foreseen import foresee
from laneshift_bench.progress import Progress
from laneshift_bench.remote_case import Bench, full_rate_s, side
from laneshift_bench.remote_moves import SIZES, STATE_BYTES, away
from laneshift_bench.report import Report
from laneshift_bench.setting import HOME, STOCK
from laneshift_bench.spool import Slots, SpoolMeter


def test_slots_add_up_over_the_lines_of_all_tasks() -> None:
    slots = Slots()
    for line in ("1000 3 1000:2 9000:1", "1100 1 1000:1", "1000 2 5000:2"):
        slots.add(line)
    assert sorted(slots.rows.items()) == [(1000, 5), (1100, 1)]
    found = slots.latency
    assert (found.count, found.p50_ms, found.p99_ms) == (6, 1.0, 9.0)
    assert found.counts == ((1000, 3), (5000, 2), (9000, 1))
    assert found.mean_ms == pytest.approx(22 / 6)
    assert math.isnan(Slots().latency.p99_ms)


def test_a_line_that_is_being_written_is_left_for_the_next_look(tmp_path: Path) -> None:
    meter = SpoolMeter(cast("Any", _NoSpark()), "made up", tmp_path)
    file = tmp_path / "a.slots"
    file.write_text("1000 2 1000:2\n1100 1 20")
    assert meter.lap()[0] == [(1000, 2)]
    with file.open("a") as more:
        more.write("00:1\n")
    (tmp_path / "b.slots").write_text("1100 4 3000:4\n")
    rows, latency = meter.lap()
    assert rows == [(1100, 5)]
    assert (latency.count, latency.max_ms) == (5, 3.0)
    assert meter.read().rows == 0


class _NoSpark:
    """A session whose JVM is never called."""

    def __getattr__(self, name: str) -> _NoSpark:
        return self


def test_full_rate_is_that_of_a_whole_second() -> None:
    slots = [(0.1 * n, 0 if 20 <= n < 30 else 100) for n in range(60)]
    assert full_rate_s(slots, 2.0, 1000.0) == 1.0
    assert full_rate_s(slots, 3.0, 1000.0) == 0.0
    assert full_rate_s(slots, 0.0, 2000.0) == math.inf
    assert full_rate_s([], 1.0, 10.0) == math.inf
    # Nineteen of twenty are enough.
    assert full_rate_s([(0.1 * n, 95) for n in range(30)], 1.0, 1000.0) == 0.0


def test_a_lane_elsewhere_pays_from_the_cost_on_above_which_it_always_does() -> None:
    assert remote.cheapest({10: [1.0], 30: [1.6, 1.7, 1.5], 100: [1.9]}) == 30
    assert remote.cheapest({10: [1.7], 30: [1.2], 100: [1.8]}) == 100
    assert remote.cheapest({10: [1.9], 30: [1.2]}) is None


def test_cases_have_names_of_their_own_and_count_their_steps() -> None:
    names = [case.name for case in remote.CASES]
    assert len(names) == len(set(names))
    assert {
        "lanes",
        "free",
        "price",
        "batches",
        "moves",
        "kill",
        "decommission",
        "join",
        "idle",
    } == (set(names))
    assert all(case.steps + case.once > 0 for case in remote.CASES)


def test_only_moves_between_executors_count_as_such() -> None:
    def moved(source: str | None, target: str | None, pause_us: float = 2000.0) -> Handoff:
        return Handoff(0, 0, "q", 0, 0, 0, 0, 1, "scale", 0, 1.0, 1.0, 1.0, pause_us, 0, source,
                       target)  # fmt: skip

    found = [moved(None, None), moved(None, "2"), moved("2", None, 3000.0), moved(None, "2", 0.0)]
    assert away(found) == ([2.0], [3.0])


def test_sizes_of_state_are_those_of_the_figure() -> None:
    for size in SIZES:
        per_shard = size.keys(quick=False) * STATE_BYTES / size.shards
        assert per_shard == pytest.approx(size.shard_bytes, rel=0.02)
    assert SIZES[-1].keys(quick=False) * STATE_BYTES == pytest.approx(1 << 30, rel=0.001)
    assert SIZES[-1].keys(quick=True) * STATE_BYTES <= 1 << 27


def test_a_figure_is_a_line_and_a_goal_its_median() -> None:
    report = Report("remote", "made up", "", remote.HEADER)
    bench = Bench(True, 3, report, Progress("remote", 1))
    bench.add("lanes", "8 at home", "rows/s", [10.0, 30.0, 20.0])
    bench.ratio("away / home", [9.0, 30.0, 10.0], [10.0, 30.0, 20.0], ">=", 0.85)
    assert report.rows == [["lanes", "8 at home", "rows/s", "20.0 (10.0 to 30.0)"]]
    assert report.data == {"lanes": {"8 at home": {"rows/s": [10.0, 30.0, 20.0]}}}
    (goal,) = report.goals
    assert goal.value == 0.9 and goal.met


def test_options_of_a_side_have_their_dots() -> None:
    options = side(32, balance_enabled="false", remote_maxLanes=0).options
    assert (options["balance.enabled"], options["remote.maxLanes"]) == ("false", "0")
    assert options["shardsPerPartition"] == "32"


def test_lanes_fill_home_first() -> None:
    splits = {cores: Point("", cores, 1000, 0).split for cores in (1, 4, 6, 8, 16)}
    assert splits == {
        1: (1, ()), 4: (4, ()), 6: (4, (2,)), 8: (4, (4,)), 16: (4, (4, 4, 4)),
    }  # fmt: skip
    assert all(len(p.split[1]) < NODES for p in points(quick=False))


def test_points_have_the_state_that_their_shards_are_to_have() -> None:
    (point,) = [
        p for p in points(quick=False) if "1 MB" in p.name and p.omega == 2 and p.cores == 4
    ]
    assert point.setting.state_bytes * 10_000 / 64 == pytest.approx(1 << 20, rel=0.01)
    assert not point.tail


def test_a_simulated_partition_has_all_the_cores_of_a_point() -> None:
    one, all_of = (simulate(Point("", cores, 4000, 128)) for cores in (1, 16))
    assert one.rows_per_s == pytest.approx(250, rel=0.1)
    assert all_of.rows_per_s == pytest.approx(4000, rel=0.15)


def test_sides_differ_in_where_lanes_may_be() -> None:
    skew, *_ = cluster.cases(quick=True)
    setting = skew.load.setting
    assert (setting.cores, setting.nodes, setting.cores_each) == (NODES * EACH, NODES, EACH)
    assert setting.side(STOCK).partitions == setting.cores
    assert setting.side(HOME).options["remote.maxLanes"] == "0"
    assert setting.side("naive-ec").options["remote.maxLanes"] == str(setting.cores)
    assert setting.policy(HOME) == setting.policy("laneshift") == "laneshift"
    assert skew.load.bound == pytest.approx(setting.full_rate)


def test_lanes_at_home_are_simulated_with_the_cores_of_their_executors() -> None:
    setting = cluster.cases(quick=True)[0].load.setting
    home, free = (foresee(setting, side) for side in (HOME, "laneshift"))
    full = (16.0, setting.seconds)
    most = setting.partitions * setting.cores_each * 1e6 / setting.cost_us
    assert home.rate(*full) <= 1.01 * most
    assert free.rate(*full) > 1.2 * home.rate(*full)


def test_cores_are_divided_evenly_among_executors() -> None:
    setting = cluster.cases(quick=True)[0].load.setting
    with pytest.raises(InputError, match="a divisor of 16 cores"):
        replace(setting, nodes=3)


def test_the_kernel_tells_of_threads() -> None:
    name, seconds = processes.parse_stat("7 (lane (0) x) S 1 1 1 0 -1 4 0 0 0 0 30 12 0 0 20 0 9")
    assert (name, seconds) == ("lane (0) x", 42 / processes.TICKS)
    pid = os.getpid()
    assert processes.resident_mb(pid) > 5

    before = processes.cpu_s(pid)
    np.sum(np.arange(10**7))
    assert processes.cpu_s(pid) >= before
    assert processes.ports(pid) >= 0
