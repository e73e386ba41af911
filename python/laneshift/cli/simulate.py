"""The sub-command ``laneshift simulate``."""

from __future__ import annotations

from pathlib import Path

import click

from laneshift.errors import InputError
from laneshift.scheduler.registry import parse_parameters, policy
from laneshift.scheduler.trace import read_trace
from laneshift.simulator.advise import (
    advice_table,
    advise,
    demo_trace,
    draw_advice,
    text_picture,
    with_cores,
)


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
    recorded = with_cores(demo_trace() if trace == "demo" else list(read_trace(trace)), cores)
    found = []
    for name in wanted:
        chosen = policy(name, **parse_parameters(name, parameters[name]))
        with click.progressbar(length=len(recorded), label=name) as bar:
            found.append(
                advise(name, chosen, recorded, lambda _, bar=bar: bar.update(1))  # type: ignore[misc]
            )
    click.echo(advice_table(found))
    click.echo()
    click.echo(text_picture(found))
    if picture is not None:
        draw_advice(found, recorded[0].window_s, picture)
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
