"""The plugin's jar: where the wheel has it, and whether it is of this package's version."""

from __future__ import annotations

import zipfile
from importlib import resources
from pathlib import Path

from laneshift import version
from laneshift.errors import error

BUILD_PROPERTIES = "laneshift-build.properties"


def jar_path() -> Path:
    """Where the wheel has the plugin's jar; it need not exist in a source tree."""
    return Path(str(resources.files("laneshift"))) / "jars" / "laneshift-spark.jar"


def found(jar: Path) -> Path:
    """``jar`` itself. Errors: :class:`~laneshift.errors.SessionError` if it is not there."""
    if not jar.is_file():
        raise error("LANESHIFT_JAR_MISSING", path=jar)
    return jar


def jar_version(jar: Path) -> str:
    """The version that the build wrote into the jar, or ``unknown``."""
    try:
        with zipfile.ZipFile(jar) as archive:
            lines = archive.read(BUILD_PROPERTIES).decode("utf-8").splitlines()
    except (zipfile.BadZipFile, KeyError):
        return "unknown"
    return next((line[8:].strip() for line in lines if line.startswith("version=")), "unknown")


def check_versions(jar: str) -> None:
    """Refuse a jar of another version than this package.

    Releases must be equal. In a source tree, where each commit has its own version, the release
    that both are developed towards must be.
    Errors: :class:`~laneshift.errors.SessionError`.
    """
    wheel = version.__version__
    developed = "dev" in wheel and "dev" in jar
    equal = wheel.split(".dev")[0] == jar.split(".dev")[0] if developed else wheel == jar
    if not equal:
        raise error("LANESHIFT_JAR_VERSION_MISMATCH", jar=jar, wheel=wheel)
