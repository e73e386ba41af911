"""The command ``laneshift``. Sub-commands are imported when they are called, not before."""

from __future__ import annotations

from importlib import import_module

import click

from laneshift.errors import InputError
from laneshift.version import __version__

COMMANDS: dict[str, tuple[str, str]] = {
    "policies": ("laneshift.cli.policies:policies", "List the policies, or explain one."),
    "replay": ("laneshift.cli.replay:replay", "Decide again on a recorded trace."),
    "report": ("laneshift.cli.report:report", "Show what happened in a recorded run."),
    "top": ("laneshift.cli.top:top", "Watch the elastic queries of a running application."),
    "simulate": ("laneshift.cli.simulate:simulate", "Compare policies on a recorded trace."),
}
"""Name -> (module:attribute of the click command, one line of help).

The line is here so that ``laneshift --help`` imports no sub-command.
"""


class LazyGroup(click.Group):
    """Imports a sub-command on its first use; shows an `InputError` as a usage error."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all sub-commands, sorted."""
        return sorted({*COMMANDS, *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The sub-command, imported now."""
        if name not in COMMANDS:
            return super().get_command(ctx, name)
        module, _, attribute = COMMANDS[name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in ``--help``, without importing anything."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in sorted(COMMANDS)])

    def invoke(self, ctx: click.Context) -> object:
        """Run; wrong input ends with its message and exit code 2, not with a stack trace."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            raise click.UsageError(str(error)) from error


@click.group(cls=LazyGroup)
@click.version_option(__version__, prog_name="laneshift")
def main() -> None:
    """Elastic stateful operators for Spark Structured Streaming: watch, report, simulate."""
