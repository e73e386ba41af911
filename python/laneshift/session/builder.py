"""Puts laneshift into a session that is about to be built: its jar, its plugin and its options.

Tried on PySpark 4.3.0: a plugin's class is found by ``spark.jars`` alone, on the driver and on the
executors, in local mode, local-cluster and client mode. The driver's class path is set as well, so
that the driver has the plugin's classes and Spark's in one class loader.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laneshift.errors import error, shown
from laneshift.plugin.gateway import PLUGIN_CLASS
from laneshift.plugin.jar import check_versions, jar_path, jar_version
from laneshift.session.options import settings
from laneshift.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLUGINS = "spark.plugins"
JARS = "spark.jars"
DRIVER_CLASS_PATH = "spark.driver.extraClassPath"


def configure(builder: SparkSession.Builder, **options: object) -> SparkSession.Builder:
    """Add laneshift to a ``SparkSession.builder`` and return the same builder.

    Call it before the first session of the Python process is made: Spark loads plugins when it
    starts. What the builder or ``spark-defaults.conf`` already has in ``spark.plugins`` and
    ``spark.jars`` is kept. Options are ``lanes=4``, ``shards_per_partition=128``,
    ``motion="always"`` and so on, see ``docs/configuration.md``.

    Errors: :class:`~laneshift.errors.ArgumentError` for a wrong or unknown option,
    :class:`~laneshift.errors.SessionError` if the jar is missing or of another version, or Spark
    runs already without the plugin, :class:`~laneshift.errors.UnsupportedError` for Spark Connect.
    Nothing is added to the builder in these cases.
    """
    present = _options_of(builder)
    _refuse_connect(present)
    checked = settings(options)
    jar = jar_path()
    if not jar.is_file():
        raise error("LANESHIFT_JAR_MISSING", path=jar)
    check_versions(jar_version(jar))
    if not _plugin_runs():
        builder.config(PLUGINS, _appended(present, PLUGINS, PLUGIN_CLASS, ","))
        builder.config(JARS, _appended(present, JARS, str(jar), ","))
        builder.config(
            DRIVER_CLASS_PATH, _appended(present, DRIVER_CLASS_PATH, str(jar), os.pathsep)
        )
    for key, value in checked.items():
        builder.config(key, value)
    return builder


def _options_of(builder: object) -> dict[str, str]:
    options = getattr(builder, "_options", None)
    if not isinstance(options, dict) or not callable(getattr(builder, "config", None)):
        raise error("LANESHIFT_NOT_A_BUILDER", value=shown(builder), type=type(builder).__name__)
    return {str(key): str(value) for key, value in options.items()}


def _refuse_connect(present: dict[str, str]) -> None:
    remote = present.get("spark.remote") or os.environ.get("SPARK_REMOTE")
    if remote:
        raise error("LANESHIFT_CONNECT_NOT_SUPPORTED", what=remote, version=__version__)
    if present.get("spark.api.mode", "classic").lower() == "connect":
        what = "A session with spark.api.mode=connect"
        raise error("LANESHIFT_CONNECT_NOT_SUPPORTED", what=what, version=__version__)


def _plugin_runs() -> bool:
    """Whether Spark runs with the plugin. Errors: SessionError if it runs without."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None:
        loaded = context.getConf().get(PLUGINS, "") or ""
        if PLUGIN_CLASS in (name.strip() for name in loaded.split(",")):
            return True
        what = f"an active session has spark.plugins='{loaded}'"
        raise error("LANESHIFT_JVM_RUNS_ALREADY", what=what)
    gateway: Any = SparkContext._gateway
    if gateway is not None and not _on_class_path(gateway):
        what = "from an earlier session of this process"
        raise error("LANESHIFT_JVM_RUNS_ALREADY", what=what)
    return False


def _on_class_path(gateway: Any) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        gateway.jvm.org.apache.spark.util.Utils.classForName(PLUGIN_CLASS, False, False)
    except Py4JJavaError:
        return False
    return True


def _appended(present: dict[str, str], key: str, value: str, separator: str) -> str:
    """The setting's value with ours at its end, once."""
    text = present.get(key) or spark_defaults().get(key, "")
    parts = [part.strip() for part in text.split(separator) if part.strip()]
    return separator.join([part for part in parts if part != value] + [value])


def spark_defaults() -> dict[str, str]:
    """The settings of ``spark-defaults.conf``, which a builder's own settings would replace."""
    home, folder = os.environ.get("SPARK_HOME"), os.environ.get("SPARK_CONF_DIR")
    if not folder:
        if not home:
            from pyspark.find_spark_home import _find_spark_home

            home = str(_find_spark_home())
        folder = str(Path(home) / "conf")
    file = Path(folder) / "spark-defaults.conf"
    found: dict[str, str] = {}
    if file.is_file():
        for line in file.read_text("utf-8").splitlines():
            words = line.strip().replace("=", " ", 1).split(None, 1)
            if len(words) == 2 and not words[0].startswith("#"):
                found[words[0]] = words[1].strip()
    return found
