"""``laneshift jar``: where the installed package has the plugin's jar."""

from __future__ import annotations

import click

from laneshift.plugin.jar import found, jar_path


@click.command()
def jar() -> None:
    """Print the path of the plugin's jar, as in spark-submit --jars "$(laneshift jar)"."""
    click.echo(found(jar_path()))
