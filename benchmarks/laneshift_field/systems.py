"""Who takes part: how each system is fetched, compiled and started, and what its process takes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from laneshift_demo.failure import DemoError
from laneshift_demo.kafka.broker import Broker
from laneshift_demo.kafka.jars import fetch
from laneshift_field.cases import KILL, Case, Rows

BENCHMARKS = Path(__file__).parents[1]
PROGRAMS = BENCHMARKS / "field"
BUILD = BENCHMARKS.parent / "build" / "field"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
COMMIT_S = 10.0
LEAD_S, LEAD_OF_WORKERS_S = 20.0, 40.0
"""From a process's first lines, and Spark's session, until the first row is due. Two executors on
two cores need 14 s to their first batch."""
OVER_S = 180.0
SAMPLE_S = 0.5


class FieldError(Exception):
    """A system could not be fetched, or its run failed; the message says why."""


@dataclass(frozen=True)
class System:
    """One system in one configuration.

    Attributes:
        name: in tables and on the command line.
        program: folder under ``benchmarks/field``, or ``spark``.
        arguments: of its program.
        kills: whether its program can lose a worker.
        rescales: whether its cores can change while it keeps its state.
    """

    name: str
    program: str
    arguments: tuple[str, ...] = ()
    kills: bool = True
    rescales: bool = True

    def takes(self, case: Case) -> bool:
        """Whether it can run the case."""
        cores = [cores for _, cores in case.changes]
        return (self.kills or not case.kills) and (self.rescales or not {*cores} - {KILL})


SYSTEMS = (
    # Spark refuses to repartition a checkpoint that only Real-time Mode has written.
    System("spark", "spark", ("stock", "real-time"), kills=False, rescales=False),
    System("spark-batch", "spark", ("stock", "micro-batch")),
    System("laneshift", "spark", ("laneshift", "real-time"), kills=False),
    System("laneshift-batch", "spark", ("laneshift", "micro-batch")),
    System("flink-heap", "flink", ("heap", "default")),
    System("flink-heap-zero", "flink", ("heap", "zero")),
    System("flink-rocksdb", "flink", ("rocksdb", "default")),
    System("flink-rocksdb-zero", "flink", ("rocksdb", "zero")),
    System("hazelcast", "hazelcast", ("default",)),
    System("hazelcast-zero", "hazelcast", ("zero",)),
    System("kafka-streams", "kafka", kills=False),
    System("storm", "storm", ("fields",), kills=False),
    System("storm-partial", "storm", ("partial",), kills=False),
)


@dataclass
class Run:
    """A run's folder and what it has left there.

    Attributes:
        start_us: when row 0 was due (us since 1970).
        rss_mb, cpu_s: most resident memory of all its processes together, and their CPU time.
    """

    folder: Path
    start_us: int = 0
    rss_mb: float = 0.0
    cpu_s: float = 0.0
    changes: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def answers(self) -> Path:
        """Lines ``key n out_us``."""
        return self.folder / "answers"


def run(
    system: System, case: Case, recorded: Rows, folder: Path, commit_s: float = COMMIT_S
) -> Run:
    """Start the system, let it work, wait for its end."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rows = folder / "rows.jsonl"
    recorded.write(rows)
    found = Run(folder)
    found.answers.touch()
    with ExitStack() as around:
        if system.program == "spark":
            command, environment = _spark(system, case, recorded, found, commit_s)
        else:
            broker = around.enter_context(_broker(folder)) if system.program == "kafka" else ""
            command, environment = _java(system, case, found, broker, commit_s)
        log = around.enter_context((folder / "log").open("wb"))
        process = around.enter_context(_group(command, environment, log))
        _watch(process, found, case.seconds + _lead_s(case) + OVER_S)
    if process.returncode:
        text = (folder / "log").read_text(errors="replace").strip()
        raise FieldError(
            f"{system.name}, {case.name}, ended with {process.returncode}:\n{text[-3000:]}"
        )
    return found


def _lead_s(case: Case) -> float:
    """From a system's start until row 0 is due: workers of their own are to have begun by then."""
    return LEAD_OF_WORKERS_S if case.kills else LEAD_S


def _spark(
    system: System, case: Case, recorded: Rows, run: Run, commit_s: float
) -> tuple[list[str], dict[str, str]]:
    order = {
        "side": system.arguments[0],
        "mode": system.arguments[1],
        "rows": str(run.folder / "rows.jsonl"),
        "answers": str(run.answers),
        "changed": str(run.folder / "changed"),
        "start": str(run.folder / "start"),
        "lead_s": _lead_s(case),
        "stages": case.spark_stages,
        "count": len(recorded.keys),
        "seconds": case.seconds,
        "cost_us": case.cost_us,
        "cores": case.cores,
        "most": case.most,
        "commit_ms": round(1000 * commit_s),
        "changes": case.changes,
    }
    paths = [str(BENCHMARKS), str(BENCHMARKS.parent / "python"), os.environ.get("PYTHONPATH")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return [sys.executable, "-m", "laneshift_field.spark", json.dumps(order)], environment


@contextmanager
def _broker(folder: Path) -> Iterator[str]:
    """The demo's Kafka, on loopback; its address."""
    try:
        with Broker(fetch("broker", BUILD), folder / "broker") as broker:
            yield broker.address
    except DemoError as error:
        raise FieldError(str(error)) from error


def _java(
    system: System, case: Case, run: Run, broker: str, commit_s: float
) -> tuple[list[str], dict[str, str]]:
    class_path, main = prepared(system.program)
    settings = {
        "rows": run.folder / "rows.jsonl",
        "answers": run.answers,
        "changed": run.folder / "changed",
        "work": run.folder / "work",
        "start": run.folder / "start",
        "lead": round(1e6 * _lead_s(case)),
        "cost": case.cost_us,
        "cores": case.cores,
        "most": case.most,
        "commit": round(1000 * commit_s),
        "seconds": round(case.seconds),
        "changes": ",".join(f"{at}:{cores}" for at, cores in case.changes),
        "broker": broker,
    }
    command = [_java_home("java"), "-Xmx3g", *(f"-Dfield.{k}={v}" for k, v in settings.items())]
    opened = (PROGRAMS / system.program / "java.options").read_text().split()
    return [*command, *opened, "-cp", class_path, main, *system.arguments], dict(os.environ)


def prepared(program: str) -> tuple[str, str]:
    """Class path and main class of a program, fetched and compiled if that is not done yet."""
    source = PROGRAMS / program
    jars, classes, stamp = (BUILD / program / name for name in ("jars", "classes", "pom.xml"))
    pom = source / "pom.xml"
    if not (stamp.is_file() and stamp.read_bytes() == pom.read_bytes()):
        maven = shutil.which("mvn")
        if maven is None:
            raise FieldError(f"Maven is missing: install mvn, it fetches {program}.")
        shutil.rmtree(jars, ignore_errors=True)
        command = [maven, "-B", "-ntp", "-q", "-f", str(pom), PLUGIN, "-DincludeScope=runtime"]
        _done(
            [*command, f"-DoutputDirectory={jars.absolute()}"], f"Maven could not fetch {program}"
        )
        shutil.copyfile(pom, stamp)
    sources = [*sorted((PROGRAMS / "common").glob("*.java")), *sorted(source.glob("*.java"))]
    shutil.rmtree(classes, ignore_errors=True)
    command = [_java_home("javac"), "-nowarn", "-proc:none", "-cp", f"{jars}/*", "-d", str(classes)]
    _done([*command, *map(str, sources)], f"{program}'s program does not compile")
    (main,) = (each.stem for each in source.glob("*Field.java"))
    return os.pathsep.join((str(classes), f"{jars}/*")), f"field.{main}"


def _done(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-12:])
        raise FieldError(f"{what}:\n{tail}")


def _java_home(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / name) if home else shutil.which(name)
    if found is None or not Path(found).exists():
        raise FieldError(f"{name} is missing: install a JDK 17, or set JAVA_HOME to one.")
    return found


@contextmanager
def _group(
    command: list[str], environment: dict[str, str], log: object
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, of which nothing is left behind the block."""
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,  # type: ignore[call-overload]
        start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        for pid in _of_session(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.wait()


def _watch(process: subprocess.Popen[bytes], run: Run, limit_s: float) -> None:
    end = time.monotonic() + limit_s
    page_mb, ticks = os.sysconf("SC_PAGE_SIZE") / 1e6, os.sysconf("SC_CLK_TCK")
    while process.poll() is None:
        if time.monotonic() > end:
            raise FieldError(f"The run did not end within {limit_s:g} s; see {run.folder}/log.")
        rss, cpu = 0.0, 0.0
        for stat in _of_session(process.pid).values():
            rss += int(stat[21]) * page_mb
            cpu += (int(stat[11]) + int(stat[12])) / ticks
        run.rss_mb, run.cpu_s = max(run.rss_mb, rss), max(run.cpu_s, cpu)
        time.sleep(SAMPLE_S)
    start, changed = run.folder / "start", run.folder / "changed"
    run.start_us = int(start.read_text()) if start.is_file() else 0
    if changed.is_file():
        for line in changed.read_text().splitlines():
            cores, began, ended = map(int, line.split())
            run.changes.append((cores, began, ended))


def _of_session(session: int) -> dict[int, list[str]]:
    """Fields of ``/proc/PID/stat`` behind the name, from the state on, of a session's processes."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found[int(folder.name)] = fields
    return found
