"""Runs a part of the tests with each Java and each Python; `make versions` runs it.

    JDKS="17 /opt/jdk-25" PYTHONS="3.12" PARTS="alone pairs" python scripts/versions.py

A word of JDKS is a version to look for or the folder of a JDK; one of PYTHONS a version or a
program. Without them: every one that is found here and new enough, and those of WANTED, which the
table has in any case. One at a time: with each JDK the JVM's tests of the gate (part `jvm`), with
each Python those that need no Spark (`alone`), with each pair those marked `versions`, on a real
Spark (`pairs`). Prints a table and leaves it in build/versions/table.md; exits 1 if a cell is red.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from sbt_reports import cases

from laneshift.version import __version__

WANTED = {"JDKS": ("17", "21"), "PYTHONS": ("3.11", "3.12", "3.13")}
OLDEST = {"JDKS": 17, "PYTHONS": 11}
OUT = Path("build/versions")
RED = "**failed**"
JDK_FOLDERS = (
    "/usr/lib/jvm/*",
    "/opt/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)
PYTHON_FOLDERS = (
    "/usr/bin",
    "/usr/local/bin",
    "/opt/homebrew/bin",
    "~/.pyenv/versions/*/bin",
    "~/.local/share/uv/python/*/bin",
)


def said(*command: object) -> str:
    """What a command prints, in either way; nothing if it cannot run."""
    try:
        done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout + done.stderr if done.returncode == 0 else ""


def java_version(home: Path) -> str:
    found = re.search(r'version "([\d.]+)', said(home / "bin" / "java", "-version"))
    return found[1] if found else ""


def python_version(program: Path) -> str:
    return said(program, "-c", "import platform, venv; print(platform.python_version())").strip()


def short(kind: str, version: str) -> str:
    """17 of 17.0.15, 3.12 of 3.12.1."""
    return ".".join(version.split(".")[: 1 if kind == "JDKS" else 2])


def spread(patterns: Iterable[str], below: str = "") -> Iterator[Path]:
    for pattern in patterns:
        whole = Path(pattern).expanduser() / below
        yield from sorted(Path("/").glob(str(whole.relative_to("/"))), reverse=True)


def known(kind: str) -> Iterator[Path]:
    """Where one may be: named ones first, then those of the machine."""
    words = [Path(w) for w in os.environ.get(kind, "").split() if "/" in w]
    path = [folder for folder in os.environ["PATH"].split(":") if folder.startswith("/")]
    if kind == "JDKS":
        # JAVA_HOME, and those that forges set beside it: JAVA_HOME_21_X64.
        yield from (*words, *(Path(home) for k, home in os.environ.items() if "JAVA_HOME" in k))
        yield from (p.resolve().parents[1] for p in spread(path, "java"))
        yield from spread(JDK_FOLDERS)
    else:
        yield from (*words, Path(sys.executable))
        yield from spread((*path, *PYTHON_FOLDERS), "python3.[1-9][0-9]")


def find(kind: str) -> dict[str, tuple[str, Path | None]]:
    """By short version: the whole one and where it is; None for one that is wanted and not here."""
    version_of = java_version if kind == "JDKS" else python_version
    found: dict[str, tuple[str, Path | None]] = {}
    for place in known(kind):
        version = version_of(place)
        name = short(kind, version)
        if version and int(name.rpartition(".")[2]) >= OLDEST[kind]:
            found.setdefault(name, (version, place))
    words = os.environ.get(kind, "").split()
    for word in words:
        if not re.fullmatch(r"[\d.]+", word) and not version_of(Path(word)):
            sys.exit(f"{kind} has {word}, which is neither a version nor does it tell its own")
    asked = {short(kind, version_of(Path(w)) if "/" in w else w) for w in words}
    for name in asked or WANTED[kind]:
        if name not in found:
            found[name] = (name, None)
    order = sorted(found, key=lambda name: [*map(int, name.split("."))])
    return {name: found[name] for name in order if name in (asked or found)}


def run(what: str, log: str, command: list[object], reports: str, **variables: object) -> str:
    """Run tests, with their output in a log; what the table says of them."""
    for old in Path().glob(reports):
        old.unlink()
    said_in = OUT / f"{log}.log"
    print(f"{what} (log: {said_in})", flush=True)
    with said_in.open("w") as file:
        code = subprocess.run(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=os.environ | {name: str(value) for name, value in variables.items()},
        ).returncode
    tests = [case for report in Path().glob(reports) for case in cases(report)]
    left_out = sum(case.problem == "skipped" for case in tests)
    wrong = [case.name for case in tests if case.problem not in (None, "skipped")]
    cell = f"{len(tests) - left_out - len(wrong)} passed"
    if left_out:
        cell += f", {left_out} left out"
    if wrong or code:
        cell = f"{RED}: {', '.join(wrong) or f'exit code {code}'}; {cell} ({said_in})"
    print(f"  {cell}", flush=True)
    return cell


def environment_of(name: str, program: Path) -> Path | None:
    """The Python of the environment with the locked packages, made if it is not there."""
    made = OUT / f"python-{name}"
    setup = ["scripts/setup-venv.sh", str(made / ".laneshift-stamp")]
    # Installing from this folder writes the version anew: it stays the jar's.
    pretend = {"SETUPTOOLS_SCM_PRETEND_VERSION": __version__}
    done = subprocess.run(setup, env=os.environ | pretend | {"PYTHON": str(program)})
    return (made / "bin" / "python").absolute() if done.returncode == 0 else None


def main() -> int:
    OUT.mkdir(parents=True, exist_ok=True)
    jdks, pythons = find("JDKS"), find("PYTHONS")
    parts = os.environ.get("PARTS", "").split() or ["jvm", "alone", "pairs"]
    here = ["not asked for" if program else "not here" for _, program in pythons.values()]
    rows = {"": ["", *here]}
    for name, (version, home) in jdks.items():
        rows[name] = ["not asked for", *here] if home else ["not here"] * (1 + len(pythons))
        if home and "jvm" in parts:
            rows[name][0] = run(
                f"Java {version}: the JVM's tests of the gate",
                f"java-{name}",
                ["scripts/sbt", "test"],
                "jvm/*/target/test-reports/TEST-*.xml",
                LANESHIFT_TEST_JAVA_HOME=home,
            )
    for column, (name, (version, program)) in enumerate(pythons.items(), 1):
        python = environment_of(name, program) if program else None
        for java, (java_is, home) in {"": ("", None), **jdks}.items():
            if program and not python:
                rows[java][column] = f"{RED}: no environment, see build/logs/setup.log"
            if not python or (java and not home) or ("pairs" if java else "alone") not in parts:
                continue
            log = f"python-{name}-{f'java-{java}' if java else 'alone'}"
            rows[java][column] = run(
                f"Python {version}, {f'Java {java_is}: on a real' if java else 'without'} Spark",
                log,
                [
                    *(python, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
                    *(("python/tests/live", "-m", "versions") if java else ("-m", "not live")),
                    f"--junitxml={OUT / log}.xml",
                ],
                str(OUT / f"{log}.xml"),
                **({"JAVA_HOME": home} if home else {}),
                PYSPARK_PYTHON=python,
                PYSPARK_DRIVER_PYTHON=python,
                SPARK_LOCAL_IP="127.0.0.1",
                LANESHIFT_REQUIRE_JAR=1,
            )
    commit = said("git", "describe", "--always", "--dirty").strip()
    table = [["", "the JVM's tests", *(f"Python {version}" for version, _ in pythons.values())]]
    table.append(["---"] * len(table[0]))
    table += [[f"Java {jdks[n][0]}" if n else "without Spark", *row] for n, row in rows.items()]
    text = f"Of {commit}, on {platform.system()} {platform.machine()}:\n\n"
    text += "".join(f"| {' | '.join(row)} |\n" for row in table)
    (OUT / "table.md").write_text(text)
    print(text, end="")
    return 1 if RED in text else 0


if __name__ == "__main__":
    sys.exit(main())
