"""Rescales by the facade: what is asked, what is waited for, and what is told."""

from __future__ import annotations

from typing import Any

import pytest

import laneshift
from laneshift import Application, ArgumentError, SessionError
from laneshift.api import rescale
from laneshift.api.autoscaler import Here
from laneshift.errors import error, from_jvm
from laneshift.plugin.rescale import RescaleProgress, RescaleState
from laneshift.plugin.v1 import control_pb2 as pb
from laneshift.plugin.wire import filled
from plugin.fake import RUNNING, FakeGateway, message
from plugin.fake import rescaling as said
from session.transports import TRANSPORTS, facade


class RescalingGateway(FakeGateway):
    """Answers one state after the other, the last one again and again."""

    def __init__(self, *states: dict[str, Any]) -> None:
        super().__init__()
        self.states = list(states)
        self.asks: list[tuple[Any, ...]] = []

    def on_rescale(self, query: str, partitions: int) -> dict[str, Any]:
        self.asks.append(("rescale", query, partitions))
        return self.on_rescaling(query)

    def on_rescaling(self, query: str) -> dict[str, Any]:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def on_cancel_rescale(self, query: str) -> dict[str, Any]:
        self.asks.append(("cancel", query))
        return self.states[-1]


def rescaled(gateway: RescalingGateway) -> rescale.Rescale:
    return Application(Here(gateway)).query("running").rescale(16)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescale, "POLL_S", 0.001)


def test_it_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    done = said("done", batch_id=7, pause_ms=81.5)
    gateway = RescalingGateway(
        said("waiting"), said("building"), said("catching-up", lag_batches=3), done
    )
    now = rescaled(gateway).wait(show=True)
    assert now == RescaleProgress(4, 16, RescaleState.DONE, True, None, 8, 16, 0, 7, 81.5)
    assert gateway.asks == [("rescale", RUNNING, 16)]
    shown = capsys.readouterr().err
    assert "[" + "#" * 15 + "." * 15 + "] building" in shown
    assert "] catching-up, 3 batches behind" in shown
    assert "] done " in shown and shown.endswith(", paused 82 ms\n")


def test_it_is_not_waited_for_if_nobody_wants() -> None:
    asked = rescaled(RescalingGateway(said("waiting")))
    assert asked.state is RescaleState.WAITING and asked.progress.stores == 16
    with pytest.raises(SessionError, match=r"is waiting after 0\.01 s, and goes on"):
        asked.wait("10ms")
    with pytest.raises(ArgumentError, match=r"timeout.*'10'.*text with a unit"):
        asked.wait("10")


def test_a_failure_is_told() -> None:
    asked = rescaled(RescalingGateway(said("failed", failure="no space left")))
    with pytest.raises(SessionError, match=r"16 state partitions, but 4 as before: no space left"):
        asked.wait()


def test_who_waits_hears_that_it_was_cancelled() -> None:
    asked = rescaled(RescalingGateway(said("waiting"), said("building"), said("cancelled")))
    with pytest.raises(SessionError, match="but 4 as before: it was cancelled"):
        asked.wait()


def test_a_later_one_is_not_taken_for_it() -> None:
    later = said("building") | {"before": 16, "after": 8}
    now = rescaled(RescalingGateway(said("waiting"), later)).wait()
    assert (now.before, now.after, now.state) == (4, 16, "done")
    instead = said("building") | {"after": 8}
    with pytest.raises(SessionError, match="had ended when one to 8 was asked for"):
        rescaled(RescalingGateway(said("waiting"), instead)).wait()


def test_it_can_be_cancelled_until_it_is_over() -> None:
    gateway = RescalingGateway(said("waiting"), said("waiting"), said("cancelled"))
    rescaled(gateway).cancel()
    assert gateway.asks == [("rescale", RUNNING, 16), ("cancel", RUNNING)]
    over = RescalingGateway(said("done"))
    with pytest.raises(SessionError, match="cannot be cancelled any more: it is done"):
        rescaled(over).cancel()
    assert over.asks == [("rescale", RUNNING, 16)]


def test_one_that_another_has_followed_is_not_cancelled_with_it() -> None:
    gateway = RescalingGateway(said("waiting"), said("building") | {"before": 16, "after": 8})
    with pytest.raises(SessionError, match="cannot be cancelled any more: it is done"):
        rescaled(gateway).cancel()
    assert gateway.asks == [("rescale", RUNNING, 16)]


def test_a_query_without_a_rescale_has_none() -> None:
    class Never(FakeGateway):
        def on_rescaling(self, query: str) -> dict[str, Any]:
            raise error("LANESHIFT_NO_RESCALE", query=query)

    assert Application(Here(Never())).query("running").rescaling is None


@pytest.mark.parametrize("wrong", ["16", 2.0, True, None])
def test_only_whole_numbers_are_sent(wrong: Any) -> None:
    gateway = RescalingGateway(said("waiting"))
    with pytest.raises(ArgumentError, match="partitions"):
        Application(Here(gateway)).query("running").rescale(wrong)
    assert not gateway.asks


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_it_is_the_same_by_every_way(transport: str) -> None:
    done = said("done", batch_id=7, pause_ms=81.5)
    gateway = RescalingGateway(said("waiting"), said("building", lag_batches=2), done)
    with facade(transport, gateway) as live:
        asked = live.query("running").rescale(16)
        assert asked.progress.lag_batches == 2
        newest = live.query("running").rescaling
        assert newest is not None and newest.progress == asked.progress
        assert asked.progress == filled(RescaleProgress, message(pb.RescaleReply(), done))
        with pytest.raises(SessionError, match="cannot be cancelled any more: it is done"):
            asked.cancel()
    assert gateway.asks == [("rescale", RUNNING, 16)]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_snapshot_has_it(transport: str) -> None:
    with facade(transport, FakeGateway()) as live:
        (query,) = live.snapshot().queries
    assert query.rescale == RescaleProgress(
        4, 16, RescaleState.BUILDING, False, None, 8, 16, 3, None, 0.0
    )


def test_errors_of_the_plugin_are_of_their_kind() -> None:
    kinds = {
        "LANESHIFT_PARTITIONS_OUT_OF_RANGE": laneshift.ArgumentError,
        "LANESHIFT_NOT_RESCALABLE": laneshift.SessionError,
        "LANESHIFT_RESCALE_RUNS": laneshift.SessionError,
        "LANESHIFT_NO_RESCALE": laneshift.NotFoundError,
    }
    for condition, kind in kinds.items():
        assert isinstance(from_jvm(condition, "no", {}), kind)
