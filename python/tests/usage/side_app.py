"""One side of cases, as a process of its own: ``python side_app.py SIDE WORLD FOLDER CASE...``.

Prints a line of JSON for each case; `run` starts it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

import laneshift
from live.conftest import CONF, environment
from usage.harness import CASES, OPTIONS, PREFIX, WORLDS, Seen, Side, see, themes

LIMIT_S = 1500


def foreign_jar(folder: Path) -> str:
    """Foreign.java, compiled."""
    home = os.environ.get("JAVA_HOME") or Path(shutil.which("java") or "").resolve().parents[1]
    source = Path(__file__).with_name("Foreign.java")
    classes = str(folder / "classes")
    spark = f"{Path(pyspark.__file__).parent}/jars/*"
    jar = str(folder / "foreign.jar")
    compile_it = ["javac", "-nowarn", "-cp", spark, "-d", classes, str(source)]
    for tool, *words in (compile_it, ["jar", "cf", jar, "-C", classes, "."]):
        subprocess.run([f"{home}/bin/{tool}", *words], check=True, capture_output=True)
    return jar


def session(side: str, world: str, folder: Path) -> SparkSession:
    conf = CONF | {"spark.sql.warehouse.dir": str(folder / "warehouse")} | WORLDS[world]
    if world == "foreign":
        jar = foreign_jar(folder)
        conf |= {"spark.jars": jar, "spark.driver.extraClassPath": jar}
    # A task may fail before its query does.
    builder = SparkSession.builder.master("local[4,4]").config(map=conf)  # type: ignore[arg-type]
    if side == "elastic":
        builder = laneshift.configure(builder, shards_per_partition=16, balance_enabled=False)
        for key, value in OPTIONS[side].items():
            builder = builder.config(PREFIX + key, value)
    return builder.getOrCreate()


class Costs:
    """CPU time of this process and all below it, the JVM and Python's workers.

    Looks ten times a second, as nobody is told of what a worker has used once it has ended.
    """

    def __init__(self) -> None:
        self._ticks = {(os.getpid(), ""): 0}  # of a process, which its start tells from later ones
        self._lock = threading.Lock()
        threading.Thread(target=self._look_on, daemon=True).start()

    def cpu_s(self) -> float:
        with self._lock:
            self._look()
            return sum(self._ticks.values()) / os.sysconf("SC_CLK_TCK")

    def _look_on(self) -> None:
        while not threading.Event().wait(0.1):
            self.cpu_s()

    def _look(self) -> None:
        found: dict[int, tuple[int, str, int]] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            used = int(fields[11]) + int(fields[12])
            found[int(stat.parent.name)] = int(fields[1]), fields[19], used
        ours = {
            os.getpid(),
            *(pid for pid, start in self._ticks if found.get(pid, "  ")[1] == start),
        }
        while more := {pid for pid, (parent, *_) in found.items() if parent in ours} - ours:
            ours |= more
        self._ticks |= {(pid, found[pid][1]): found[pid][2] for pid in ours}


def main(side: str, world: str, folder: Path, names: list[str]) -> None:
    folder.mkdir(parents=True)
    costs = Costs()
    list(themes())
    spark = session(side, world, folder)
    for name in names:
        seen = see(CASES[name], Side(side, spark.newSession(), folder / name), costs.cpu_s)
        print(seen.line(name), flush=True)
    spark.stop()


def run(side: str, world: str, folder: Path, names: list[str]) -> dict[str, Seen]:
    """What each case came to, as far as the process did; its log is in the folder."""
    log = folder.with_suffix(".log")
    with log.open("w") as errors:
        done = subprocess.run(
            [sys.executable, __file__, side, world, str(folder), *names],
            env=environment(Path(__file__).parents[1]),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
    return {line.pop("case"): Seen(**line) for line in lines}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
