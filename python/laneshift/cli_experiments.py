"""Commands ``laneshift experiment`` and ``laneshift simulate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from laneshift.experiments.advise import (
    advice_table,
    advise,
    demo_trace,
    draw_advice,
    text_picture,
    with_cores,
)
from laneshift.experiments.base import Options, Progress
from laneshift.experiments.registry import EXPERIMENTS
from laneshift.experiments.registry import experiment as find
from laneshift.experiments.write import write_report
from laneshift.inputcheck import InputError
from laneshift.scheduler.registry import parse_parameters, policy
from laneshift.scheduler.trace import read_trace


@click.command()
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--list", "show_list", is_flag=True, help="List the experiments and stop.")
@click.option("--seeds", default=5, show_default=True, help="Runs per point, seeds 1, 2, ...")
@click.option("--duration", type=float, help="Simulated seconds per run (default: per experiment).")
@click.option("--nodes", default=32, show_default=True, help="Simulated nodes.")
@click.option("--cores", default=8, show_default=True, help="Simulated cores per node.")
@click.option("--values", help="Replace the swept values, e.g. 0,2,16.")
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("benchmarks/papers"), show_default=True
)
@click.option("--plot/--no-plot", default=True, help="Draw a PNG (needs matplotlib).")
def experiment(
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
    options = Options(seeds, duration, nodes, cores, swept)
    for name in EXPERIMENTS if names == ("all",) else names:
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


@click.command()
@click.option("--trace", required=True, metavar="FILE", help='A recorded trace, or "demo".')
@click.option("--policy", "names", required=True, help="Policies to compare, e.g. static,oera.")
@click.option("--cores", type=int, help="Cores of the cluster (default: as recorded).")
@click.option(
    "--picture", type=click.Path(path_type=Path), help="Also draw the comparison into this PNG."
)
@click.option(
    "--set", "settings", multiple=True, metavar="POLICY.PARAMETER=VALUE", help="Repeatable."
)
def simulate(
    trace: str,
    names: str,
    cores: int | None,
    picture: Path | None,
    settings: tuple[str, ...],
) -> None:
    """Which policy suits a recorded load? Latency, loss or backlog, cores, adjustments, bytes."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise InputError("--policy", names, "at least one name", "Try static,elasticutor,oera.")
    parameters = _settings(settings, wanted)
    snapshots = with_cores(demo_trace() if trace == "demo" else list(read_trace(trace)), cores)
    found = []
    for name in wanted:
        chosen = policy(name, **parse_parameters(name, parameters[name]))
        with click.progressbar(length=len(snapshots), label=name) as bar:
            found.append(
                advise(name, chosen, snapshots, lambda _, bar=bar: bar.update(1))  # type: ignore[misc]
            )
    click.echo(advice_table(found))
    click.echo()
    click.echo(text_picture(found))
    if picture is not None:
        draw_advice(found, snapshots[0].window_s, picture)
        click.echo(f"wrote {picture}")


def _settings(settings: tuple[str, ...], names: list[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {name: {} for name in names}
    for text in settings:
        left, eq, value = text.partition("=")
        name, dot, key = left.partition(".")
        if not (eq and dot and name in found):
            raise InputError(
                "--set", text, "POLICY.PARAMETER=VALUE with a policy of --policy",
                "For example --set elasticutor.target_s=0.05.",
            )  # fmt: skip
        found[name][key] = value
    return found
