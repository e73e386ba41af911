"""Steady motion: latency while 50 shards a second move, against the quiet parts of the same run."""

from __future__ import annotations

from dataclasses import asdict

from laneshift import attach
from laneshift_bench.measure import Measurement
from laneshift_bench.mover import Mover
from laneshift_bench.pairs import Ratio, spread
from laneshift_bench.progress import Progress
from laneshift_bench.query import ENDLESS, running
from laneshift_bench.report import Goal, Report
from laneshift_bench.session import SEED, session
from laneshift_bench.sides import elastic

MOVES_PER_S = 50.0
KEYS = {"keys": 10_000, "zipf": 0.5, "rowBytes": 0}
METHOD = f"""\
Real-time Mode, counts per key, 2 state partitions with 4 lanes each, at 25 % of the rate that
the query takes without pacing. One query runs all the time: quiet and moving parts of whole
batches take turns, and each moving part is compared with the quiet one before it. While moving,
{MOVES_PER_S:.0f} random shards a second go to other lanes through the Python API; balancing is
off in both. *Steady* as in the idle tax: without the pause between two batches."""


def run(quick: bool) -> Report:
    """The whole benchmark."""
    pairs, seconds = (2, 10.0) if quick else (6, 20.0)
    progress = Progress("motion", 1 + 2 * pairs)
    side = elastic(4)
    side.options["balance.enabled"] = "false"
    parts: dict[bool, list[Measurement]] = {False: [], True: []}
    with session(slots=8) as (spark, work):
        progress.step("the rate that the query takes at most")
        full = KEYS | {"pacing": "none", "totalRows": ENDLESS}
        with running(spark, work, side, full) as run:
            limit = run.measure(*((5, 10) if quick else (15, 20))).running_rows_per_s
        rate = round(limit * 0.25)
        with (
            running(spark, work, side, KEYS | {"rowsPerSecond": rate}) as run,
            Mover(attach(spark), run.query, MOVES_PER_S, SEED) as mover,
        ):
            run.measure(10 if quick else 20, 1)
            for number in range(2 * pairs):
                moving = number % 2 == 1
                progress.step(f"{'moving' if moving else 'quiet'} at {rate:,} rows/s")
                before = mover.sent
                (mover.on.set if moving else mover.on.clear)()
                parts[moving].append(run.measure(1, seconds))
                found = parts[moving][-1]
                progress.note(
                    f"p99 {found.steady.p99_ms} ms, with pauses {found.all.p99_ms} ms, "
                    f"{mover.sent - before} moves"
                )
            done, refused = len(mover.done()), dict(mover.refused)
    return _report(parts, rate, {"limit_rows_per_s": limit, "moves": done, "refused": refused})


def _report(parts: dict[bool, list[Measurement]], rate: int, data: dict[str, object]) -> Report:
    report = Report("motion", "Steady motion", METHOD, ("latency, ms", "quiet", "moving", "ratio"))
    report.data = {"rows_per_s": rate, **data}
    for rows in ("steady", "all"):
        for figure in ("p50_ms", "p99_ms", "max_ms"):
            quiet, moving = (
                [float(getattr(getattr(m, rows), figure)) for m in parts[side]]
                for side in (False, True)
            )
            ratio = Ratio.of(moving, quiet)
            name = f"{figure.removesuffix('_ms')}, {rows}"
            report.rows.append([name, spread(quiet), spread(moving), str(ratio)])
            report.data[name] = {"quiet": quiet, "moving": moving, "ratio": ratio.data()}
            if figure == "p99_ms":
                report.goals.append(Goal(f"p99, {rows}: moving / quiet", ratio.median, "<=", 1.5))
    report.data["parts"] = {
        "moving" if moving else "quiet": [asdict(m) for m in each] for moving, each in parts.items()
    }
    report.notes = [
        f"{rate:,} rows/s; {data['moves']} moves; turned down: {data['refused'] or 'none'}."
    ]
    return report
