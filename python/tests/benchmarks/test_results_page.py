"""Where laneshift stands by the published results, and the page that says so."""

from __future__ import annotations

import json
import math
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from laneshift_bench.report import EARLIER, Report
from laneshift_bench.standing import (
    AHEAD,
    BEHIND,
    LEVEL_WITH,
    READ,
    STOCK,
    Comparison,
    Result,
    lines,
    times_as_good,
    together,
)
from run import BENCHMARKS, TARGETS

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "benchmarks" / "results"
KNOWN = BENCHMARKS | TARGETS
NAMES = sorted(file.stem for file in RESULTS.glob("*.json"))
RAN = {
    "date": "2026-11-24 02:17 UTC", "commit": "abc", "cores": 2, "CPU": "Some CPU",
    "memory_GB": 25.3, "JDK": "OpenJDK (build 17.0.15+6)", "Spark": "4.3.0", "took_s": 600,
    "load_at_start": 0.2, "command": "make bench ARGS='idle --quick --wait 30'",
}  # fmt: skip


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return import_module("results")


def result(name: str, data: dict[str, Any], goals: list[dict[str, Any]] | None = None) -> Result:
    return Result(name, dict(RAN), goals or [], data)


def goal(what: str, value: float, sign: str, bound: float) -> dict[str, Any]:
    met = value >= bound if sign == ">=" else value <= bound
    return {"what": what, "value": value, "goal": f"{sign} {bound:g}", "met": met}


def one(*times: float) -> Comparison:
    return Comparison("idle", "rows/s", "all", STOCK, times)


def by_figure(of: Result) -> dict[tuple[str, str], Comparison]:
    return {(each.figure, each.case): each for each in of.comparisons}


def test_times_as_good_has_more_than_one_ahead_for_rates_and_for_times() -> None:
    assert times_as_good([20.0, 5.0], [10.0, 10.0], less=False) == (2.0, 0.5)
    assert times_as_good([20.0, 5.0], [10.0, 10.0], less=True) == (0.5, 2.0)
    # Runs that differ in number are no pairs.
    assert times_as_good([1.0, 3.0, 2.0], [4.0], less=True) == (2.0,)
    # Times that never came, and nothing at all.
    assert times_as_good([2.0, None, None], [None, 3.0, None], less=True) == (math.inf, 0.0, 1.0)
    assert times_as_good([0.0, 0.0, 3.0], [0.0, 3.0, 0.0], less=False) == (1.0, 0.0, math.inf)
    assert times_as_good([0.0, 0.0], [0.0, 3.0], less=True) == (1.0, math.inf)
    with pytest.raises(ValueError, match="no run"):
        times_as_good([], [1.0], less=True)


def test_a_verdict_needs_more_than_chance() -> None:
    assert one(1.5, 1.2, 1.1).verdict == AHEAD
    assert one(0.8, 0.9).verdict == BEHIND
    assert one(1.02, 1.03).verdict == LEVEL_WITH == one(0.98).verdict
    # Ahead in one round and behind in another: neither, however far the median is.
    assert one(2.0, 1.5, 0.9).verdict == LEVEL_WITH == one(0.5, 0.6, 1.1).verdict
    assert one(math.inf).verdict == AHEAD and one(0.0).verdict == BEHIND


def test_cases_with_the_same_verdict_share_a_line() -> None:
    figures = [
        Comparison("live", "rows/s", case, STOCK, (times,))
        for case, times in (("C=8", 1.6), ("C=32", 1.9), ("C=64", 0.5))
    ]
    ahead, behind = lines(figures)
    assert ahead.cases == ("C=8", "C=32") and ahead.shown == "1.60 to 1.90"
    assert behind.cases == ("C=64",) and behind.shown == "0.50"
    (never,) = lines([Comparison("burst", "s", "", STOCK, (math.inf, math.inf))])
    assert never.shown == "the other never got there"


def test_rivals_that_a_figure_is_beside_share_a_line_with_a_figure_for_each() -> None:
    found = [
        Comparison("field", "p99", case, rival, (times,))
        for rival, case, times in (
            ("flink", "hot", 0.2), ("flink", "skew", 0.7), ("storm", "hot", 0.4),
            ("spark", "hot", 3.0),
        )
    ]  # fmt: skip
    behind, ahead = together(lines(found))
    assert behind.rival == "flink 0.20 to 0.70; storm 0.40" and behind.shown == "0.20 to 0.70"
    assert behind.cases == ("hot", "skew")
    assert ahead.rival == "spark" and ahead.shown == "3.00"


def test_goals_that_are_times_of_stock_are_compared() -> None:
    goals = [
        goal("Python, slow: jar alone x stock", 1.5, ">=", 1.3),
        goal("Python waits: 8 lanes, p99 / stock", 0.5, "<=", 1.05),
        goal("pause p99, ms", 0.9, "<=", 5),
    ]
    found = by_figure(result("remote", {}, goals))
    assert found["jar alone", "Python, slow"].middle == 1.5
    assert found["8 lanes, p99", "Python waits"].middle == 2.0
    assert len(found) == 2


def test_each_layout_is_read_the_right_way_round() -> None:
    """Made so that laneshift is twice as good everywhere."""
    phase = {"p99_ms": 10.0}
    live = {
        "rows_per_s": {"stock": [5], "laneshift": [10]},
        "p99_ms": {"stock": [8], "laneshift": [4]},
    }
    ways = {
        way: [{"first_s": s, "gap_s": s, "latest_ms": s}]
        for way, s in (("resource-centric", 2.0), ("lanes", 1.0), ("partitions", 1.0))
    }
    run = {
        "gap_s": 1.0, "every": phase, "cpu_s": 10.0, "rss_mb": 100.0, "rows_per_s": 20.0,
        "gaps_s": [0.5, 1.0], "full_s": [],
    }  # fmt: skip
    slow = {
        "gap_s": 2.0, "every": {"p99_ms": 20.0}, "cpu_s": 20.0, "rss_mb": 200.0, "rows_per_s": 10.0,
        "gaps_s": [2.0, 1.5], "full_s": [],
    }  # fmt: skip
    burst = {"full_capacity_s": 1.0, "largest_backlog_rows": 10}
    late = {"full_capacity_s": 2.0, "largest_backlog_rows": 20}
    rest = {"heap_mb": 2.0, "rss_mb": 2.0, "native_mb": 2.0}
    every: dict[str, dict[str, Any]] = {
        "auto": {"hot": {
            "ratio": {"pairs": [2.0]},
            "over": {"stock": {"side": "jar alone, 8 partitions", "pairs": [2.0]}}}},
        "boundary": {"files": {"stock": [[300.0, 500.0]], "jar alone": [[200.0, 200.0]]}},
        "nexmark": {"q5 real-time": {"ratio": {"pairs": [2.0]}}},
        "idle": {
            "real-time, 10 keys, rows/s": {"stock": [5.0], "1 lane": [10.0], "1 lane / stock": {}},
            "real-time latency, p99, all, ms": {"stock": [10.0], "1 lane": [5.0]},
            "latency_rows_per_s": 53000,
        },
        "operators": {"join": {"stock": [5.0], "4 lanes": [10.0]}},
        "tasks": {
            "16": {"stock": [10.0], "2 tasks": [5.0]},
            "Real-time": {"stock": [{"all": {"p99_ms": 20.0}}], "64": [{"all": phase}]},
        },
        "rowwise": {"Python waits": {
            "stock": {"rows_per_s": [5.0], "latency": [{"all": {"p99_ms": 20.0}}]},
            "8 lanes": {"rows_per_s": [10.0], "latency": [{"all": phase}]}}},
        "hotkey": {"rows_per_s": {"hot, stock": [5.0], "hot, 8 lanes, true": [10.0]}, "sketch": {}},
        "hotjoin": {"matches_per_s": {"hot, stock": [5.0], "hot, 1 lane": [10.0]}},
        "live": {"C=8": live}, "sweep": {"omega 0": live},
        "burst": {
            "stock": {"live": [late]},
            **{name: {"live": [burst]} for name in ("elasticutor", "laneshift")},
        },
        "scale": {"wide": {"stock": [{"batch_ms": 2.0}], "jar alone": [{"batch_ms": 1.0}]}},
        "memory": {"at_rest": {"stock": [dict.fromkeys(rest, 4.0)], "1 lane": [rest]}},
        "rescale": {"10 keys": ways},
        "day": {"sides": {
            "stock": {"late": 0.2, "core_hours": 20.0}, "peak": {"late": 0.2, "core_hours": 20.0},
            "laneshift": {"late": 0.1, "core_hours": 10.0}}},
        "field": {
            "runs": [run | {"case": "skew", "system": "laneshift"},
                     *(slow | {"case": "skew", "system": x} for x in ("spark", "flink-heap"))]},
    }  # fmt: skip
    assert every.keys() == READ.keys()
    for name, data in every.items():
        found = result(name, data).comparisons
        assert found and {one.middle for one in found} == {2.0}, name
        assert {one.verdict for one in found} == {AHEAD}
    rivals = {one.rival for one in result("field", every["field"]).comparisons}
    assert rivals == {"spark", "flink-heap"}
    assert len(result("idle", every["idle"]).comparisons) == 2


def test_a_layout_that_has_changed_is_said_and_not_left_out() -> None:
    with pytest.raises(ValueError, match=r"rescale\.json is not as `of_rescale`"):
        _ = result("rescale", {"10 keys": {"lanes": [{"first_s": 1}]}}).comparisons


def test_a_file_of_another_benchmark_is_refused(tmp_path: Path) -> None:
    (tmp_path / "idle.json").write_text(json.dumps({"benchmark": "skew"}))
    with pytest.raises(ValueError, match="skew"):
        Result.read(tmp_path / "idle.json")


def test_what_is_kept_of_another_day_is_of_another_day(script: ModuleType) -> None:
    newest = {result.name: result for result in script.published()}
    for then in script.of_another_day():
        assert then.ran_on["date"][:10] < newest[then.name].ran_on["date"][:10], then.name


@pytest.mark.parametrize("name", NAMES)
def test_what_is_published_is_read(name: str) -> None:
    found = Result.read(RESULTS / f"{name}.json")
    compared = found.comparisons
    assert compared or name not in READ
    assert (RESULTS / f"{name}.md").exists()


def test_the_page_is_what_the_results_give(script: ModuleType) -> None:
    made = script.page(script.published(), earlier=script.of_another_day())
    assert script.PAGE.read_text("utf-8") == made, "run: make results"
    text = script.README.read_text("utf-8")
    assert text == script.with_list(text, NAMES), "run: make results"


def test_no_benchmark_is_forgotten(script: ModuleType) -> None:
    """Each is on the page once, measured or not, and in the table of benchmarks/README.md."""
    page = script.PAGE.read_text("utf-8")
    missing = page.split("## Not measured yet")[1].split("\n## ")[0]
    told = {*re.findall(r"^\| `(\w+)` \|", missing, re.MULTILINE)}
    assert told == KNOWN.keys() - set(NAMES)
    assert re.findall(r"^### (\w+)", page, re.MULTILINE) == [
        name for name in KNOWN if name in NAMES
    ]
    table = re.findall(r"^\| `([\w-]+)` \|", script.README.read_text("utf-8"), re.MULTILINE)
    assert sorted(table) == sorted(KNOWN)
    assert "docs/results.md" in (ROOT / "README.md").read_text("utf-8")


def test_pictures_and_links_of_the_page_are_there(script: ModuleType) -> None:
    page = script.PAGE.read_text("utf-8")
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", page)
    assert pictures
    for link in (*pictures, *re.findall(r"\]\(((?!#)[^)]+)\)", page)):
        assert (ROOT / "docs" / link).exists(), link
    # Each benchmark that has pictures shows one.
    drawn = {name for name in NAMES if script.shown(name)}
    assert len(pictures) == len(drawn)


def test_a_new_result_changes_the_page(script: ModuleType) -> None:
    found = [
        result("idle", {
            "real-time, 10 keys, rows/s": {"stock": [100.0, 100.0], "4 lanes": [90.0, 80.0]},
            "real-time latency, p99, all, ms": {"stock": [20.0], "1 lane": [10.0]},
            "real-time latency, p99, steady, ms": {"stock": [20.0], "1 lane": [19.9]}},
            [goal("10 keys, rows/s: 4 lanes / stock", 0.85, ">=", 0.9)]),
    ]  # fmt: skip
    page = script.page(found, {"idle": ["idle-b.png", "idle.png"]})
    more, behind, level, missed, missing, each = (
        page.split(f"\n## {head}\n")[1].split("\n## ")[0]
        for head in ("Ahead with more means", "Behind", "Level", "Goals that are missed",
                     "Not measured yet", "One by one")
    )  # fmt: skip
    assert "| latency, p99, all, ms, 1 lane | stock Spark | 2.00 | 1 | Real-time Mode |" in more
    assert "| rows/s, 4 lanes | stock Spark | 0.85 | 2 | 15% | real-time, 10 keys | " in behind
    assert script.UNKNOWN not in behind
    assert "p99, steady" in level and "1.01" in level
    assert "| 10 keys, rows/s: 4 lanes / stock | 0.85 | >= 0.9 |" in missed
    assert "`make bench ARGS='idle --quick'`, 10 minutes" in each
    assert "| `pause` |" in missing and "`make bench ARGS=pause`" in missing
    assert "| `idle` |" not in missing
    assert "![idle](../benchmarks/results/idle.png)" in each and "idle-b" not in each
    assert "2 cores of Some CPU with 25.3 GB; Java 17.0.15, Spark 4.3.0" in each


def test_what_another_day_gave_stands_beside_the_newest(script: ModuleType) -> None:
    what = "10 keys, rows/s: 4 lanes / stock"
    case = "real-time, 10 keys, rows/s"
    then = result("idle", {
        case: {"stock": [100.0, 100.0], "1 lane": [90.0, 80.0], "4 lanes": [90.0, 80.0]},
        "taken over, rows/s": {"stock": [100.0], "1 lane": [80.0]}},
        [goal(what, 0.85, ">=", 0.8)])  # fmt: skip
    then.ran_on["date"] = "2026-11-20 02:17 UTC"
    now = result("idle", {
        case: {"stock": [100.0, 100.0], "1 lane": [91.0, 81.0], "4 lanes": [100.0, 100.0]},
        "taken over, rows/s": {"stock": [100.0], "1 lane": [80.0]}},
        [goal(what, 1.0, ">=", 0.9)])  # fmt: skip
    other = result("pause", {}, [goal("pause p99, ms", 0.9, "<=", 5)])
    page = script.page([now, other], {"idle": [], "pause": []}, earlier=[then])
    found = page.split("\n## On another day\n")[1].split("\n## ")[0]
    link = "[idle](../benchmarks/results/idle.md)"
    assert f"| {link} | 2026-11-20 at abc | 2026-11-24 at abc | 1 of 2 | 0 and 1 of 1 |" in found
    before = "| rows/s, 4 lanes | stock Spark | real-time, 10 keys | 0.85, behind |"
    assert f"{before} 1.00, level | {link} |" in found and "1 lane" not in found
    assert f"| {what} | goal >= 0.9 |  | 0.85 | 1 | {link} |" in found
    assert "pause" not in found
    alone = script.page([other], {"pause": []}, earlier=[then])
    assert "None was." in alone.split("\n## On another day\n")[1].split("\n## ")[0]


def test_a_result_is_kept_when_one_of_another_day_replaces_it(tmp_path: Path) -> None:
    def write(day: str) -> None:
        Report("idle", "Idle", "How.", ("a",)).write(tmp_path, {"date": f"2026-11-{day} 02:17 UTC"})

    def day(file: Path) -> str:
        return str(json.loads(file.read_text("utf-8"))["ran_on"]["date"])[8:10]

    newest, kept = tmp_path / "idle.json", tmp_path / EARLIER / "idle.json"
    write("20")
    write("20")
    assert day(newest) == "20" and not kept.exists()
    write("21")
    write("21")
    assert day(newest) == "21" and day(kept) == "20"
    write("24")
    assert day(newest) == "24" and day(kept) == "21"


def test_what_is_ahead_with_more_means_stands_apart(script: ModuleType) -> None:
    rates = {
        "hot, stock": [5.0], "hot, 1 lane": [6.0], "hot, 8 lanes, true": [10.0],
        "uniform, stock": [5.0], "uniform, 8 lanes, true": [4.0],
    }  # fmt: skip
    page = script.page([result("hotjoin", {"matches_per_s": rates})], {"hotjoin": []})
    ahead, more, behind = (
        page.split(f"\n## {head}\n")[1].split("\n## ")[0]
        for head in ("Ahead", "Ahead with more means", "Behind")
    )
    assert "hot, 1 lane" in ahead and "8 lanes" not in ahead
    shown = "| matches/s | stock Spark | 2.00 | 1 | hot, 8 lanes, true | 8 emulated cores, of which"
    assert shown in more
    # Behind is behind, however many cores there were.
    assert "uniform, 8 lanes, true" in behind


def test_what_is_behind_without_a_known_reason_says_so(script: ModuleType) -> None:
    (line,) = lines([Comparison("pause", "p99", "60 %", STOCK, (0.5,))])
    assert script.why(line) == script.UNKNOWN and script.by(line) == "50%"
    cases = ("applyInPandasWithState", "transformWithStateInPandas")
    (line,) = lines(
        [Comparison("operators", "rows/s, 4 lanes", case, STOCK, (0.7,)) for case in cases]
    )
    assert "Python worker" in script.why(line)
    # Cases with reasons of their own are told apart.
    others = [Comparison("operators", "rows/s, 4 lanes", "join", STOCK, (0.7,))]
    others += [Comparison("operators", "rows/s, 4 lanes", cases[0], STOCK, (0.6,))]
    (line,) = lines(others)
    assert "(join); each lane" in script.why(line) and cases[0] in script.why(line)


def test_the_oldest_results_are_named_first(script: ModuleType) -> None:
    newest, unknown = result("idle", {}), result("pause", {})
    newest.ran_on["commit"], unknown.ran_on["commit"] = "HEAD+", "f" * 12
    assert script.ages([newest, unknown]) == [
        (None, f"pause: {RAN['date']} at {'f' * 12}, a commit that is not here"),
        (0, f"idle: {RAN['date']} at HEAD+, 0 commits of src/main since"),
    ]
    # Of a result that was put together from several days the oldest part counts.
    before, now = "2026-11-20 02:17 UTC at " + "e" * 12, "2026-11-24 02:17 UTC at abc on Some CPU"
    mixed = result("auto", {"a": {"sides": {"x": {"ran": before}}}, "b": {"ran": now}})
    ((age, words),) = script.ages([mixed])
    assert age is None and words.startswith(f"auto: {before}, a commit that is not here")
    assert words.endswith(f", the newest part {RAN['date']} at abc")


def test_two_parts_of_one_day_are_not_another_day(script: ModuleType) -> None:
    def of(ran: str, pairs: list[float]) -> Result:
        data = {"hot": {"ratio": {"pairs": pairs}, "ran": f"{ran} 10:00 UTC at abc"}}
        return result("auto", data, [goal("hot: jar alone x stock", pairs[0], ">=", 1.3)])

    now = of("2026-11-24", [1.5])
    for day, is_told in (("2026-11-23", True), ("2026-11-24", False)):
        page = script.page([now], {"auto": []}, earlier=[of(day, [1.2])])
        told = page.split("\n## On another day\n")[1].split("\n## ")[0]
        assert ("hot: jar alone x stock" in told) is is_told


def test_the_list_of_results_is_made_anew(script: ModuleType) -> None:
    links = "[idle](results/idle.md), [b](results/b.md)\nand [c](results/c.md)."
    text = f"a\nended. There are\n{links}\nmore.\n"
    made = script.with_list(text, ["tasks", "idle"])
    assert made == (
        "a\nended. There are\n[idle](results/idle.md) and [tasks](results/tasks.md).\nmore.\n"
    )
    with pytest.raises(ValueError, match="0 lists"):
        script.with_list("nothing", ["idle"])


def test_bars_do_not_end_a_cell(script: ModuleType) -> None:
    assert "| a \\| b |" in script._table(["x"], [["a | b"]])
