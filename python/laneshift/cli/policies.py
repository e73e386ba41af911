"""The sub-command ``laneshift policies``."""

from __future__ import annotations

import click

from laneshift.errors import InputError
from laneshift.scheduler import registry


@click.command()
@click.argument("name", required=False)
def policies(name: str | None) -> None:
    """List the policies; with NAME, explain it and its parameters."""
    if name is None:
        width = max(len(known) for known in registry.names())
        for known in registry.names():
            try:
                summary = registry.policy_class(known).summary
            except InputError as error:  # one package's fault hides no other policy
                summary = f"unusable: {error}"
            click.echo(f"{known:<{width}}  {summary}")
        return
    found = registry.policy_class(name)
    click.echo(f"{name}: {found.summary}\nsource: {found.source}\n")
    click.echo((found.__doc__ or "").strip() + "\n")
    for parameter, default in registry.defaults(name).items():
        click.echo(f"  {parameter} = {default}")
