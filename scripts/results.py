"""Writes docs/results.md, and the list of results in benchmarks/README.md, from benchmarks/results.

make results, or scripts/results.py --ages to see how old each result is
"""

from __future__ import annotations

import argparse
import math
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "python")]

from laneshift_bench import auto, microbatch, nexmark, remote  # noqa: E402
from laneshift_bench.report import EARLIER, Goal  # noqa: E402
from laneshift_bench.standing import (  # noqa: E402
    AHEAD,
    BEHIND,
    LEVEL,
    LEVEL_WITH,
    Comparison,
    Line,
    Result,
    digits,
    lines,
    on_both_days,
    same_day,
    together,
)
from run import BENCHMARKS, TARGETS  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "results.md"
README = ROOT / "benchmarks" / "README.md"
KNOWN = BENCHMARKS | TARGETS
CASES: Mapping[str, Callable[[], Sequence[str]]] = {
    "auto": lambda: [case.name for case in auto.cases(False)],
    "microbatch": lambda: microbatch.LOADS,
    "nexmark": lambda: [f"{query.name} {mode}" for query, mode in nexmark.cases(nexmark.QUERIES)],
    "remote": lambda: [case.name for case in remote.CASES],
}
"""Of benchmarks that are often run in parts: what all of them are, as their data name them."""
COMMANDS: Mapping[str, str] = {"endurance": "make endurance HOURS=8"}
"""Of benchmarks that have a target of their own; all others are `make bench`'s."""
REASONS: tuple[tuple[str, str, str], ...] = (
    (
        "operators", r"rows/s, 4 lanes: .*Pandas",
        "each lane has a Python worker, which Spark has clear its garbage after every task, "
        "and two cores are busy with one a partition",
    ),
    (
        "idle|operators", "4 lanes",
        "four times as many threads for cores that are busy already, and nothing to balance",
    ),
    (
        "live|sweep", "p99 of all rows at half load, `(?!static)",
        "the policy gives back the lanes that its target latency does not need, so rows wait "
        "longer for fewer",
    ),
    (
        "rescale", "first output .*`query.rescale`",
        "the new stores are built beside the query, which goes on answering meanwhile",
    ),
    (
        "field", "CPU seconds|resident memory",
        "Spark's engine, which laneshift runs in, spends more on each row; the case is a tiny "
        "state in a JVM of its own",
    ),
    (
        "field", "(longest gap|p99).*: kill",
        "the batch that an executor is lost in begins anew, and a row waits for its batch's end",
    ),
    (
        "field", "longest gap|p99",
        "Real-time Mode and micro-batches stand still between two batches, stock Spark's as well",
    ),
    ("day", "core-hours", "lanes are held for what the load needs, and the rival is late instead"),
    ("hotjoin", "matching", "all of it is one lane's; others only take from two real cores"),
)  # fmt: skip
"""Why a figure is behind: benchmark and `figure: case` as patterns, and the words."""
UNKNOWN = "not known yet"
MORE_MEANS: tuple[tuple[str, str, str], ...] = (
    ("burst", ".*", "16 emulated cores, of which stock uses 4: one for each of its partitions"),
    (
        "hotjoin|hotkey|rowwise",
        "^(?!.*(burns|nothing)).*(8 lanes|jar alone)",
        "8 emulated cores, of which stock uses 1 a partition",
    ),
    ("rowwise", "burns", "both cores, of which stock uses 1 a partition"),
    ("idle", "10,000 keys|latency", "all groups of 10,000 in memory, of which stock keeps 1,000"),
)
"""What laneshift has more of than its rival: benchmark and `figure: case` as patterns."""
CANNOT_FAIL = re.compile(r"most lanes at once|^static: adjustments|: static, changes settled")
"""Goals that hold by what the benchmark asks for: earlier files have them, and none counts."""
HEAD = """# Results

This page lists losses as well as wins, and [what has not been measured](#not-measured-yet).
`make results` makes it from the files in `benchmarks/results`, each of which a benchmark wrote: no
number was typed, only reasons were. Each benchmark's page describes its method;
[how to run and read them](../benchmarks/README.md).

The rival is stock Spark, on the same machine at the same time, unless another is named. *Times as
good* is more than 1 where laneshift is better: 2 means twice the rival's rate, or half its time or
size. Each figure is the median over a benchmark's rounds; several cases give the range of their
medians, several rivals a range behind each name. *Ahead* and *behind* mean more than {percent}
apart and on the same side in every round; all else is *level*. *Rounds* is how many: where it is 1,
nothing says how much of a difference is chance. Cores are few here and mostly
emulated (rows wait instead of working): what such figures say of large machines is arithmetic, not
measurement.
"""
MORE = """
Both sides had the same machine, but the rival could not use all of it, which is what laneshift is
for. These say that lanes work, not by how much the engine is better at equal means.
"""
AGAIN = """
Where a benchmark was run on two days, at the commits of these days: how many of the figures that
both have are *ahead*, *level* or *behind* on both, and how many of today's goals were met. Those
that are not the same on both days are listed. Days differ by more than the commit: the machine
differs where two CPUs are named, and since 2026-11-28 17:00 UTC stock Spark's side, too, writes its
checkpoints without a process for each file.
"""


def page(
    results: Sequence[Result],
    pictures: Mapping[str, Sequence[str]] | None = None,
    earlier: Sequence[Result] = (),
) -> str:
    """The page's text.

    ``pictures`` are those of each benchmark, as its own page names them; ``earlier`` the results
    of another day.
    """
    pictures = pictures if pictures is not None else {r.name: shown(r.name) for r in results}
    found = {result.name: result.comparisons for result in results}
    every = [one for each in found.values() for one in each]
    more = [one for one in every if one.verdict == AHEAD and more_means(one)]
    equal = lines([one for one in every if one not in more])
    by_verdict = {
        verdict: together([x for x in equal if x.verdict == verdict])
        for verdict in (AHEAD, LEVEL_WITH, BEHIND)
    }
    parts = [
        HEAD.format(percent=f"{LEVEL:.0%}"),
        "## At a glance",
        _glance(results, found),
        "## Ahead",
        _lines(by_verdict[AHEAD]) or "Nothing.",
        "## Ahead with more means",
        MORE,
        _more(together(lines(more))) or "Nothing.",
        "## Behind",
        _behind(by_verdict[BEHIND]) or "Nothing.",
        "## Level",
        _lines(by_verdict[LEVEL_WITH]) or "Nothing.",
        "## On another day",
        AGAIN,
        _again(results, earlier) or "None was.",
        "## Goals that are missed",
        "Whatever the rival does, these are what the benchmarks were to reach.",
        _goals(results) or "None.",
        "## Not measured yet",
        _missing(results),
        "## One by one",
        *[_one(result, pictures[result.name]) for result in results],
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _glance(results: Iterable[Result], found: Mapping[str, Sequence[Comparison]]) -> str:
    rows = []
    for result in results:
        verdicts = [one.verdict for one in found[result.name]]
        counts = [str(verdicts.count(v) or "") for v in (AHEAD, LEVEL_WITH, BEHIND)]
        counted = _counted(result)
        met = sum(goal["met"] for goal in counted)
        goals = f"{met} of {len(counted)}" if counted else ""
        rows.append([_link(result.name), what(result.name), *counts, goals])
    header = ["benchmark", "what", "ahead", "level", "behind", "goals met"]
    return _table(header, rows)


def _counted(result: Result) -> list[dict[str, Any]]:
    return [goal for goal in result.goals if not CANNOT_FAIL.search(goal["what"])]


def _lines(each: Sequence[Line]) -> str:
    rows = [[x.figure, x.rival, x.shown, x.of_rounds, _cases(x), _link(x.benchmark)] for x in each]
    return _table(["figure", "beside", "times as good", "rounds", "cases", "benchmark"], rows)


def more_means(one: Comparison) -> str:
    """What laneshift has more of than its rival; nothing if both have the same."""
    return _words(MORE_MEANS, one.benchmark, f"{one.figure}: {one.case}")


def _more(each: Sequence[Line]) -> str:
    rows = [
        [x.figure, x.rival, x.shown, x.of_rounds, _cases(x), _means(x), _link(x.benchmark)]
        for x in each
    ]
    header = ["figure", "beside", "times as good", "rounds", "cases", "means", "benchmark"]
    return _table(header, rows)


def _means(line: Line) -> str:
    figures = (f"{line.figure}: {case}" for case in line.cases)
    return "; ".join(dict.fromkeys(_words(MORE_MEANS, line.benchmark, x) for x in figures))


def _behind(each: Sequence[Line]) -> str:
    rows = [
        [x.figure, x.rival, x.shown, x.of_rounds, by(x), _cases(x), why(x), _link(x.benchmark)]
        for x in each
    ]
    header = [
        "figure", "beside", "times as good", "rounds", "worse by", "cases", "why", "benchmark",
    ]  # fmt: skip
    return _table(header, rows)


def by(line: Line) -> str:
    """How far a line is behind, in percent of the rival's."""
    texts = dict.fromkeys(f"{1 - times:.0%}" for times in (max(line.times), min(line.times)))
    return " to ".join(texts)


def why(line: Line) -> str:
    """The reason of each case, said once for all that share it."""
    found: dict[str, list[str]] = {}
    for case in line.cases:
        found.setdefault(_why(line.benchmark, f"{line.figure}: {case}"), []).append(case)
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{words} ({', '.join(cases)})" for words, cases in found.items())


def _why(benchmark: str, figure: str) -> str:
    return _words(REASONS, benchmark, figure) or UNKNOWN


def _words(table: Sequence[tuple[str, str, str]], benchmark: str, figure: str) -> str:
    """Those of the first line that fits; nothing if none does."""
    for name, pattern, words in table:
        if re.fullmatch(name, benchmark) and re.search(pattern, figure):
            return words
    return ""


def _cases(line: Line) -> str:
    return "; ".join(case for case in line.cases if case)


def _goals(results: Iterable[Result]) -> str:
    rows = [
        [goal["what"], f"{goal['value']:.3g}", goal["goal"], _link(result.name)]
        for result in results
        for goal in _counted(result)
        if not goal["met"]
    ]
    return _table(["figure", "measured", "goal", "benchmark"], rows)


def _again(results: Iterable[Result], earlier: Iterable[Result]) -> str:
    """A line for each benchmark that ran on two days, and one for each figure that differs."""
    before = {result.name: result for result in earlier}
    days, changed = [], []
    for now in results:
        if (then := before.get(now.name)) is None:
            continue
        pairs = on_both_days(then, now)
        differ = [(old, new) for old, new in pairs if old.verdict != new.verdict]
        was = {goal["what"]: goal["value"] for goal in then.goals}
        goals = [
            (_met_by(was[x["what"]], x["goal"]), x) for x in _counted(now)
            if x["what"] in was and not _is_one_run(then, now, x["what"])
        ]  # fmt: skip
        if not pairs and not goals:
            continue
        dates = [_days(x, other.ran_on["CPU"]) for x, other in ((then, now), (now, then))]
        same = f"{len(pairs) - len(differ)} of {len(pairs)}" if pairs else ""
        met = sum(old for old, _ in goals), sum(new["met"] for _, new in goals)
        all_met = f"{met[0]} and {met[1]} of {len(goals)}" if goals else ""
        days.append([_link(now.name), *dates, same, all_met])
        changed += [
            [old.figure, old.rival, old.case, f"{digits(old.middle)}, {old.verdict}",
             f"{digits(new.middle)}, {new.verdict}", _link(now.name)]
            for old, new in differ
        ]  # fmt: skip
        changed += [
            [new["what"], f"goal {new['goal']}", "", f"{was[new['what']]:.3g}",
             f"{new['value']:.3g}", _link(now.name)]
            for old, new in goals if old != new["met"]
        ]  # fmt: skip
    of_days = _table(["benchmark", "then", "now", "same verdict", "goals met"], days)
    of_changes = _table(["figure", "beside", "case", "then", "now", "benchmark"], changed)
    return "\n\n".join(part for part in (of_days, of_changes) if part)


def _is_one_run(then: Result, now: Result, what: str) -> bool:
    """Whether a goal's part is of one day in both files: the newer one took it over."""
    return same_day(then.goal_ran(what), now.goal_ran(what))


def _days(result: Result, other_cpu: str) -> str:
    """The day and commit of a result, or the days of its parts; its CPU if the other's differs."""
    ran = result.ran_on
    days = list(dict.fromkeys(each[:10] for each in result.parts_ran))
    text = f"{days[0]} to {days[-1]}" if len(days) > 1 else f"{ran['date'][:10]} at {ran['commit']}"
    return text if ran["CPU"] == other_cpu else f"{text}, {ran['CPU']}"


def _met_by(value: float, goal: str) -> bool:
    """Whether a value of another day meets a goal as it is today."""
    sign, bound = goal.split()
    return Goal("", value, sign, float(bound)).met


def _missing(results: Iterable[Result]) -> str:
    known = {result.name for result in results}
    rows = [
        [f"`{name}`", words, f"`{command(name)}`"]
        for name, words in KNOWN.items()
        if name not in known
    ]
    found = [f"- `{name}`: {', '.join(left)}." for name, left in _cases_missing(results)]
    parts = []
    if rows:
        parts.append(
            "These benchmarks are there, and none of their results is. What other pages say of "
            "them was seen before results were kept."
        )
        parts.append(_table(["benchmark", "what", "command"], rows))
    if found:
        parts += ["Of those that have a result, these cases have none:", "\n".join(found)]
    return "\n\n".join(parts) or "Every benchmark has a result here."


def _cases_missing(results: Iterable[Result]) -> Iterator[tuple[str, list[str]]]:
    for result in results:
        # The parts of most cases begin with its name; `auto` has one for each.
        def is_there(case: str, of: Result = result) -> bool:
            exact = of.name == "auto"
            return any(p == case if exact else p.startswith(case) for p in of.data)

        if left := [c for c in CASES.get(result.name, list)() if not is_there(c)]:
            yield result.name, left


def _one(result: Result, pictures: Sequence[str]) -> str:
    ran = result.ran_on
    quiet = str(ran.get("quiet", f"not waited for, load {ran['load_at_start']:g}")).strip("*")
    # Without where results went, and how long was waited for a quiet machine.
    as_run = re.sub(r" --(results|wait) [^ ']+", "", ran["command"])
    parts = [each for each in result.parts_ran if f" at {ran['commit']}" not in each]
    before = f" (some of it earlier, from {parts[0]} on)" if parts else ""
    facts = [
        f"`{as_run}`, {_minutes(ran['took_s'])}.",
        f"Measured {ran['date']} at {ran['commit']}{before}, on {ran['cores']} cores of "
        f"{ran['CPU']} with {ran['memory_GB']:g} GB; {_jdk(ran['JDK'])}, Spark {ran['Spark']}.",
        f"Quiet machine: {quiet.replace('**', '')}.",
    ]
    words = what(result.name)
    text = f"### {result.name}\n\n{words[:1].upper()}{words[1:]}. {' '.join(facts)} "
    text += f"[All of it](../benchmarks/results/{result.name}.md)."
    if pictures:
        first = f"{result.name}.png" if f"{result.name}.png" in pictures else pictures[0]
        text += f"\n\n![{first.removesuffix('.png')}](../benchmarks/results/{first})"
    return text


def command(name: str) -> str:
    """What runs a benchmark."""
    return COMMANDS.get(name, f"make bench ARGS={name}")


def what(name: str) -> str:
    """What a benchmark measures, in the words of `make bench ARGS=--help`."""
    return KNOWN.get(name, "")


def _minutes(seconds: float) -> str:
    minutes = max(1, round(seconds / 60))
    return f"{minutes} minute{'s' if minutes > 1 else ''}"


def _jdk(text: str) -> str:
    found = re.search(r"build ([\d.]+)", text)
    return f"Java {found[1]}" if found else text


def _link(name: str) -> str:
    return f"[{name}](../benchmarks/results/{name}.md)"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    # A bar in a cell would begin the next one.
    every = [header, ["---"] * len(header), *([x.replace("|", "\\|") for x in r] for r in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in every)


def shown(name: str) -> list[str]:
    """The pictures on a benchmark's own page, in their order."""
    text = (RESULTS / f"{name}.md").read_text("utf-8")
    return list(re.findall(r"!\[[^]]*\]\(([^)/]+\.png)\)", text))


def published() -> list[Result]:
    """All results there are, in the order of `make bench ARGS=--help`."""
    order = {name: number for number, name in enumerate(KNOWN)}
    found = [Result.read(file) for file in sorted(RESULTS.glob("*.json"))]
    return sorted(found, key=lambda result: order.get(result.name, len(order)))


def of_another_day() -> list[Result]:
    """What the newest results have replaced, as far as it was kept."""
    return [Result.read(file) for file in sorted((RESULTS / EARLIER).glob("*.json"))]


LIST = re.compile(r"There are\s+\[\w+\]\(results/\w+\.md\).*?\.(?=\n)", re.DOTALL)


def with_list(text: str, names: Iterable[str]) -> str:
    """benchmarks/README.md with its list of results made anew.

    Errors: ValueError if it has none.
    """
    *most, last = (f"[{name}](results/{name}.md)" for name in sorted(names))
    sentence = f"{', '.join(most)} and {last}." if most else f"{last}."
    made = textwrap.fill(sentence, 150, break_long_words=False, break_on_hyphens=False)
    changed, found = LIST.subn(lambda _: f"There are\n{made}", text)
    if found != 1:
        raise ValueError(f"{README.name} has {found} lists of results that begin with 'There are'.")
    return changed


def ages(results: Iterable[Result]) -> list[tuple[int | None, str]]:
    """Of each result's oldest part the commits of the product's code since, and a line about it;
    oldest first.

    None: its commit is not in this repository's history.
    """
    found = []
    for result in results:
        newest = f"{result.ran_on['date']} at {result.ran_on['commit']}"
        each = [(_age(ran), ran) for ran in result.parts_ran or [newest]]
        age, ran = max(each, key=lambda one: math.inf if one[0] is None else one[0])
        since = "a commit that is not here" if age is None else f"{age} commits of src/main since"
        oldest = "" if ran.startswith(newest) else f", the newest part {newest}"
        found.append((age, f"{result.name}: {ran}, {since}{oldest}"))
    return sorted(found, key=lambda one: math.inf if one[0] is None else one[0], reverse=True)


def _age(ran: str) -> int | None:
    commit = ran.partition(" at ")[2].split()[0].rstrip("+")
    count = ["git", "rev-list", "--count", f"{commit}..HEAD", "--", ":(glob)jvm/*/src/main/**"]
    counted = subprocess.run(count, cwd=ROOT, capture_output=True, text=True, check=False)
    return int(counted.stdout) if counted.returncode == 0 else None


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the page of results.")
    parser.add_argument("--ages", action="store_true", help="say how old each is, write nothing")
    results = published()
    if parser.parse_args().ages:
        print("\n".join(line for _, line in ages(results)))
        return
    PAGE.write_text(page(results, earlier=of_another_day()), "utf-8")
    changed = with_list(README.read_text("utf-8"), [result.name for result in results])
    README.write_text(changed, "utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {len(results)} of {len(KNOWN)} benchmarks")


if __name__ == "__main__":
    main()
