"""Key distribution Table 2: what each kind of move does to routing table and broadcast."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from laneshift.partitioning import Loads, Routing
from laneshift_experiments.base import Experiment, Options, Progress, Report, Statement, Table
from laneshift_lab.partitioning.costs import routing_costs

STATES = ("merge", "unchanged", "split")
DIRECTIONS = ("back", "across", "out")
HELPS = {-1: "-", 0: "0", 1: "+"}
#: The source's signs of O2 and O4; (unchanged, across) as its section 3.2 says it: the damaged
#: table shows + [R].
STATED = {
    ("merge", "back"): "++", ("merge", "across"): "++", ("merge", "out"): "0+",
    ("unchanged", "back"): "+0", ("unchanged", "across"): "00", ("unchanged", "out"): "-0",
    ("split", "back"): "0-", ("split", "across"): "--", ("split", "out"): "--",
}  # fmt: skip
TARGETS, HOME = 4, 0


def moves() -> Iterator[tuple[set[int], int, int, bool]]:
    """Every (holders, source, target, whole) of one key over ``TARGETS`` targets, home 0.

    Whole: the source gives up its part. In part: only to a target that holds nothing, or the move
    changes no count at all.
    """
    for size in range(1, TARGETS + 1):
        for held in itertools.combinations(range(TARGETS), size):
            for source in held:
                for target in set(range(TARGETS)) - {source}:
                    yield set(held), source, target, True
                    if target not in held:
                        yield set(held), source, target, False


def effect(holders: set[int], source: int, target: int, whole: bool) -> tuple[str, str, str]:
    """(state, direction, signs of O2 and O4): a cost that falls helps, +."""
    after = (holders - {source} if whole else holders) | {target}
    (_, records, _, broadcast), (_, records_after, _, broadcast_after) = (
        routing_costs(Loads.of([1.0]), _routing(h)) for h in (holders, after)
    )
    more = len(after) - len(holders)
    state = STATES[1 + more]
    direction = "back" if target == HOME else "out" if source == HOME else "across"
    o2 = (records > records_after) - (records < records_after)
    o4 = (broadcast > broadcast_after) - (broadcast < broadcast_after)
    return state, direction, HELPS[o2] + HELPS[o4]


def _routing(holders: set[int]) -> Routing:
    return Routing.from_table([HOME], TARGETS, {0: {t: 1 / len(holders) for t in holders}})


def signs(options: Options, progress: Progress) -> Report:
    """Enumerate the moves and compare their signs with the table."""
    del options
    progress(0.0, "enumerating")
    found: dict[tuple[str, str], list[str]] = {cell: [] for cell in STATED}
    for move in moves():
        state, direction, sign = effect(*move)
        found[state, direction].append(sign)
    rows = tuple(
        (state, direction, len(found[state, direction]), *_both(set(found[state, direction])),
         *STATED[state, direction])
        for state in STATES
        for direction in DIRECTIONS
    )  # fmt: skip
    columns = ("state", "direction", "moves", "o2", "o4", "stated_o2", "stated_o4")
    statements = tuple(
        Statement(
            f"{cost}: every kind of move has the sign of the table", "stated",
            "; ".join(f"{r[0]} {r[1]} {r[at]}" for r in rows),
            all(r[at] == r[at + 2] for r in rows),
        )
        for cost, at in (("O2, routing table", 3), ("O4, broadcast", 4))
    )  # fmt: skip
    shown = Statement(
        "The printed + of O2 for (unchanged, across)", "[R] damaged",
        f"{_both(set(found['unchanged', 'across']))[0]}, as the source's section 3.2 says in words",
        None,
    )  # fmt: skip
    notes = (
        "All moves of one key over 4 targets, home 0; + helps, - hurts. O1 and O3 are about "
        "planning time and moved state, which depend on more than the kind of move.",
    )
    return Report(Table(columns, rows), (*statements, shown), (), notes)


def _both(signs_found: set[str]) -> tuple[str, str]:
    """The signs of O2 and of O4, each as "x or y" when moves of a kind differ."""
    o2, o4 = (" or ".join(sorted({s[i] for s in signs_found})) for i in (0, 1))
    return o2, o4


EXPERIMENTS = (
    Experiment("keys-signs", "key-distribution", "Key distribution Table 2: signs of moves", signs),
)
