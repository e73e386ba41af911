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


WITHOUT_FORKS = {
    "fs.file.impl": "org.apache.spark.sql.laneshift.workload.NoForkFileSystem",
    # Hadoop may hold one that it made before the jar was there.
    "fs.file.impl.disable.cache": "true",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}
"""Of a session with that jar: no process is started for a file of a checkpoint.

Without its native library Hadoop runs ``chmod`` and ``readlink`` for each file that it makes or
renames on a local disk, which takes most of the time of a batch over 200 state partitions. On the
file systems of clusters, or with the library, it does not.
"""


def without_forks(spark: SparkSession) -> None:
    """Give a session with that jar :data:`WITHOUT_FORKS`: queries that start from now on."""
    for key, value in WITHOUT_FORKS.items():
        spark.conf.set(key, value)


def with_workload(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Add the jar to a builder that :func:`laneshift.configure` has seen, and return the builder.

    Call it before the first session of the Python process is made. Errors:
    :class:`~laneshift.errors.SessionError` if the jar is missing.
    """
    return with_jar(builder, found(workload_jar()))
