"""Users' ways of use beside stock Spark: what they see is equal, and laneshift was at work."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from usage.harness import (
    CASES,
    HANG,
    OPTIONS,
    PREFIX,
    SIDES,
    WORLDS,
    Case,
    Seen,
    Side,
    judge,
    see,
    themes,
)
from usage.side_app import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.live
list(themes())
COSTS = Path(__file__).parents[3] / "build" / "usage"


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=f"{c.theme}-{c.name}") for c in CASES.values() if c.gate]
)
def test_in_the_suites_session(spark: SparkSession, tmp_path: Path, case: Case) -> None:
    def seen(side: str) -> Seen:
        session = spark.newSession()
        for key, value in OPTIONS[side].items():
            session.conf.set(PREFIX + key, value)
        return see(case, Side(side, session, tmp_path / side))

    judge(case, *map(seen, SIDES))


def test_what_is_not_stocks_or_was_not_elastic_is_red() -> None:
    usual, refused = Case("usual", print, ()), Case("refused", print, (), refused=True)
    stock, elastic = Seen([1], [], 0, 1.0), Seen([1], [1], 5, 1.0)
    judge(usual, stock, elastic)
    judge(refused, Seen("fails: A", [], 0, 1.0), Seen("fails: A", [1], 5, 1.0))
    wrong = [
        (usual, stock, replace(elastic, answer=[2])),
        (usual, stock, replace(elastic, regions=[])),
        (usual, stock, replace(elastic, regions=[1, 0])),
        (usual, stock, replace(elastic, moves=0)),
        (usual, replace(stock, answer=HANG), replace(elastic, answer=HANG)),
        (refused, stock, elastic),
        (replace(usual, plain=True), stock, elastic),
    ]
    for case, first, second in wrong:
        with pytest.raises(AssertionError):
            judge(case, first, second)


class Worlds:
    """What both sides of a world came to, once one of its cases is asked for."""

    def __init__(self, folder: Path, asked: list[tuple[str, str]]) -> None:
        self._folder = folder
        self._asked = asked
        self._seen: dict[str, list[dict[str, Seen]]] = {}

    def of(self, world: str, name: str) -> list[Seen]:
        if world not in self._seen:
            names = [n for w, n in self._asked if w == world]
            at = self._folder / world
            at.mkdir()
            with ThreadPoolExecutor() as both:
                sides = [both.submit(run, side, world, at / side, names) for side in SIDES]
                self._seen[world] = [side.result() for side in sides]
            self._tell(world)
        found = self._seen[world]
        missing = [side for side, seen in zip(SIDES, found, strict=True) if name not in seen]
        assert not missing, f"ended before it: {missing}; {self._folder / world}"
        return [seen[name] for seen in found]

    def _tell(self, world: str) -> None:
        """CPU seconds of each case on both sides."""
        stock, elastic = self._seen[world]
        both = {n: [stock[n].cpu_s, elastic[n].cpu_s] for n in stock if n in elastic}
        COSTS.mkdir(parents=True, exist_ok=True)
        (COSTS / f"{world}.json").write_text(json.dumps(both, indent=1))


@pytest.fixture(scope="module")
def worlds(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Worlds:
    marked = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    asked = [(p["world"], p["case"].name) for p in marked if "world" in p and "case" in p]
    return Worlds(tmp_path_factory.mktemp("worlds"), asked)


@pytest.mark.deep("pairs")
@pytest.mark.timeout(3300)
@pytest.mark.parametrize(
    ("world", "case"),
    [
        pytest.param(world, case, id=f"{world}-{case.theme}-{case.name}")
        for world in WORLDS
        for case in CASES.values()
        if world in case.worlds
    ],
)
def test_in_a_session_of_its_own(worlds: Worlds, world: str, case: Case) -> None:
    judge(case, *worlds.of(world, case.name))
