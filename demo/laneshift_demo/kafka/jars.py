"""Fetches the broker and Spark's Kafka connector with Maven, once."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from laneshift_demo.failure import DemoError

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
HERE = Path(__file__).parent


def fetch(name: str, folder: Path) -> list[Path]:
    """The jars of ``<name>.pom.xml`` beside this file, copied into a folder under ``folder``.

    Does nothing if they are there and the pom has not changed since.
    Errors: DemoError if Maven is missing or fails.
    """
    pom = HERE / f"{name}.pom.xml"
    target, stamp = folder / name, folder / f"{name}.pom.xml"
    if not (stamp.is_file() and stamp.read_bytes() == pom.read_bytes()):
        maven = shutil.which("mvn")
        if maven is None:
            raise DemoError(f"Maven is missing: install mvn, it fetches the Kafka {name}.")
        print(f"Fetching the Kafka {name} with Maven ...", flush=True)
        shutil.rmtree(target, ignore_errors=True)
        command = [maven, "-B", "-ntp", "-q", "-f", str(pom), PLUGIN]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={target.absolute()}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
            raise DemoError(f"Maven could not fetch the Kafka {name}:\n{tail}")
        shutil.copyfile(pom, stamp)
    return sorted(target.glob("*.jar"))
