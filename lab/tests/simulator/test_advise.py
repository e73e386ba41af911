"""What other policies would have done with a recorded load, and the command that says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.ids import NodeId
from laneshift.contract.trace import TraceWriter
from laneshift.errors import InputError
from laneshift.policies.registry import policy
from laneshift_lab.cli.simulate import simulate
from laneshift_lab.simulator.advise import advise, demo_trace, text_picture, with_cores


def test_simulate_compares_policies_on_a_trace(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    with TraceWriter(trace) as out:
        for cluster in demo_trace()[:30]:
            out.record(cluster)
    picture = tmp_path / "advice.png"
    done = CliRunner().invoke(
        simulate,
        ["--trace", str(trace), "--policy", "static,elasticutor,oera", "--cores", "12",
         "--set", "elasticutor.release_after_s=0", "--picture", str(picture)],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert any(" 12.0 " in line for line in done.output.splitlines())
    assert "offered" in done.output
    assert picture.stat().st_size > 1000


def test_advice_is_deterministic_and_needs_a_stable_query() -> None:
    trace = demo_trace()[:20]
    first, again = (advise("oera", policy("oera"), trace) for _ in range(2))
    assert first.latency_mean_s == again.latency_mean_s
    assert text_picture([first]).count("\n") == 1
    other = [*trace[:3], demo_trace_of_another_query()]
    with pytest.raises(InputError, match="partitions of cluster load 3"):
        advise("static", policy("static"), other)


def demo_trace_of_another_query() -> ClusterLoad:
    last = demo_trace()[3]
    return replace(last, partitions=last.partitions[:2], sources=())


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: with_cores([], 4), "trace: found 0"),
        (lambda: with_cores(demo_trace()[:1], 2), "cores: found 2, expected at least 4"),
    ],
)
def test_wrong_inputs(make: Callable[[], object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        make()


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--trace", "/nowhere/t.jsonl", "--policy", "static"], "trace: found '/nowhere/t.jsonl'"),
        (["--trace", "demo", "--policy", " ,"], "--policy: found ' ,', expected at least one name"),
        (["--trace", "demo", "--policy", "best"], "found 'best'"),
        (["--trace", "demo", "--policy", "oera", "--set", "oera:x=1"], "found 'oera:x=1'"),
    ],
)
def test_wrong_command_lines(words: list[str], match: str) -> None:
    refused = CliRunner().invoke(simulate, words)
    assert isinstance(refused.exception, InputError)
    assert match in str(refused.exception)


def test_cores_go_round_the_executors_of_a_trace() -> None:
    trace = [replace(cluster, island="1") for cluster in demo_trace()[:1]]
    other = replace(
        trace[0],
        island="2",
        nodes=tuple(replace(n, node=NodeId(f"{n.node}b")) for n in trace[0].nodes),
        partitions=tuple(
            replace(p, home=NodeId(f"{p.home}b"), placement=(), lanes=())
            for p in trace[0].partitions
        ),
    )
    with pytest.raises(InputError, match="cores of executor 2: found 3, expected at least 4"):
        with_cores([*trace, other], 7)
