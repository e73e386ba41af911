"""The sub-command ``laneshift rescale``."""

from __future__ import annotations

import click


@click.command()
@click.argument("checkpoint")
@click.option(
    "--partitions", type=int, required=True, metavar="N", help="State partitions to go on with."
)
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
def rescale(
    checkpoint: str, partitions: int, check: bool, master: str, conf: tuple[str, ...]
) -> None:
    """Give the checkpoint of a query that has stopped another number of state partitions.

    CHECKPOINT is the folder that the query has as checkpointLocation. It stays as it was until the
    new state is written, and compared. The query goes on from it, with or without laneshift.
    Nobody may use the checkpoint meanwhile: a query of another application is not noticed.
    """
    from pyspark.sql import SparkSession

    from laneshift.session.builder import configure
    from laneshift.session.rescale import rescale_checkpoint

    builder = SparkSession.builder.master(master).appName("laneshift rescale")
    for setting in conf:
        key, equals, value = setting.partition("=")
        if not equals:
            raise click.UsageError(f"--conf {setting}: expected KEY=VALUE.")
        builder = builder.config(key, value)
    spark = configure(builder.config("spark.ui.enabled", "false")).getOrCreate()
    try:
        done = rescale_checkpoint(spark, checkpoint, partitions, check=check)
    finally:
        spark.stop()
    compared = "not compared" if done.rows is None else f"{done.rows} rows compared"
    click.echo(
        f"{done.before} -> {done.after} state partitions as batch {done.batch_id}: written in "
        f"{done.build_s:.1f} s, {compared} in {done.check_s:.1f} s, taken over in "
        f"{done.take_over_s:.2f} s."
    )
