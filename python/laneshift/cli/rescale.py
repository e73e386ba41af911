"""The sub-commands ``laneshift rescale`` and ``laneshift checkpoint rescale``."""

from __future__ import annotations

import click

from laneshift.cli.control import Target, controlled
from laneshift.errors import error


@click.command()
@controlled
@click.argument("query")
@click.argument("partitions", type=int, required=False)
@click.option("--cancel", is_flag=True, help="Give up the rescale that is under way.")
@click.option("--detach", is_flag=True, help="End at once: the rescale goes on.")
def rescale(target: Target, query: str, partitions: int | None, cancel: bool, detach: bool) -> None:
    """Give QUERY, which runs on, so many state PARTITIONS; show how it goes until it is over."""
    if cancel != (partitions is None):
        raise click.UsageError("Give PARTITIONS or --cancel.")
    with target.application() as app:
        if partitions is not None:
            asked = app.query(query).rescale(partitions)
            if not detach:
                asked.wait(show=True)
                return
            now = asked.progress
        else:
            found = app.query(query).rescaling
            if found is None:
                raise error("LANESHIFT_NO_RESCALE", query=query)
            now = found.cancel()
    click.echo(f"{now.before} -> {now.after} state partitions: {now.state}")


@click.group()
def checkpoint() -> None:
    """Change checkpoints of queries that have stopped."""


@checkpoint.command("rescale")
@click.argument("path")
@click.argument("partitions", type=int)
@click.option(
    "--check/--no-check",
    default=True,
    show_default=True,
    help="Compare all state with the old one before the checkpoint goes over.",
)
@click.option(
    "--master",
    default="local[*]",
    show_default=True,
    metavar="URL",
    help="The Spark that reads and writes the state.",
)
@click.option(
    "--conf",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of that Spark, such as a file system's.",
)
def checkpoint_rescale(
    path: str, partitions: int, check: bool, master: str, conf: tuple[str, ...]
) -> None:
    """Give the checkpoint at PATH so many state PARTITIONS.

    PATH is the folder that a query that has stopped has as checkpointLocation. It stays as it was
    until the new state is written, and compared. The query goes on from it, with or without
    laneshift. Nobody may use the checkpoint meanwhile: a query of another application is not
    noticed.

    Not for a query with a file sink, which the checkpoint does not name: the sink's log has to have
    a file of every batch, and the one that the rescale is has none.
    """
    from pyspark.sql import SparkSession

    from laneshift.api.rescale import rescale_checkpoint
    from laneshift.session.builder import configure

    builder = SparkSession.builder.master(master).appName("laneshift checkpoint rescale")
    for setting in conf:
        key, equals, value = setting.partition("=")
        if not equals:
            raise click.UsageError(f"--conf {setting}: expected KEY=VALUE.")
        builder = builder.config(key, value)
    spark = configure(builder.config("spark.ui.enabled", "false")).getOrCreate()
    try:
        done = rescale_checkpoint(spark, path, partitions, check=check)
    finally:
        spark.stop()
    compared = "not compared" if done.rows is None else f"{done.rows} rows compared"
    click.echo(
        f"{done.before} -> {done.after} state partitions as batch {done.batch_id}: written in "
        f"{done.build_s:.1f} s, {compared} in {done.check_s:.1f} s, taken over in "
        f"{done.take_over_s:.2f} s."
    )
