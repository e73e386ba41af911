"""The orders, each partition of which has a lane on another executor wherever there is one."""

import runpy
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

import laneshift


def ask(app: laneshift.Application) -> None:
    """Want one lane elsewhere for each partition that wants none."""
    snapshot = app.snapshot()
    for query in snapshot.queries:
        for operator in query.operators:
            for part in operator.partitions:
                others = [e.executor for e in snapshot.executors if e.executor != part.executor]
                if others and not part.wanted_elsewhere and part.max_elsewhere > 0:
                    app.query(query.id).set_lanes(
                        1,
                        partition=part.partition,
                        operator=operator.operator_id,
                        on={others[0]: 1},
                    )


def always() -> None:
    while True:
        session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
        if session is not None:
            try:
                ask(laneshift.attach(session))
            # Queries end, partitions move and executors go in between.
            except Exception as error:
                print(f"not asked: {error}", flush=True)
        time.sleep(0.3)


threading.Thread(target=always, daemon=True).start()
runpy.run_path(str(Path(__file__).with_name("orders.py")), run_name="__main__")
