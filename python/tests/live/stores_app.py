"""A query with many state partitions on two cores, whose autoscaler finds fewer.

``python stores_app.py FOLDER PARTITIONS POLICY``; prints one JSON object: what was decided, the
partitions and the time of a batch (s) before and after, and whether the answer is stock Spark's.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

import laneshift
from live.conftest import CONF, Counting

ROWS = 24_000
LIMIT_S = 600.0


def main(folder: Path, partitions: int, policy: str) -> None:
    conf = CONF | {"spark.sql.shuffle.partitions": str(partitions)}
    builder = SparkSession.builder.master("local[2]").config(map=conf)  # type: ignore[arg-type]
    spark = laneshift.configure(builder, lanes=1, balance_enabled=False).getOrCreate()
    app = laneshift.attach(spark)
    counting = Counting(spark, folder, "counted")

    def batch() -> float:
        counting.add(ROWS)
        done = counting.query.lastProgress
        assert done is not None
        return done.batchDuration / 1000

    def count() -> int:
        done = counting.query.lastProgress
        assert done is not None
        return int(done.stateOperators[0].numShufflePartitions)

    def rescaling() -> str:
        newest = app.query(counting.query).rescaling
        return "" if newest is None else newest.state

    took, numbers = [batch()], [count()]
    refused = ""
    try:
        app.autoscale(policy="static", rescale=True)
    except laneshift.LaneshiftError as problem:
        refused = str(problem)
    end = time.monotonic() + LIMIT_S

    def another() -> None:
        took.append(batch())
        numbers.append(count())
        time.sleep(0.4)

    # First, as a query that is being rescaled is left alone.
    with laneshift.attach(spark).autoscale(
        policy=policy, rescale=True, dry_run=True, interval=0.2
    ) as dry:
        while not any(d.rescales for d in dry.decisions()) and time.monotonic() < end:
            another()
    with app.autoscale(policy=policy, rescale=True, interval=0.2) as autoscaler:
        while numbers[-1] == partitions and time.monotonic() < end:
            another()
            # New stores catch up at their leisure, however few cores this machine has for them.
            while rescaling() in ("building", "catching-up") and time.monotonic() < end:
                time.sleep(0.2)
        before = sorted(took[1 : numbers.index(numbers[-1]) or None])
        after = sorted(batch() for _ in range(4))
        time.sleep(1.0)
        decisions = autoscaler.decisions()
        dried = [d for d in dry.decisions() if d.rescales]
    print(
        json.dumps(
            {
                "refused": refused,
                "dry": [str(c) for d in dried for c in d.rescales],
                "dry_applied": any(d.applied for d in dried),
                "decided": [[c.before, c.after, str(c)] for d in decisions for c in d.rescales],
                "applied": all(d.applied for d in decisions if d.rescales),
                "errors": [d.error for d in decisions if d.error],
                "notes": [n for d in decisions for n in d.notes],
                "partitions": [numbers[0], count()],
                "batch_s": [before[len(before) // 2], after[len(after) // 2]],
                "equal": counting.streamed() == counting.stock(),
                "keys": len(counting.streamed()),
            }
        )
    )
    counting.query.stop()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
