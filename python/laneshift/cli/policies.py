"""The sub-command ``laneshift policies``: what there is."""

from __future__ import annotations

import click

from laneshift.errors import InputError
from laneshift.policies import registry


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
    """List the policies; `policies NAME` explains one, `autoscale --policy NAME` runs it."""
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
