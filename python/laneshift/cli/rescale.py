"""The sub-command ``laneshift rescale``."""

from __future__ import annotations

import click

from laneshift.cli.control import Target, controlled


@click.command()
@controlled
@click.argument("checkpoint", required=False)
@click.option("--partitions", type=int, metavar="N", help="State partitions to go on with.")
@click.option("--query", help="A query that runs, by name or id, instead of CHECKPOINT.")
@click.option("--cancel", is_flag=True, help="Give up the rescale of --query that is under way.")
@click.option(
    "--wait/--no-wait",
    default=True,
    show_default=True,
    help="With --query, show how it goes and end when it is over.",
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
    target: Target,
    checkpoint: str | None,
    partitions: int | None,
    query: str | None,
    cancel: bool,
    wait: bool,
    check: bool,
    master: str,
    conf: tuple[str, ...],
) -> None:
    """Give a query another number of state partitions.

    CHECKPOINT is the folder that a query that has stopped has as checkpointLocation. It stays as it
    was until the new state is written, and compared. The query goes on from it, with or without
    laneshift. Nobody may use the checkpoint meanwhile: a query of another application is not
    noticed.

    With --query the query runs, and goes on meanwhile; --control says where. --check, --master and
    --conf are for CHECKPOINT.
    """
    if (checkpoint is None) == (query is None):
        raise click.UsageError("Give either CHECKPOINT or --query.")
    if cancel != (partitions is None) or (cancel and query is None):
        raise click.UsageError("Give --partitions, or with --query --cancel.")
    if query is not None:
        _running(target, query, partitions, wait)
    elif checkpoint is not None and partitions is not None:
        _stopped(checkpoint, partitions, check, master, conf)


def _running(target: Target, query: str, partitions: int | None, wait: bool) -> None:
    """Rescale a query that runs; cancel its rescale if there is no number."""
    with target.live() as live:
        if partitions is None:
            now = live.cancel_rescale(query)
        else:
            now = live.rescale(query, partitions, wait=wait, progress=True)
    if partitions is None or not wait:
        click.echo(f"{now.before} -> {now.after} state partitions: {now.state}")


def _stopped(
    checkpoint: str, partitions: int, check: bool, master: str, conf: tuple[str, ...]
) -> None:
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
