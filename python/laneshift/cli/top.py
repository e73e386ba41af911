"""The sub-command ``laneshift top``: the elastic queries of a running application."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import click
from google.protobuf.json_format import ParseDict, ParseError

from laneshift.autoscale.decisions import Decision
from laneshift.cli.control import DurationType, Target, controlled
from laneshift.errors import SessionError
from laneshift.plugin.partition import HotKey, PartitionSnapshot
from laneshift.plugin.rescale import RescaleProgress, RescaleState
from laneshift.plugin.snapshot import OperatorSnapshot, QuerySnapshot, Snapshot
from laneshift.plugin.v1 import control_pb2 as pb
from laneshift.plugin.wire import filled

TIMEOUT_S = 10.0
# A UI that has answered may not do so for so long, as a service that is watched.
SILENT_S = 60.0
DECISIONS = 8
# Of each partition, so many keys if the first of them has such a share of its rows.
HOT_KEYS = 3
HOT = 0.05
BARS = "▁▂▃▄▅▆▇█"
HEADER = (
    f"  {'part':>4} {'executor':<9} {'lanes':>8} {'rows/s in':>11} {'out':>11} {'queued':>9} "
    f"{'uneven':>6} {'moves':>8} {'pause p50':>10} {'p99':>10}  busy, by lane"
)


@click.command()
@controlled
@click.option("--url", help="The application's Spark UI (default: http://localhost:4040).")
@click.option(
    "--every",
    type=DurationType(0.2, 3600),
    default="1s",
    show_default=True,
    metavar="DURATION",
    help="Time between two looks.",
)
@click.option("--once", is_flag=True, help="Look once and end, without clearing the screen.")
def top(target: Target, url: str | None, every: float, once: bool) -> None:
    """Watch the elastic queries of a running application; Ctrl-C ends.

    The numbers are those of the tab Laneshift of Spark's UI (``spark.ui.enabled``), or with
    --control those of its control service, from any machine.
    """
    with suppress(KeyboardInterrupt):
        for said in _looks(target, url, every, once):
            if not once:
                click.clear()
            click.echo("\n".join(lines(*said)))
            if once:
                return


Look = tuple[Snapshot, Sequence[Decision]]
"""What runs, and the newest decisions, newest first."""


def _looks(target: Target, url: str | None, every: float, once: bool) -> Iterator[Look]:
    if url is None and target.is_named:
        with target.client() as client:
            newest: list[Decision] = []
            for snapshot in [client.snapshot()] if once else client.watch(every):
                with suppress(SessionError):  # if it is lost, watching says so
                    newest = list(client.decisions(DECISIONS))[::-1]
                yield snapshot, newest
        return
    yield from _seen(url or "http://localhost:4040", every)


def _seen(url: str, every: float) -> Iterator[Look]:
    """What the tab says at each look; one that was seen may be silent for a while."""
    silent_s = SILENT_S  # at first, not at all
    while True:
        try:
            yield status(url)
            silent_s = 0.0
        except click.ClickException:
            silent_s += every
            if silent_s > SILENT_S:
                raise
        time.sleep(every)


def status(url: str) -> Look:
    """What the application at ``url`` says of itself.

    Errors: click.ClickException if nobody answers there or laneshift does not run in it.
    """
    address = url if "://" in url else f"http://{url}"
    try:
        with urlopen(f"{address.rstrip('/')}/laneshift/json/", timeout=TIMEOUT_S) as answer:
            said = json.load(answer)
        if "failure" in said:
            raise click.ClickException(str(said["failure"]["message"]))
        now = ParseDict(said, pb.StatusReply(), ignore_unknown_fields=True)
        return filled(Snapshot, now.snapshot), [Decision.of_message(each) for each in now.decisions]
    except HTTPError as error:
        raise click.ClickException(
            f"The application at {url} has no tab Laneshift (HTTP {error.code}). Start it with "
            "spark.plugins=org.apache.spark.sql.laneshift.LaneshiftPlugin."
        ) from error
    except (URLError, TimeoutError, ValueError, ParseError) as error:
        reason = getattr(error, "reason", error)
        raise click.ClickException(
            f"No Spark UI answers at {url} ({reason}). Give the address that the application "
            "prints when it starts, as --url http://HOST:PORT; spark.ui.enabled must be true."
        ) from error


def lines(snapshot: Snapshot, decisions: Sequence[Decision] = ()) -> Iterator[str]:
    """The screen, line by line."""
    running = [q for q in snapshot.queries if q.active]
    yield f"laneshift {snapshot.version}   {_time(snapshot.time_ms)}   {_budget(snapshot)}"
    if not running:
        yield ""
        yield "No query with an elastic operator is running."
    for query in running:
        if query.rescale is not None:
            yield ""
            yield f"{query.name or query.id}: {_rescale(query.rescale)}"
        for operator in query.operators:
            yield from _operator(query, operator)
    if decisions:
        yield ""
        yield "Decisions, newest first"
        for decision in decisions[:DECISIONS]:
            for line in decision.lines():
                yield f"  {_time(1000 * decision.time_s)} {decision.policy}: {line}"


def _budget(snapshot: Snapshot) -> str:
    cores = sum(e.cores for e in snapshot.executors)
    tasks = sum(e.active_tasks for e in snapshot.executors)
    idle = sum(e.idle_cores for e in snapshot.executors)
    asked = sum(e.asked for e in snapshot.executors)
    lanes = sum(o.lanes for q in snapshot.queries if q.active for o in q.operators)
    return (
        f"{lanes} lanes, {tasks} Spark tasks, {cores} cores on {len(snapshot.executors)} executor"
        + "s" * (len(snapshot.executors) != 1)
        + (f" ({asked} asked for)" if asked else "")
        + f", {idle} of them idle"
    )


def _operator(query: QuerySnapshot, operator: OperatorSnapshot) -> Iterator[str]:
    yield ""
    moves = "rows go to any lane" if operator.is_dealt else f"shards move {operator.handoff}"
    grouped = operator.tasks < len(operator.partitions) and not operator.is_dealt
    yield (
        f"{query.name or query.id}, {query.mode}: operator {operator.operator_id} "
        f"{operator.name.strip()}, {moves}"
        + (f", {operator.tasks} tasks for {len(operator.partitions)} partitions" if grouped else "")
    )
    yield HEADER
    for part in operator.partitions:
        yield _partition(part)
    for part in operator.partitions:
        if part.hot_keys and part.hot_keys[0].share >= HOT:
            yield f"  {part.partition:>4} hottest keys: {_hot(part.hot_keys[:HOT_KEYS])}"


def _rescale(now: RescaleProgress) -> str:
    said = f"{now.before} -> {now.after} state partitions, {now.state}"
    if now.state is RescaleState.BUILDING:
        said += f", {now.stores_written} of {now.stores} stores written"
    if now.lag_batches and not now.ended:
        said += f", {now.lag_batches} batches behind"
    if now.state is RescaleState.DONE:
        said += f" as batch {now.batch_id}, the query waited {now.pause_ms:.0f} ms"
    return said if now.failure is None else f"{said}: {now.failure}"


def _partition(part: PartitionSnapshot) -> str:
    pauses = part.pause_us
    p50, p99 = (_pause(us) if pauses.count else "-" for us in (pauses.p50, pauses.p99))
    busy = "".join(BARS[min(int(b * len(BARS)), len(BARS) - 1)] for b in part.lane_busy)
    if there := Counter(lane.executor for lane in part.elsewhere if lane.open):
        busy += ", " + ", ".join(f"{n} on executor {e}" for e, n in sorted(there.items()))
    return (
        f"  {part.partition:>4} {part.executor:<9} {f'{part.lanes} of {part.max_lanes}':>8} "
        f"{part.rows_in_per_s:>11,.0f} {part.rows_out_per_s:>11,.0f} "
        f"{int(part.queue_rows.sum()):>9,} {part.imbalance:>6.2f} {part.handoffs:>8,} "
        f"{p50:>10} {p99:>10}  {busy}{'' if part.running else ' (between tasks)'}"
    )


def _hot(keys: Iterable[HotKey]) -> str:
    return ", ".join(
        f"{f'#{k.key}' if k.value is None else k.value} {k.share:.0%} of rows" for k in keys
    )


def _pause(us: float) -> str:
    return f"{us / 1000:.3f} ms" if us < 10_000 else f"{us / 1000:,.0f} ms"


def _time(time_ms: float) -> str:
    return datetime.fromtimestamp(time_ms / 1000).astimezone().strftime("%H:%M:%S")
