"""`make bench ARGS='all --quick'`: runs the benchmarks, see benchmarks/README.md."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import click

from laneshift.errors import InputError
from laneshift_bench import memory
from laneshift_bench.query import BenchmarkError
from laneshift_bench.report import Report, ran_on

RESULTS = Path(__file__).parent / "results"
BENCHMARKS = {
    "idle": "what laneshift costs a query that has nothing to balance",
    "operators": "the same for each stateful operator, in micro-batches",
    "pause": "how long a shard of 32 KB stands still while it moves",
    "skew": "skew that moves: hash partitioning against lanes",
    "motion": "latency while 50 shards a second move",
    "lanes": "what more lanes give one partition: aggregation, join, Python functions",
    "finish": "the end of a batch over a million state rows with 1, 2 and 4 lanes",
    "live": "policies that drive a running query under skew that moves",
    "sweep": "the same over shuffles a minute, skew and size of state",
    "burst": "how soon policies answer eight times the load",
    "rescale": "more parallelism while the query runs: Spark's own way against lanes",
    "steady": "how still policies are under a constant load, and what they cost",
    "metrics": "what it costs to watch a query once a second",
    "memory": "heap, native memory and threads, at rest and under motion",
}

quick_option = click.option(
    "--quick", is_flag=True, help="Minutes instead of an hour; the numbers say little."
)
results_option = click.option(
    "--results",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the results  [default: benchmarks/results, or build/bench-quick if --quick]",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure laneshift against stock Spark on this machine."""


def _folder(results: Path | None, quick: bool) -> Path:
    if results is not None:
        return results
    return RESULTS.parent.parent / "build" / "bench-quick" if quick else RESULTS


def _command(name: str) -> click.Command:
    @quick_option
    @results_option
    def command(quick: bool, results: Path | None) -> None:
        about = ran_on(f"make bench ARGS='{name}{' --quick' * quick}'", *_versions())
        begun = time.monotonic()
        try:
            report: Report = import_module(f"laneshift_bench.{name}").run(quick)
        except (BenchmarkError, InputError) as error:
            raise click.ClickException(str(error)) from error
        about["took_s"] = round(time.monotonic() - begun)
        about["load_at_end"] = round(os.getloadavg()[0], 2)
        if quick:
            report.notes.append("A quick run: too short for its numbers to be trusted.")
        file = report.write(_folder(results, quick), about)
        click.echo(file.read_text())

    return click.command(name, help=f"Measure {BENCHMARKS[name]}.")(command)


for _name in BENCHMARKS:
    main.add_command(_command(_name))


@main.command("all")
@quick_option
@results_option
def run_all(quick: bool, results: Path | None) -> None:
    """Run every benchmark, each in a process of its own."""
    failed = []
    for name in BENCHMARKS:
        command = [sys.executable, __file__, name, *["--quick"] * quick]
        command += ["--results", str(results)] if results is not None else []
        if subprocess.run(command).returncode:
            failed.append(name)
    if failed:
        raise click.ClickException(f"Failed: {', '.join(failed)}.")


@main.command("memory-child", hidden=True)
@click.argument("side")
@click.argument("batches", type=int)
@click.option("--quick/--full")
def memory_child(side: str, batches: int, quick: bool) -> None:
    """One process of the memory benchmark."""
    memory.child(side, batches, quick)


def _versions() -> tuple[str, str]:
    import pyspark

    java = os.environ.get("JAVA_HOME")
    program = str(Path(java) / "bin" / "java") if java else "java"
    text = subprocess.run([program, "-version"], capture_output=True, text=True).stderr
    return " / ".join(text.strip().splitlines()[1:2] or ["unknown"]), str(pyspark.__version__)


if __name__ == "__main__":
    main()
