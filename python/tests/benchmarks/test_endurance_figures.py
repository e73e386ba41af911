"""The arithmetic of the endurance run: what grows, which answers are right, going on after kills.

No Spark; a life is a script here.
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from laneshift_bench.endurance import (
    ALLOWED,
    FRESH_S,
    INPUT,
    ROLES,
    Readings,
    Run,
    checked,
    grown,
    judged,
    lived_s,
    lives,
    report,
    run,
)
from laneshift_bench.endurance_life import Lived, Pace, Turn, committed_rows
from laneshift_bench.flat import FEWEST, FLAT, GROWS, UNKNOWN, slope, student
from laneshift_bench.holdings import heap_of
from laneshift_bench.numbered import (
    CYCLE,
    KEYS,
    MARK,
    Answer,
    Batches,
    Order,
    Wrong,
    answer,
    answers,
    check_batch,
    check_state,
    counts,
    key_of,
)
from laneshift_bench.query import BenchmarkError

Series = list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]
PACE = Pace.of(300)


# ---- what grows


def noise(rng: np.random.Generator, n: int, size: float, memory: float = 0.8) -> Any:
    """Readings of which each is much like the one before."""
    found = np.zeros(n)
    for i in range(1, n):
        found[i] = memory * found[i - 1] + rng.normal(0, size)
    return found


def processes(seed: int, per_hour: float, size: float = 0.3, count: int = 8) -> Series:
    """An hour of each, a reading a minute, at levels of their own."""
    rng = np.random.default_rng(seed)
    hours = np.arange(60) / 60
    return [
        (hours + i, rng.normal(100, 20) + per_hour * hours + noise(rng, 60, size))
        for i in range(count)
    ]


@pytest.mark.parametrize("free", [1, 2, 3, 5, 11, 83, 1000])
def test_students_t(free: int) -> None:
    assert student(free) == pytest.approx(stats.t.ppf(0.975, free), rel=5e-3)
    with pytest.raises(ValueError, match="degrees of freedom"):
        student(0)


def test_a_planted_leak_is_found() -> None:
    """Two MB an hour of a hundred, where a third is allowed."""
    for seed in range(40):
        one = slope(processes(seed, 2.0))
        assert one.verdict(0.3) == GROWS, seed
        assert abs(one.per_hour - 2.0) < 2 * one.error
        assert one.processes == 8 and one.hours == pytest.approx(8 * 59 / 60)


def test_what_is_flat_is_not_taken_for_a_leak() -> None:
    """Nor for flat when it is not: noise that has a memory does not make the error small."""
    verdicts = [slope(processes(seed, 0.0)).verdict(0.3) for seed in range(200)]
    assert verdicts.count(GROWS) <= 4 and verdicts.count(FLAT) > 60
    small = [slope(processes(seed, 0.6, size=0.5)).verdict(0.3) for seed in range(200)]
    assert small.count(FLAT) <= 10


def test_an_interval_has_the_slope_about_as_often_as_it_says() -> None:
    inside = 0
    for seed in range(300):
        one = slope(processes(seed, 1.0))
        inside += abs(one.per_hour - 1.0) <= one.error
    assert inside >= 0.88 * 300


def test_levels_of_processes_are_no_growth() -> None:
    """Each process a step above the one before, as another heap has it, but flat in itself."""
    hours = np.arange(30) / 30
    series = [(hours + i, np.full(30, 100.0 + 50 * i)) for i in range(6)]
    one = slope(series)
    assert one.per_hour == pytest.approx(0) and one.verdict(0.3) == FLAT


def test_what_falls_is_flat_and_too_little_is_not_known() -> None:
    hours = np.arange(30) / 30
    assert slope([(hours, 100 - 20 * hours)]).verdict(0.3) == FLAT
    short = slope([(hours[: FEWEST - 1], np.ones(FEWEST - 1))])
    assert short.verdict(0.3) == UNKNOWN and short.processes == 0 and math.isinf(short.error)
    assert slope([]).verdict(0.3) == UNKNOWN
    wide = slope([(hours[:6], np.array([100.0, 140, 90, 130, 95, 120]))])
    assert wide.verdict(0.3) == UNKNOWN


def samples(folder: Path, leaks: dict[tuple[str, str], float], hours: float = 1.0) -> None:
    """A run's file of two lives in which some figures grow by so much an hour."""
    rng = np.random.default_rng(7)
    with (folder / "samples.jsonl").open("w") as out:
        for life in (1, 2):
            for role in ROLES:
                for at in np.arange(0, hours * 3600, 60.0):
                    held = {
                        name: level + rng.normal(0, 0.02) + leaks.get((role, name), 0) * at / 3600
                        for name, level in (("heap_mb", 80.0), ("native_mb", 400.0),
                                            ("threads", 200.0), ("files", 300.0))
                    }  # fmt: skip
                    if role == "python":
                        held["heap_mb"] = None
                    one = {"life": life, "role": role, "pid": 7, "age_s": at, "at_s": at, **held}
                    out.write(json.dumps(one) + "\n")
        out.write('{"life": 2, "role": "dri')  # the line at which it was killed


def test_a_leak_in_a_runs_readings_is_found_by_role_and_figure(tmp_path: Path) -> None:
    samples(tmp_path, {("executor", "native_mb"): 6.0, ("driver", "files"): 9.0})
    every = judged(Readings.of(tmp_path / "samples.jsonl"), warm_s=600)
    verdicts = {name: verdict for name, (_, _, verdict) in every.items()}
    grow = {name for name, verdict in verdicts.items() if verdict == GROWS}
    assert grow == {("executor", "native_mb"), ("driver", "files")}
    assert len(verdicts) == 11 and list(verdicts.values()).count(FLAT) == 9
    found, allowed, _ = every["executor", "native_mb"]
    assert found.per_hour == pytest.approx(6, rel=0.05) and found.processes == 2
    assert allowed == pytest.approx(found.level * ALLOWED)


def test_the_first_readings_of_a_process_do_not_count(tmp_path: Path) -> None:
    samples(tmp_path, {})
    readings = Readings.of(tmp_path / "samples.jsonl")
    ((hours, _), _) = readings.series("driver", "heap_mb", 600)
    assert len(hours) == 50 and hours[0] == pytest.approx(600 / 3600)
    times, values = readings.line("executor", "threads")
    # A gap before each process, so that a picture joins none.
    assert len(times) == 2 * 61 and math.isnan(times[0]) and math.isnan(values[61])


def test_the_report_says_what_grows(tmp_path: Path) -> None:
    (tmp_path / "lives").mkdir()
    samples(tmp_path, {("executor", "native_mb"): 6.0})
    lived = Lived(3600, 2, 1, {"done": 3}, 9, 1, 5000, 77, 2, True)
    (tmp_path / "lives" / "1.json").write_text(json.dumps(lived.__dict__))
    (tmp_path / "totals.json").write_text(json.dumps({"batch": 9, "rows": 20_000, "answers": 960}))
    made = report(tmp_path, Run(5, pieces=2, lives=1, driver_kills=1), PACE, 3600)
    assert grown(made) == ["executor, native_mb"]
    (row,) = [r for r in made.rows if r[:2] == ["executor", "native memory, MB"]]
    assert row[-1] == "**grows**" and row[3].startswith(("+5.9", "+6.0"))
    assert [row[-1] for row in made.rows].count(FLAT) == 10
    goals = {goal.what: goal for goal in made.goals}
    assert not goals["executor, native memory: growth at most, % an hour"].met
    assert goals["driver, heap after full collections: growth at most, % an hour"].met
    text = " ".join(made.notes)
    assert "960 answers over 20,000 rows and 2 states" in text and "0 lost" in text
    assert "1 drivers and 2 executors killed" in text and "rescales: 3 done" in text
    json.dumps(made.data, allow_nan=False)


# ---- which answers are right


def brute(rows: int) -> dict[int, Answer]:
    found: dict[int, list[int]] = defaultdict(list)
    for seq, key in enumerate(key_of(np.arange(rows)).tolist()):
        found[key].append(seq)
    return {key: (key, len(seqs), seqs[-1], sum(seqs)) for key, seqs in found.items()}


@pytest.mark.parametrize("rows", [0, 1, 2, 62, 63, 64, 1000, CYCLE, CYCLE + 1, 3 * CYCLE + 17])
def test_answers_are_those_of_the_rows(rows: int) -> None:
    assert answers(rows) == brute(rows)
    assert counts(rows).sum() == rows and len(counts(rows)) == KEYS


def test_each_count_gives_its_row() -> None:
    """Of a key's n-th row: what came until then."""
    keys = key_of(np.arange(2 * CYCLE + 100)).tolist()
    n: dict[int, int] = defaultdict(int)
    total: dict[int, int] = defaultdict(int)
    for seq, key in enumerate(keys):
        n[key] += 1
        total[key] += seq
        assert answer(key, n[key]) == (key, n[key], seq, total[key])


def batch(before: int, rows: int) -> list[Answer]:
    """The right answers of a batch."""
    old = answers(before)
    return [each for key, each in answers(rows).items() if each != old.get(key)]


def test_a_batch_that_is_right_passes() -> None:
    check_batch(batch(0, 2000), 0, 2000, "b")
    check_batch(batch(2000, 2100), 2000, 2100, "b")
    assert len(batch(2000, 2100)) < KEYS
    check_state(list(answers(2100).values()), 2100, "s")
    check_state([], 0, "s")


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (lambda n, newest, total: (n - 1, newest, total), "1 lost"),
        (lambda n, newest, total: (n + 2, newest, total), "2 doubled"),
        (lambda n, newest, total: (n, newest, total + 1), "as many rows, but not the same"),
        (lambda n, newest, total: (n, newest - 1, total), "as many rows, but not the same"),
    ],
)
def test_a_wrong_answer_is_said_in_a_sentence(plant: Any, said: str) -> None:
    found = batch(0, 2000)
    key, *rest = found[5]
    found[5] = (key, *plant(*rest))
    with pytest.raises(Wrong, match=f"{MARK} totals, batch 1: key {key} has .*{said}"):
        check_batch(found, 0, 2000, "totals, batch 1")


def test_missing_and_superfluous_answers_are_wrong() -> None:
    found = batch(2000, 2100)
    with pytest.raises(Wrong, match=r"no answer of keys \[\d+\], 1 in all"):
        check_batch(found[1:], 2000, 2100, "b")
    with pytest.raises(Wrong, match="answers twice"):
        check_batch([*found, found[0]], 2000, 2100, "b")
    (other,) = [each for each in batch(0, 2000) if each in answers(2100).values()][:1]
    with pytest.raises(Wrong, match="of which the batch has no row"):
        check_batch([*found, other], 2000, 2100, "b")
    with pytest.raises(Wrong, match="the state"):
        check_state(found, 2100, "the state")


def test_batches_go_on_over_kills(tmp_path: Path) -> None:
    """A batch is run again after a kill; a rescale's own has a number and no rows."""
    first = Batches(tmp_path / "totals.json", 2000)
    first.check(0, batch(0, 2000))
    first.check(0, batch(0, 2000))
    after = Batches(tmp_path / "totals.json", 2000)
    after.check(0, batch(0, 2000))
    after.check(1, [])
    after.check(2, batch(2000, 4000))
    assert after.read() == {"batch": 2, "rows": 4000, "answers": 2 * KEYS}
    with pytest.raises(Wrong, match="lost"):
        after.check(3, batch(2000, 4000))
    with pytest.raises(Wrong, match="comes after 2"):
        after.check(1, batch(2000, 4000))
    assert after.read()["batch"] == 2


def ordered(folder: Path, batch_id: int, rows: list[Answer], fails: bool = False) -> None:
    writer = Order(str(folder))
    writer.open(0, batch_id)
    for row in rows:
        writer.process(row)
    writer.close(RuntimeError("killed") if fails else None)


def test_order_is_checked_from_batch_to_batch(tmp_path: Path) -> None:
    ordered(tmp_path, 0, [answer(3, n) for n in (1, 2, 3)] + [answer(9, 1)])
    # A batch that was killed comes again, with more rows this time.
    ordered(tmp_path, 1, [answer(3, 4)], fails=True)
    ordered(tmp_path, 1, [answer(3, 4), answer(3, 5)])
    ordered(tmp_path, 2, [answer(9, 2)])
    ordered(tmp_path, 3, [answer(3, 6)])
    assert not (tmp_path / "order-0-0.json").exists()
    assert json.loads((tmp_path / "order-0-3.json").read_text())["answers"] == 8
    for rows, said in (
        ([answer(3, 8)], "1 lost"),
        ([answer(3, 6)], "doubled or out of order"),
        ([answer(3, 8), answer(3, 7)], "1 lost"),
        ([answer(5, 2)], "1 lost"),
    ):
        with pytest.raises(Wrong, match=said):
            ordered(tmp_path, 4, rows)
    assert "answers 8 after 6: 1 lost" in (tmp_path / "wrong.txt").read_text(), "the first stays"


def test_rows_of_a_key_that_have_changed_places_are_noticed(tmp_path: Path) -> None:
    """The counts are 1, 2: but row 2 came first."""
    swapped = [(5, 1, answer(5, 2)[2], answer(5, 2)[2]), (5, 2, answer(5, 2)[2], answer(5, 2)[3])]
    with pytest.raises(Wrong, match="not in their order"):
        ordered(tmp_path, 0, swapped)


def test_a_batch_whose_forerunner_is_not_known_begins_anywhere(tmp_path: Path) -> None:
    ordered(tmp_path, 7, [answer(3, 100), answer(3, 101)])
    with pytest.raises(Wrong, match="lost"):
        ordered(tmp_path, 7, [answer(3, 100), answer(3, 102)])


# ---- pieces, lives and kills

LIFE = """
import json, sys, time
from pathlib import Path
given = json.loads(sys.argv[1])
folder = Path(given["folder"])
file = folder / "lives" / f"{given['life']}.json"
state = json.loads(file.read_text())
def keep(**more):
    state.update(more)
    made = file.with_suffix(".new")
    made.write_text(json.dumps(state))
    made.replace(file)
(folder / "given.jsonl").open("a").write(sys.argv[1] + chr(10))
what = (folder / "what").read_text() if (folder / "what").exists() else ""
begun = time.monotonic()
while (lived := 100 * (time.monotonic() - begun)) < given["for_s"]:
    keep(lived_s=lived, moves=5)
    time.sleep(0.02)
    if what == "wrong" and lived > 20:
        (folder / "wrong.txt").write_text("WRONG ANSWER: key 3 has 4 rows: 1 lost.")
        sys.exit(3)
    if what == "fails":
        sys.exit("no room")
keep(lived_s=given["for_s"], ended=True)
"""


@pytest.fixture
def life(tmp_path: Path) -> tuple[str, ...]:
    script = tmp_path / "life.py"
    script.write_text(LIFE)
    return sys.executable, str(script)


def given(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "given.jsonl").read_text().splitlines()]


@pytest.mark.deep("endurance")
def test_lives_are_killed_until_the_last_one_ends(tmp_path: Path, life: tuple[str, ...]) -> None:
    folder = tmp_path / "run"
    made = run(300, folder, 11, life)
    asked, done = given(folder), lives(folder)
    assert len(asked) == len(done) == made.data["run"]["lives"] >= 3
    assert made.data["run"]["driver_kills"] == len(done) - 1
    assert [one.ended for one in done] == [False] * (len(done) - 1) + [True]
    assert lived_s(folder) == pytest.approx(300, abs=1)
    assert asked[1]["before_s"] == pytest.approx(done[0].lived_s, abs=0.1)
    assert {one["seed"] for one in asked} == {11} and {one["piece"] for one in asked} == {1}


@pytest.mark.deep("endurance")
def test_the_same_command_goes_on(tmp_path: Path, life: tuple[str, ...]) -> None:
    folder = tmp_path / "run"
    run(80, folder, 11, life)
    made = run(200, folder, None, life)
    assert made.data["run"]["pieces"] == 2 and made.data["run"]["seed"] == 11
    assert lived_s(folder) == pytest.approx(200, abs=1)
    numbers = [one["life"] for one in given(folder)]
    assert numbers == list(range(1, len(numbers) + 1))
    with pytest.raises(BenchmarkError, match="has the seed 11, not 12"):
        run(200, folder, 12, life)
    again = len(given(folder))
    assert run(200, folder, None, life).data["run"]["seed"] == 11
    assert len(given(folder)) == again, "nothing was left to do"


@pytest.mark.deep("endurance")
def test_a_wrong_answer_stops_it_for_good(tmp_path: Path, life: tuple[str, ...]) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "what").write_text("wrong")
    with pytest.raises(BenchmarkError, match=r"WRONG ANSWER: key 3 has 4 rows: 1 lost\. Life 1 of"):
        run(300, folder, 11, life)
    (folder / "what").unlink()
    with pytest.raises(BenchmarkError, match=r"does not go on\. WRONG ANSWER: key 3"):
        run(300, folder, None, life)
    assert len(given(folder)) == 1


@pytest.mark.deep("endurance")
def test_a_life_that_ends_by_itself_is_said(tmp_path: Path, life: tuple[str, ...]) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "what").write_text("fails")
    with pytest.raises(BenchmarkError, match=r"ended by itself with 1; see .*\nno room"):
        run(300, folder, 11, life)
    (folder / "what").unlink()
    assert run(80, folder, None, life).data["run"]["pieces"] == 2, "which is no wrong answer"


def test_old_schedules_and_other_rows_are_left(tmp_path: Path) -> None:
    first = Run.opened(tmp_path, 3, 1000.0)
    assert (first.pieces, first.order) == (1, 1)
    first.keep(tmp_path)
    soon = Run.opened(tmp_path, None, first.ended_at + 5)
    assert (soon.pieces, soon.order, soon.seed) == (2, 1, 3)
    late = Run.opened(tmp_path, None, first.ended_at + FRESH_S + 5)
    assert (late.pieces, late.order) == (2, 2)
    kept = json.loads((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(kept | {"input": INPUT | {"batch": 1}}))
    with pytest.raises(BenchmarkError, match="has other rows"):
        Run.opened(tmp_path, None, late.ended_at)


@pytest.mark.deep("endurance")
def test_two_runs_do_not_share_a_folder(tmp_path: Path, life: tuple[str, ...]) -> None:
    from laneshift_bench.endurance import alone

    with alone(tmp_path), pytest.raises(BenchmarkError, match="is at work"):
        run(80, tmp_path, 1, life)


def test_answers_of_both_queries_are_counted(tmp_path: Path) -> None:
    Batches(tmp_path / "totals.json", 2000).check(0, batch(0, 2000))
    for piece, partition, number, count in ((1, 0, 4, 7), (1, 0, 5, 9), (1, 1, 5, 2), (2, 0, 0, 3)):
        file = tmp_path / f"order-{piece}" / f"order-{partition}-{number}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"last": {}, "answers": count}))
    assert checked(tmp_path) == (KEYS + 14, 2000 + 14)


def test_the_end_of_what_is_committed(tmp_path: Path) -> None:
    assert committed_rows(tmp_path) is None
    for folder in ("commits", "offsets"):
        (tmp_path / folder).mkdir()
    for number, rows in ((9, 20_000), (10, 22_000), (11, 24_000)):
        (tmp_path / "offsets" / str(number)).write_text(f'v1\n{{}}\n{{"next": [{rows}]}}\n')
    for number in (9, 10):
        (tmp_path / "commits" / str(number)).write_text("v1")
    (tmp_path / "commits" / ".11.tmp").write_text("")
    assert committed_rows(tmp_path) == 22_000
    (tmp_path / "offsets" / "10").write_text("v1\n{}\n")
    with pytest.raises(BenchmarkError, match="0 ends"):
        committed_rows(tmp_path)


def test_the_pace_fits_five_minutes_and_many_hours() -> None:
    short, long = Pace.of(300), Pace.of(8 * 3600)
    assert short.life_s == 75 and long.life_s == 3600
    for pace in (short, long):
        assert pace.warm_s < pace.executor_s < pace.life_s and pace.rescale_s < pace.life_s
        # Enough readings of a process behind its first ones.
        assert (pace.executor_s - pace.warm_s) / pace.sample_s >= FEWEST


def test_turns_come_after_their_interval() -> None:
    done: list[float] = []
    turn = Turn(lambda: 5.0, lambda: done.append(1))
    first = turn.due
    turn.take(first - 0.1)
    assert not done
    turn.take(first)
    assert len(done) == 1 and turn.due >= first


def test_a_heap_of_several_parts_is_added_up() -> None:
    serial = " def new generation   total 9792K, used 4352K [0x1)\n tenured total 21888K, used 100K"
    assert heap_of(serial) == (31680, 4452)
    assert heap_of("no heap") is None
