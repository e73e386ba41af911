"""The sub-commands that look at a running application, or change it, through its control service.

snapshot, handoffs, decisions; set-lanes, move-shard, limit-source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from laneshift.cli.control import Target, as_json, controlled, show
from laneshift.cli.top import lines
from laneshift.errors import InputError
from laneshift.loop.decision import Decision

MOST = click.IntRange(1, 100_000)


@click.command()
@controlled
@as_json
@click.option(
    "--every", type=click.FloatRange(0.1, 3600), metavar="SECONDS", help="Go on, until Ctrl-C."
)
def snapshot(target: Target, as_json: bool, every: float | None) -> None:
    """Show what every elastic query does right now."""
    with target.client() as client:
        for said in [client.snapshot()] if every is None else client.watch(every):
            if as_json:
                show(said)
            else:
                click.echo("\n".join(lines(said)))


@click.command()
@controlled
@as_json
@click.argument("query", required=False)
@click.option("--limit", type=MOST, default=100, show_default=True, help="The newest so many.")
def handoffs(target: Target, as_json: bool, query: str | None, limit: int) -> None:
    """Show the newest moves of shards, of QUERY or of all; a query is named by name or id."""
    with target.live() as live:
        found = live._gateway.handoffs(query or "", limit)
    if as_json:
        show(found)
        return
    for each in found:
        click.echo(
            f"{each['time_ms'] / 1000:.3f} {each['query_id']}:{each['operator_id']}."
            f"{each['partition']} shard {each['shard']}: "
            f"lane {_lane(each, 'from')} -> {_lane(each, 'to')}, "
            f"{each['reason']}, paused {each['pause_us'] / 1000:.3f} ms"
        )


@click.command()
@controlled
@as_json
@click.option("--follow", is_flag=True, help="Go on with those to come, until Ctrl-C.")
@click.option(
    "--limit", type=click.IntRange(0, 10_000), default=100, show_default=True,
    help="The newest so many.",
)  # fmt: skip
@click.option("--id", default="", help="Of one policy, as `laneshift policies running` names it.")
def decisions(target: Target, as_json: bool, follow: bool, limit: int, id: str) -> None:
    """Show what the policies that run in the control process have decided, oldest first."""
    with target.client() as client:
        for said in client.decisions(limit, follow=follow, id=id):
            if as_json:
                show(said)
            else:
                decision = Decision.from_json(said)
                for line in decision.lines():
                    click.echo(f"{decision.time_s:.1f} {decision.policy}: {line}")


@click.command("set-lanes")
@controlled
@as_json
@click.argument("query")
@click.argument("operator", type=int)
@click.argument("partition")
@click.argument("lanes", type=int)
@click.option(
    "--on",
    multiple=True,
    metavar="EXECUTOR=LANES",
    help="So many more on another executor; can be given for several.",
)
def set_lanes(
    target: Target,
    as_json: bool,
    query: str,
    operator: int,
    partition: str,
    lanes: int,
    on: tuple[str, ...],
) -> None:
    """Give PARTITION ("all" for all) of an OPERATOR of QUERY so many LANES.

    `laneshift snapshot` shows what there is.
    """
    hosts = {}
    for text in on:
        executor, _, count = text.partition("=")
        hosts[executor] = _whole("--on", count)
    number = -1 if partition == "all" else _whole("PARTITION", partition)
    with target.live() as live:
        _applied(live.set_lanes(query, operator, number, lanes, on=hosts or None), as_json)


@click.command("set-tasks")
@controlled
@as_json
@click.argument("query")
@click.argument("tasks")
@click.option("--operator", type=int, help="One of its operators  [default: all with state]")
def set_tasks(target: Target, as_json: bool, query: str, tasks: str, operator: int | None) -> None:
    """Compute the state partitions of QUERY in so many TASKS, or "auto" or "stock" ones.

    Each task computes a range of them, from the next batch on; no state is rewritten.
    """
    wanted = tasks if tasks in ("auto", "stock") else _whole("TASKS", tasks)
    with target.live() as live:
        _applied(live.set_tasks(query, wanted, operator=operator), as_json)


@click.command("move-shard")
@controlled
@as_json
@click.argument("query")
@click.argument("operator", type=int)
@click.argument("partition", type=int)
@click.argument("shard", type=int)
@click.argument("lane", type=int)
def move_shard(
    target: Target,
    as_json: bool,
    query: str,
    operator: int,
    partition: int,
    shard: int,
    lane: int,
) -> None:
    """Hand a SHARD of a PARTITION over to another of its lanes."""
    with target.live() as live:
        _applied(live.move_shard(query, operator, partition, shard, lane), as_json)


@click.command("limit-source")
@controlled
@as_json
@click.argument("query")
@click.argument("rows_per_second", type=float)
@click.argument("seconds", type=float)
def limit_source(
    target: Target, as_json: bool, query: str, rows_per_second: float, seconds: float
) -> None:
    """Hold the source of QUERY to ROWS_PER_SECOND at most for SECONDS; 0 ends a limit."""
    with target.live() as live:
        _applied(live.limit_source(query, rows_per_second, seconds), as_json)


def _whole(field: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as cause:
        raise InputError(
            field, text, 'a number or "all"', "`laneshift snapshot` shows them."
        ) from cause


def _applied(when: str, as_json: bool) -> None:
    if as_json:
        show({"applied": when})
    else:
        click.echo({"now": "done", "next-batch": "from the next batch on"}.get(when, when))


def _lane(handoff: Mapping[str, Any], end: str) -> str:
    """A lane's number and, if it is not at home, its executor."""
    executor = handoff[f"{end}_executor"]
    return f"{handoff[end]} (executor {executor})" if executor else str(handoff[end])
