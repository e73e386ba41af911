"""The command ``laneshift``. Sub-commands are imported when they are called, not before."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from laneshift.errors import InputError, LaneshiftError
from laneshift.version import __version__

COMMANDS: dict[str, tuple[str, str]] = {
    "autoscale": ("laneshift.cli.autoscale:autoscale", "Let a policy set the lanes of queries."),
    "autoscalers": ("laneshift.cli.autoscale:autoscalers", "List the policies that set lanes."),
    "checkpoint": ("laneshift.cli.rescale:checkpoint", "Change checkpoints of stopped queries."),
    "decisions": ("laneshift.cli.commands:decisions", "Show what autoscalers decide."),
    "handoffs": ("laneshift.cli.commands:handoffs", "Show which shards have moved."),
    "jar": ("laneshift.cli.jar:jar", "Print where the plugin's jar is, for spark-submit --jars."),
    "lanes": ("laneshift.cli.commands:lanes", "Give partitions another number of lanes."),
    "limit-source": ("laneshift.cli.commands:limit_source", "Slow the source of a query down."),
    "move": ("laneshift.cli.commands:move", "Hand a shard over to another lane."),
    "policies": ("laneshift.cli.policies:policies", "List and explain policies."),
    "queries": ("laneshift.cli.commands:queries", "List the elastic queries that run."),
    "replay": ("laneshift.cli.replay:replay", "Decide again on a recorded trace."),
    "report": ("laneshift.cli.report:report", "Show what happened in a run."),
    "rescale": ("laneshift.cli.rescale:rescale", "Give a query other state partitions."),
    "tasks": (
        "laneshift.cli.commands:tasks",
        "Compute a query's state partitions in another number of Spark tasks.",
    ),
    "snapshot": ("laneshift.cli.commands:snapshot", "Show what elastic queries do right now."),
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
        """Run; our errors end with their message and an exit code, not with a stack trace."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            raise click.UsageError(str(error)) from error
        except LaneshiftError as error:
            from laneshift.cli.control import Failed

            raise Failed(error) from error


@click.group(cls=LazyGroup)
@click.version_option(__version__, prog_name="laneshift")
def main() -> None:
    """Elastic stateful operators for Spark Structured Streaming: watch, steer, report, simulate.

    Commands that reach a running application end with 0 if done, 2 for wrong arguments, 3 if what
    they name is not there, 4 if nobody answers, 5 if the token is refused, 1 for anything else.
    """
    # A policy of one's own, module:Class, may stand in the folder that one is in.
    if "" not in sys.path:
        sys.path.append("")
