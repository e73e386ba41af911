"""The sub-commands ``laneshift autoscale`` and ``laneshift autoscalers``."""

from __future__ import annotations

import json
from typing import Any

import click

from laneshift.cli.control import DurationType, Target, as_json, controlled, show
from laneshift.errors import InputError
from laneshift.policies import registry


@click.command()
@controlled
@as_json
@click.argument("query", required=False)
@click.option("--policy", default="laneshift", show_default=True, help="A name or module:Class.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="A parameter of the policy."
)
@click.option(
    "--target-latency", type=DurationType(0, low_open=True), metavar="DURATION",
    help="Latency to keep to, such as 50ms.",
)  # fmt: skip
@click.option(
    "--interval", type=DurationType(0.1, 3600), default="1s", show_default=True,
    metavar="DURATION", help="Time from one turn to the next.",
)  # fmt: skip
@click.option("--cores", type=int, help="Most cores of an executor that lanes may use.")
@click.option("--max-executors", type=int, help="Executors on demand: the most; 0 for none.")
@click.option("--dry-run", is_flag=True, help="Decide and report, but change nothing.")
@click.option("--stop", is_flag=True, help="Stop the one of --id, or the only one that runs.")
@click.option("--id", default="", help="With --stop, as `laneshift autoscalers` names it.")
def autoscale(
    target: Target,
    as_json: bool,
    query: str | None,
    policy: str,
    settings: tuple[str, ...],
    target_latency: float | None,
    interval: float,
    cores: int | None,
    max_executors: int | None,
    dry_run: bool,
    stop: bool,
    id: str,
) -> None:
    """Let a policy set the lanes of QUERY, or of all; it goes on when this command ends.

    It runs in the application's control process. With --stop it ends; queries keep their lanes.
    """
    if (stop and query is not None) or (id and not stop):
        raise click.UsageError("Name one to stop by --stop --id ID, without QUERY.")
    if stop:
        _stop(target, as_json, id)
        return
    with target.application() as app:
        made = (app if query is None else app.query(query)).autoscale(
            policy=policy,
            target_latency=target_latency,
            interval=interval,
            cores=cores,
            max_executors=max_executors,
            dry_run=dry_run,
            **_parameters(policy, settings),
        )
        if as_json:
            show({"id": made.id, "policy": made.policy})
        else:
            click.echo(f"{made.id} runs; laneshift autoscale --stop --id {made.id} ends it")


def _stop(target: Target, as_json: bool, id: str) -> None:
    with target.client() as client:
        ended = client.stop_autoscaler(id)
    if as_json:
        show({"id": ended.id, "policy": ended.policy, "turns": ended.turns})
    else:
        click.echo(f"{ended.id} has stopped after {ended.turns} turns; queries keep their lanes")


@click.command()
@controlled
@as_json
@click.option("--all", "stopped", is_flag=True, help="Those that have stopped, too.")
def autoscalers(target: Target, as_json: bool, stopped: bool) -> None:
    """List the autoscalers that run in the control process."""
    from google.protobuf.json_format import MessageToDict

    with target.client() as client:
        runs = [run for run in client.autoscalers() if run.running or stopped]
    if as_json:
        show(
            [
                MessageToDict(
                    run, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
                )
                for run in runs
            ]
        )
        return
    for run in runs:
        state = "paused" if run.paused else "running" if run.running else "stopped"
        dry = ", dry run" if run.dry_run else ""
        click.echo(f"{run.id}: {state}, {run.turns} turns, {run.query or 'all queries'}{dry}")
    if not runs:
        click.echo("no autoscaler runs in the control process")


def _parameters(name: str, settings: tuple[str, ...]) -> dict[str, Any]:
    given: dict[str, str] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        if not equals:
            raise InputError("--set", text, "KEY=VALUE", "For example --set target_s=0.05.")
        given[key.strip()] = value.strip()
    try:
        return registry.parse_parameters(name, given)
    except InputError:
        if ":" not in name and name in registry.names():
            raise
    # A policy that only the driver's machine has: it knows what the values are.
    return {key: _value(text) for key, text in given.items()}


def _value(text: str) -> Any:
    try:
        return json.loads(text.lower() if text.lower() in ("true", "false") else text)
    except ValueError:
        return None if text == "none" else text
