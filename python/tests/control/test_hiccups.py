"""A network that fails for a while: streams go on, and what was said meanwhile comes, too."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from autoscale.scripted import Moving, until
from laneshift.autoscale.decisions import Decision, Note
from laneshift.control.address import Address
from laneshift.control.client import PAUSES_S, ControlClient
from laneshift.control.remote import RemoteAutoscaler
from laneshift.control.running import Run, RunningAutoscalers
from laneshift.errors import NotFoundError, SessionError
from laneshift.plugin.v1 import control_pb2 as pb
from session.transports import TOKEN, serving


class Wire:
    """A way to a service that can be cut, and is then as if nobody listened until it is mended."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._there = (host, int(port))
        self._open: list[socket.socket] = []
        self._whole = True
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._listening.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                came, _ = self._listening.accept()
                self._open.append(came)
                if not self._whole:
                    came.close()
                    continue
                went = socket.create_connection(self._there)
                self._open.append(went)
                for ends in ((came, went), (went, came)):
                    threading.Thread(target=_carry, args=ends, daemon=True).start()

    def cut(self) -> None:
        self._whole = False
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def mend(self, *_: object) -> None:
        self._whole = True

    def close(self) -> None:
        self.cut()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        for each in (self._listening, *self._open):
            each.close()


def _carry(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(1 << 16):
            other.sendall(data)
        other.shutdown(socket.SHUT_RDWR)


class Policy:
    """An autoscaler that says what a test says."""

    def __init__(self) -> None:
        self.policy: Any = self
        self.name = "spoken"
        self.is_running = True
        self.is_paused = self.is_dry_run = self.has_ended = False
        self.turns = 0
        self._listeners: list[Callable[[Decision], None]] = []

    def on_decision(self, listener: Callable[[Decision], None]) -> None:
        self._listeners.append(listener)

    def stop(self) -> None:
        self.is_running = False

    def say(self, note: str) -> None:
        for listener in self._listeners:
            listener(Decision(1.0, "1", self.name, notes=(Note(note),)))


class Service:
    """A service behind a wire, with a policy that runs."""

    def __init__(self, wire: Wire, client: ControlClient, policy: Policy, run: Run) -> None:
        self.wire, self.client, self.policy, self.run = wire, client, policy, run


@contextmanager
def service(pause: Callable[[Wire], object] = Wire.mend) -> Iterator[Service]:
    """A client that, instead of waiting, does ``pause`` before it looks again."""
    policies, policy = RunningAutoscalers(), Policy()
    run = policies.add(policy)  # type: ignore[arg-type]
    with serving(Moving(), policies=policies) as address:
        wire = Wire(address)
        client = ControlClient(wire.address, TOKEN, pause=lambda _: pause(wire))
        try:
            yield Service(wire, client, policy, run)
        finally:
            client.close()
            wire.close()


def test_who_watches_goes_on() -> None:
    with service() as found:
        watched = found.client.watch(0.1)
        next(watched)
        for _ in range(3):
            found.wire.cut()
            for _ in range(2):  # one may have been on its way
                assert next(watched).queries


def test_a_service_that_stays_away_is_told_of() -> None:
    looks: list[object] = []
    with service(looks.append) as found:
        watched = found.client.watch(0.1)
        next(watched)
        found.wire.cut()
        with pytest.raises(SessionError) as lost:
            for _ in watched:
                pass
    assert lost.value.condition == "LANESHIFT_CONTROL_UNREACHABLE"
    assert len(looks) == len(PAUSES_S)
    assert 30 <= sum(PAUSES_S) <= 120


def test_decisions_go_on_without_a_gap() -> None:
    with service(lambda _: None) as found:
        found.policy.say("long ago")
        found.policy.say("before")
        followed = found.client.decisions(1, follow=True)
        found.policy.say("at once")
        said = [list(next(followed).notes), list(next(followed).notes)]
        found.wire.cut()
        found.policy.say("in the gap")
        found.wire.mend()
        found.policy.say("after it")
        said += [list(next(followed).notes), list(next(followed).notes)]
    assert said == [["before"], ["at once"], ["in the gap"], ["after it"]]


def test_a_listener_hears_all_from_when_it_is_there_on() -> None:
    heard: list[str] = []

    def listener(decision: Decision) -> None:
        heard.extend(decision.notes)
        if decision.notes == ("at once",):
            raise ValueError("the listener's own")

    with service() as found:
        found.policy.say("before")
        autoscaler = RemoteAutoscaler(found.client, pb.Autoscaler(id=found.run.id))
        autoscaler.on_decision(listener)
        found.policy.say("at once")
        until(lambda: heard == ["at once"])
        found.wire.cut()
        found.policy.say("in the gap")
        until(lambda: heard == ["at once", "in the gap"])


def test_the_policy_of_another_process_is_not_taken_for_it() -> None:
    """Whose id a notebook of before still has: its ``with`` ends, and stops nothing."""
    ids = set()
    for _ in range(2):
        with service() as found:
            ids.add(found.run.id)
            assert found.client.stop_autoscaler(found.run.id).id == found.run.id
            with pytest.raises(NotFoundError):
                found.client.stop_autoscaler(next(iter(ids - {found.run.id}), "other"))
    assert len(ids) == 2
