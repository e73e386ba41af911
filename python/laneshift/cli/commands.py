"""The sub-commands that look at a running application, or change it, through its control service.

queries, snapshot, handoffs, decisions; lanes, tasks, move, limit-source.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from laneshift.cli.control import DurationType, Target, as_json, controlled, show
from laneshift.cli.top import lines
from laneshift.errors import InputError, error
from laneshift.plugin.gateway import Applied

if TYPE_CHECKING:
    from laneshift.control.client import ControlClient

MOST = click.IntRange(1, 100_000)

one_operator = click.option("--operator", help="Its id or name  [default: the only one with state]")


@click.command()
@controlled
@as_json
def queries(target: Target, as_json: bool) -> None:
    """List the elastic queries that run."""
    with target.application() as app:
        found = [q for q in app.snapshot().queries if q.active]
    if as_json:
        show([{"id": q.id, "name": q.name, "mode": q.mode} for q in found])
        return
    for q in found:
        each = (f"{o.operator_id} ({o.name.strip()}) {o.lanes} lanes" for o in q.operators)
        click.echo(f"{q.name or '-'}  {q.id}  {q.mode}  {', '.join(each)}")
    if not found:
        click.echo("no elastic query runs")


@click.command()
@controlled
@as_json
@click.option(
    "--every", type=DurationType(0.1, 3600), metavar="DURATION", help="Go on, until Ctrl-C."
)
def snapshot(target: Target, as_json: bool, every: float | None) -> None:
    """Show what every elastic query does right now."""
    with target.client() as client:
        for said in [client.snapshot()] if every is None else client.watch(every):
            if as_json:
                show(asdict(said))
            else:
                click.echo("\n".join(lines(said)))


@click.command()
@controlled
@as_json
@click.argument("query", required=False)
@click.option("--limit", type=MOST, default=100, show_default=True, help="The newest so many.")
def handoffs(target: Target, as_json: bool, query: str | None, limit: int) -> None:
    """Show the newest moves of shards, of QUERY or of all; a query is named by name or id."""
    with target.client() as client:
        found = client.handoffs(query or "", limit)
    if as_json:
        show([asdict(each) for each in found])
        return
    for each in found:
        gave = _lane(each.source, each.source_executor)
        took = _lane(each.target, each.target_executor)
        click.echo(
            f"{each.time_ms / 1000:.3f} {each.query_id}:{each.operator_id}.{each.partition} "
            f"shard {each.shard}: lane {gave} -> {took}, {each.reason}, "
            f"paused {each.pause_us / 1000:.3f} ms"
        )


@click.command()
@controlled
@as_json
@click.argument("query", required=False)
@click.option("--follow", is_flag=True, help="Go on with those to come, until Ctrl-C.")
@click.option(
    "--limit", type=click.IntRange(0, 10_000), default=100, show_default=True,
    help="The newest so many.",
)  # fmt: skip
@click.option("--id", default="", help="Of one autoscaler, as `laneshift autoscalers` names it.")
def decisions(
    target: Target, as_json: bool, query: str | None, follow: bool, limit: int, id: str
) -> None:
    """Show what all autoscalers in the control process have decided, oldest first.

    With QUERY, what the newest one has that drives it.
    """
    with target.application() as app, target.client() as client:
        if query is not None:
            id = _driver_of(client, app.query(query).id)
        for decision in client.decisions(limit, follow=follow, id=id):
            if as_json:
                show(decision.to_json())
            else:
                for line in decision.lines():
                    click.echo(f"{decision.time_s:.1f} {decision.policy}: {line}")


@click.command()
@controlled
@as_json
@click.argument("query")
@click.argument("number", metavar="LANES", type=int)
@click.option("--partition", type=int, help="One of its partitions  [default: all]")
@one_operator
@click.option(
    "--on",
    multiple=True,
    metavar="EXECUTOR=LANES",
    help="So many more on another executor; can be given for several.",
)
def lanes(
    target: Target,
    as_json: bool,
    query: str,
    number: int,
    partition: int | None,
    operator: str | None,
    on: tuple[str, ...],
) -> None:
    """Give the partitions of QUERY so many LANES each; `laneshift snapshot` shows them."""
    hosts = {}
    for text in on:
        executor, _, count = text.partition("=")
        hosts[executor] = _whole("--on", count)
    with target.application() as app:
        change = app.query(query).set_lanes(
            number, partition=partition, operator=_operator(operator), on=hosts or None
        )
    _applied(change.applied, as_json)


@click.command()
@controlled
@as_json
@click.argument("query")
@click.argument("number", metavar="TASKS")
@click.option("--operator", help="Its id or name  [default: all with state]")
def tasks(target: Target, as_json: bool, query: str, number: str, operator: str | None) -> None:
    """Compute the state partitions of QUERY in so many TASKS, or "auto" or "stock" ones.

    Each task computes a range of them, from the next batch on; no state is rewritten.
    """
    wanted = number if number in ("auto", "stock") else _whole("TASKS", number)
    with target.application() as app:
        change = app.query(query).set_tasks(wanted, operator=_operator(operator))
    _applied(change.applied, as_json)


@click.command()
@controlled
@as_json
@click.argument("query")
@click.option("--shard", type=int, required=True, help="The shard that moves.")
@click.option("--to-lane", type=int, required=True, help="The lane that takes it.")
@click.option("--partition", type=int, required=True, help="The partition of both.")
@one_operator
def move(
    target: Target,
    as_json: bool,
    query: str,
    shard: int,
    to_lane: int,
    partition: int,
    operator: str | None,
) -> None:
    """Hand a shard of a partition of QUERY over to another of its lanes."""
    with target.application() as app:
        change = app.query(query).move(
            shard=shard, to_lane=to_lane, partition=partition, operator=_operator(operator)
        )
    _applied(change.applied, as_json)


@click.command("limit-source")
@controlled
@as_json
@click.argument("query")
@click.argument("rows_per_second", type=float)
@click.argument("duration", type=DurationType(0, 3600))
def limit_source(
    target: Target, as_json: bool, query: str, rows_per_second: float, duration: float
) -> None:
    """Hold the source of QUERY to ROWS_PER_SECOND at most for a DURATION; 0s ends a limit."""
    with target.application() as app:
        applied = app.query(query).limit_source(rows_per_second, duration=duration)
    _applied(applied, as_json)


def _whole(field: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as cause:
        raise InputError(field, text, "a number", "`laneshift snapshot` shows them.") from cause


def _operator(text: str | None) -> int | str | None:
    """The id or the name that was given."""
    return int(text) if text is not None and text.isdecimal() else text


def _driver_of(client: ControlClient, query: str) -> str:
    """The newest autoscaler that drives a query, alone if there is one. Errors: NotFoundError."""
    runs = client.autoscalers()
    ids = [run.id for wanted in ("", query) for run in runs if run.query == wanted]
    if not ids:
        raise error("LANESHIFT_NO_SUCH_AUTOSCALER", value=f"none has driven {query}", range="none")
    return ids[-1]


def _applied(when: Applied, as_json: bool) -> None:
    if as_json:
        show({"applied": when})
    else:
        click.echo("done" if when is Applied.NOW else "from the next batch on")


def _lane(number: int, executor: str | None) -> str:
    """A lane's number and, if it is not at home, its executor."""
    return str(number) if executor is None else f"{number} (executor {executor})"
