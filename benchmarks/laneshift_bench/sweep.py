"""Policies that drive a running query, over shuffles a minute, skew, and size of state."""

from __future__ import annotations

from laneshift_bench.driven import warm_up
from laneshift_bench.foreseen import METHOD as SIMULATED
from laneshift_bench.live import EMULATED, HALF, HEADER, KNOWN, OVER, Case, arithmetic, compare
from laneshift_bench.progress import Progress
from laneshift_bench.report import Report
from laneshift_bench.session import FLIGHT, session
from laneshift_bench.setting import KEYS, SHARDS, SIDES, STOCK

CORES, PARTITIONS, COST_US, ROW_BYTES = 32, 8, 4000, 4000
ZIPF, OMEGA = 0.8, 8.0
OMEGAS = (0.0, 2.0, OMEGA, 16.0)
SKEWS = (0.0, 0.5)
LEFT_OUT = ("omega 2", f"omega {OMEGA:g}")
"""Of a quick run."""
LARGER = 12_000
SHARD_KB = KEYS / (PARTITIONS * SHARDS * 1024)
"""State of a shard for each byte of a row (KB)."""
METHOD = f"""\
{EMULATED}

C = {CORES}, P = {PARTITIONS}, a row costs {COST_US / 1000:g} ms. One thing changes at a time: key
shuffles a minute of the source's schedule (*omega*), the keys' skew, and the size of state
({LARGER * SHARD_KB:.0f} KB a shard with rows of {LARGER:,} bytes; {ROW_BYTES * SHARD_KB:.0f} KB
with {ROW_BYTES:,} elsewhere). The first seconds are at
{HALF:.0%} of the bound (latency), then {OVER:.0%} (throughput). One run each: whether small
differences mean anything this cannot tell. Bound, *p99* and *lanes* as in `live`.

{SIMULATED}"""


def cases(quick: bool) -> tuple[tuple[Case, tuple[str, ...]], ...]:
    """The cases with their sides: at omega = 2 a shuffle is every 30 s, full load is longer."""
    times = (8.0, 10.0) if quick else (10.0, 30.0)
    some = (STOCK, "static", "laneshift")

    def case(
        name: str, zipf: float = ZIPF, omega: float = OMEGA, row_bytes: int = ROW_BYTES
    ) -> Case:
        return Case.of(CORES, PARTITIONS, COST_US, zipf, omega, *times, row_bytes, name)

    found = [(case(f"omega {omega:g}", omega=omega), SIDES) for omega in OMEGAS]
    found += [(case(f"zipf {zipf:g}", zipf=zipf), some) for zipf in SKEWS]
    found.append((case(f"{LARGER * SHARD_KB:.0f} KB a shard", row_bytes=LARGER), some))
    return tuple(one for one in found if not quick or one[0].setting.name not in LEFT_OUT)


def run(quick: bool) -> Report:
    """The whole benchmark; quick: the ends of the sweep over omega, and the rest."""
    every = cases(quick)
    progress = Progress("sweep", sum(len(sides) for _, sides in every))
    report = Report("sweep", "Policies over shuffles, skew and state", METHOD, HEADER)
    slots = max(case.setting.slots for case, _ in every)
    with session(slots, FLIGHT) as (spark, work):
        warm_up(spark, work, every[0][0].setting)
        for case, sides in every:
            found, _ = compare(spark, work, case, sides, 1, progress)
            found.add_to(report)
            foretold = arithmetic(spark, case).words(case)
            report.notes += [foretold, f"{case.setting.name}: {found.differences()}."]
    report.notes.append(KNOWN.replace("\n", " "))
    report.files["sweep-last.png"] = found.draw
    return report
