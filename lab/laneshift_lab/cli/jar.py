"""``laneshift-lab jar``: where the installed package has the workload's jar."""

from __future__ import annotations

import click

from laneshift.plugin.jar import found
from laneshift_lab.workload import workload_jar


@click.command()
def jar() -> None:
    """Print the path of the workload's jar, for spark-submit --jars beside the plugin's."""
    click.echo(found(workload_jar()))
