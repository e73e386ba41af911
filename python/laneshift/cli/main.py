"""The command ``laneshift``. Sub-commands are imported when they are called, not before."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

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
    "report": ("laneshift.cli.report:report", "Show what happened in a run."),
    "rescale": ("laneshift.cli.rescale:rescale", "Give a query other state partitions."),
    "tasks": (
        "laneshift.cli.commands:tasks",
        "Compute a query's state partitions in another number of Spark tasks.",
    ),
    "snapshot": ("laneshift.cli.commands:snapshot", "Show what elastic queries do right now."),
    "top": ("laneshift.cli.top:top", "Watch the elastic queries of a running application."),
}
"""Name -> (module:attribute of the click command, one line of help).

The line is here so that ``laneshift --help`` imports no sub-command.
"""

LAB = ("replay", "simulate")
"""Commands of ``laneshift-lab``, which is a distribution of its own."""


class LazyGroup(click.Group):
    """Imports a sub-command on its first use; shows an `InputError` as a usage error.

    Args:
        lazy: as `COMMANDS`.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all sub-commands, sorted."""
        return sorted(self.lazy)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The sub-command, imported now."""
        if name not in self.lazy:
            if name in LAB:
                ctx.fail(f"`laneshift-lab {name}` does that: pip install laneshift-lab.")
            return None
        module, _, attribute = self.lazy[name][0].partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in ``--help``, without importing anything."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.lazy[name][1]) for name in sorted(self.lazy)])

    def invoke(self, ctx: click.Context) -> object:
        """Run; our errors end with their message and an exit code, not with a stack trace."""
        # A policy of one's own, module:Class, may stand in the folder that one is in.
        if "" not in sys.path:
            sys.path.append("")
        try:
            return super().invoke(ctx)
        except InputError as error:
            raise click.UsageError(str(error)) from error
        except LaneshiftError as error:
            from laneshift.cli.control import Failed

            raise Failed(error) from error


@click.group(cls=LazyGroup, lazy=COMMANDS)
@click.version_option(__version__, prog_name="laneshift")
def main() -> None:
    """Elastic stateful operators for Spark Structured Streaming: watch, steer, report.

    Commands that reach a running application end with 0 if done, 2 for wrong arguments, 3 if what
    they name is not there, 4 if nobody answers, 5 if the token is refused, 1 for anything else.
    """
