"""The demo's director: lanes 1, 4, 2 by progress, and moves to lanes that exist."""

from __future__ import annotations

import random

from laneshift import Application
from laneshift.api.autoscaler import Here
from laneshift_demo.director import Director
from plugin.fake import RUNNING, FakeGateway, partition


def directed(moves_per_s: float = 10.0) -> tuple[Director, FakeGateway]:
    gateway = FakeGateway()
    director = Director(Application(Here(gateway)), RUNNING, moves_per_s, random.Random(1))
    return director, gateway


def test_lanes_change_once_at_each_third_for_all_partitions() -> None:
    director, gateway = directed(moves_per_s=1e-9)
    for tick in range(101):
        director.act(tick / 10, tick / 100)
    commands = [sent for sent in gateway.sent if sent[0] == "set_lanes"]
    assert commands == [("set_lanes", RUNNING, 0, None, 4), ("set_lanes", RUNNING, 0, None, 2)]
    assert [lanes for _, lanes in director.lane_changes] == [1, 4, 2]
    assert [round(at, 1) for at, _ in director.lane_changes] == [0.0, 3.4, 6.7]


def test_moves_keep_their_rate_and_go_to_another_lane() -> None:
    director, gateway = directed(moves_per_s=10.0)
    for tick in range(201):
        director.act(tick / 20, 0.1)
    moves = [sent for sent in gateway.sent if sent[0] == "move_shard"]
    assert 95 <= len(moves) <= 101
    for _, _, _, part, shard, lane in moves:
        assert part in (0, 1)
        assert lane != shard % 2


def test_one_lane_has_no_moves() -> None:
    director, gateway = directed()
    only = [partition(0, lanes=1)]
    gateway.data["queries"][0]["operators"][0]["partitions"] = only
    for tick in range(100):
        director.act(tick / 10, 0.0)
    assert gateway.sent == []


def test_a_query_that_has_not_begun_is_left_alone() -> None:
    director, gateway = directed()
    gateway.data["queries"] = []
    director.act(5.0, 0.9)
    assert gateway.sent == []
    assert director.lane_changes == []
