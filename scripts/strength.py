"""How strong the gate is: which test of it notices each planted bug (laneshift.testing.Fault).

    python scripts/strength.py [MINUTES=n | NAME ...]

For each bug, or those named, one process runs the gate's tests of the JVM with it until the first
is red. verification/strength.json keeps who noticed, docs/verification.md shows it. With minutes
those come first that were never planted, then those that were planted longest ago; none begins
later. So it is a unit of the deep tier's room mutants. Exits 1 if the gate misses a bug.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time

from deep import OUT, ROOT, classes_of_suites, ended, environment, git, java, number

FAULTS = ROOT / "jvm/core/src/main/scala/laneshift/testing/Faults.scala"
RECORD = ROOT / "verification" / "strength.json"

# Where most bugs are noticed soonest; the others follow by name.
FIRST = (
    *("ScheduleExplorerSuite", "DealsScheduleSuite", "CoreShareSuite"),
    *("RemoteStateSuite", "KeyClaimsSuite", "CoveringPairSuite", "TasksPairSuite"),
    *("RealTimePairSuite", "RemotePairSuite", "RescalePairSuite", "OfflineRescaleSuite"),
    *("RescaleKillSuite", "RescaleSuite", "SwitchSuite", "FailureSuite", "RemoteFailureSuite"),
)
# The one plants bugs itself, the other is about the gate.
NOT = ("PlantedBugSuite", "TiersSuite")
LIMIT_S = 1800


def faults() -> list[str]:
    return re.findall(r'extends Fault\(\s*"([a-z-]+)"', FAULTS.read_text())


def in_order(last: str) -> list[str]:
    """The gate's suites: the one that noticed last time, then those that notice most."""
    found = {name: whole for name, whole, _ in classes_of_suites() if name not in NOT}
    core = sorted(n for n in found if ".sql." not in found[n] and n not in FIRST)
    rest = sorted(n for n in found if n not in (*FIRST, *core))
    order = dict.fromkeys((last, *FIRST, *core, *rest))
    return [found[name] for name in order if name in found]


def noticed(fault: str, suites: list[str]) -> str:
    """The test that went red, or nothing."""
    log = OUT / "logs" / f"strength-{fault}.log"
    # The gate's seeds and numbers, not the deep tier's.
    env = {k: v for k, v in environment(1).items() if not k.startswith("LANESHIFT_")}
    command = [*java("laneshift.testing.GateWithBug", fault), *suites]
    code, late = ended(command, env, log, LIMIT_S)
    if late:
        sys.exit(f"{fault}: the gate is not done within {LIMIT_S} s, see {log}")
    text = log.read_text(errors="replace")
    if code == 0:
        return ""
    if said := re.findall(r"^Noticed by (.+)$", text, re.M):
        return str(said[-1])
    # A test that hangs for good ends the process.
    if said := re.findall(r"^(\w+: .+) is not done within", text, re.M):
        return f"{said[-1]} (hangs)"
    sys.exit(f"{fault}: exit code {code}, see {log}")


def main() -> int:
    known = faults()
    asked = sys.argv[1:]
    minutes = math.inf
    if asked and asked[0].startswith("MINUTES="):
        minutes = number("MINUTES", asked.pop(0).removeprefix("MINUTES="))
    for name in asked:
        if name not in known:
            sys.exit(f"There is no planted bug '{name}'. There are: {', '.join(known)}")
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    asked = asked or sorted(known, key=lambda fault: record.get(fault, {}).get("date", ""))
    planted, missed = 0, []
    end_at = time.monotonic() + minutes * 60
    for fault in asked:
        since = time.monotonic()
        if since > end_at:
            break
        planted += 1
        last = record.get(fault, {}).get("by", "").partition(":")[0]
        by = noticed(fault, in_order(last))
        missed += [fault] * (not by)
        print(f"{fault:30} {time.monotonic() - since:6.1f} s  {by or 'MISSED'}", flush=True)
        date = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        record[fault] = {"by": by, "commit": git("rev-parse", "HEAD")[:10], "date": date}
        RECORD.write_text(json.dumps({f: record[f] for f in known if f in record}, indent=1) + "\n")
    print(f"The gate notices {planted - len(missed)} of {planted} planted bugs")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
