"""The sub-command ``laneshift-lab simulate``."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import click

from laneshift.contract.trace import read_trace
from laneshift.errors import InputError
from laneshift.policies.registry import parse_parameters, policy
from laneshift_lab.simulator.advise import (
    advice_table,
    advise,
    demo_trace,
    draw_advice,
    text_picture,
    with_cores,
)
from laneshift_lab.simulator.result import Result, WindowRow
from laneshift_lab.simulator.run import simulate as run
from laneshift_lab.simulator.scenario_file import read_scenario


@click.command()
@click.option("--trace", metavar="FILE", help='A recorded trace, or "demo".')
@click.option("--scenario", metavar="FILE", help="Or a scenario of your own (TOML).")
@click.option("--policy", "names", required=True, help="Policies to compare, e.g. static,oera.")
@click.option("--cores", type=int, help="Cores of the cluster (default: as recorded).")
@click.option(
    "--picture", type=click.Path(path_type=Path), help="Also draw the comparison into this PNG."
)
@click.option(
    "--seed", "seeds", type=click.IntRange(0), multiple=True, help="Of the scenario. Repeatable."
)
@click.option(
    "--after", type=float, default=0.0, help="Seconds of the scenario that means leave out."
)
@click.option(
    "--csv", "table", type=click.Path(path_type=Path), help="The scenario's windows as a table."
)
@click.option(
    "--set", "settings", multiple=True, metavar="POLICY.PARAMETER=VALUE", help="Repeatable."
)
def simulate(
    trace: str | None,
    scenario: str | None,
    names: str,
    cores: int | None,
    picture: Path | None,
    seeds: tuple[int, ...],
    after: float,
    table: Path | None,
    settings: tuple[str, ...],
) -> None:
    """Which policy suits a load? Latency, loss or backlog, cores, adjustments, bytes.

    The load is one that was recorded (--trace), or a scenario that is made up (--scenario).
    """
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if not wanted:
        raise InputError("--policy", names, "at least one name", "Try static,elasticutor,oera.")
    parameters = _settings(settings, wanted)
    if (trace is None) == (scenario is None):
        given = "none" if trace is None else "both"
        raise InputError("--trace, --scenario", given, "one of them", "Try --trace demo.")
    if scenario is not None:
        if cores is not None or picture is not None:
            raise InputError(
                "--cores, --picture", "with --scenario", "with --trace only",
                "A scenario's own file has its cores.",
            )  # fmt: skip
        _compare(scenario, wanted, parameters, seeds, after, table)
        return
    if seeds or after or table is not None:
        raise InputError(
            "--seed, --after, --csv", "with --trace", "with --scenario only", "A trace has no seed."
        )
    assert trace is not None
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
        draw_advice(found, picture)
        click.echo(f"wrote {picture}")


HEAD = (
    *("policy", "seed", "rows/s", "lost/s", "latency", "p99"),
    *("waiting", "cores", "moves", "moved MB"),
)


def _compare(
    file: str,
    names: list[str],
    parameters: dict[str, dict[str, str]],
    seeds: tuple[int, ...],
    after_s: float,
    table: Path | None,
) -> None:
    """Run every policy on every seed of the scenario, and print what came of it."""
    chosen = {name: policy(name, **parse_parameters(name, parameters[name])) for name in names}
    scenes = [read_scenario(file, seed) for seed in seeds or (None,)]
    found: list[tuple[str, int, Result]] = []
    for name, one in chosen.items():
        with click.progressbar(scenes, label=name) as bar:
            found += [(name, scene.seed, run(scene, one)) for scene in bar]
    rows = [HEAD] + [(name, str(seed), *_figures(r, after_s)) for name, seed, r in found]
    width = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    for row in rows:
        cells = [
            c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(row, width, strict=True))
        ]
        click.echo("  ".join(cells))
    if table is not None:
        _write(table, found)
        click.echo(f"wrote {table}")


def _figures(result: Result, after_s: float) -> Iterator[str]:
    def mean(name: str) -> float:
        return result.mean(name, after_s)

    late = result.column("time_s") > after_s
    yield f"{mean('throughput'):,.0f}"
    yield f"{mean('lost'):,.3g}"
    yield f"{mean('latency_mean_s'):.4g} s"
    yield f"{mean('latency_p99_s'):.4g} s"
    yield f"{mean('queued'):,.0f}"
    yield f"{mean('cores'):.1f}"
    yield f"{result.column('handoffs')[late].sum():.0f}"
    yield f"{result.column('migrated_bytes')[late].sum() / 1e6:.4g}"


def _write(file: Path, found: list[tuple[str, int, Result]]) -> None:
    """One line per policy, seed and window."""
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, ["policy", "seed", *(f.name for f in fields(WindowRow))])
        writer.writeheader()
        for name, seed, result in found:
            rows: list[dict[str, Any]] = [asdict(row) for row in result.rows]
            writer.writerows({"policy": name, "seed": seed, **row} for row in rows)


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
