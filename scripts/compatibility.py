"""Writes docs/compatibility.md from sbt's reports: what the suites compare with stock Spark.

python scripts/compatibility.py           # write it; `make compatibility` runs the suites first
python scripts/compatibility.py --check   # only say whether it is what the reports say
"""

from __future__ import annotations

import sys
from pathlib import Path

from sbt_reports import cases

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "compatibility.md"
REPORTS = ROOT / "jvm" / "spark" / "target" / "test-reports"
PACKAGE = "org.apache.spark.sql.laneshift"

SUITES = {
    "MicroBatchPairSuite": ("Aggregation and deduplication, micro-batch", "pairs"),
    "RealTimePairSuite": ("Aggregation and deduplication, Real-time Mode", "pairs"),
    "SessionWindowPairSuite": ("Session windows", "pairs"),
    "JoinPairSuite": ("Stream-stream joins, and what shares their stage", "pairs"),
    "GroupStatePairSuite": ("mapGroupsWithState and flatMapGroupsWithState", "pairs"),
    "TransformWithStatePairSuite": ("transformWithState, Scala", "pairs"),
    "RemotePairSuite": ("Lanes on other executors", "remote"),
    "SwitchSuite": ("laneshift on and off across restarts of one checkpoint", "switched"),
    "JoinSwitchSuite": ("Joins, on and off across restarts of one checkpoint", "switched"),
    "FailureSuite": ("Failures, kills and stops", "failures"),
}
COMPARED = {
    "pairs": "Stock and elastic on the same input, `motion=always` (shards and lane counts change"
    " all the time): the same multiset of rows in each batch, order per key kept, the same state"
    " rows and the same operator metrics.",
    "remote": "Stock and elastic on the same input, with up to two lanes of each partition reached"
    " over the network as if on another executor, and `motion=always`: shards go there and back,"
    " and sessions end and begin. The same multiset of rows in each batch, order per key kept, the"
    " same state rows and the same operator metrics.",
    "switched": "Several lives of one checkpoint, some on stock Spark and some elastic under"
    " motion: answers and state rows as if stock Spark had run all of them.",
    "failures": "The query fails or goes on with the real cause; no thread, lock, native handle or"
    " memory is left.",
}
HEAD = """# Compatibility

Made by `make compatibility` from the results of the suites: do not edit. Stateful Python functions
(`applyInPandasWithState`, `transformWithState` by pandas and by rows) are compared in the same way
by `python/tests/live/test_live_state.py`. [compatibility-matrix.md](compatibility-matrix.md) has
each operator, output mode and trigger with and without motion, restarted and switched on and off;
[proofs.md](proofs.md) what was killed, explored and planted.
"""
DIFFERENCES = """
## Known differences
- Rows of different keys come out of a task in no particular order: several lanes put them out.
- `EXPLAIN`, the SQL tab and thread names show laneshift's nodes (`Elastic`, `LaneInput`).
- Real-time queries stay stock while `spark.sql.streaming.realTimeMode.allowlistCheck` is on
  (Spark's default): its list of operators does not have laneshift's. With the check off, Spark
  warns of them.
- Where deduplication evicts all along its input
  (`spark.sql.streaming.statefulOperator.incrementalCleanupFactor`), each lane
  removes some rows of its own for each row that it gets: of the rows that a batch removes, which
  are the same, a few more or less may go at its end (`numRowsIncrementallyRemoved`).
- Stays stock, with the reason in `EXPLAIN`: the first batch of an operator with an initial state
  (later ones are elastic), limits, aggregates without keys, transformWithState by a key that is
  kept in other bytes than it is shuffled by, state of the HDFS-backed provider.
"""


def page() -> str:
    """The page; raises FileNotFoundError if a suite has not run."""
    out = [HEAD]
    for suite, (title, kind) in SUITES.items():
        report = REPORTS / f"TEST-{PACKAGE}.{suite}.xml"
        if not report.is_file():
            raise FileNotFoundError(f"{report}: run `make compatibility`")
        out.append(f"\n## {title}\n{COMPARED[kind]}\n\n| case | result |\n|---|---|\n")
        well = "as it should" if kind == "failures" else "equal"
        for case in cases(report):
            name = case.name
            for said in (" equals stock under motion", " equals stock with lanes over the network"):
                name = name.replace(said, "")
            name = name.replace("|", "/")
            out.append(f"| {name} | {case.problem or well} |\n")
    out.append(DIFFERENCES)
    return "".join(out)


def main(arguments: list[str]) -> int:
    """Write or check the page; the exit code."""
    text = page()
    if "--check" in arguments:
        if PAGE.is_file() and PAGE.read_text("utf-8") == text:
            return 0
        print(f"{PAGE} is not what the suites found: run `python scripts/compatibility.py`")
        return 1
    PAGE.write_text(text, "utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
