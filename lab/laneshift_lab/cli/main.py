"""The command ``laneshift-lab``. Sub-commands are imported when they are called, not before."""

from __future__ import annotations

import click

from laneshift.cli.main import LazyGroup
from laneshift.version import __version__

COMMANDS = {
    "jar": (
        "laneshift_lab.cli.jar:jar",
        "Print where the workload's jar is, for spark-submit --jars.",
    ),
    "replay": ("laneshift_lab.cli.replay:replay", "Decide again on a recorded trace."),
    "simulate": ("laneshift_lab.cli.simulate:simulate", "Compare policies on a recorded trace."),
}
"""As those of ``laneshift``."""


@click.group(cls=LazyGroup, lazy=COMMANDS)
@click.version_option(__version__, prog_name="laneshift-lab")
def main() -> None:
    """Try policies without Spark: ends with 0 if done, 2 for wrong arguments, 1 otherwise."""
