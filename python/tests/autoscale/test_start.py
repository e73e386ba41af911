"""How an autoscaler starts: its arguments, and that a query has one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from autoscale.scripted import Moving, Scripted, lanes, until
from laneshift.api.application import Application
from laneshift.api.autoscaler import Here
from laneshift.autoscale.decisions import Decision
from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.options import AutoscaleOptions
from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.plan import CoreChange, Plan
from laneshift.contract.policy import Policy
from laneshift.errors import InputError, LaneshiftError, SessionError
from plugin.fake import RUNNING
from session.transports import TRANSPORTS, facade


@dataclass(frozen=True, kw_only=True)
class Everything(Policy[None]):
    """Gives each partition so many lanes."""

    name: ClassVar[str] = "everything"
    summary: ClassVar[str] = "for tests"
    source: ClassVar[str] = "ours"
    lanes: int = 2

    def start(self) -> None:
        return None

    def decide(self, cluster: ClusterLoad, state: None) -> tuple[Plan, None]:
        moves = [
            CoreChange(p.partition, p.cores, self.lanes)
            for p in cluster.partitions
            if p.cores != self.lanes
        ]
        return Plan(core_changes=tuple(moves)), None


@pytest.fixture
def gateway() -> Moving:
    return Moving()


@pytest.fixture(params=TRANSPORTS)
def app(gateway: Moving, request: pytest.FixtureRequest) -> Iterator[Application]:
    with facade(request.param, gateway) as made:
        yield made


class TestStart:
    """Arguments of autoscale."""

    def test_by_name_with_parameters(self, app: Application, gateway: Moving) -> None:
        with app.autoscale(
            policy="elasticutor", target_latency="20ms", smoothing=0.5, interval=0.1
        ) as made:
            assert made.policy == "elasticutor" and made.is_running and not made.is_paused
            with pytest.raises(SessionError, match="elasticutor that this object has started"):
                app.autoscale(policy="static")
            until(lambda: made.turns > 1)
            made.pause()
            assert made.is_paused
            made.resume()
            assert not made.is_paused
        assert not made.is_running
        assert gateway.claims[0] == ("elasticutor", "") and gateway.released == 1
        app.autoscale(policy="static", interval=30).stop()

    def test_parameters_reach_the_policy(self) -> None:
        with Application(Here(Moving())).autoscale(
            policy="elasticutor", target_latency="20ms", smoothing=0.5
        ) as made:
            assert made._driver.policy.target_s == 0.02  # type: ignore[attr-defined]
            assert made._driver.policy.smoothing == 0.5  # type: ignore[attr-defined]

    @pytest.mark.parametrize("app", ["connect"], indirect=True)
    def test_a_session_of_connect_names_policies_that_there_are(self, app: Application) -> None:
        with pytest.raises(InputError, match="Only who has the control process's own token"):
            app.autoscale(policy=Everything(lanes=3))

    @pytest.mark.parametrize("app", ["py4j", "grpc"], indirect=True)
    def test_executors_on_demand_reach_the_plugin(self, app: Application, gateway: Moving) -> None:
        with app.autoscale(policy="laneshift", interval=0.1, max_executors=3) as made:
            until(lambda: made.turns > 1)
        assert {most for most, *_ in gateway.demanded} == {3}
        with pytest.raises(InputError, match="static, which gives no lanes to other executors"):
            app.autoscale(policy="static", max_executors=3)
        gateway.demanded.clear()
        with app.autoscale(policy="static", max_executors=0):
            assert gateway.demanded == []

    @pytest.mark.parametrize("app", ["connect"], indirect=True)
    def test_a_session_of_connect_asks_for_no_executors(
        self, app: Application, gateway: Moving
    ) -> None:
        with pytest.raises(InputError, match="Executors are the whole server's"):
            app.query("running").autoscale(policy="laneshift", max_executors=3)
        app.query("running").autoscale(policy="laneshift").stop()
        assert {most for most, *_ in gateway.demanded} == {0}

    @pytest.mark.parametrize("app", ["py4j", "grpc"], indirect=True)
    def test_a_policy_of_ones_own(self, app: Application) -> None:
        heard: list[Decision] = []
        with app.query("running").autoscale(policy=Everything(lanes=3), interval=0.1) as made:
            made.on_decision(heard.append)
            until(lambda: made.decisions())
        assert made.policy == "everything"
        (decision, *_) = made.decisions(limit=1)
        assert {change.after for change in decision.changes} == {3}
        assert decision.applied and made.decisions(limit=0) == ()

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            ({"policy": "elastic"}, ["elastic", "one of", "craa"]),
            ({"policy": 3}, ["policy", "3", "a name or a Policy"]),
            (
                {"policy": "craa", "target_latency": 0.005},
                ["craa", "no latency target", "laneshift"],
            ),
            ({"target_latency": 0}, ["target_latency", "0", "> 0 s"]),
            ({"target_latency": float("nan")}, ["target_latency", "nan"]),
            ({"target_latency": "50"}, ["target_latency", "'50'", "50ms"]),
            ({"interval": 0.05}, ["interval", "0.05", "0.1", "3600"]),
            ({"interval": "1"}, ["interval", "'1'"]),
            ({"cores": 0}, ["cores", "0", "1"]),
            ({"cores": 1.5}, ["cores", "1.5", "a whole number"]),
            ({"max_executors": -1}, ["max_executors", "-1", "10000"]),
            ({"max_executors": 2.5}, ["max_executors", "2.5", "a whole number"]),
            ({"smoothing": 0.5}, ["parameter of laneshift", "smoothing", "one of"]),
            (
                {"policy": Scripted(say=lambda *_: Plan()), "target_latency": 0.005},
                ["name together"],
            ),
        ],
    )
    def test_wrong_arguments(
        self, app: Application, gateway: Moving, arguments: dict[str, Any], words: list[str]
    ) -> None:
        with pytest.raises(InputError) as caught:
            app.autoscale(**arguments)
        for word in words:
            assert word in str(caught.value)
        assert gateway.sent == []

    def test_unknown_query(self, app: Application) -> None:
        with pytest.raises(LaneshiftError, match="there is no elastic query"):
            app.query("nobody").autoscale()

    def test_trace_is_never_overwritten(self, tmp_path: Path) -> None:
        file = tmp_path / "trace"
        file.touch()
        with pytest.raises(FileExistsError):
            Application(Here(Moving())).autoscale(trace=file)


def test_a_query_has_one_autoscaler(tmp_path: Path) -> None:
    gateway = Moving()
    gateway.driven_by = gateway.renewed_by = "craa"
    made = AutoscaleLoop(
        gateway, Scripted(say=lanes(p0=4)), AutoscaleOptions(trace=tmp_path / "trace")
    )
    with pytest.raises(SessionError, match="Another autoscaler, with the policy craa, drives all"):
        made.begin()
    assert not made.is_running
    assert gateway.claims == [] and gateway.sent == []
    assert not (tmp_path / "trace").exists()


def test_an_autoscaler_takes_over_from_one_that_has_died() -> None:
    gateway = Moving()
    gateway.driven_by = "craa"
    with AutoscaleLoop(
        gateway, Scripted(say=lanes(p0=4)), AutoscaleOptions(interval_s=0.1, query=RUNNING)
    ).begin():
        assert gateway.claims[0] == ("scripted", RUNNING[::-1])
    assert gateway.released == 1


def test_an_autoscaler_whose_queries_another_one_has_taken_sends_nothing() -> None:
    gateway = Moving()
    made = AutoscaleLoop(gateway, Scripted(say=lanes(p0=4)), AutoscaleOptions(interval_s=0.1))
    gateway.on_set_lanes = lambda *_: {"lanes": 4, "applied": "now"}  # type: ignore[method-assign]
    with made.begin():
        until(lambda: made.turns > 2)
        gateway.driven_by = gateway.renewed_by = "craa"
        until(lambda: any("OTHER_AUTOSCALER" in (d.error or "") for d in made.decisions()))
        turns = made.turns
        time.sleep(0.3)
        assert made.turns == turns
        gateway.driven_by = None
        until(lambda: made.turns > turns)


def test_a_dry_run_claims_nothing() -> None:
    gateway = Moving()
    gateway.driven_by = gateway.renewed_by = "craa"
    made = AutoscaleLoop(
        gateway, Scripted(say=lanes(p0=4)), AutoscaleOptions(interval_s=0.1, dry_run=True)
    )
    with made.begin():
        until(lambda: made.turns > 2)
    assert gateway.claims == []
