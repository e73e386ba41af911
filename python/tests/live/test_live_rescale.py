"""Another number of state partitions: of a query that runs, and of its checkpoint afterwards."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import laneshift
from laneshift import ArgumentError, SessionError
from live.conftest import PARTITIONS, Counting, environment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.live


def partitions_of(counting: Counting) -> int:
    done = counting.query.lastProgress
    assert done is not None
    return int(done.stateOperators[0].numShufflePartitions)


def test_partitions_change_while_the_query_runs(
    spark: SparkSession,
    app: laneshift.Application,
    counting: Counting,
    capsys: pytest.CaptureFixture[str],
) -> None:
    counting.add(5000)
    query = app.query(counting.query)
    assert query.rescaling is None
    for wrong in (0, -3, PARTITIONS):
        with pytest.raises(ArgumentError, match=f"found {wrong}|Found {wrong}|than the"):
            query.rescale(wrong)
    over = threading.Event()

    def feed() -> None:
        while not over.wait(0.05):
            counting.add(500)

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        done = query.rescale(5).wait("2min", show=True)
    finally:
        over.set()
        feeding.join()
    counting.add(1000)
    assert (done.before, done.after, done.state) == (PARTITIONS, 5, "done")
    assert done.batch_id is not None and done.pause_ms > 0
    assert "partitions [" in capsys.readouterr().err
    assert partitions_of(counting) == 5
    newest = query.rescaling
    assert newest is not None and newest.progress == done
    with pytest.raises(SessionError, match="cannot be cancelled any more"):
        newest.cancel()
    shown = {q.id: q for q in app.snapshot().queries}[str(counting.query.id)]
    assert sorted(p.partition for o in shown.operators for p in o.partitions) == list(range(5))
    assert counting.streamed() == counting.stock()


@pytest.mark.deep("surface")
def test_a_checkpoints_partitions_change_by_command(counting: Counting, tmp_path: Path) -> None:
    counting.add(1000)
    counting.query.stop()
    checkpoint = str(tmp_path / "checkpoint")
    command = [sys.executable, "-m", "laneshift.cli", "checkpoint", "rescale", checkpoint]
    said = subprocess.run(
        [*command, "3", "--master", "local[2]"],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert said.returncode == 0, said.stderr[-3000:]
    assert said.stdout.startswith(f"{PARTITIONS} -> 3 state partitions as batch")
    assert f"{len(counting.streamed())} rows compared" in said.stdout
