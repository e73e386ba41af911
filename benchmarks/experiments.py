"""`make experiments ARGS=craa-loads`: the papers' experiments, simulated; results in papers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from laneshift.errors import InputError
from laneshift_experiments.base import Options, Progress
from laneshift_experiments.registry import EXPERIMENTS
from laneshift_experiments.registry import experiment as find
from laneshift_experiments.write import write_report

PAPERS = Path(__file__).parent / "papers"


@click.command()
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--list", "show_list", is_flag=True, help="List the experiments and stop.")
@click.option("--seeds", default=5, show_default=True, help="Runs per point, seeds 1, 2, ...")
@click.option("--duration", type=float, help="Simulated seconds per run (default: per experiment).")
@click.option("--nodes", default=32, show_default=True, help="Simulated nodes.")
@click.option("--cores", default=8, show_default=True, help="Simulated cores per node.")
@click.option("--values", help="Replace the swept values, e.g. 0,2,16.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=PAPERS,
    help="Folder for the pages  [default: benchmarks/papers]",
)
@click.option("--plot/--no-plot", default=True, help="Draw a PNG (needs matplotlib).")
def main(
    names: tuple[str, ...],
    show_list: bool,
    seeds: int,
    duration: float | None,
    nodes: int,
    cores: int,
    values: str | None,
    out: Path,
    plot: bool,
) -> None:
    """Make figures and tables of the papers again, simulated: CSV, PNG and a page each.

    NAME "all" runs every experiment.
    """
    if show_list or not names:
        for found in EXPERIMENTS.values():
            click.echo(f"{found.name:24} {found.title}")
        return
    try:
        swept = tuple(float(v) for v in values.split(",")) if values else ()
    except ValueError as error:
        raise click.BadParameter(
            f"{values!r} is not a list of numbers", param_hint="--values"
        ) from error
    try:
        options = Options(seeds, duration, nodes, cores, swept)
        for name in EXPERIMENTS if names == ("all",) else names:
            _run(name, options, out, plot)
    except InputError as error:
        raise click.UsageError(str(error)) from error


def _run(name: str, options: Options, out: Path, plot: bool) -> None:
    chosen = find(name)
    with click.progressbar(length=1000, label=name) as bar:
        report = chosen.run(options, _progress(bar))
        bar.update(1000 - bar.pos)
    for path in write_report(chosen, report, options, out, plot=plot):
        click.echo(f"wrote {path}")
    for s in report.statements:
        word = {True: "agrees", False: "DISAGREES", None: "open"}[s.holds]
        click.echo(f"  {word:10} {s.claim}: {s.ours}")


def _progress(bar: Any) -> Progress:
    def show(done: float, what: str) -> None:
        bar.label = what[:40].ljust(40)
        bar.update(max(0, int(1000 * done) - bar.pos))

    return show


if __name__ == "__main__":
    main()
