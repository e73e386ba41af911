"""``laneshift jar``: where the installed package has the plugin's jar."""

from __future__ import annotations

import click

from laneshift.errors import error
from laneshift.plugin.jar import jar_path


@click.command()
def jar() -> None:
    """Print the path of the plugin's jar, as in spark-submit --jars "$(laneshift jar)"."""
    path = jar_path()
    if not path.is_file():
        raise error("LANESHIFT_JAR_MISSING", path=path)
    click.echo(path)
