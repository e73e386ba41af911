"""The control service of a real driver, and of a Spark Connect server with two clients."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

import laneshift
from laneshift.plugin.gateway import the_one
from laneshift.plugin.jar import jar_path, jar_version
from laneshift.plugin.v1 import control_pb2 as pb
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
            with app.query("orders").autoscale(policy="elasticutor", interval=0.2) as autoscaler:
                until(lambda: autoscaler.turns >= 4)
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
                the_one(client.set_lanes([wish("orders", 99)]))
            with pytest.raises(laneshift.NotFoundError, match="orders"):
                the_one(client.set_lanes([wish("nobody", 2)]))
    assert not (tmp_path / "token.address").exists()


def wish(query: str, lanes: int) -> pb.LanesWish:
    return pb.LanesWish(query=query, operator=0, partition=0, lanes=lanes)


def test_each_wish_has_its_outcome_and_a_snapshot_its_number(
    app: laneshift.Application, counting: Any
) -> None:
    counting.add(1000)
    gateway, query = app._gateway, str(counting.query.id)
    count = app.query(query).snapshot().operators[0].partition_count
    wishes = [pb.LanesWish(query=query, operator=0, partition=p, lanes=2) for p in range(count + 1)]
    *done, refused = gateway.set_lanes(wishes)
    assert done == [laneshift.Applied.NEXT_BATCH] * count
    assert isinstance(refused, laneshift.NotFoundError) and str(count) in str(refused)

    def same() -> pb.SnapshotReply | None:
        whole = gateway.ask("Snapshot", pb.SnapshotRequest(), pb.SnapshotReply)
        known = pb.SnapshotRequest(known=whole.number)
        again = gateway.ask("Snapshot", known, pb.SnapshotReply)
        assert again.same == (again.number == whole.number) and again.time_ms >= whole.time_ms
        return again if again.same else None

    found: pb.SnapshotReply = until(same)
    assert not found.queries and not found.executors


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
