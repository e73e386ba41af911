"""CRAA's five loads and OERA's day on running queries: rows beyond the buffer, use, adjustments."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from laneshift.policies.registry import policy
from laneshift_bench.driven import Driven, Run, driving, warm_up, watch
from laneshift_bench.pictures import Panel, lanes, over_time
from laneshift_bench.progress import Progress
from laneshift_bench.report import Report
from laneshift_bench.session import session
from laneshift_bench.setting import Setting
from laneshift_lab.simulator import rates
from laneshift_lab.simulator.rates import Rate
from laneshift_lab.simulator.window import BufferedOperator
from laneshift_lab.simulator.window_run import run_windows

FloatArray = NDArray[np.float64]
WINDOW_S = 5.0
SCALE = 5.0
UNIT, BUFFER = 200.0, 2000.0
"""O4 of CRAA's chain: rows/s of a unit, rows of its buffer."""
CORES = 60
KEYS, SHARDS = 1_000_000, 1024
"""So many keys that rows of a batch seldom share one; shards enough to be even on all lanes."""
CAPPED = 30
SEED = 1
MODES = ("real-time", "micro-batch")
LOADS = ("step", "jitter", "sine", "stage", "random", "day", "capped")
CRAA, OERA = ("threshold", "kalman", "craa"), ("static", "median", "oera")
METHOD = f"""\
The loads of CRAA's experiments (*step*, *jitter*, *sine*, *stage*, *random*; with random's upper
end at 10,000 rows/s as the others', not 50,000) and a day as OERA's (*day*: a hump with noise, 42
windows; the recorded tweets are not to be had) on one elastic partition that is the fourth of
CRAA's operators: a lane serves {UNIT:g} rows/s, the buffer has {BUFFER:,.0f} rows, windows and
turns of the policy are {WINDOW_S:g} s. All of it divided by {SCALE:g} (rates, units, buffer), so
that lanes are as many as in the paper: a row waits {1e6 * SCALE / UNIT / 1000:g} ms
(`laneshift_cost`), at most {CORES} lanes. *capped* is *stage* with {CAPPED} lanes at most, fewer
than it needs: policies that can hold the source back, which counts as limits. Policies of one
load run at the same time, each with its own query and cores, as *threshold* (the paper's TA),
*kalman* (KPA) and *craa*; *static* (lanes for the first window), *median* and *oera*. Real-time
Mode; and micro-batches every {WINDOW_S:g} s.

A running query loses nothing: *beyond* are rows that came while more than the buffer's rows waited
(in micro-batches: more than that and the interval's own, which always wait for its end), over all
that came; the paper's loss, if it were dropped. *Use* is what lanes did over what they could,
*changes* are windows after which the policy set other lanes. *Simulated* is the library's window
model of the same operator alone, with the decision of a window in force in the next. Alone it is a
head: what comes in is forecast, not known from what an operator before it puts out."""
HEADER = (
    "mode", "load", "policy", "beyond", "simulated", "use", "simulated", "changes", "simulated",
    "mean lanes", "limits", "p99, s",
)  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """A load of a benchmark, in the paper's rows/s.

    Attributes:
        name: of `LOADS`.
        rate: over time.
        seconds: of a run.
        cores: lanes at most.
    """

    name: str
    rate: Rate
    seconds: float
    cores: int = CORES

    @property
    def policies(self) -> tuple[str, ...]:
        """Those of the paper that has the load."""
        return OERA if self.name == "day" else CRAA

    @property
    def windows(self) -> FloatArray:
        """Mean rate of each window (rows/s of the paper), float64 (windows,)."""
        count = int(self.seconds / WINDOW_S)
        return np.array([self.rate.mean(i * WINDOW_S, (i + 1) * WINDOW_S) for i in range(count)])

    @property
    def first_lanes(self) -> int:
        """That serve the first window."""
        return max(1, min(self.cores, int(np.ceil(self.windows[0] / UNIT))))

    def setting(self, mode: str) -> Setting:
        """As a running query's."""
        return Setting(
            name=f"{self.name}, {mode}", cores=self.cores, partitions=1,
            cost_us=round(1e6 * SCALE / UNIT), zipf=0.0, lanes=self.first_lanes, sources=1,
            stages=tuple((float(rate) / SCALE, WINDOW_S) for rate in self.windows),
            interval_s=WINDOW_S if mode == MODES[0] else 1.0,
            batch="1 hour" if mode == MODES[0] else None, every_s=WINDOW_S,
            keys=KEYS, shards=SHARDS,
        )  # fmt: skip


def shape(name: str, quick: bool) -> Shape:
    """A load by its name: one or two of its cycles, some windows if ``quick``."""
    found = {
        "step": Shape("step", rates.step(), 120.0),
        "jitter": Shape("jitter", rates.jitter(), 320.0),
        "sine": Shape("sine", rates.Sine(), 500.0),
        "stage": Shape("stage", rates.stage(), 450.0),
        "random": Shape("random", rates.random_levels(SEED, high=10_000.0), 300.0),
        "day": Shape("day", rates.diurnal(SEED, peak=8000.0, hold_s=WINDOW_S), 42 * WINDOW_S),
        "capped": Shape("capped", rates.stage(), 450.0, CAPPED),
    }[name]
    return Shape(found.name, found.rate, 60.0, found.cores) if quick else found


@dataclass(frozen=True)
class Found:
    """What a run, or a simulated one, gave; shares of 1."""

    beyond: float
    use: float
    changes: int


def beyond(times: FloatArray, backlog: FloatArray, due: FloatArray, room: FloatArray) -> float:
    """Rows that found the buffer full, over all that were due.

    Args:
        times: ends of steps (s); backlog: rows that wait at them; due: rows due until them.
        room: rows that may wait.
    """
    over = np.maximum(backlog - room, 0.0)
    # Of what came in a step no more than what the excess grew by found it full.
    full = np.minimum(np.maximum(np.diff(over, prepend=0.0), 0.0), np.diff(due, prepend=0.0))
    return float(full.sum() / max(due[-1], 1e-300)) if len(times) else float("nan")


def live(of: Shape, mode: str, run: Run, start_s: float) -> Found:
    """A run's figures."""
    setting = of.setting(mode)
    times, waiting = run.backlog(setting, 1.0)
    inside = times <= of.seconds
    times, waiting = times[inside], waiting[inside]
    due = np.array([setting.due(float(t)) for t in times])
    room = np.full(len(times), BUFFER / SCALE)
    if mode != MODES[0]:
        room += due - np.array([setting.due(float(t) - WINDOW_S) for t in times])
    served = due[-1] - waiting[-1]
    held = run.lanes(0.0, of.seconds) * of.seconds
    # A turn belongs to the window that it ends.
    changed = {int((d.time_s - start_s) / WINDOW_S) for d in run.decisions if d.changes}
    inside_run = [n for n in changed if 0 <= n < of.seconds / WINDOW_S]
    return Found(
        beyond(times, waiting, due, room), served * setting.cost_us / 1e6 / held, len(inside_run)
    )


def simulated(of: Shape, name: str) -> Found:
    """The same of the window model."""
    operator = BufferedOperator("O4", UNIT, BUFFER, units=of.first_lanes, max_units=of.cores)
    run = run_windows(policy(name), (operator,), of.rate, of.seconds, WINDOW_S)
    return Found(run.total_loss_share, float(run.use[0]), int(run.adjustments[0]))


def run(
    quick: bool, loads: Sequence[str] = (), modes: Sequence[str] = (), policies: Sequence[str] = ()
) -> Report:
    """The whole benchmark, or what is chosen of it."""
    for name in policies:
        policy(name)
    chosen = [shape(name, quick) for name in loads or LOADS]
    cases = [(of, mode) for of in chosen for mode in modes or MODES]
    progress = Progress("shapes", len(cases))
    total_s = sum(of.seconds + 15 for of, _ in cases)
    progress.note(f"This takes about {total_s / 60 + 2:.0f} minutes.")
    report = Report("shapes", "The loads of CRAA and OERA, live", METHOD, HEADER)
    for cores, group in groupby(cases, lambda case: case[0].cores):
        with session(4 * (CORES + 1)) as (spark, work):
            for at, (of, mode) in enumerate(group):
                if at == 0:
                    warm_up(spark, work, of.setting(mode))
                progress.step(f"{of.name}, {mode}, at most {cores} lanes")
                _add(report, of, mode, _lived(spark, work, of, mode, policies or of.policies))
                for row in report.rows[-len(policies or of.policies) :]:
                    progress.note(" ".join(row[2:]))
    return report


def _lived(
    spark: SparkSession, work: Path, of: Shape, mode: str, names: Sequence[str]
) -> dict[str, Driven]:
    setting = of.setting(mode)
    with ExitStack() as stack:
        found = {
            name: stack.enter_context(driving(spark, work, setting, name, most_late_s=15.0))
            for name in names
        }
        watch(list(found.values()), of.seconds)
    return found


def _add(report: Report, of: Shape, mode: str, driven: dict[str, Driven]) -> None:
    for name, one in driven.items():
        run = one.run
        found, model = live(of, mode, run, one.start_s), simulated(of, name)
        limits = sum(len(d.limits) for d in run.decisions)
        p99_s = run.p99_all_ms(0.0, of.seconds) / 1000
        report.rows.append(
            [
                mode, of.name, name, f"{found.beyond:.2%}", f"{model.beyond:.2%}",
                f"{found.use:.2f}", f"{model.use:.2f}", str(found.changes), str(model.changes),
                f"{run.lanes(0.0, of.seconds):.1f}", str(limits), f"{p99_s:.2f}",
            ]
        )  # fmt: skip
        report.data[f"{mode}, {of.name}, {name}"] = {
            "beyond": found.beyond, "use": found.use, "changes": found.changes, "limits": limits,
            "simulated": [model.beyond, model.use, model.changes], "p99_s": p99_s,
            "run": run.data(),
        }  # fmt: skip
    runs = {name: one.run for name, one in driven.items()}
    picture = f"shapes-{of.name}-{mode}.png"
    report.files[picture] = lambda file: _draw(of, mode, runs, file)


def _draw(of: Shape, mode: str, runs: dict[str, Run], file: Path) -> None:
    setting = of.setting(mode)
    edges = np.arange(len(of.windows) + 1) * WINDOW_S
    needed = np.repeat(edges, 2)[1:-1], np.repeat(np.ceil(of.windows / UNIT), 2)
    panels = (
        Panel(
            "Rows per second that came out",
            {name: run.series(WINDOW_S) for name, run in runs.items()},
            {"offered": setting.offered},
        ),
        Panel(
            "Rows that wait", {name: run.backlog(setting, 1.0) for name, run in runs.items()}, {}
        ),
        lanes({name: run.held() for name, run in runs.items()}, of.cores, of.seconds, needed),
    )
    over_time(file, f"{of.name}, {mode}", panels)
