"""Puts laneshift into a session that is about to be built: its jar, its plugin and its options.

Tried on PySpark 4.3.0: a plugin's class is found by ``spark.jars`` alone, on the driver and on the
executors, in local mode, local-cluster and client mode. The driver's class path is set as well, so
that the driver has the plugin's classes and Spark's in one class loader.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from laneshift.errors import error, shown
from laneshift.plugin.gateway import PLUGIN_CLASS
from laneshift.plugin.jar import check_versions, found, jar_path, jar_version
from laneshift.session.options import OPTIONS, PARAMETERS, PREFIX, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLUGINS = "spark.plugins"
JARS = "spark.jars"
DRIVER_CLASS_PATH = "spark.driver.extraClassPath"
AUTOSCALER, CONTROL_PORT = f"{PREFIX}autoscaler", f"{PREFIX}control.port"
PYTHONS = (f"{PREFIX}autoscaler.python", "spark.pyspark.driver.python", "spark.pyspark.python")
PYTHON_VARIABLES = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
NOTEBOOKS = ("jupyter", "ipython")
"""What ``PYSPARK_DRIVER_PYTHON`` may name, and which runs no module as a Python does."""
"""Where the plugin looks for a Python, one after the other."""


def configure(builder: SparkSession.Builder, **options: object) -> SparkSession.Builder:
    """Add laneshift to a ``SparkSession.builder`` and return the same builder.

        builder = laneshift.configure(SparkSession.builder.master("local[4]"), lanes=2)

    Call it before the first session of the Python process is made: Spark loads plugins when it
    starts. What the builder or ``spark-defaults.conf`` already has in ``spark.plugins`` and
    ``spark.jars`` is kept. Options are ``lanes=4``, ``shards_per_partition=128``,
    ``motion="always"`` and so on, see ``docs/configuration.md``; a policy's own parameters are
    ``autoscaler_parameters={"target_utilisation": 0.5}``.

    A policy or control service that an option asks for runs in the Python that calls this, where
    neither option, setting nor environment names one.

    A builder of a Spark Connect client (``builder.remote("sc://...")``) gets the options alone:
    jar and plugin are its server's. :func:`laneshift.attach` tells whether the server has them.

    Errors: :class:`~laneshift.errors.ArgumentError` for a wrong or unknown option, or one that a
    Connect client cannot set, :class:`~laneshift.errors.SessionError` if the jar is missing or of
    another version, or Spark runs already without the plugin,
    :class:`~laneshift.errors.UnsupportedError` if the session is to start a Connect server in this
    process. Nothing is added to the builder in these cases.
    """
    present = _options_of(builder)
    server = _connect_server(builder, present)
    checked = settings(options)
    if server is None:
        _add_plugin(builder, present)
        checked |= _own_python(checked, present)
    else:
        _refuse_of_servers(options, checked, server)
    for key, value in checked.items():
        builder.config(key, value)
    return builder


def _add_plugin(builder: SparkSession.Builder, present: dict[str, str]) -> None:
    jar = found(jar_path())
    check_versions(jar_version(jar))
    if not _plugin_runs():
        builder.config(PLUGINS, _appended(present, PLUGINS, PLUGIN_CLASS, ","))
        with_jar(builder, jar)


def with_jar(builder: SparkSession.Builder, jar: Path) -> SparkSession.Builder:
    """Put ``jar`` behind what the builder has for the driver and the executors; the same builder.

    Errors: ArgumentError for what is no builder.
    """
    present = _options_of(builder)
    builder.config(JARS, _appended(present, JARS, str(jar), ","))
    return builder.config(
        DRIVER_CLASS_PATH, _appended(present, DRIVER_CLASS_PATH, str(jar), os.pathsep)
    )


def _own_python(checked: dict[str, str], present: dict[str, str]) -> dict[str, str]:
    """This Python, for the policy or the control service that the driver starts in one.

    It has laneshift; the plugin would try whatever ``python3`` is. Nothing if some Python is named,
    or if ``spark-submit`` started this one: what it was told is not seen here, and comes first.
    """
    known = spark_defaults() | present | checked
    wanted = known.get(AUTOSCALER, "none") != "none" or known.get(CONTROL_PORT)
    named = any(known.get(key) for key in PYTHONS)
    pythons = any(_is_python(os.environ.get(name, "")) for name in PYTHON_VARIABLES)
    variables = pythons or os.environ.get("PYSPARK_GATEWAY_PORT")
    submitted = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    if not wanted or named or variables or any(key in submitted for key in PYTHONS):
        return {}
    return {PYTHONS[0]: sys.executable} if sys.executable else {}


def _is_python(name: str) -> bool:
    """Whether it is no notebook or shell, as the driver's Python may be."""
    return bool(name) and not Path(name).name.startswith(NOTEBOOKS)


def _options_of(builder: object) -> dict[str, str]:
    options = getattr(builder, "_options", None)
    if not isinstance(options, dict) or not callable(getattr(builder, "config", None)):
        raise error("LANESHIFT_NOT_A_BUILDER", value=shown(builder), type=type(builder).__name__)
    return {str(key): str(value) for key, value in options.items()}


def _connect_server(builder: object, present: dict[str, str]) -> str | None:
    """Where the Connect server is whose client the session is to be; None for a classic session.

    Errors: UnsupportedError for one that PySpark would start in this process: it gives that server
    its own ``spark.plugins`` in place of the builder's.
    """
    remote = present.get("spark.remote") or os.environ.get("SPARK_REMOTE")
    if remote and remote.startswith("sc://"):
        return remote.partition(";")[0]  # a token may follow
    if getattr(builder, "_channel_builder", None) is not None:
        return "of the builder's channel"
    mode = present.get("spark.api.mode") or os.environ.get("SPARK_API_MODE", "classic")
    if remote or mode.lower() == "connect":
        what = f"builder.remote({remote!r})" if remote else "spark.api.mode=connect"
        raise error("LANESHIFT_CONNECT_NOT_SUPPORTED", what=what)
    return None


def _refuse_of_servers(options: dict[str, object], checked: dict[str, str], server: str) -> None:
    """Refuse options that a server reads when it starts: Spark would ignore them."""
    # A policy's parameters come with the policy, which is one.
    of_server = [OPTIONS[name] for name in options if name != PARAMETERS and OPTIONS[name].at_start]
    if of_server:
        values = ("..." if o.secret else checked[o.key] for o in of_server)
        raise error(
            "LANESHIFT_SERVER_OPTION",
            option=", ".join(o.name for o in of_server),
            server=server,
            settings=" ".join(
                f"--conf {o.key}={v}" for o, v in zip(of_server, values, strict=True)
            ),
        )


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
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit has started the JVM, and this
    if submitted:
        SparkContext._ensure_initialized()
    gateway: Any = SparkContext._gateway
    if gateway is not None and not _on_class_path(gateway):
        what = "spark-submit started it" if submitted else "from an earlier session of this process"
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
    return properties(file.read_text("utf-8")) if file.is_file() else {}


def properties(text: str) -> dict[str, str]:
    """What Spark reads in such a file: Java's format, in which ``=``, ``:`` or a space ends a key,
    and lines and signs are escaped by ``\\``. Without values that are empty.
    """
    found: dict[str, str] = {}
    lines = (line for line in text.splitlines() if not line.lstrip().startswith(("#", "!")))
    whole = re.sub(r"(?<!\\)((?:\\\\)*)\\\n\s*", r"\1", "\n".join(lines))
    for line in whole.splitlines():
        setting = re.match(r"\s*((?:\\.|[^\\=:\s])+)\s*[=:]?\s*(.*)", line)
        if setting is not None and setting[2].strip():
            found[_plain(setting[1])] = _plain(setting[2]).strip()
    return found


def _plain(text: str) -> str:
    """``text`` without escapes."""
    special = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

    def sign(escape: re.Match[str]) -> str:
        code, one = escape.groups()
        return chr(int(code, 16)) if code else special.get(one, one)

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", sign, text)
