"""What tests and benchmarks feed to streams, for a session: sources, sinks that measure, row costs.

They are in a jar of their own (docs/workload.md), which the plugin knows nothing of.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from laneshift.plugin.jar import found
from laneshift.session.builder import with_jar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def workload_jar() -> Path:
    """Where the jar is, for ``spark-submit --jars``; it need not exist in a source tree."""
    return Path(str(resources.files("laneshift_lab"))) / "jars" / "laneshift-workload.jar"


def with_workload(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Add the jar to a builder that :func:`laneshift.configure` has seen, and return the builder.

    Call it before the first session of the Python process is made. Errors:
    :class:`~laneshift.errors.SessionError` if the jar is missing.
    """
    return with_jar(builder, found(workload_jar()))
