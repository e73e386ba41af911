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
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "python")]

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
    together,
)
from run import BENCHMARKS, TARGETS  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "results.md"
README = ROOT / "benchmarks" / "README.md"
KNOWN = BENCHMARKS | TARGETS
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
        "live|sweep", "p99 at half load",
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
        "the batch that an executor is lost in begins anew, and batches take 10 s and more there",
    ),
    (
        "field", "longest gap|p99",
        "Real-time Mode and micro-batches stand still between two batches, stock Spark's as well",
    ),
    ("day", "core-hours", "lanes are held for what the load needs, and the rival is late instead"),
)  # fmt: skip
"""Why a figure is behind: benchmark and `figure: case` as patterns, and the words."""
UNKNOWN = "not known yet"
MORE_CORES: tuple[tuple[str, str, str], ...] = (
    ("burst", ".*", "16 emulated ones, of which stock uses 4: one for each of its partitions"),
    ("hotjoin", "8 lanes|jar alone", "8 emulated ones, of which stock uses 1 a partition"),
)
"""Where laneshift works on more cores than its rival: benchmark and `figure: case` as patterns."""
HEAD = """# Results

This page lists losses as well as wins, and [what has not been measured](#not-measured-yet).
`make results` makes it from the files in `benchmarks/results`, each of which a benchmark wrote: no
number was typed, only reasons were. Each benchmark's page describes its method;
[how to run and read them](../benchmarks/README.md).

The rival is stock Spark, on the same machine at the same time, unless another is named. *Times as
good* is more than 1 where laneshift is better: 2 means twice the rival's rate, or half its time or
size. Each figure is the median over a benchmark's rounds; several cases give the range of their
medians, several rivals a range behind each name. *Ahead* and *behind* mean more than {percent}
apart and on the same side in every round; all else is *level*. Cores are few here and mostly
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
that are not the same on both days are listed.
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
    more = [one for one in every if one.verdict == AHEAD and more_cores(one)]
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
        "## Ahead with more cores",
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
        met = sum(goal["met"] for goal in result.goals)
        goals = f"{met} of {len(result.goals)}" if result.goals else ""
        rows.append([_link(result.name), what(result.name), *counts, goals])
    header = ["benchmark", "what", "ahead", "level", "behind", "goals met"]
    return _table(header, rows)


def _lines(each: Sequence[Line]) -> str:
    rows = [[x.figure, x.rival, x.shown, _cases(x), _link(x.benchmark)] for x in each]
    return _table(["figure", "beside", "times as good", "cases", "benchmark"], rows)


def more_cores(one: Comparison) -> str:
    """On which cores laneshift works, if its rival works on fewer; else nothing."""
    return _words(MORE_CORES, one.benchmark, f"{one.figure}: {one.case}")


def _more(each: Sequence[Line]) -> str:
    rows = [[x.figure, x.rival, x.shown, _cases(x), _cores(x), _link(x.benchmark)] for x in each]
    header = ["figure", "beside", "times as good", "cases", "cores", "benchmark"]
    return _table(header, rows)


def _cores(line: Line) -> str:
    figures = (f"{line.figure}: {case}" for case in line.cases)
    return "; ".join(dict.fromkeys(_words(MORE_CORES, line.benchmark, x) for x in figures))


def _behind(each: Sequence[Line]) -> str:
    rows = [
        [x.figure, x.rival, x.shown, by(x), _cases(x), why(x), _link(x.benchmark)] for x in each
    ]
    header = ["figure", "beside", "times as good", "worse by", "cases", "why", "benchmark"]
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
        for goal in result.goals
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
        goals = [(_met_by(was[x["what"]], x["goal"]), x) for x in now.goals if x["what"] in was]
        if not pairs and not goals:
            continue
        dates = [f"{x.ran_on['date'][:10]} at {x.ran_on['commit']}" for x in (then, now)]
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
    if not rows:
        return "Every benchmark has a result here."
    text = "These benchmarks are there, and none of their results is: nothing is claimed from them."
    return text + "\n\n" + _table(["benchmark", "what", "command"], rows)


def _one(result: Result, pictures: Sequence[str]) -> str:
    ran = result.ran_on
    quiet = str(ran.get("quiet", f"not waited for, load {ran['load_at_start']:g}")).strip("*")
    # Without where results went, and how long was waited for a quiet machine.
    as_run = re.sub(r" --(results|wait) [^ ']+", "", ran["command"])
    facts = [
        f"`{as_run}`, {_minutes(ran['took_s'])}.",
        f"Measured {ran['date']} at {ran['commit']}, on {ran['cores']} cores of {ran['CPU']} with "
        f"{ran['memory_GB']:g} GB; {_jdk(ran['JDK'])}, Spark {ran['Spark']}.",
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
    """Of each result the commits of the product's code since, and a line about it; oldest first.

    None: its commit is not in this repository's history.
    """
    found = []
    for result in results:
        commit = str(result.ran_on["commit"]).rstrip("+")
        count = ["git", "rev-list", "--count", f"{commit}..HEAD", "--", ":(glob)jvm/*/src/main/**"]
        ran = subprocess.run(count, cwd=ROOT, capture_output=True, text=True, check=False)
        age = int(ran.stdout) if ran.returncode == 0 else None
        since = "a commit that is not here" if age is None else f"{age} commits of src/main since"
        found.append((age, f"{result.name}: {result.ran_on['date']} at {commit}, {since}"))
    return sorted(found, key=lambda one: math.inf if one[0] is None else one[0], reverse=True)


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
