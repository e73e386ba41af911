"""When executors are asked for and given back: a table of turns, without any policy or plugin."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from laneshift.autoscale.executors import AGAIN_S, LATE_S, DemandMemory, Need, Wish, wish
from laneshift.plugin.standing import Standing

REST_S = 60.0
ENOUGH = Need(cores=2)


def standing(there: int, requested: int | None = None, asked: tuple[str, ...] = ()) -> Standing:
    wanted = there if requested is None else requested
    return Standing(4, REST_S, there, wanted, at_start=1, asked=asked)


def short(cores: int) -> Need:
    return Need(cores, 2, words="why")


def spare(*executors: str) -> Need:
    return Need(0, 2, executors)


@dataclass(frozen=True)
class Turn:
    at_s: float
    how: Standing
    need: Need
    total: int = 0
    back: tuple[str, ...] = ()
    says: str = ""


ONE = standing(1)
CASES: dict[str, list[Turn]] = {
    "enough asks for nothing": [Turn(t, ONE, ENOUGH) for t in range(0, 200, 50)],
    "short for a moment asks for nothing": [
        Turn(0, ONE, short(3)),
        Turn(1, ONE, short(3)),
        Turn(2, ONE, ENOUGH),
        Turn(3, ONE, short(3)),
        Turn(4, ONE, short(3)),
    ],
    "short for two seconds asks for as many as have the cores": [
        Turn(0, ONE, short(3)),
        Turn(
            2, ONE, short(3), total=3, says="asks Spark for 2 executors more, 3 of at most 4: why"
        ),
        Turn(3, standing(1, 3), short(4)),
    ],
    "the most is the most": [
        Turn(0, ONE, short(90)),
        Turn(2, ONE, short(90), total=4, says="3 executors more, 4 of at most 4"),
        Turn(60, standing(4), Need(0, 2)),
    ],
    "what grows while the first ones come is asked for, too, after a while": [
        Turn(0, ONE, short(2)),
        Turn(2, ONE, short(2), total=2, says="1 executor more"),
        Turn(3, standing(1, 2), short(4)),
        Turn(2 + AGAIN_S, standing(1, 2), short(4), total=3, says="1 executor more"),
    ],
    "who does not come is spoken of once": [
        Turn(0, ONE, short(2)),
        Turn(2, ONE, short(2), total=2, says="asks"),
        Turn(1 + LATE_S, standing(1, 2), short(2)),
        Turn(2 + LATE_S, standing(1, 2), short(2), says="spark.cores.max"),
        Turn(3 + LATE_S, standing(1, 2), short(2)),
    ],
    "who has not come and is not needed any more is not wanted any more": [
        Turn(0, ONE, short(2)),
        Turn(2, ONE, short(2), total=2, says="asks"),
        Turn(3, standing(1, 2), ENOUGH),
        Turn(2 + REST_S, standing(1, 2), ENOUGH),
        Turn(3 + REST_S, standing(1, 2), ENOUGH, total=1, says="not needed any more"),
    ],
    "those of the start that are still to come are nobody's to call off": [
        Turn(t, Standing(4, REST_S, 1, 3, at_start=3), ENOUGH) for t in (0, 100, 200)
    ],
    "rest must be whole": [
        Turn(0, standing(3, asked=("1", "2")), spare("2")),
        Turn(50, standing(3, asked=("1", "2")), Need(1, 2, ("2",))),
        Turn(51, standing(3, asked=("1", "2")), spare("2", "1")),
        Turn(50 + REST_S, standing(3, asked=("1", "2")), spare("2", "1")),
        Turn(
            51 + REST_S, standing(3, asked=("1", "2")), spare("2"), back=("2",), says="executor 2"
        ),
    ],
    "each rests by itself": [
        Turn(0, standing(3, asked=("1", "2")), spare("2")),
        Turn(30, standing(3, asked=("1", "2")), spare("2", "1")),
        Turn(REST_S, standing(3, asked=("1", "2")), spare("2", "1"), back=("2",), says="for 60 s"),
        Turn(30 + REST_S, standing(2, asked=("1",)), spare("1"), back=("1",), says="executor 1"),
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_a_wish_follows_from_what_is_short_for_how_long(name: str) -> None:
    memory = DemandMemory()
    for turn in CASES[name]:
        found, memory = wish(turn.how, turn.need, memory, turn.at_s)
        assert (found.total, found.give_back) == (turn.total, turn.back), turn
        said = " | ".join(found.notes)
        assert turn.says in said and bool(said) == bool(turn.says), (turn, said)


def test_it_is_pure() -> None:
    memory = DemandMemory(short_since_s=0.0)
    first = wish(ONE, short(3), memory, 5.0)
    assert first == wish(ONE, short(3), memory, 5.0) and memory == DemandMemory(short_since_s=0.0)
    assert first[0] != Wish()
