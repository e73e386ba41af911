"""Lanes on other executors allowed and not asked for: the case of `remote` for it."""

from __future__ import annotations

from laneshift_bench import processes
from laneshift_bench.query import ENDLESS, counting
from laneshift_bench.remote_case import CORES, EXECUTORS, Bench, Case, side, source
from laneshift_bench.there import cluster, spread_query

OURS = ("laneshift-", "laneshift host", "laneshift remot")
"""Threads of connections between executors, and of lanes that use them."""
ALLOWED = {"not allowed": 0, "allowed": 32}
METHOD = """\
*idle*: two lanes at home, rows that cost nothing, offered without pacing; lanes elsewhere allowed
(`remote.maxLanes` 32, the default) and not (0), each run a query of its own; and threads and
listening ports of the executors' processes that are there for them."""


def idle(bench: Bench) -> None:
    """Throughput, threads and ports with nobody asking for lanes elsewhere."""
    rates: dict[str, list[float]] = {name: [] for name in ALLOWED}
    threads: list[float] = []
    ports: dict[str, list[float]] = {name: [] for name in ALLOWED}
    offered = source(pacing="none", totalRows=ENDLESS, numPartitions=2)
    with cluster(EXECUTORS, CORES) as (spark, work):
        for turn in range(bench.rounds + 1):
            for name, most in ALLOWED.items():
                bench.progress.step(f"idle, {name}, {f'round {turn}' if turn else 'warm-up'}")
                with spread_query(
                    spark, work, side(remote_maxLanes=most), offered, counting
                ) as query:
                    query.split(2, ())
                    found = query.measure(*((4, 6) if bench.quick or not turn else (8, 15)))
                    pids = processes.executors(str(spark.sparkContext.applicationId)).values()
                    if turn:
                        rates[name].append(found.rows_per_s)
                        ports[name].append(sum(processes.ports(pid) for pid in pids))
                    if turn and most:
                        names = [n for pid in pids for n in processes.threads(pid)]
                        threads.append(sum(n.startswith(OURS) for n in names))
                    bench.progress.note(f"{found.rows_per_s:,.0f} rows/s")
    for name in ALLOWED:
        bench.add("idle", name, "rows/s", rates[name])
        bench.add("idle", name, "listening ports of all executors", ports[name])
    bench.add("idle", "allowed", "threads for lanes elsewhere", threads)
    bench.ratio("not needed: throughput, allowed / not allowed", rates["allowed"],
                rates["not allowed"], ">=", 0.98)  # fmt: skip
    more = [a - b for a, b in zip(ports["allowed"], ports["not allowed"], strict=True)]
    bench.goal("not needed: ports more", more, "<=", 0)
    bench.goal("not needed: threads", threads, "<=", 0)


CASES = (
    Case("idle", "allowed and not asked for", idle, len(ALLOWED), len(ALLOWED)),
)  # fmt: skip
