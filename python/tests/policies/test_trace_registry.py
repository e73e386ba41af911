"""Traces read back as they were written; policies are found by name."""

import errno
import io
import json
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from laneshift.cli.main import main
from laneshift.contract.metrics import METRICS, metric
from laneshift.contract.policy import Policy
from laneshift.contract.trace import (
    TraceWriter,
    from_json,
    read_entries,
    read_trace,
    to_json,
)
from laneshift.errors import InputError
from laneshift.policies import registry
from laneshift.policies.elasticutor import Elasticutor
from laneshift.policies.registry import policy
from laneshift.policies.static import Static
from laneshift_lab.replay import replay
from policies.recorded import sample, write


def test_a_cluster_load_reads_back_equal(tmp_path: Path) -> None:
    assert from_json(json.loads(json.dumps(to_json(sample())))) == sample()
    recorded = [sample(0.0), sample(5.0, 1e-17)]
    assert list(read_trace(write(tmp_path / "t.jsonl", recorded))) == recorded


def test_replay_gives_the_decisions_of_a_live_run(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", [sample(0, 15), sample(5, 35), sample(10, 75)])
    policy = Elasticutor(target_s=2.0, smoothing=0.5)
    live, state = [], policy.start()
    for each in [sample(0, 15), sample(5, 35), sample(10, 75)]:
        plan, state = policy.decide(each, state)
        live.append(plan)
    assert [r.plan for r in replay(read_trace(path), policy)] == live
    assert any(not plan.is_empty for plan in live)


def test_a_recording_is_never_overwritten(tmp_path: Path) -> None:
    write(tmp_path / "t.jsonl", [sample()])
    with pytest.raises(FileExistsError):
        TraceWriter(tmp_path / "t.jsonl")


class Full(io.FileIO):
    """A file on a disk that is full, until it is not."""

    room = False

    def write(self, data: Any) -> int:
        if not Full.room:
            raise OSError(errno.ENOSPC, "no space left on device")
        return super().write(data)


@pytest.mark.parametrize("opens", [True, False])
def test_a_recording_goes_on_once_the_disk_has_room(
    opens: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begun(path: Path, mode: str, **_: object) -> Full:
        if not (opens or Full.room):
            raise OSError(errno.ENOSPC, "no space left on device")
        return Full(path, mode)

    monkeypatch.setattr(Full, "room", False)
    path = tmp_path / "t.jsonl"
    with TraceWriter(path, most_bytes=1) as trace:
        monkeypatch.setattr(Path, "open", begun)
        for _ in range(2):
            with pytest.raises(OSError, match="no space"):
                trace.record(sample(0))
        Full.room = True
        trace.record(sample(5))
        monkeypatch.undo()
    assert list(read_trace(path)) == [sample(5)]


def test_damage_is_named_and_a_cut_last_line_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", [sample(0), sample(5)])
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2]) + lines[2][:40])
    assert list(read_trace(path)) == [sample(0)]
    path.write_text(lines[0] + lines[1][:40] + "\n")
    with pytest.raises(InputError, match="line 2"):
        list(read_trace(path))
    path.write_text(lines[0] + lines[2] + lines[1])
    with pytest.raises(InputError, match="time_s"):
        list(read_trace(path))
    path.write_text("hello\n")
    with pytest.raises(InputError, match="first line"):
        list(read_trace(path))
    path.write_text(lines[0] + lines[1].replace('"edges"', '"edgse"'))
    with pytest.raises(InputError, match="edgse"):
        list(read_trace(path))


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (['{"laneshift_trace":2}'], ["version of trace", "found 2", "expected 1", "that recorded"]),
        (['{"laneshift_trace":"1"}'], ["version of trace", "'1'"]),
        (['{"laneshift_trace":1}', '{"time_s":1}'], ["line 2", "'time_s'", "window_s, nodes"]),
        (['{"laneshift_trace":1}', "[]"], ["line 2", "a JSON object"]),
        (
            [
                '{"laneshift_trace":1}',
                '{"time_s":1,"window_s":1,"nodes":[{"node":"a"}],"partitions":[]}',
            ],
            ["line 2", "cores"],
        ),
        (
            ['{"laneshift_trace":1}', '{"time_s":1,"window_s":1,"colour":2}'],
            ["line 2", "ClusterLoad", "'colour'", "another version"],
        ),
    ],
)
def test_a_trace_of_another_version_is_refused_in_one_sentence(
    tmp_path: Path, lines: list[str], words: list[str]
) -> None:
    (tmp_path / "t").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        list(read_trace(tmp_path / "t"))
    said = str(caught.value)
    assert all(word in said for word in words), said
    assert said.count("LANESHIFT_INVALID_INPUT") == 1 and "__init__" not in said


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("laneshift", {"realease_surplus": True}, ["realease_surplus", "release_surplus"]),
        ("laneshift", {"throttle_sources": "false"}, ["throttle_sources", "True or False"]),
        ("elasticutor", {"release_surplus": 1}, ["release_surplus", "True or False"]),
        ("oera", {"settle_guard": "yes"}, ["settle_guard", "True or False"]),
        ("elasticutor", {"target_s": None}, ["target_s", "> 0"]),
        ("elasticutor", {"target_s": "50ms"}, ["target_s", "a finite number"]),
        ("laneshift", {"occ_limit": 1.01}, ["occ_limit", "<= 1"]),
        ("laneshift", {"occ_limit": 0.0}, ["occ_limit", "> 0"]),
        ("threshold", {"occ_high": 1.2}, ["occ_high"]),
    ],
)
def test_a_wrong_parameter_is_named_with_the_way_out(
    name: str, given: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        policy(name, **given)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_events_lie_between_cluster_loads(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with TraceWriter(path) as trace:
        trace.record(sample(0))
        trace.note("decision", {"policy": "x"})
        trace.record(sample(5))
        with pytest.raises(InputError, match="decision, moves"):
            trace.note("decided", {})
    assert list(read_trace(path)) == [sample(0), sample(5)]
    events = [(e.line, e.event, dict(e.value)) for e in read_entries(path) if e.event]
    assert events == [(3, "decision", {"policy": "x"})]


def test_registry_knows_the_built_in_policies_by_their_own_names() -> None:
    for name in registry.BUILT_IN:
        found = registry.policy_class(name)
        assert found.name == name and found.summary and found.source and found.__doc__
        registry.policy(name)
    assert set(registry.BUILT_IN) <= set(registry.names())


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"elasticutor.*static"):
        registry.policy("elasticator")
    with pytest.raises(InputError, match=r"one of target_utilisation, .*, target_s"):
        registry.policy("elasticutor", target=1)


@dataclass(frozen=True, kw_only=True)
class Mine(Static):
    """A user's policy."""

    level: int | None = None
    keep: bool = False
    label: str = "x"


def test_entry_points_add_policies_and_do_not_shadow(monkeypatch: pytest.MonkeyPatch) -> None:
    def points(group: str) -> list[EntryPoint]:
        assert group == "laneshift.policies"
        made = [EntryPoint("mine", "unused", group), EntryPoint("static", "unused", group)]
        made.append(EntryPoint("broken", "unused", group))
        made.append(EntryPoint("gone", "no.module:Gone", group))
        return made

    def load(self: EntryPoint) -> object:
        if self.name == "gone":
            raise ModuleNotFoundError("No module named 'no'")
        return Mine if self.name == "mine" else dict

    monkeypatch.setattr(registry, "entry_points", points)
    monkeypatch.setattr(EntryPoint, "load", load)
    assert "mine" in registry.names()
    assert registry.policy_class("mine") is Mine
    assert registry.policy_class("static") is Static
    parsed = registry.parse_parameters("mine", {"level": "3", "keep": "true", "label": "y"})
    assert parsed == {"level": 3, "keep": True, "label": "y"}
    assert registry.parse_parameters("mine", {"level": "none"}) == {"level": None}
    with pytest.raises(InputError, match="subclass of Policy"):
        registry.policy_class("broken")
    with pytest.raises(
        InputError, match=r"policy gone: found .*No module named 'no'.*no.module:Gone"
    ):
        registry.policy_class("gone")
    listed = CliRunner().invoke(main, ["policies"]).output
    assert "gone " in listed and "unusable" in listed and "threshold" in listed
    with pytest.raises(InputError, match="keep"):
        registry.parse_parameters("mine", {"keep": "perhaps"})


@dataclass(frozen=True, kw_only=True)
class Unnamed(Policy[None]):
    """Has nothing that a policy needs."""


def test_a_policy_is_named_by_where_python_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert registry.policy_class("laneshift.policies.faa:Faa").name == "faa"
    (tmp_path / "a_module_of_this_test.py").write_text("from dataclasses import dataclass\n1 / 0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(registry, "Unnamed", Unnamed, raising=False)
    for name, words in (
        ("laneshift.no_such:Policy", "No module named 'laneshift.no_such'.*PYTHONPATH"),
        ("laneshift.policies.registry:Nothing", "has no attribute 'Nothing'"),
        ("a_module_of_this_test:Policy", "ZeroDivisionError"),
        ("laneshift.policies.registry:policy", "a subclass of Policy"),
        ("laneshift.policies.registry:Unnamed", "Unnamed without name, summary, source, decide"),
        (":", "Empty module name"),
    ):
        with pytest.raises(InputError, match=words):
            registry.policy_class(name)
    assert registry.name_of(Static) == "static"
    assert registry.policy_class(registry.name_of(Static)) is Static


def test_metrics_have_name_unit_sentence() -> None:
    assert metric("offered_rate").unit == "rows/s"
    for name, each in METRICS.items():
        assert each.name == name and each.unit and each.sentence.endswith(".")
    with pytest.raises(InputError, match="offered_rate"):
        metric("offered")
