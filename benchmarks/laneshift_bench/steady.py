"""A constant load: whether the autoscaler keeps its hands still, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from laneshift.plugin.gateway import Py4jGateway
from laneshift_bench.driven import LAP_S, Driven, Run, driving, warm_up, watch
from laneshift_bench.foreseen import METHOD as SIMULATED
from laneshift_bench.foreseen import foresee
from laneshift_bench.pictures import Kept, Panel, lanes, latency, over_time
from laneshift_bench.progress import Progress
from laneshift_bench.query import BenchmarkError
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import session
from laneshift_bench.setting import POLICIES, Setting

CORES, PARTITIONS, COST_US = 16, 4, 20_000
"""Rows that cost much: four queries at once leave two real cores time for them."""
RATE = 475.0
"""Rows/s: 9.5 cores' worth, 2.4 a partition. At 2.0 a policy that gives as few cores as it can
goes to and fro between two and three, which the simulator shows as well."""
INTERVAL_S = 1.0
"""Time from one turn of an autoscaler to the next: the default."""
LOOKS = 40
METHOD = f"""\
Real-time Mode in one JVM. {len(POLICIES)} queries at once, each with {PARTITIONS} state partitions,
{CORES} emulated cores of its own and a policy of its own, with a turn every {INTERVAL_S:g} s, the
default: counts per key (10,000 keys, Zipf 0.5, no shuffles), and each row waits {COST_US / 1000:g}
ms, at {RATE:,.0f} rows/s, {RATE * COST_US / 1e6:g} cores' worth. They begin with all cores.
*Adjustments* are partitions whose lanes are changed. *p99* is the median over half seconds of the
99th percentile after settling, *all rows* that over all of them. *Autoscaler* is its Python
thread's CPU time by the thread's own clock, as a share of one core, from settling to the end. *JVM,
a look* is the CPU time of the driver's thread for the picture of all {len(POLICIES)} queries
which a turn asks for ({LOOKS} looks from this thread; threads that answer it in executors are not
in it). Batches last 15 minutes, so that there is no pause between two.

{SIMULATED}"""
HEADER = (
    "policy", "adjustments", "after settling", "simulated", "simulated, after settling",
    "lanes at the end", "simulated", "p99, ms", "all rows", "autoscaler", "ms a turn",
)  # fmt: skip


@dataclass(frozen=True)
class Span:
    """settle_s: when the load counts as settled; seconds: when the runs end."""

    settle_s: float
    seconds: float

    @property
    def setting(self) -> Setting:
        """As a setting."""
        return Setting(
            name="steady", cores=CORES, partitions=PARTITIONS, cost_us=COST_US,
            stages=((RATE, self.seconds),), zipf=0.5, interval_s=INTERVAL_S,
            batch="15 minutes",
        )  # fmt: skip


def run(quick: bool) -> Report:
    """The whole benchmark."""
    span = Span(20.0, 60.0) if quick else Span(60.0, 600.0)
    setting = span.setting
    progress = Progress("steady", 1)
    # An autoscaler leaves the slots of other queries' tasks alone.
    with session(len(POLICIES) * setting.slots) as (spark, work), ExitStack() as stack:
        warm_up(spark, work, setting)
        progress.step(f"{', '.join(POLICIES)} for {span.seconds:g} s")
        driven: dict[str, Driven] = {}
        for policy in POLICIES:
            trace = work / f"{policy}.trace"
            driven[policy] = stack.enter_context(driving(spark, work, setting, policy, trace))
        watch(list(driven.values()), span.seconds)
        if (held := driven["static"].run.laps[-1].lanes) != CORES:
            raise BenchmarkError(
                f"static held {held} lanes, expected {CORES}: a policy had other cores than its own"
            )
        look_ms = _look_ms(spark)
        kept = {policy: Kept.of(work / f"{policy}.trace") for policy in POLICIES}
    for policy, one in driven.items():
        progress.note(f"{policy}: {one.run.changes(0.0, one.start_s)} adjustments")
    return _report(span, driven, kept, look_ms)


def _look_ms(spark: SparkSession) -> float:
    """CPU time (ms) of the JVM's thread for a snapshot: it has one for each thread of Python."""
    jvm: Any = spark._jvm
    threads = jvm.java.lang.management.ManagementFactory.getThreadMXBean()
    gateway = Py4jGateway(spark)
    before = threads.getCurrentThreadCpuTime()
    for _ in range(LOOKS):
        gateway.snapshot()
    return float(threads.getCurrentThreadCpuTime() - before) / 1e6 / LOOKS


def _share(run: Run, settle_s: float) -> float:
    """CPU time of the autoscaler's thread after settling, as a share of one core."""
    times = np.array([lap.end_s for lap in run.laps])
    used = np.array(run.thread_s)
    first = int(np.searchsorted(times, settle_s))
    return float((used[-1] - used[first]) / (times[-1] - times[first]))


def _report(
    span: Span, driven: Mapping[str, Driven], kept: Mapping[str, Kept], look_ms: float
) -> Report:
    report = Report("steady", "Constant load", METHOD, HEADER)
    setting = span.setting
    for policy, one in driven.items():
        done, start_s = one.run, one.start_s
        simulated = foresee(setting, policy)
        settled = foresee(setting, policy, span.settle_s).adjustments
        counts = [done.changes(after, start_s) for after in (-np.inf, span.settle_s)]
        share = _share(done, span.settle_s)
        turn_ms = 1000 * done.thread_s[-1] / max(1, done.turns)
        p99_ms = done.p99_ms(span.settle_s, span.seconds)
        p99_all_ms = done.p99_all_ms(span.settle_s, span.seconds)
        report.rows.append(
            [
                policy,
                f"{counts[0]}",
                f"{counts[1]}",
                f"{simulated.adjustments}",
                f"{simulated.adjustments - settled}",
                f"{done.laps[-1].lanes}",
                f"{simulated.result.rows[-1].cores}",
                f"{p99_ms:.1f}",
                f"{p99_all_ms:.1f}",
                f"{share:.2%}",
                f"{turn_ms:.2f}",
            ]
        )
        report.data[policy] = done.data() | {
            "adjustments": counts[0],
            "adjustments_after_settling": counts[1],
            "simulated_adjustments": simulated.adjustments,
            "simulated_adjustments_after_settling": simulated.adjustments - settled,
            "autoscaler_share_of_a_core": share,
            "thread_ms_a_turn": turn_ms,
            "p99_after_settling_ms": p99_ms,
            "p99_after_settling_all_rows_ms": p99_all_ms,
        }
        if policy != "static":
            settled = Goal(f"{policy}: adjustments after settling", counts[1], "<=", 1)
            report.goals.append(settled)
        report.goals.append(Goal(f"{policy}: autoscaler's share of a core", share, "<=", 0.02))
        report.files[f"steady-{policy}.png"] = kept[policy].draw
    report.files["steady-laneshift.trace"] = kept["laneshift"].write
    report.files["steady.png"] = lambda file: _draw(setting, driven, file)
    report.data["jvm_ms_a_look"] = look_ms
    report.notes.append(
        f"JVM, a look: {look_ms:.2f} ms, {look_ms / 1000 / INTERVAL_S:.2%} of a core at a turn "
        f"every {INTERVAL_S:g} s. This process also looks every {LAP_S:g} s, which is in no figure."
    )
    return report


def _draw(setting: Setting, driven: Mapping[str, Driven], file: Path) -> None:
    runs = {policy: one.run for policy, one in driven.items()}
    step_s = 1.0 if setting.seconds < 120 else 5.0
    panels = (
        Panel(
            "Rows per second that came out",
            {policy: run.series(step_s) for policy, run in runs.items()},
            {"offered": setting.offered},
        ),
        latency({policy: run.p99s() for policy, run in runs.items()}),
        lanes({policy: run.held() for policy, run in runs.items()}, CORES, setting.seconds),
    )
    over_time(file, "Constant load", panels)
