"""Every fenced block of the documentation runs, or BLOCKS says why it does not.

A block is code unless its language is ``text``. A new one fails the first test until BLOCKS has it:
the name of the test that runs it, here or in another module, or a reason not to.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import laneshift
from live.conftest import CONF, environment, until
from plugin.fake import RUNNING, FakeGateway, partition
from session.transports import TOKEN, serving, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
TESTS = ROOT / "python" / "tests"
SCRIPTS = Path(sys.executable).parent

KUBERNETES = "not run: needs a Kubernetes cluster"
BUILD = "not run: builds and tests laneshift itself, this test included"
TUTORIAL = "test_docs.py::test_the_tutorial_prints_what_it_says"
CONTROL = "live/test_live_control_page.py::test_"
OPTIONS = "options"  # only what its options name is looked at: it needs a cluster

API = "session/test_api_page.py::test_examples"

BLOCKS: dict[str, list[str]] = {
    "README.md": [
        "live/test_live_wheel.py::test_the_first_program",
        "live/test_live_wheel.py::test_spark_submit",
        BUILD,
    ],
    "docs/api.md": [API],  # each of them
    "docs/autoscaling.md": ["test_autoscaler", OPTIONS, "test_commands_without_spark"],
    "docs/control.md": [
        "not run: an address and a file of one's own; the next two blocks run with others",
        CONTROL + "commands",
        CONTROL + "python",
        OPTIONS,
    ],
    "docs/deploy.md": [
        OPTIONS,
        "test_the_image",
        OPTIONS,
        *["test_manifests"] * 3,
        KUBERNETES,
        OPTIONS,
    ],
    "docs/metrics.md": ["test_options_of_metrics"],
    "docs/parallelism.md": [
        "test_rescale",
        "test_rescale",
        "test_commands_of_control",
        "test_rescale",
        "test_commands_of_control",
        "live/test_live_rescale.py::test_a_checkpoints_partitions_change_by_command",
        "test_lanes_elsewhere",
        "test_commands_of_control",
        "test_lanes_elsewhere",
        OPTIONS,
        "test_rowwise_lanes",
        "test_hot_key",
    ],
    "docs/partitioners/index.md": ["test_docs.py::test_examples_with_prompts"],
    "docs/policies/README.md": [
        "test_commands_without_spark",
        "policies/test_policy_docs.py::test_overview_links_every_page_and_its_example_runs",
        "test_toml",
        "policies/test_policy_docs.py::test_the_example_of_a_policy_with_a_state_smooths",
    ],
    "docs/policies/planners.md": ["test_commands_of_control"],
    "docs/simulator.md": [
        "test_docs.py::test_examples_of_the_simulators_page",
        "test_commands_without_spark",
        "test_commands_without_spark",
        *["test_docs.py::test_examples_of_the_simulators_page"] * 2,
    ],
    "docs/tested.md": [BUILD],
    "docs/tutorial.md": [TUTORIAL] * 10,
    "docs/workload.md": ["test_sources", "test_sources", "test_nexmark", "test_sources"],
}


class Block(NamedTuple):
    language: str
    text: str


def pages() -> list[str]:
    """All pages with code of ours: those of benchmarks are results."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
    return sorted(str(page.relative_to(ROOT)) for page in found)


def every_block(page: str) -> list[Block]:
    text = (ROOT / page).read_text("utf-8")
    assert text.count("\n```") % 2 == 0, f"a block of {page} does not end"
    found = re.findall(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [Block(*each) for each in found]


def blocks(page: str, how: str = "") -> list[str]:
    """The code on a page, in its order, or what of it BLOCKS gives to a test."""
    code = [block.text for block in every_block(page) if block.language != "text"]
    told = BLOCKS.get(page, [])
    if told == [API]:
        told = told * len(code)
    assert len(code) == len(told), f"{page} has {len(code)} blocks of code, BLOCKS {len(told)}"
    return [text for text, said in zip(code, told, strict=True) if not how or said == how]


# ------------------------------------------------------------------ all of them, without Spark


@pytest.mark.parametrize("page", pages())
def test_every_block_has_a_test_or_a_reason(page: str) -> None:
    assert all(block.language for block in every_block(page)), "say its language, or `text`"
    blocks(page)
    for told in BLOCKS.get(page, []):
        if told in (OPTIONS, KUBERNETES, BUILD) or told.startswith("not run: an address"):
            continue
        file, _, test = told.rpartition("::")
        source = (TESTS / file if file else Path(__file__)).read_text("utf-8")
        assert re.search(rf"^def {test}\(", source, re.MULTILINE), f"{page}: no test {told}"


def test_pages_of_the_table_are_there() -> None:
    assert BLOCKS.keys() <= set(pages())


@pytest.mark.parametrize("page", pages())
def test_options_that_are_named_exist(page: str) -> None:
    """Wherever a page names one in full, in text or code."""
    known = set(
        re.findall(r"^\| `(\S+)`", (ROOT / "docs/configuration.md").read_text("utf-8"), re.M)
    )
    assert len(known) > 30
    text = (ROOT / page).read_text("utf-8")
    named = set(re.findall(r"(?<![\w.])spark\.sql\.laneshift\.[\w.]*\w", text))
    families = {key.rpartition(".")[0] for key in known}  # "options are spark...remote.*"
    parameters = {key for key in named if key.startswith("spark.sql.laneshift.autoscaler.param.")}
    assert named - known - families - parameters == set()


def test_options_of_commands_are_sparks() -> None:
    """Of each spark-submit on the pages: its own options, the plugin's class, --conf KEY=VALUE."""
    own = {
        *("--master", "--deploy-mode", "--name", "--jars", "--archives", "--conf"),
        *("--num-executors", "--executor-cores", "--executor-memory", "--total-executor-cores"),
    }
    seen = 0
    for page in BLOCKS:
        for text in blocks(page):
            for command in re.findall(r"^(?:spark-submit|start-connect)(?:.*\\\n)*.*", text, re.M):
                words = shlex.split(command.replace("\\\n", " "))[1:]
                while words and words[0].startswith("--"):
                    assert words[0] in own, (page, words[0])
                    if words[0] == "--conf":
                        assert re.fullmatch(r"spark\.[\w.]+=\S+", words[1]), (page, words[1])
                    del words[:2]
                assert len(words) == (0 if "connect" in command else 1), (page, words)
                assert "spark.plugins=org.apache.spark.sql.laneshift.LaneshiftPlugin" in command
                seen += 1
    assert seen >= 6


def test_options_of_metrics() -> None:
    """They are those of the session with which the dashboard is tried."""
    (text,) = blocks("docs/metrics.md", "test_options_of_metrics")
    told = dict(line.split("=", 1) for line in text.splitlines())
    assert len(told) == 2 and told.items() <= CONF.items()


def test_toml() -> None:
    (text,) = blocks("docs/policies/README.md", "test_toml")
    (group,) = tomllib.loads(text)["project"]["entry-points"].values()
    assert group == {"my-policy": "my_package.my_module:MyPolicy"}


def test_the_image() -> None:
    """Its instructions, and that what later lines take was put there."""
    (text,) = blocks("docs/deploy.md", "test_the_image")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    steps = [line.split(None, 1) for line in "\n".join(lines).replace("\\\n", " ").splitlines()]
    names = [name for name, _ in steps]
    assert names[:2] == ["ARG", "FROM"] and set(names[2:]) <= {"USER", "RUN", "COPY"}
    assert steps[-1] == ["USER", "185"]
    for name, rest in steps:
        if name == "RUN":
            subprocess.run(["bash", "-nc", rest], check=True)
    page = (ROOT / "docs/deploy.md").read_text("utf-8")
    for path in re.findall(r"local://(/\S+?)[\s`]", page):
        assert re.search(rf"(?:COPY|cp) .+ {path}(?: \\)?$", text, re.MULTILINE), path
    assert "/opt/laneshift/bin/python" in page and "-m venv /opt/laneshift" in text
    locked = (ROOT / "requirements.lock").read_text("utf-8")
    assert re.search(r"^(py4j==\S+)", locked, re.M)[1] in text  # type: ignore[index]


def shell(text: str, folder: Path, **variables: str) -> str:
    """What the commands of a block say, run as a user does."""
    path = os.pathsep.join((str(SCRIPTS), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-ec", text], cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        env=environment(ROOT / "python") | {"PATH": path} | variables,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_commands_without_spark(tmp_path: Path) -> None:
    scene, simulate = blocks("docs/simulator.md", "test_commands_without_spark")
    (tmp_path / "scene.toml").write_text(scene)
    said = shell(simulate, tmp_path)
    assert "elasticutor" in said and (tmp_path / "windows.csv").stat().st_size > 1000

    (try_one,) = blocks("docs/policies/README.md", "test_commands_without_spark")
    (record,) = (t for t in blocks("docs/tutorial.md") if "TraceWriter" in t)
    names: dict[str, Any] = {}
    for text in blocks("docs/tutorial.md")[1:3]:
        exec(text, names)
    exec(record.replace('"trace.jsonl"', repr(str(tmp_path / "TRACE"))), names)
    said = shell(try_one, tmp_path)
    assert "target_s" in said or "craa" in said

    (compare,) = blocks("docs/autoscaling.md", "test_commands_without_spark")
    assert {"static", "elasticutor", "laneshift"} <= set(shell(compare, tmp_path).split())


def elsewhere() -> FakeGateway:
    """A plugin whose query has four partitions, one with a lane on another executor."""
    gateway = FakeGateway()
    (query,) = gateway.data["queries"]
    query["name"] = "orders"
    parts = query["operators"][0]["partitions"] = [partition(n) for n in range(4)]
    host = {"executor": "2", "lane": 2, "open": True, "kept_bytes": 0, "rows_sent": 12,
            "frames": 3, "state_reads": 4, "bytes_sent": 900, "bytes_received": 800}  # fmt: skip
    parts[3]["elsewhere"], parts[3]["elsewhere_note"] = [host], "executor 5 is out of reach"
    for number in (2, 5):
        gateway.data["executors"].append(
            gateway.data["executors"][0] | {"executor": str(number), "cores": 8}
        )
    return gateway


def test_lanes_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    """With other executors that are not there; live/test_live_places.py has such."""
    gateway = elsewhere()
    names: dict[str, Any] = {"laneshift": laneshift, "spark": session(gateway)}
    for text in blocks("docs/parallelism.md", "test_lanes_elsewhere"):
        exec(text, names)
    assert gateway.sent == [("set_lanes", RUNNING, 0, 3, 2, {"2": 4})]
    said = capsys.readouterr().out
    assert "('2', 'localhost', 8)" in said and "3 2 2 True 12 4" in said
    assert "3 executor 5 is out of reach" in said


def test_commands_of_control(tmp_path: Path) -> None:
    gateway = elsewhere()
    with serving(gateway) as address:
        for page in ("docs/policies/planners.md", "docs/parallelism.md"):
            for text in blocks(page, "test_commands_of_control"):
                shell(text, tmp_path, LANESHIFT_CONTROL=address, LANESHIFT_TOKEN=TOKEN)
    assert gateway.sent == [
        ("set_tasks", RUNNING, 0, "4"),
        ("rescale", RUNNING, 16),
        ("cancel_rescale", RUNNING),
        ("set_lanes", RUNNING, 0, 3, 2, {"2": 4, "5": 1}),
    ]


# ------------------------------------------------------------------ with Spark


@contextmanager
def running(frame: Any, folder: Path, name: str, mode: str = "update") -> Iterator[Any]:
    """A query that has done a batch with rows."""
    writer = frame.writeStream.format("noop").outputMode(mode).queryName(name)
    writer = writer.trigger(processingTime="500 milliseconds")
    query = writer.option("checkpointLocation", str(folder / name)).start()
    try:
        until(lambda: query.exception() or any(p["numInputRows"] for p in query.recentProgress))
        assert query.exception() is None, query.exception()
        yield query
    finally:
        query.stop()


def workload(spark: SparkSession) -> Any:
    return spark.readStream.format("laneshift-workload").option("rowsPerSecond", 500).load()


@pytest.mark.live
def test_manifests(spark: SparkSession) -> None:
    """By the YAML parser that Spark brings for Kubernetes; workflows of the forge, too."""
    jvm: Any = spark._jvm

    def parsed(text: str) -> Any:
        tree = jvm.com.fasterxml.jackson.dataformat.yaml.YAMLMapper().readTree(text)
        return json.loads(tree.toString())

    ours = "org.apache.spark.sql.laneshift.LaneshiftPlugin"
    kubeflow, apache, policy = map(parsed, blocks("docs/deploy.md", "test_manifests"))
    for manifest in (kubeflow, apache):
        assert manifest["kind"] == "SparkApplication"
        conf = manifest["spec"]["sparkConf"]
        assert conf["spark.plugins"] == ours
        assert all(isinstance(value, str) for value in conf.values()), "the operators want texts"
    assert kubeflow["apiVersion"] == "sparkoperator.k8s.io/v1beta2"
    assert kubeflow["spec"]["executor"]["cores"] == 8
    assert apache["spec"]["sparkConf"]["spark.executor.cores"] == "8"
    (ports,) = [rule["ports"] for rule in policy["spec"]["ingress"]]
    assert str(ports[0]["port"]) == kubeflow["spec"]["sparkConf"]["spark.sql.laneshift.remote.port"]
    workflows = list((ROOT / ".github" / "workflows").glob("*.yml"))
    assert len(workflows) >= 2
    for file in workflows:
        jobs = parsed(file.read_text("utf-8"))["jobs"]
        assert all("runs-on" in job and job["steps"] for job in jobs.values()), file


@pytest.mark.live
def test_autoscaler(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (text,) = blocks("docs/autoscaling.md", "test_autoscaler")
    names: dict[str, Any] = {"laneshift": laneshift, "spark": spark, "until": until}
    with running(workload(spark).groupBy("key").count(), tmp_path, "orders"):
        exec(text.replace("\n...\n", "\nuntil(lambda: autoscaler.turns >= 1)\n"), names)
    assert names["autoscaler"].turns >= 1 and not names["autoscaler"].is_running


@pytest.mark.live
@pytest.mark.deep("surface")
def test_rescale(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begin, tasks, rescale = blocks("docs/parallelism.md", "test_rescale")
    with running(workload(spark).groupBy("key").count(), tmp_path, "orders") as query:
        names: dict[str, Any] = {"laneshift": laneshift, "spark": spark, "query": query}
        exec(begin, names)
        exec(rescale, names)
        assert "2 -> 16 partitions" in capsys.readouterr().err

        def shown() -> tuple[int, int]:
            (operator,) = names["orders"].snapshot().operators
            return len(operator.partitions), operator.tasks

        until(lambda: shown()[0] == 16)  # with the next batch
        exec(tasks, names)
        until(lambda: shown() == (16, 4))


@pytest.mark.live
def test_rowwise_lanes(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pyspark.sql import functions as sf

    (text,) = blocks("docs/parallelism.md", "test_rowwise_lanes")
    spark.conf.set("spark.sql.laneshift.maxLanes", "8")  # its default; the tests have less
    try:
        scores = workload(spark).select(sf.regexp_replace(sf.col("key").cast("string"), "1", "2"))
        with running(scores, tmp_path, "scores", "append"):
            names: dict[str, Any] = {"laneshift": laneshift, "spark": spark}
            exec(text, names)
            assert "1000 rowWise" in capsys.readouterr().out

            def eight() -> bool:
                (operator,) = names["scores"].snapshot().operators
                return all(part.lanes == 8 for part in operator.partitions)

            until(eight)
    finally:
        spark.conf.set("spark.sql.laneshift.maxLanes", "6")


@pytest.mark.live
def test_hot_key(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as sf

    (text,) = blocks("docs/parallelism.md", "test_hot_key")
    spark.range(30).selectExpr("id % 3 AS customer").write.parquet(str(tmp_path / "orders"))
    stream = spark.readStream.schema("customer LONG").parquet(str(tmp_path / "orders"))
    score = sf.udf(lambda n: n * 10, "long")
    names: dict[str, Any] = {"stream": stream, "sf": sf, "score": score}
    exec(text, names)
    query = (
        names["answers"].writeStream.format("memory").queryName("hot").outputMode("complete")
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination(60)
    assert query.exception() is None
    assert sorted(map(tuple, spark.table("hot").collect())) == [(k, 10, 100) for k in range(3)]


@pytest.mark.live
def test_sources(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    made, replayed, measured = blocks("docs/workload.md", "test_sources")
    names: dict[str, Any] = {"spark": spark, "F": F, "json": json, "folder": str(tmp_path / "c")}
    exec(made, names)
    with running(names["counts"], tmp_path, "made"):
        pass

    data = spark.range(40).selectExpr("concat('d', id % 4) AS dest", "id")
    data.coalesce(1).write.parquet(str(tmp_path / "flights"))
    exec(replayed.replace("data/flights", str(tmp_path / "flights")), names)
    with running(names["flights"], tmp_path, "replayed", "append"):
        assert names["flights"].columns == ["dest", "id", "sent_us"]

    try:
        exec(measured, names)
        assert set(names["found"]) >= {"seconds", "rows", "slots", "latency_us"}
        until(lambda: json.loads(names["registry"].read("run1"))["rows"] > 0)
    finally:
        if "query" in names:
            names["query"].stop()


@pytest.mark.live
def test_nexmark(spark: SparkSession, tmp_path: Path) -> None:
    (text,) = blocks("docs/workload.md", "test_nexmark")
    names: dict[str, Any] = {"spark": spark}
    exec(text, names)
    assert "bidder" in names["bids"].columns and "seller" in names["auctions"].columns
    with running(names["auctions"], tmp_path, "auctions", "append"):
        pass
