"""The control service of a real driver, and of a Spark Connect server with two clients."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import laneshift
from laneshift.plugin.gateway import Gateway
from laneshift.plugin.jar import jar_path, jar_version
from live.applications import connect_server, controlled
from live.conftest import run_app, until

pytestmark = pytest.mark.live


@pytest.mark.versions
def test_a_query_is_steered_from_another_process(tmp_path: Path) -> None:
    with controlled(tmp_path) as token:
        address = (tmp_path / "token.address").read_text("utf-8").strip()
        with laneshift.attach(address, token_file=token) as app:
            until(lambda: [o for q in app.snapshot().queries for o in q.operators])
            app.query("orders").set_lanes(3)
            for snapshot in app.watch(0.2):
                parts = snapshot.queries[0].operators[0].partitions
                if all(p.lanes == 3 and (p.lane_rows > 0).all() for p in parts):
                    break
            lane = int(app.snapshot().queries[0].operators[0].partitions[0].lane_of_shard[1])
            app.query("orders").move(shard=1, to_lane=(lane + 1) % 3, partition=0)
            with pytest.raises(laneshift.SessionError, match="cannot be slowed down"):
                app.query("orders").limit_source(1000, duration=1)
            with app.query("orders").autoscale(policy="elasticutor", interval=0.2) as scheduler:
                until(lambda: scheduler.turns >= 4)
            until(
                lambda: (
                    {"user", "scale"}
                    <= {h.reason for h in app.query("orders").handoffs(limit=10_000)}
                )
            )
            with pytest.raises(laneshift.ArgumentError, match="99 lanes for partition 0"):
                app.query("orders").set_lanes(99, partition=0)
            # What the plugin itself refuses keeps its words and its class.
            client: Any = app._gateway
            with pytest.raises(laneshift.ArgumentError, match="99"):
                client.set_lanes("orders", 0, 0, 99)
            with pytest.raises(laneshift.NotFoundError, match="orders"):
                client.set_lanes("nobody", 0, 0, 2)
    assert not (tmp_path / "token.address").exists()


def packed_and_said(gateway: Gateway) -> tuple[dict[str, Any], dict[str, Any]]:
    """A snapshot as the plugin packs it, and as it says it, with nothing changed in between."""

    def asked() -> tuple[dict[str, Any], dict[str, Any]] | None:
        packed, data = gateway.packed_snapshot(0), gateway.snapshot()
        again = gateway.packed_snapshot(int(packed["number"]))
        return (packed, data) if again["content"] is None else None

    found: tuple[dict[str, Any], dict[str, Any]] = until(asked)
    return found


def test_the_protocol_has_all_that_a_snapshot_says(
    app: laneshift.Application, counting: Any
) -> None:
    from laneshift.control.codec import snapshot_json, to_message
    from laneshift.control.feed import Content
    from laneshift.control.v1 import control_pb2 as pb

    counting.add(1000)
    gateway: Gateway = app._gateway  # type: ignore[assignment]
    packed, data = packed_and_said(gateway)
    again = snapshot_json(pb.SnapshotReply.FromString(
        to_message(pb.SnapshotReply(), data).SerializeToString()))  # fmt: skip
    del data["count_ms"]  # is for schedulers beside the driver alone
    for query in data["queries"]:
        del query["tenant"]  # is for the control process alone

    def lacking(said: Any, known: Any, where: str) -> Iterator[str]:
        if isinstance(said, dict):
            for key, value in said.items():
                if key in known:
                    yield from lacking(value, known[key], f"{where}.{key}")
                else:
                    yield f"{where}.{key}"
        elif isinstance(said, list) and said and isinstance(said[0], dict):
            for one, other in zip(said, known, strict=True):
                yield from lacking(one, other, where)
        elif said != known:
            yield f"{where}: {said} became {known}"

    assert list(lacking(data, again, "snapshot")) == []

    # And so does what the plugin packs, which reads the names' numbers from the protocol.
    content = Content.of(packed)
    (one,) = content.queries
    whole = pb.SnapshotReply.FromString(content.head + one.field)
    assert snapshot_json(whole) | {"time_ms": data["time_ms"]} == again
    assert (one.id, one.run_id, one.name) == tuple(
        data["queries"][0][name] for name in ("id", "run_id", "name")
    )
    known = gateway.packed_snapshot(content.number)
    assert (known["content"] is None) == (known["number"] == content.number)


@pytest.mark.parametrize("tenants", ["own", pytest.param("all", marks=pytest.mark.deep("surface"))])
def test_two_clients_of_a_connect_server(tmp_path: Path, tenants: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {"spark.sql.laneshift.control.tenants": tenants}
    with connect_server(tmp_path, port, **options) as token:
        folder = Path(__file__).parent
        seen = run_app(folder / "connect_app.py", f"sc://127.0.0.1:{port}", tenants, limit_s=110)
        address = (tmp_path / "token.address").read_text("utf-8").strip()
        with laneshift.attach(address, token_file=token) as operator:
            assert operator.snapshot().version == jar_version(jar_path())
    assert seen["errors"] == ["None", "None"]
    assert all(count > 0 for count in seen["moved"])
    assert set(seen["shards"]) == {48}  # as the clients' builders were configured
    assert set(seen["lanes"]) == {3} or tenants == "all"
    allowed = {
        "own": ["LANESHIFT_NO_SUCH_QUERY"] * 2 + ["LANESHIFT_OTHER_TENANT"],
        "all": ["done", "LANESHIFT_SOURCE_NOT_LIMITED", "done"],
    }
    assert seen["others"] == allowed[tenants]
    assert len(set(seen["tokens"])) == 2
    assert token.read_text("utf-8").strip() not in seen["tokens"]
