"""Where laneshift stands beside others by the published results: ahead, level or behind.

Reads what `report.py` has written, no Spark. The one unit is *times as good*: rates as laneshift's
over the other's, times and sizes the other way round, so that more than 1 is always ahead.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from laneshift_bench import field_report

LEVEL = 0.03
"""Less of a difference is none, as NEXMark's goal of 0.97 says."""
AHEAD, LEVEL_WITH, BEHIND = "ahead", "level", "behind"
STOCK = "stock Spark"
POLICIES = ("elasticutor", "laneshift")
RAN = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d UTC) at ([0-9a-f]+\+?)(?: on (.+))?")
"""When a part ran, on which commit, and on which CPU if that was kept: `ran_now` in report.py."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure of one case, laneshift's beside another's.

    Attributes:
        benchmark: its name.
        figure: what is compared, with its unit and the side of laneshift's.
        case: of the benchmark.
        rival: what it stands beside.
        times: how many times as good laneshift was, for each pair of runs; inf if only laneshift
            got there at all, 0 if only the other did.
        ran: when, if the part of the results has a time of its own.
    """

    benchmark: str
    figure: str
    case: str
    rival: str
    times: tuple[float, ...]
    ran: str = ""

    @property
    def middle(self) -> float:
        """The median of the pairs."""
        return median(self.times)

    @property
    def verdict(self) -> str:
        """Ahead or behind if more than 3 % lie between and all pairs of runs agree."""
        if self.middle > 1 + LEVEL and min(self.times) > 1:
            return AHEAD
        if self.middle < 1 - LEVEL and max(self.times) < 1:
            return BEHIND
        return LEVEL_WITH


@dataclass(frozen=True, slots=True)
class Result:
    """One benchmark's published result, as it is in ``NAME.json``."""

    name: str
    ran_on: dict[str, Any]
    goals: list[dict[str, Any]]
    data: dict[str, Any]

    @staticmethod
    def read(file: Path) -> Result:
        """Errors: ValueError if it is not what the benchmark of that name writes."""
        content = json.loads(file.read_text("utf-8"))
        if content.get("benchmark") != file.stem:
            raise ValueError(f"{file.name} is of the benchmark {content.get('benchmark')!r}.")
        return Result(file.stem, content["ran_on"], content["goals"], content["data"])

    @property
    def parts_ran(self) -> list[str]:
        """When its parts ran, oldest first, if they have times of their own. Other systems' runs
        do not count: no commit of ours changes them.
        """
        return sorted(set(_ran_in(self.data)))

    def goal_ran(self, what: str) -> str:
        """When the part of a goal ran: ``PART: ...`` or ``PART: SIDE, ...``; empty if unknown."""
        part, _, rest = what.partition(": ")
        while part not in self.data and ": " in rest:
            more, _, rest = rest.partition(": ")
            part = f"{part}: {more}"
        found = self.data.get(part)
        if not isinstance(found, dict):
            return ""
        side = found.get("sides", {}).get(rest.partition(",")[0], {})
        return str(side.get("ran") or found.get("ran") or "")

    @property
    def comparisons(self) -> list[Comparison]:
        """All that it says of others, as far as they are compared.

        Errors: ValueError if its data are not as :data:`READ` expects them.
        """
        read = READ.get(self.name, by_goals)
        try:
            return list(read(self))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{self.name}.json is not as `{read.__name__}` in standing.py reads it: {error!r}"
            ) from error

    def compared(
        self, figure: str, case: str, ours: Sequence[Any], theirs: Sequence[Any],
        *, less: bool = False, rival: str = STOCK,
    ) -> Comparison:  # fmt: skip
        """The i-th run of one beside the i-th of the other, or their medians if one has more."""
        return Comparison(self.name, figure, case, rival, times_as_good(ours, theirs, less))


def _ran_in(data: Any) -> Iterator[str]:
    values = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    for value in values:
        yield from _ran_in(value)
    if not isinstance(data, dict) or not str(data.get("system", field_report.OURS)).startswith(
        field_report.OURS
    ):
        return
    if isinstance(ran := data.get("ran"), str) and RAN.fullmatch(ran):
        yield ran


def times_as_good(
    ours: Sequence[float | None], theirs: Sequence[float | None], less: bool
) -> tuple[float, ...]:
    """For each pair; where ``less`` is better, None is a time that never came.

    >>> times_as_good([20.0, 30.0], [10.0, 10.0], less=False)
    (2.0, 3.0)
    >>> times_as_good([2.0, None], [4.0, 1.0], less=True)
    (2.0, 0.0)
    """
    never = math.inf if less else 0.0
    mine, other = ([never if x is None else float(x) for x in each] for each in (ours, theirs))
    if not mine or not other:
        raise ValueError("There is no run to compare.")
    if len(mine) != len(other):
        mine, other = [median(mine)], [median(other)]
    found = []
    for one, two in zip(mine, other, strict=True):
        better, worse = (two, one) if less else (one, two)
        if better == worse:
            found.append(1.0)
        else:
            found.append(math.inf if worse == 0 or better == math.inf else better / worse)
    return tuple(found)


def by_goals(result: Result) -> Iterator[Comparison]:
    """Goals that are times of stock: ``case: figure x stock``, or ``/ stock``."""
    for goal in result.goals:
        found = re.fullmatch(r"(?:(.*): )?(.*?)(?:,? [/x] stock)", goal["what"])
        if found:
            case, figure = found[1] or "", found[2]
            less = goal["goal"].startswith("<=")
            ours, theirs = (goal["value"], 1.0)
            yield result.compared(figure, case, [ours], [theirs], less=less)


def by_pairs(result: Result) -> Iterator[Comparison]:
    """`auto` and `nexmark`: a ratio for each case, where more is better."""
    for case, found in result.data.items():
        figure = "rate, jar alone"
        if result.name == "nexmark":
            case, mode = case.split(" ")
            figure = f"events/s in {mode}, jar alone"
        pairs, ran = tuple(found["ratio"]["pairs"]), found.get("ran", "")
        yield Comparison(result.name, figure, case, STOCK, pairs, ran)
        # Of `auto`: stock with the best other number of partitions, and with salts.
        for side, ratio in found.get("over", {}).items():
            rival, own = side.replace("stock", STOCK), ratio.get("side", "jar alone")
            pairs = tuple(ratio["pairs"])
            yield Comparison(result.name, f"rate, {own}", case, rival, pairs, ran)


def by_side(result: Result) -> Iterator[Comparison]:
    """`idle` and `operators`: for each figure or operator the runs of stock and others."""
    for case, found in result.data.items():
        if not isinstance(found, dict) or "stock" not in found:
            continue
        figure, less = "rows/s", False
        if latency := re.fullmatch(r"real-time latency, (.*)", case):
            figure, case, less = f"latency, {latency[1]}", "Real-time Mode", True
        for side, runs in found.items():
            if side != "stock" and isinstance(runs, list):
                shown = case.removesuffix(", rows/s")
                yield result.compared(f"{figure}, {side}", shown, runs, found["stock"], less=less)


def of_tasks(result: Result) -> Iterator[Comparison]:
    """Times of batches, and ages in Real-time Mode."""
    for case, found in result.data.items():
        for side in (name for name in found if name != "stock"):
            figure, ours, theirs = "time of a batch", found[side], found["stock"]
            if isinstance(ours[0], dict):
                figure = "p99 of all rows"
                ours, theirs = ([run["all"]["p99_ms"] for run in x] for x in (ours, theirs))
            yield result.compared(figure, f"{case}: {side}", ours, theirs, less=True)


def by_rate(result: Result) -> Iterator[Comparison]:
    """`hotkey` and `hotjoin`: rates by ``case, side``."""
    (unit,) = (name for name in result.data if name.endswith("_per_s"))
    rates = result.data[unit]
    for name, runs in rates.items():
        case, side = name.split(", ", 1)
        theirs = rates.get(f"{case}, stock")
        if side != "stock" and theirs:
            yield result.compared(unit.replace("_per_s", "/s"), f"{case}, {side}", runs, theirs)


def of_rowwise(result: Result) -> Iterator[Comparison]:
    """Rates, and p99 where all rounds of both have one."""
    for case, found in result.data.items():
        stock = found["stock"]
        for side in (name for name in found if name not in ("stock", "ran")):
            ours, named = found[side], f"{case}, {side}"
            yield result.compared("rows/s", named, ours["rows_per_s"], stock["rows_per_s"])
            late = [[m["all"]["p99_ms"] for m in each["latency"]] for each in (ours, stock)]
            if late[0] and len(late[0]) == len(late[1]):
                yield result.compared("p99 at half load", named, *late, less=True)


def by_policy(result: Result) -> Iterator[Comparison]:
    """`live` and `sweep`: stock, policies and as many lanes without one, on emulated cores."""
    for case, found in result.data.items():
        every = "p99_all_rows_ms"
        for policy in ("static", *POLICIES):
            for figure, key, less in (
                ("rows/s at full load", "rows_per_s", False),
                ("p99 of all rows at half load", every if every in found else "p99_ms", True),
            ):
                ours, theirs = found[key].get(policy), found[key].get("stock")
                if ours and theirs:
                    yield result.compared(f"{figure}, `{policy}`", case, ours, theirs, less=less)


def of_burst(result: Result) -> Iterator[Comparison]:
    """Time to full capacity, and the backlog until then."""
    theirs = result.data["stock"]["live"]
    for policy in POLICIES:
        ours = result.data[policy]["live"]
        for figure, key in (
            ("time to full capacity", "full_capacity_s"),
            ("largest backlog", "largest_backlog_rows"),
        ):
            runs = ([each[key] for each in side] for side in (ours, theirs))
            yield result.compared(f"{figure}, `{policy}`", "8 times the load", *runs, less=True)


def of_scale(result: Result) -> Iterator[Comparison]:
    """Batches of a thousand partitions."""
    wide = result.data["wide"]
    ours, theirs = ([run["batch_ms"] for run in wide[side]] for side in ("jar alone", "stock"))
    yield result.compared("time of a batch, jar alone", "", ours, theirs, less=True)


def of_boundary(result: Result) -> Iterator[Comparison]:
    """How long rows stand still at a commit, the median of each run."""
    for case, found in result.data.items():
        ours, theirs = ([median(run) for run in found[x]] for x in ("jar alone", "stock"))
        yield result.compared("rows stand still at a commit", case, ours, theirs, less=True)


def of_memory(result: Result) -> Iterator[Comparison]:
    """At rest."""
    rest = result.data["at_rest"]
    for side in (name for name in rest if name != "stock"):
        for figure, key in (("heap", "heap_mb"), ("RSS", "rss_mb"), ("native memory", "native_mb")):
            ours, theirs = ([run[key] for run in rest[name]] for name in (side, "stock"))
            yield result.compared(figure, f"at rest, {side}", ours, theirs, less=True)


def of_rescale(result: Result) -> Iterator[Comparison]:
    """Lanes, and another number of partitions, beside Spark's stop, repartition and start."""
    words = {"lanes": "more lanes", "partitions": "`query.rescale`"}
    figures = {
        "first output at the new parallelism": "first_s",
        "longest gap between outputs": "gap_s",
        "latest row": "latest_ms",
    }
    for case, found in result.data.items():
        for way, shown in words.items():
            for figure, key in figures.items():
                ours, theirs = ([run[key] for run in found[x]] for x in (way, "resource-centric"))
                yield result.compared(
                    f"{figure}, {shown}", case, ours, theirs,
                    less=True, rival="stop, offline repartition, start",
                )  # fmt: skip


def of_day(result: Result) -> Iterator[Comparison]:
    """Late rows beside stock Spark, core-hours beside lanes for the day's peak."""
    found = result.data["sides"]
    for policy in (name for name in found if name not in ("stock", "peak")):
        for rival, shown in (("stock", STOCK), ("peak", "lanes for the peak all day")):
            for figure, key in (("late rows", "late"), ("core-hours", "core_hours")):
                yield result.compared(
                    figure, f"`{policy}`", [found[policy][key]], [found[rival][key]],
                    less=True, rival=shown,
                )  # fmt: skip


def of_field(result: Result) -> Iterator[Comparison]:
    """Both modes of laneshift beside every other system, each mode beside Spark's own only."""
    runs = field_report.by_side(result.data["runs"])
    figures: dict[str, Callable[[Any], Any]] = {
        "longest gap": lambda run: run["gap_s"],
        "longest gap from a change on": lambda run: max(run["gaps_s"], default=None),
        "full rate after": lambda run: run["full_s"][0] if run["full_s"] else None,
        "rows/s": lambda run: run["rows_per_s"],
        "p99 of all rows": lambda run: run["every"]["p99_ms"],
        "CPU seconds": lambda run: run["cpu_s"],
        "resident memory": lambda run: run["rss_mb"],
    }
    for (case, rival), theirs in runs.items():
        if rival.startswith(field_report.OURS):
            continue
        own = {"spark": ("laneshift",), "spark-batch": ("laneshift-batch",)}
        for mine in own.get(rival, ("laneshift", "laneshift-batch")):
            ours = runs.get((case, mine), [])
            for figure, take in figures.items() if ours else ():
                values = [take(r) for r in ours], [take(r) for r in theirs]
                if any(v is not None for each in values for v in each):
                    yield result.compared(
                        f"{figure}, {mine}", case, *values, less=figure != "rows/s", rival=rival
                    )


READ: dict[str, Callable[[Result], Iterator[Comparison]]] = {
    "auto": by_pairs, "nexmark": by_pairs,
    "rowwise": of_rowwise,
    "idle": by_side, "operators": by_side, "tasks": of_tasks,
    "hotkey": by_rate, "hotjoin": by_rate,
    "live": by_policy, "sweep": by_policy,
    "scale": of_scale, "boundary": of_boundary, "burst": of_burst, "memory": of_memory,
    "rescale": of_rescale, "day": of_day, "field": of_field,
}  # fmt: skip
"""How to read each one's data; all others are read by their goals."""


@dataclass(frozen=True, slots=True)
class Line:
    """Comparisons of one figure with the same rival and verdict, over the cases of a benchmark."""

    benchmark: str
    figure: str
    rival: str
    verdict: str
    cases: tuple[str, ...]
    times: tuple[float, ...]
    rounds: tuple[int, ...]

    @property
    def of_rounds(self) -> str:
        """Pairs of runs that a case's figure is the median of, fewest to most, as text."""
        return " to ".join(dict.fromkeys(map(str, (min(self.rounds), max(self.rounds)))))

    @property
    def shown(self) -> str:
        """Over the cases, lowest to highest median, as text."""
        low, high = min(self.times), max(self.times)
        if low == high == math.inf:
            return "the other never got there"
        if low == high == 0:
            return "never got there"
        texts = list(dict.fromkeys(digits(x) for x in (low, high)))
        return " to ".join(texts)


def digits(times: float) -> str:
    """Times as good, as the pages show it."""
    if times == math.inf:
        return "never"
    return f"{times:,.0f}" if times >= 10 else f"{times:.2f}"


def on_both_days(then: Result, now: Result) -> list[tuple[Comparison, Comparison]]:
    """Comparisons that both results have; not those of runs that the newer one took over."""
    before = {(one.figure, one.case, one.rival): one for one in then.comparisons}
    found = [(before.get((one.figure, one.case, one.rival)), one) for one in now.comparisons]
    return [
        (old, new) for old, new in found
        if old is not None and old.times != new.times and not same_day(old.ran, new.ran)
    ]  # fmt: skip


def same_day(then: str, now: str) -> bool:
    """Whether two parts with times of their own ran on one day."""
    return bool(then and now) and then[:10] == now[:10]


def lines(found: Sequence[Comparison]) -> list[Line]:
    """Put together what differs in the case alone, in the order in which it comes."""
    groups: dict[tuple[str, str, str, str], list[Comparison]] = {}
    for one in found:
        groups.setdefault((one.benchmark, one.figure, one.rival, one.verdict), []).append(one)
    return [
        Line(
            *key,
            tuple(one.case for one in each),
            tuple(one.middle for one in each),
            tuple(len(one.times) for one in each),
        )
        for key, each in groups.items()
    ]


def together(found: Sequence[Line]) -> list[Line]:
    """Lines of one figure and verdict as one, in which each rival has its own times as good."""
    groups: dict[tuple[str, str, str], list[Line]] = {}
    for line in found:
        groups.setdefault((line.benchmark, line.figure, line.verdict), []).append(line)
    return [each[0] if len(each) == 1 else _joined(each) for each in groups.values()]


def _joined(each: Sequence[Line]) -> Line:
    return replace(
        each[0],
        rival="; ".join(f"{line.rival} {line.shown}" for line in each),
        cases=tuple(dict.fromkeys(case for line in each for case in line.cases)),
        times=tuple(times for line in each for times in line.times),
        rounds=tuple(rounds for line in each for rounds in line.rounds),
    )
