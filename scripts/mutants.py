"""Prints which planted bugs (laneshift.testing.Fault) the tests noticed: of the room mutants.

Reads sbt's reports. A test named "CHECK: notices FAULT" turns a bug on and passes if CHECK goes
red. Exits 1 if a bug has no such test, if one of its tests has missed it, or if any other test of
these suites has failed: a check that is never silent notices nothing.
"""

import re
import sys
from pathlib import Path

from sbt_reports import cases

FAULTS = Path("jvm/core/src/main/scala/laneshift/testing/Faults.scala")
REPORTS = "jvm/*/target/test-reports/TEST-*.xml"


def main() -> int:
    faults = re.findall(r'extends Fault\(\s*"([a-z-]+)"', FAULTS.read_text())
    noticed: dict[str, list[tuple[str, float, bool]]] = {fault: [] for fault in faults}
    red = []
    for report in sorted(Path().glob(REPORTS)):
        for case in cases(report):
            planted = re.fullmatch(r"(.+): notices ([a-z-]+)", case.name)
            if planted:
                noticed[planted[2]].append((planted[1], case.seconds, case.problem is None))
            elif case.problem:
                red.append(case.name)
    caught = 0
    for fault, checks in noticed.items():
        verdict = "caught" if checks and all(passed for _, _, passed in checks) else "MISSED"
        caught += verdict == "caught"
        seconds = sum(time for _, time, _ in checks)
        by = [check if passed else f"not by {check}" for check, _, passed in checks]
        print(f"{fault:30} {verdict} {seconds:7.2f} s  {', '.join(by) or 'no test'}")
    print(f"{caught} of {len(faults)} planted bugs caught")
    for name in red:
        print(f"Red without a bug: {name}")
    return 0 if caught == len(faults) and not red else 1


if __name__ == "__main__":
    sys.exit(main())
