"""Writes two sections of docs/tested.md: what suites and matrix compare with stock Spark.

python scripts/compatibility.py           # the suites', from sbt's reports (`make compatibility`)
python scripts/compatibility.py --check   # only say whether it is what the reports say
python scripts/compatibility.py --matrix  # the matrix, from build/matrix.md (`make deep`)
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sbt_reports import cases

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tested.md"
MATRIX = ROOT / "build" / "matrix.md"
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


def suites() -> str:
    """The suites' cases; raises FileNotFoundError if one has not run."""
    out = []
    for suite, (title, kind) in SUITES.items():
        report = REPORTS / f"TEST-{PACKAGE}.{suite}.xml"
        if not report.is_file():
            raise FileNotFoundError(f"{report}: run `make compatibility`")
        out.append(f"\n### {title}\n{COMPARED[kind]}\n\n| case | result |\n|---|---|\n")
        well = "as it should" if kind == "failures" else "equal"
        for case in cases(report):
            name = case.name
            for said in (" equals stock under motion", " equals stock with lanes over the network"):
                name = name.replace(said, "")
            name = name.replace("|", "/")
            out.append(f"| {name} | {case.problem or well} |\n")
    return "".join(out)


def matrix() -> str:
    """What the matrix wrote, without its title, as a part of the page."""
    _, _, text = MATRIX.read_text("utf-8").partition("\n")
    return re.sub(r"^## ", "### ", text, flags=re.MULTILINE)


def placed(page: str, name: str, text: str) -> str:
    """The page with other text between the marks of a section; ValueError if it has none."""
    first, last = f"<!-- {name}: do not edit -->\n", f"<!-- end of {name} -->\n"
    before, rest = page.split(first)
    _, after = rest.split(last)
    return before + first + text + last + after


def main(arguments: list[str]) -> int:
    """Write or check the page; the exit code."""
    name, made = ("matrix", matrix) if "--matrix" in arguments else ("suites", suites)
    page = PAGE.read_text("utf-8")
    text = placed(page, name, made())
    if "--check" in arguments:
        if page == text:
            return 0
        print(f"{PAGE} is not what the suites found: run `python scripts/compatibility.py`")
        return 1
    PAGE.write_text(text, "utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
