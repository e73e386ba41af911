"""The sub-command ``laneshift policies``: what there is, and what runs in an application."""

from __future__ import annotations

import json
from typing import Any

import click

from laneshift.cli.control import Target, as_json, controlled, show
from laneshift.errors import InputError
from laneshift.scheduler import registry


class PolicyGroup(click.Group):
    """``policies NAME`` explains a policy: what is no sub-command is a policy's name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The sub-command to run, and its arguments."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            return "explain", self.commands["explain"], args
        return super().resolve_command(ctx, args)


@click.group(cls=PolicyGroup, invoke_without_command=True)
@click.pass_context
def policies(ctx: click.Context) -> None:
    """List the policies; `policies NAME` explains one, `policies start NAME` runs it."""
    if ctx.invoked_subcommand is not None:
        return
    width = max(len(known) for known in registry.names())
    for known in registry.names():
        try:
            summary = registry.policy_class(known).summary
        except InputError as error:  # one package's fault hides no other policy
            summary = f"unusable: {error}"
        click.echo(f"{known:<{width}}  {summary}")


@policies.command()
@click.argument("name")
def explain(name: str) -> None:
    """Explain a policy and its parameters; NAME as listed, or module:Class."""
    found = registry.policy_class(name)
    click.echo(f"{name}: {found.summary}\nsource: {found.source}\n")
    click.echo((found.__doc__ or "").strip() + "\n")
    for parameter, default in registry.defaults(name).items():
        click.echo(f"  {parameter} = {default}")


@policies.command()
@controlled
@as_json
@click.argument("name")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="A parameter of the policy."
)
@click.option("--query", help="The only query to drive, by name or id (default: all).")
@click.option("--target-latency-ms", type=float, help="Latency to keep to, in milliseconds.")
@click.option("--interval", type=float, default=1.0, show_default=True, help="Seconds per turn.")
@click.option("--cores", type=int, help="Most cores of an executor that lanes may use.")
@click.option("--dry-run", is_flag=True, help="Decide and report, but change nothing.")
@click.option("--max-executors", type=int, help="Executors on demand: the most; 0 for none.")
def start(
    target: Target,
    as_json: bool,
    name: str,
    settings: tuple[str, ...],
    query: str | None,
    target_latency_ms: float | None,
    interval: float,
    cores: int | None,
    dry_run: bool,
    max_executors: int | None,
) -> None:
    """Start the policy NAME (or module:Class installed there); it goes on when this ends."""
    with target.live() as live:
        made: Any = live.start(
            name,
            target_latency_ms=target_latency_ms,
            interval_s=interval,
            query=query,
            cores=cores,
            dry_run=dry_run,
            max_executors=max_executors,
            **_parameters(name, settings),
        )
        if as_json:
            show({"id": made.id, "policy": made.name})
        else:
            click.echo(f"{made.id} runs; laneshift policies stop {made.id} ends it")


@policies.command()
@controlled
@as_json
@click.argument("id", required=False)
def stop(target: Target, as_json: bool, id: str | None) -> None:
    """Stop the policy ID, or the only one that runs; queries keep their lanes."""
    with target.client() as client:
        ended = client.stop_policy(id or "")
    if as_json:
        show({"id": ended.id, "policy": ended.policy, "turns": ended.turns})
    else:
        click.echo(f"{ended.id} has stopped after {ended.turns} turns; queries keep their lanes")


@policies.command()
@controlled
@as_json
@click.option("--all", "stopped", is_flag=True, help="Those that have stopped, too.")
def running(target: Target, as_json: bool, stopped: bool) -> None:
    """List the policies that run in the control process."""
    from laneshift.control.codec import to_json

    with target.client() as client:
        runs = [run for run in client.policies() if run.running or stopped]
    if as_json:
        show([to_json(run) for run in runs])
        return
    for run in runs:
        state = "paused" if run.paused else "running" if run.running else "stopped"
        dry = ", dry run" if run.dry_run else ""
        click.echo(f"{run.id}: {state}, {run.turns} turns, {run.query or 'all queries'}{dry}")
    if not runs:
        click.echo("no policy runs in the control process")


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
