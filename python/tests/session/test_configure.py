"""laneshift.configure: what it adds to a builder and which options it refuses."""

from __future__ import annotations

import re
import sys
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyspark
import pytest

import laneshift
from laneshift import version
from laneshift.plugin.gateway import PLUGIN_CLASS
from laneshift.plugin.jar import check_versions
from laneshift.session import builder as module
from laneshift.session.builder import properties
from laneshift.session.options import OPTIONS


def made_jar(folder: Path, version: str) -> Path:
    jar = folder / "laneshift-spark.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("laneshift-build.properties", f"version={version}\nspark.version=4.3.0\n")
    return jar


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A jar of this version, no Spark running, no settings from outside."""
    made = made_jar(tmp_path, laneshift.__version__)
    monkeypatch.setattr(module, "jar_path", lambda: made)
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(pyspark.SparkContext, "_gateway", None)
    monkeypatch.setattr(pyspark.SparkContext, "_ensure_initialized", lambda: None)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    return made


def new_builder() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder


def options_of(builder: Any) -> dict[str, str]:
    return dict(builder._options)


def test_it_adds_plugin_and_jar_and_returns_the_builder(jar: Path) -> None:
    builder = new_builder()
    assert laneshift.configure(builder, lanes=4, motion="always") is builder
    assert options_of(builder) == {
        "spark.plugins": PLUGIN_CLASS,
        "spark.jars": str(jar),
        "spark.driver.extraClassPath": str(jar),
        "spark.sql.laneshift.lanes": "4",
        "spark.sql.laneshift.motion": "always",
    }


def test_what_the_builder_has_is_kept_and_a_second_call_adds_nothing(jar: Path) -> None:
    builder = new_builder().config("spark.plugins", "a.B").config("spark.jars", "x.jar, y.jar")
    laneshift.configure(laneshift.configure(builder))
    assert options_of(builder)["spark.plugins"] == f"a.B,{PLUGIN_CLASS}"
    assert options_of(builder)["spark.jars"] == f"x.jar,y.jar,{jar}"
    assert options_of(builder)["spark.driver.extraClassPath"] == str(jar)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("spark.jars /data/dt=2024/x.jar", "/data/dt=2024/x.jar"),
        ("spark.jars=/data/dt=2024/x.jar", "/data/dt=2024/x.jar"),
        ("spark.jars = a.jar ", "a.jar"),
        ("spark.jars: hdfs://host:1/a.jar", "hdfs://host:1/a.jar"),
        ("  spark.jars\ta.jar,\\\n   b.jar", "a.jar,b.jar"),
        ("spark.jars a\\ b\\u0021\\=.jar", "a b!=.jar"),
        ("spark.jars\n!spark.jars a.jar\n# spark.jars a.jar", None),
    ],
)
def test_spark_defaults_are_read_as_spark_reads_them(line: str, value: str | None) -> None:
    assert properties(line).get("spark.jars") == value


def test_what_spark_defaults_has_is_kept(jar: Path) -> None:
    defaults = "# none\nspark.plugins   a.B\nspark.jars=z.jar\n\nspark.master local[3]\n"
    (jar.parent / "spark-defaults.conf").write_text(defaults)
    builder = laneshift.configure(new_builder())
    assert options_of(builder)["spark.plugins"] == f"a.B,{PLUGIN_CLASS}"
    assert options_of(builder)["spark.jars"] == f"z.jar,{jar}"


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("enabled", False, "false"),
        ("enabled", "TRUE", "true"),
        ("shards_per_partition", 128, "128"),
        ("shards_per_partition", "1", "1"),
        ("lanes", "auto", "auto"),
        ("lanes", 8, "8"),
        ("max_lanes", 256, "256"),
        ("lanes_per_executor", 64, "64"),
        ("stateless", "auto", "auto"),
        ("stateless", True, "true"),
        ("stateless", "false", "false"),
        ("rescale_cores", 2, "2"),
        ("rescale_bytes_per_second", "20m", "20m"),
        ("remote_port", 0, "0"),
        ("remote_port", 7100, "7100"),
        ("remote_max_lanes", 0, "0"),
        ("remote_window_bytes", "1m", "1m"),
        ("remote_cache_bytes", 0, "0"),
        ("motion_remote_lanes", 2, "2"),
        ("queue_bytes", "512k", "512k"),
        ("queue_bytes", 65536, "65536"),
        ("balance_enabled", True, "true"),
        ("balance_threshold", 1.05, "1.05"),
        ("balance_threshold", "1.5", "1.5"),
        ("queue_time", "500ms", "500ms"),
        ("balance_interval", "200ms", "200ms"),
        ("balance_interval", 50, "50ms"),
        ("balance_interval", timedelta(seconds=2), "2000ms"),
        ("balance_metric", "cpu", "cpu"),
        ("latency_column", "sent", "sent"),
        ("hot_keys_show", "values", "values"),
        ("hot_keys_spread", True, "true"),
        ("hot_keys_spread", "auto", "auto"),
        ("motion", "random", "random"),
        ("motion_seed", -7, "-7"),
        ("motion_interval", "1s", "1s"),
        ("autoscaler", "none", "none"),
        ("autoscaler", "craa", "craa"),
        (
            "autoscaler",
            "laneshift.policies.faa:Faa",
            "laneshift.policies.faa:Faa",
        ),
        ("autoscaler_target_latency", 0, "0ms"),
        ("autoscaler_target_latency", timedelta(microseconds=1500), "2ms"),
        ("autoscaler_interval", "250ms", "250ms"),
        ("control_port", 0, "0"),
        ("control_address", "0.0.0.0", "0.0.0.0"),
        ("control_token", "x" * 16, "x" * 16),
        ("control_token_file", Path("/run/token"), "/run/token"),
        ("control_tls_client_ca", "ca.pem", "ca.pem"),
        ("control_tenants", "all", "all"),
    ],
)
def test_allowed_values(jar: Path, option: str, value: object, text: str) -> None:
    builder = laneshift.configure(new_builder(), **{option: value})
    assert options_of(builder)[OPTIONS[option].key] == text


REFUSED: list[tuple[str, object, list[str]]] = [
    ("enabled", "yes", ["'yes'", "true or false"]),
    ("enabled", 1, ["enabled=1", "true or false"]),
    ("enabled", None, ["None", "true or false"]),
    ("shards_per_partition", 0, ["0", "1 to 4096"]),
    ("shards_per_partition", 4097, ["4097", "1 to 4096", "shards per lane"]),
    ("shards_per_partition", 64.0, ["64.0", "whole number"]),
    ("shards_per_partition", True, ["True", "whole number"]),
    ("shards_per_partition", "many", ["'many'", "1 to 4096"]),
    ("lanes", 0, ["0", "1 to 256"]),
    ("lanes", 9, ["9", "1 to 8 (max_lanes)", "raise that"]),
    ("lanes", "Auto", ["'Auto'", "'auto'"]),
    ("lanes", -1, ["-1", "1 to"]),
    ("lanes", 2.0, ["2.0", "whole number"]),
    ("max_lanes", 257, ["257", "1 to 256"]),
    ("lanes_per_executor", 4097, ["4097", "0 to 4096"]),
    ("stateless", "some", ["some", "'auto', 'true' or 'false'"]),
    ("max_lanes", 0, ["0", "1 to 256"]),
    ("max_lanes", "", ["''", "1 to 256"]),
    ("remote_port", 80, ["80", "1024 to 65535", "0 for any free port"]),
    ("remote_port", 65536, ["65536", "1024 to 65535"]),
    ("remote_max_lanes", 257, ["257", "0 to 256"]),
    ("rescale_cores", 0, ["0", "1 to 4096"]),
    ("rescale_bytes_per_second", "1k", ["1k", "64k"]),
    ("remote_window_bytes", "1k", ["1k", "32k to 64m"]),
    ("remote_cache_bytes", "5g", ["5g", "0 to 4g"]),
    ("hot_keys_spread", "often", ["often", "'auto', 'true' or 'false'"]),
    ("hot_keys_show", True, ["True", "'hashes', 'values' or 'none'"]),
    ("queue_bytes", 0, ["0", "1k to 1g"]),
    ("queue_bytes", "1", ["'1'", "1k to 1g"]),
    ("queue_bytes", "2g", ["'2g'", "1k to 1g"]),
    ("queue_bytes", "1 megabyte", ["'1 megabyte'", "'1m'"]),
    ("queue_bytes", 1.5, ["1.5", "number of bytes"]),
    ("balance_enabled", 0, ["=0", "true or false"]),
    ("balance_threshold", 1.0, ["1.0", "greater than 1"]),
    ("balance_threshold", 0.5, ["0.5", "greater than 1", "over the mean"]),
    ("balance_threshold", float("nan"), ["nan", "greater than 1"]),
    ("balance_threshold", float("inf"), ["inf", "greater than 1"]),
    ("balance_threshold", 100.5, ["100.5", "at most 100"]),
    ("balance_threshold", "high", ["'high'", "greater than 1"]),
    ("queue_time", 0, ["0", "10ms to 1h"]),
    ("balance_interval", 0, ["0", "10ms to 1h"]),
    ("balance_interval", "2h", ["'2h'", "10ms to 1h"]),
    ("balance_interval", 9, ["9", "10ms to 1h"]),
    ("balance_interval", "soon", ["'soon'", "'200ms'"]),
    ("balance_interval", timedelta(0), ["timedelta", "10ms to 1h"]),
    ("balance_metric", "time", ["'time'", "'rows' or 'cpu'"]),
    ("latency_column", "", ["''", "the name of a timestamp column"]),
    ("motion", "sometimes", ["'sometimes'", "'never', 'random' or 'always'"]),
    ("motion", True, ["True", "'never'"]),
    ("motion_seed", 2**63, ["9223372036854775808", "64 bits"]),
    ("motion_seed", "abc", ["'abc'", "64 bits"]),
    ("autoscaler", "elastik", ["'elastik'", "'none'", "laneshift policies"]),
    ("autoscaler", 7, ["7", "'none'"]),
    ("control_port", 70000, ["70000", "0 for any free port"]),
    ("control_port", "some", ["'some'", "1 to 65535"]),
    ("control_address", "two words", ["'two words'", "one host name"]),
    ("control_token", "short", ["...", "16 to 512 printable"]),
    ("control_token_file", "", ["''", "driver's machine"]),
    ("control_tls_key", 7, ["7", "PEM"]),
    ("control_tenants", "some", ["'some'", "'own' or 'all'"]),
    ("autoscaler_target_latency", "2h", ["'2h'", "1ms to 1h"]),
    ("autoscaler_target_latency", "500us", ["'500us'", "1ms to 1h"]),
    ("autoscaler_target_latency", timedelta(microseconds=400), ["timedelta", "1ms to 1h"]),
    ("autoscaler_interval", "50ms", ["'50ms'", "100ms to 1h"]),
    ("autoscaler_python", 3, ["3", "path of a Python"]),
    ("motion_interval", "-5ms", ["'-5ms'", "1ms to 1min"]),
]


@pytest.mark.parametrize(("option", "value", "words"), REFUSED)
def test_refused_values_name_key_value_range_and_way_out(
    jar: Path, option: str, value: object, words: list[str]
) -> None:
    builder = new_builder()
    with pytest.raises(laneshift.ArgumentError) as caught:
        laneshift.configure(builder, **{option: value})
    assert caught.value.condition == "LANESHIFT_INVALID_OPTION"
    for word in [OPTIONS[option].key, OPTIONS[option].hint, *words]:
        assert word in str(caught.value)
    assert options_of(builder) == {}


def test_more_lanes_than_the_given_most_are_refused(jar: Path) -> None:
    with pytest.raises(laneshift.ArgumentError, match=r"lanes=12 .* 1 to 10 \(max_lanes\)"):
        laneshift.configure(new_builder(), lanes=12, max_lanes=10)
    laneshift.configure(new_builder(), lanes=12, max_lanes=12)


def test_an_unknown_option_lists_the_known_ones_and_the_nearest(jar: Path) -> None:
    builder = new_builder()
    with pytest.raises(laneshift.ArgumentError) as caught:
        laneshift.configure(builder, lane=4)
    assert "Did you mean 'lanes'?" in str(caught.value)
    for name in OPTIONS:
        assert name in str(caught.value)
    assert options_of(builder) == {}


def test_no_builder(jar: Path) -> None:
    with pytest.raises(laneshift.ArgumentError, match=r"found 'spark'.*SparkSession\.builder"):
        laneshift.configure("spark")  # type: ignore[arg-type]


def test_no_jar(jar: Path) -> None:
    jar.unlink()
    with pytest.raises(laneshift.SessionError, match="make jar") as caught:
        laneshift.configure(new_builder())
    assert str(jar) in str(caught.value)


def test_a_jar_of_another_version(jar: Path) -> None:
    made_jar(jar.parent, "9.9.9")
    with pytest.raises(laneshift.SessionError, match=r"laneshift 9\.9\.9.*one version"):
        laneshift.configure(new_builder())


def test_a_file_that_is_no_jar(jar: Path) -> None:
    jar.write_bytes(b"not a zip")
    with pytest.raises(laneshift.SessionError, match="laneshift unknown"):
        laneshift.configure(new_builder())


@pytest.mark.parametrize("how", ["remote", "environment", "mode", "mode of the environment"])
def test_a_connect_server_in_this_process_is_refused(
    jar: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    builder = new_builder()
    if how == "remote":
        builder.remote("local[2]")
    elif how == "mode":
        builder.config("spark.api.mode", "connect")
    elif how == "environment":
        monkeypatch.setenv("SPARK_REMOTE", "local")
    else:
        monkeypatch.setenv("SPARK_API_MODE", "connect")
    before = options_of(builder)
    with pytest.raises(laneshift.UnsupportedError, match=r"sc://HOST.*builder\.master") as caught:
        laneshift.configure(builder, lanes=2)
    assert {"remote": "remote('local[2]')", "environment": "remote('local')"}.get(
        how, "spark.api.mode=connect"
    ) in str(caught.value)
    assert options_of(builder) == before


@pytest.mark.parametrize("how", ["remote", "environment", "channel"])
def test_a_connect_client_gets_the_options_and_neither_jar_nor_plugin(
    jar: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    jar.unlink()  # it may be a machine without one
    builder = new_builder()
    if how == "remote":
        builder.remote("sc://there:15002")
    elif how == "environment":
        monkeypatch.setenv("SPARK_REMOTE", "sc://there")
    else:
        monkeypatch.setattr(builder, "_channel_builder", object(), raising=False)
    before = options_of(builder)
    assert laneshift.configure(builder, lanes=2, balance_metric="cpu") is builder
    assert options_of(builder) == before | {
        "spark.sql.laneshift.lanes": "2",
        "spark.sql.laneshift.balance.metric": "cpu",
    }


def test_a_connect_client_cannot_set_what_its_server_reads_when_it_starts(jar: Path) -> None:
    builder = new_builder().remote("sc://there:15002/;token=hidden")
    with pytest.raises(laneshift.ArgumentError) as caught:
        laneshift.configure(builder, lanes=2, control_port=0, control_token="x" * 16)
    assert caught.value.condition == "LANESHIFT_SERVER_OPTION"
    for words in (
        "control_port, control_token: read when an application starts",
        "server sc://there:15002/ cannot",
        "--conf spark.sql.laneshift.control.port=0 --conf spark.sql.laneshift.control.token=...",
    ):
        assert words in str(caught.value)
    assert set(options_of(builder)) == {"spark.remote"}


def test_a_wrong_value_is_told_to_a_connect_client_as_to_others(jar: Path) -> None:
    with pytest.raises(laneshift.ArgumentError, match="LANESHIFT_INVALID_OPTION"):
        laneshift.configure(new_builder().remote("sc://there"), lanes=0)


def test_what_the_page_says_is_read_at_the_start_is_none_of_a_connect_clients() -> None:
    page = (Path(__file__).parents[3] / "docs/configuration.md").read_text("utf-8")
    for option in OPTIONS.values():
        (line,) = (row for row in page.splitlines() if row.startswith(f"| `{option.key}` |"))
        if re.search(r"when (the application|an executor) starts", line):
            assert option.at_start, option.name


class _Context:
    def __init__(self, plugins: str) -> None:
        self.plugins = plugins

    def getConf(self) -> dict[str, str]:  # noqa: N802
        return {"spark.plugins": self.plugins}


def test_a_session_without_the_plugin_cannot_get_it(
    jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", _Context("a.B"))
    with pytest.raises(laneshift.SessionError, match=r"spark.plugins='a\.B'.*restart Python"):
        laneshift.configure(new_builder())


def test_a_session_with_the_plugin_only_gets_the_options(
    jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = _Context(f"a.B, {PLUGIN_CLASS}")
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", loaded)
    builder = laneshift.configure(new_builder(), lanes=2)
    assert options_of(builder) == {"spark.sql.laneshift.lanes": "2"}


def test_development_versions_of_one_release_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "__version__", "0.2.0.dev5+gabc")
    check_versions("0.2.0.dev7+gdef.d20260101")
    for other in ("0.2.0", "0.3.0.dev1", "0.0.0-dev"):
        with pytest.raises(laneshift.SessionError):
            check_versions(other)


class TestWhichPythonRunsAPolicy:
    KEY = "spark.sql.laneshift.autoscaler.python"

    @pytest.fixture(autouse=True)
    def _nothing_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT")
        for name in (*names, "PYSPARK_SUBMIT_ARGS"):
            monkeypatch.delenv(name, raising=False)

    @pytest.mark.parametrize("options", [{"autoscaler": "faa"}, {"control_port": 0}])
    def test_this_one_if_none_is_named(self, jar: Path, options: dict[str, Any]) -> None:
        found = options_of(laneshift.configure(new_builder(), **options))
        assert found[self.KEY] == sys.executable
        asked = new_builder().config("spark.sql.laneshift.autoscaler", "faa")
        assert options_of(laneshift.configure(asked))[self.KEY] == sys.executable

    @pytest.mark.parametrize("options", [{}, {"autoscaler": "none"}, {"lanes": 2}])
    def test_none_where_none_is_needed(self, jar: Path, options: dict[str, Any]) -> None:
        assert self.KEY not in options_of(laneshift.configure(new_builder(), **options))

    @pytest.mark.parametrize(
        ("variable", "value"),
        [
            ("PYSPARK_PYTHON", "python3.12"),
            ("PYSPARK_DRIVER_PYTHON", "python3.12"),
            ("PYSPARK_GATEWAY_PORT", "4711"),  # of spark-submit, whose --conf is not seen here
            ("PYSPARK_SUBMIT_ARGS", f"--conf {KEY}=/opt/python pyspark-shell"),
        ],
    )
    def test_what_the_environment_names_is_kept(
        self, jar: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
    ) -> None:
        monkeypatch.setenv(variable, value)
        assert self.KEY not in options_of(laneshift.configure(new_builder(), autoscaler="faa"))

    @pytest.mark.parametrize("value", ["jupyter", "/opt/bin/ipython3"])
    def test_a_notebook_is_no_python(
        self, jar: Path, monkeypatch: pytest.MonkeyPatch, value: str
    ) -> None:
        monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", value)
        found = options_of(laneshift.configure(new_builder(), autoscaler="faa"))
        assert found[self.KEY] == sys.executable

    def test_what_settings_name_is_kept(self, jar: Path) -> None:
        for key in ("spark.pyspark.python", "spark.pyspark.driver.python"):
            builder = new_builder().config(key, "/opt/python")
            assert self.KEY not in options_of(laneshift.configure(builder, autoscaler="faa"))
        for given in (
            laneshift.configure(new_builder(), control_port=0, autoscaler_python="/opt/python"),
            laneshift.configure(new_builder().config(self.KEY, "/opt/python"), control_port=0),
        ):
            assert options_of(given)[self.KEY] == "/opt/python"
        (jar.parent / "spark-defaults.conf").write_text(f"{self.KEY} /opt/python\n")
        assert self.KEY not in options_of(laneshift.configure(new_builder(), control_port=0))


def test_a_policys_own_parameters(jar: Path) -> None:
    given = {"target_utilisation": 0.5, "release_surplus": False}
    made = laneshift.configure(new_builder(), autoscaler="laneshift", autoscaler_parameters=given)
    found = {k: v for k, v in options_of(made).items() if ".param." in k}
    prefix = "spark.sql.laneshift.autoscaler.param."
    assert found == {f"{prefix}target_utilisation": "0.5", f"{prefix}release_surplus": "False"}


@pytest.mark.parametrize(
    ("policy", "given", "words"),
    [
        ("laneshift", {"target_utilisatoin": 0.5}, "Did you mean target_utilisation?"),
        ("laneshift", {"target_utilisation": 1.5}, "> 0 and <= 1"),
        ("none", {"target_utilisation": 0.5}, "with the policy's name as autoscaler="),
        ("laneshift", "target_utilisation=0.5", "a mapping of names to values"),
    ],
)
def test_a_wrong_parameter_of_a_policy(jar: Path, policy: str, given: Any, words: str) -> None:
    builder = new_builder()
    before = options_of(builder)
    with pytest.raises(laneshift.LaneshiftError, match=re.escape(words)):
        laneshift.configure(builder, autoscaler=policy, autoscaler_parameters=given)
    assert options_of(builder) == before


def test_spark_submit_without_the_jar_is_told_at_once(
    jar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The JVM is there before the program: a jar that the builder names comes too late."""

    def started() -> None:
        monkeypatch.setattr(pyspark.SparkContext, "_gateway", object())

    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(pyspark.SparkContext, "_ensure_initialized", started)
    monkeypatch.setattr(module, "_on_class_path", lambda _: False)
    with pytest.raises(laneshift.SessionError, match=r"spark-submit started it.*--jars") as caught:
        laneshift.configure(new_builder())
    assert caught.value.condition == "LANESHIFT_JVM_RUNS_ALREADY"
    monkeypatch.setattr(module, "_on_class_path", lambda _: True)
    assert PLUGIN_CLASS in options_of(laneshift.configure(new_builder()))["spark.plugins"]
