"""`make bench ARGS='all --quick'`: runs the benchmarks, see benchmarks/README.md."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from laneshift.errors import InputError
from laneshift_bench import endurance, endurance_life, memory, quiet, scale, watchers
from laneshift_bench.query import BenchmarkError
from laneshift_bench.report import Report, ran_on

RESULTS = Path(__file__).parent / "results"
BENCHMARKS = {
    "auto": "what the jar gives with nothing configured, in micro-batches",
    "microbatch": "policies on micro-batches: lane changes, missed triggers, core-seconds",
    "day": "a day in half an hour: hot key, burst and lost executor; core-hours and late rows",
    "shapes": "the loads of CRAA and OERA on running queries, by their policies",
    "exchange": "Elasticutor's stock exchange live: throughput and latency by policy, all checked",
    "sojourn": "a row's time in 1 to 16 lanes against what the models predict",
    "idle": "what laneshift costs a query that has nothing to balance",
    "operators": "the same for each stateful operator, in micro-batches",
    "nexmark": "NEXMark's queries on stock Spark and on laneshift",
    "field": "the same work on other systems: Flink, Hazelcast, Kafka Streams, Storm",
    "remote": "lanes on other executors against as many at home",
    "cluster": "policies on four executors, and the paper's Figures 9 and 13 to 15 live",
    "rowwise": "stages without state over lanes",
    "tasks": "state partitions in fewer tasks than there are",
    "stores": "more and fewer state partitions while the query runs: how long it stands still",
    "hotkey": "a key hotter than a core: row-wise work above its state over lanes",
    "hotjoin": "a join key hotter than a core: what each match costs above the join, over lanes",
    "planners": "planners of key distribution on running queries: EQ5, B_NCI, TOPK",
    "pause": "how long a shard of 32 KB stands still while it moves",
    "motion": "latency while 50 shards a second move",
    "live": "policies that drive a running query under skew that moves",
    "sweep": "the same over shuffles a minute, skew and size of state",
    "boundary": "how long rows stand still between two batches of Real-time Mode",
    "burst": "how soon policies answer eight times the load",
    "rescale": "more parallelism while the query runs: Spark's own way against lanes",
    "steady": "how still policies are under a constant load, and what they cost",
    "metrics": "what it costs to watch a query once a second",
    "control": "clients of the control service that watch, and how soon they are answered",
    "memory": "heap, native memory and threads, at rest and under motion",
    "scale": "a thousand elastic partitions: heap, batches, turns of an autoscaler, wake-ups",
}
TARGETS = {
    "endurance": "many hours of motion, rescales and kills: every answer, and what processes hold",
}
"""What takes too long to be one of `all`: each has a target of its own in the Makefile."""

Option = Callable[[Any], Any]
rounds_option = click.option(
    "--rounds", type=click.IntRange(1), help="Rounds that count  [default: the benchmark's own]"
)


def add_option(name: str, kept: str) -> Option:
    """``--add``: ``kept`` says what of an earlier run counts, too."""
    file = click.Path(dir_okay=False, path_type=Path)
    return click.option("--add", type=file, help=f"{name}.json of an earlier run, whose {kept}.")


_CASES_AND_ROUNDS = (
    click.option(
        "--case",
        "only",
        multiple=True,
        metavar="NAME",
        help="Cases whose name begins so; may be given again  [default: all]",
    ),
    click.option(
        "--rounds",
        type=click.IntRange(1),
        help="Rounds that count  [default: 3]",
    ),
)
ARGUMENTS: dict[str, tuple[Option, ...]] = {
    "remote": _CASES_AND_ROUNDS,
    "cluster": _CASES_AND_ROUNDS,
    "rowwise": (*_CASES_AND_ROUNDS, add_option("rowwise", "other cases stay in the table")),
    "tasks": _CASES_AND_ROUNDS,
    "stores": (
        *_CASES_AND_ROUNDS,
        add_option("stores", "other cases stay in the table"),
    ),
    "hotjoin": _CASES_AND_ROUNDS,
    "hotkey": (
        click.option(
            "--case", "only", multiple=True, type=click.Choice(["uniform", "hot", "sketch"]),
            help="May be given again  [default: all]",
        ),
        rounds_option,
    ),
    "auto": (
        click.option(
            "--case", "only", multiple=True, metavar="NAME",
            help="Cases whose name begins so; may be given again  [default: all]",
        ),
        click.option("--batches", type=click.IntRange(2), help="Micro-batches of a run."),
        add_option("auto", "other cases stay in the table"),
        rounds_option,
    ),
    "microbatch": (
        click.option(
            "--load", "loads", multiple=True,
            type=click.Choice(["constant", "burst", "day", "hot", "skew"]),
            help="May be given again  [default: all]",
        ),
        click.option(
            "--policy", "policies", multiple=True, metavar="NAME",
            help="May be given again; 'all' for each  [default: static, elasticutor, laneshift]",
        ),
        click.option(
            "--trigger", "triggers", multiple=True, type=click.FloatRange(0.5),
            help="Seconds; may be given again  [default: constant 1, 5 and 30, others 5]",
        ),
        click.option(
            "--seconds", type=click.FloatRange(5), help="Of a run  [default: 300, day 600]"
        ),
        click.option(
            "--together", type=click.IntRange(1), default=1, show_default=True,
            help="Queries at a time, each with its own emulated cores.",
        ),
        add_option("microbatch", "other parts stay in the table"),
    ),
    "day": (
        click.option(
            "--policy", "policies", multiple=True, metavar="NAME",
            help="May be given again  [default: elasticutor, laneshift]",
        ),
        click.option("--seconds", type=click.FloatRange(120), help="That a day takes."),
        click.option(
            "--together", type=click.IntRange(1),
            help="Sides that live the day at the same time  [default: all]",
        ),
    ),
    "shapes": (
        click.option(
            "--load", "loads", multiple=True,
            type=click.Choice(["step", "jitter", "sine", "stage", "random", "day", "capped"]),
            help="May be given again  [default: all]",
        ),
        click.option(
            "--mode", "modes", multiple=True, type=click.Choice(["real-time", "micro-batch"]),
            help="May be given again  [default: both]",
        ),
        click.option(
            "--policy", "policies", multiple=True, metavar="NAME",
            help="May be given again  [default: those of the load's paper]",
        ),
    ),
    "exchange": (
        click.option(
            "--case", "cases", multiple=True, type=click.Choice(["sides", "grain"]),
            help="May be given again  [default: both]",
        ),
        click.option(
            "--mode", "modes", multiple=True, type=click.Choice(["real-time", "micro-batch"]),
            help="May be given again  [default: both]",
        ),
        click.option(
            "--policy", "policies", multiple=True, metavar="NAME",
            help="Beside stock; may be given again  [default: static, resource-centric, naive-ec, "
            "elasticutor, laneshift]",
        ),
        click.option("--seconds", type=click.FloatRange(15), help="Of a run  [default: 70]"),
        click.option(
            "--master", metavar="MASTER",
            help="Such as local-cluster[2,16,2048]: executors are processes; micro-batches only.",
        ),
        rounds_option,
    ),
    "field": (
        click.option(
            "--system", "systems", multiple=True, metavar="NAME",
            help="Such as flink-heap; may be given again  [default: all]",
        ),
        click.option(
            "--case", "cases", multiple=True,
            type=click.Choice(["skew", "burst", "rescale", "hot", "hotter", "kill"]),
            help="May be given again  [default: all]",
        ),
        rounds_option,
        click.option(
            "--keep", type=click.Path(file_okay=False, path_type=Path),
            help="Folder in which the runs' files stay.",
        ),
        click.option(
            "--commit", type=click.FloatRange(5), default=10, show_default=True,
            help="Seconds from one commit, or checkpoint, to the next, of all systems.",
        ),
        add_option("field", "other systems and cases stay in the table"),
    ),
    "nexmark": (
        click.option(
            "--query", "names", multiple=True, metavar="NAME",
            help="Such as q5; may be given again  [default: all]",
        ),
        click.option(
            "--mode", "modes", multiple=True, type=click.Choice(["micro-batch", "real-time"]),
            help="May be given again  [default: both]",
        ),
        rounds_option,
        add_option("nexmark", "other queries and modes stay in the table"),
    ),
    "planners": (
        click.option(
            "--planner", "planners", multiple=True, metavar="NAME",
            help="May be given again  [default: those of the paper on each query]",
        ),
        click.option(
            "--query", "queries", multiple=True, type=click.Choice(["EQ5", "B_NCI", "TOPK"]),
            help="May be given again  [default: all]",
        ),
        rounds_option,
    ),
    "live": (
        click.option(
            "--payload", "payloads", multiple=True,
            type=click.Choice(["none", "middle", "large"]),
            help="Of rows: 0, 1 to 4 KB, 4 to 8 KB; may be given again  [default: all]",
        ),
    ),
    "sojourn": (
        click.option(
            "--mode", "modes", multiple=True, type=click.Choice(["real-time", "micro-batch"]),
            help="May be given again  [default: both]",
        ),
        click.option(
            "--lanes", multiple=True, type=click.IntRange(1, 64),
            help="May be given again  [default: 1, 2, 4, 8, 16]",
        ),
        click.option(
            "--seconds", type=click.FloatRange(5),
            help="Measured of each case  [default: 120; micro-batch 40]",
        ),
    ),
}  # fmt: skip
"""Options of single benchmarks, which are arguments of their ``run``."""

quick_option = click.option(
    "--quick", is_flag=True, help="Minutes instead of an hour; the numbers say little."
)
results_option = click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the results  [default: benchmarks/results, or build/bench-quick if --quick]",
)
quiet_option = click.option(
    "--wait", type=click.FloatRange(0), default=quiet.WITHIN_S, show_default=True,
    help=f"Longest wait (s) for a load average of {quiet.LIMIT:g}; the results say how it was.",
)  # fmt: skip


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure laneshift against stock Spark on this machine."""


def _folder(results: Path | None, quick: bool) -> Path:
    if results is not None:
        return results
    return RESULTS.parent.parent / "build" / "bench-quick" if quick else RESULTS


def _ended(about: dict[str, Any], begun: float) -> None:
    about["took_s"] = round(time.monotonic() - begun)
    about["load_at_end"] = round(os.getloadavg()[0], 2)


def _command(name: str) -> click.Command:
    @quick_option
    @results_option
    @quiet_option
    def command(quick: bool, results: Path | None, wait: float, **chosen: Any) -> None:
        calm = quiet.wait(wait)
        if not calm.met:
            click.echo(f"This machine is not quiet: {calm}.", err=True)
        # Files by their names: where they are is a matter of this machine.
        words = [Path(word).name for word in sys.argv[1:]]
        given = " ".join(f'"{word}"' if " " in word else word for word in words) or name
        about = ran_on(f"make bench ARGS='{given}'", *_versions()) | {"quiet": str(calm)}
        begun = time.monotonic()
        try:
            report: Report = import_module(f"laneshift_bench.{name}").run(quick, **chosen)
        except (BenchmarkError, InputError) as error:
            raise click.ClickException(str(error)) from error
        _ended(about, begun)
        if not calm.met:
            report.notes.insert(0, f"The machine was not quiet when this began: {calm}.")
        if quick:
            report.notes.append("A quick run: too short for its numbers to be trusted.")
        file = report.write(_folder(results, quick), about)
        click.echo(file.read_text())

    for option in reversed(ARGUMENTS.get(name, ())):
        command = option(command)
    return click.command(name, help=f"Measure {BENCHMARKS[name]}.")(command)


for _name in BENCHMARKS:
    main.add_command(_command(_name))


@main.command("endurance", help=f"Measure {TARGETS['endurance']}. Goes on from its folder.")
@click.option(
    "--hours",
    type=click.FloatRange(0.1),
    default=8,
    show_default=True,
    help="Of work, in all pieces together.",
)
@click.option("--seconds", type=click.FloatRange(60), help="Instead of hours: a trial.")
@click.option("--seed", type=int, help="Of all choices  [default: a new one, or the folder's]")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="What was done so far  [default: build/endurance, of a trial endurance-trial]",
)
@results_option
def run_endurance(
    hours: float,
    seconds: float | None,
    seed: int | None,
    folder: Path | None,
    results: Path | None,
) -> None:
    trial = seconds is not None
    build = RESULTS.parent.parent / "build"
    folder = folder or build / ("endurance-trial" if trial else "endurance")
    about = ran_on(
        f"make endurance {f'SECONDS={seconds:g}' if trial else f'HOURS={hours:g}'}", *_versions()
    )
    begun = time.monotonic()
    try:
        report = endurance.run(seconds or hours * endurance.HOUR_S, folder, seed)
    except BenchmarkError as error:
        raise click.ClickException(str(error)) from error
    _ended(about, begun)
    if trial:
        report.notes.append("A trial: too short to tell what grows.")
    click.echo(report.write(_folder(results, trial), about).read_text())
    if grown := endurance.grown(report):
        raise click.ClickException(f"It grows by more than is allowed: {'; '.join(grown)}.")


@main.command("all")
@quick_option
@results_option
@quiet_option
def run_all(quick: bool, results: Path | None, wait: float) -> None:
    """Run every benchmark, each in a process of its own."""
    failed = []
    for name in BENCHMARKS:
        command = [sys.executable, __file__, name, *["--quick"] * quick, "--wait", str(wait)]
        command += ["--results", str(results)] if results is not None else []
        if subprocess.run(command).returncode:
            failed.append(name)
    if failed:
        raise click.ClickException(f"Failed: {', '.join(failed)}.")


@main.command("endurance-life", hidden=True)
@click.argument("given")
def run_life(given: str) -> None:
    """One life of the endurance run."""
    sys.exit(endurance_life.child(given))


@main.command("memory-child", hidden=True)
@click.argument("side")
@click.argument("batches", type=int)
@click.option("--quick/--full")
def memory_child(side: str, batches: int, quick: bool) -> None:
    """One process of the memory benchmark."""
    memory.child(side, batches, quick)


@main.command("scale-child", hidden=True)
@click.argument("case")
@click.argument("side")
@click.option("--quick/--full")
def scale_child(case: str, side: str, quick: bool) -> None:
    """One process of the scale benchmark."""
    scale.child(case, side, quick)


@main.command("control-watchers", hidden=True)
@click.argument("address")
@click.argument("count", type=int)
@click.argument("interval_s", type=float)
def control_watchers(address: str, count: int, interval_s: float) -> None:
    """The watchers of the control benchmark."""
    watchers.child(address, count, interval_s)


def _versions() -> tuple[str, str]:
    import pyspark

    java = os.environ.get("JAVA_HOME")
    program = str(Path(java) / "bin" / "java") if java else "java"
    text = subprocess.run([program, "-version"], capture_output=True, text=True).stderr
    return " / ".join(text.strip().splitlines()[1:2] or ["unknown"]), str(pyspark.__version__)


if __name__ == "__main__":
    main()
