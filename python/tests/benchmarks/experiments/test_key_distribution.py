"""The orderings of Data Distribution, 2017, over five seeds, at a small size; sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from laneshift.errors import InputError
from laneshift_experiments import key_history, key_signs, key_topk
from laneshift_experiments.base import Options, silent
from laneshift_experiments.key_distribution import received
from laneshift_experiments.key_history import SYSTEMS, History, load_all, query
from laneshift_experiments.key_joins import execution_time, nodes_used, scale_out
from laneshift_lab.simulator.workload import FixedKeys

SEEDS = range(1, 6)
FIVE = Options(seeds=5, values=(0.0, 1.5))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(key_history, "KEYS", 2000)
    monkeypatch.setattr(key_history, "CHUNKS", 20)
    monkeypatch.setattr(key_topk, "TOPICS", 2000)
    load_all.cache_clear()
    yield
    load_all.cache_clear()


def mean(value: Callable[[History], float], system: str, name: str, z: float) -> float:
    return float(np.mean([value(load_all(system, name, z, seed)) for seed in SEEDS]))


@pytest.mark.deep("policies")
def test_fig_3_orderings_that_the_text_states() -> None:
    for name in ("EQ5", "B_NCI"):
        for seed in SEEDS:
            at = {s: [load_all(s, name, z, seed).time_s for z in (0.0, 1.5)] for s in SYSTEMS}
            assert max(at["bi"]) == max(t for line in at.values() for t in line), "Bi is slowest"
            assert at["dynamic"][1] == pytest.approx(at["dynamic"][0]), "Dynamic is flat in z"
            assert at["bi6"][1] > 1.5 * at["bi6"][0], "Bi6 degrades at z 1.5"
            assert at["qmmp"][1] > 1.1 * at["qmmp"][0], "QMMP slows as z rises"
            if name == "EQ5":
                assert max(at["mnrt"][0], at["qmmp"][0]) < 0.5 * at["dynamic"][0], "good at low z"


@pytest.mark.deep("policies")
def test_figs_4_and_5_orderings_that_the_text_states() -> None:
    for name in ("EQ5", "B_NCI"):
        used = {s: mean(lambda h: float(np.mean(h.nodes)), s, name, 0.0) for s in SYSTEMS}
        assert max(used["mnrt"], used["qmmp"], used["bi"]) < used["dynamic"]
        moved = {s: mean(lambda h: float(np.mean(h.moved)), s, name, 0.0) for s in SYSTEMS}
        assert max(moved["mnrt"], moved["qmmp"], moved["bi"]) < 0.7 * moved["dynamic"]
        assert mean(lambda h: h.plan_s[-1], "qmmp", name, 0.0) < mean(
            lambda h: h.plan_s[-1], "mnrt", name, 0.0
        )


def test_every_pair_is_compared_once_whoever_stores_it() -> None:
    """Over the whole load and all nodes: r * s pairs for Dynamic and Bi, sum r_d * s_d by keys."""
    q = query("EQ5", 1.0, 1)
    r, s = float(q.r.sum()), float(q.s.sum())
    states = {
        "dynamic": key_history._DynamicMatrix(q),
        "bi": key_history._Bipartite(q, 1),
        "qmmp": key_history._Keyed(q, "qmmp"),
    }
    for name, state in states.items():
        nodes = state.fit(1.0, History(), state.start())
        assert nodes.stored_r.size > 4
        pairs = (nodes.seen_r * nodes.stored_s + nodes.seen_s * nodes.stored_r).sum() / 2
        whole = r * s if name != "qmmp" else (nodes.stored_r * nodes.stored_s).sum()
        if name == "qmmp":
            assert pairs >= whole * (1 - 1e-9), "split keys compare on every node that holds them"
            assert nodes.stored.max() <= q.capacity * (1 + 1e-9)
        else:
            assert pairs == pytest.approx(whole)
        if name != "dynamic":
            assert nodes.stored.sum() == pytest.approx(r + s), "stored once"


def test_chunks_add_up_to_the_whole_load() -> None:
    """One node: all rows received, every pair compared once, in whatever steps."""
    q = query("EQ5", 0.5, 1)
    nodes = key_history._Keyed(q, "qmmp").start()
    took = sum(nodes.seconds(i / 7, 1 / 7) for i in range(7))
    r, s = float(q.r.sum()), float(q.s.sum())
    cpu = key_history.CPU
    assert took == pytest.approx(cpu.receive_s * (r + s) + cpu.compare_s * r * s)


def test_a_band_join_probes_its_neighbours_nodes() -> None:
    q = query("B_NCI", 0.0, 1)
    state = key_history._Keyed(q, "qmmp")
    nodes = state.fit(1.0, History(), state.start())
    assert q.ordered is not None
    place = [set(state.routing.places(int(k))) for k in q.ordered]
    r = q.r[q.ordered]
    seen = np.zeros(nodes.seen_r.size)
    for i in range(len(place)):
        for d in set().union(*place[max(i - 1, 0) : i + 2]):
            seen[d] += r[i]
    np.testing.assert_allclose(nodes.seen_r, seen)


@pytest.mark.deep("policies")
def test_fig_6_over_five_seeds() -> None:
    report = received(FIVE, silent)
    assert all(s.holds for s in report.statements)
    assert report.table.one("sd", planner="dynamic", query="EQ5-like", z=1.5) == 0.0


@pytest.mark.deep("policies")
def test_fig_8_split_systems_merge_more() -> None:
    for seed in SEEDS:
        found = {s: key_topk._seed(s, 0.05, seed) for s in ("mnrt", "qmmp", "readj", "pkg")}
        merge = {s: x[2] for s, x in found.items()}
        assert merge["readj"] <= merge["mnrt"] < merge["qmmp"] < merge["pkg"]
        assert found["readj"][0] < 0.95 * found["mnrt"][0], "a topic heavier than a counter"
        assert found["pkg"][5] == found["pkg"][6] == 0.0, "PKG moves and plans nothing"


def test_table_2_follows_from_the_costs() -> None:
    report = key_signs.signs(Options(seeds=1), silent)
    assert [s.holds for s in report.statements] == [True, True, None]
    assert report.table.pick("moves", state="split", direction="back") == [12.0]
    assert key_signs._both({"+0", "-0"}) == ("+ or -", "0")


@pytest.mark.parametrize("run", [execution_time, nodes_used, scale_out])
def test_reports_judge_what_the_text_states(run) -> None:  # type: ignore[no-untyped-def]
    report = run(Options(seeds=2, values=(0.0, 1.5)), silent)
    assert sum(s.holds is True for s in report.statements) >= 3
    assert report.table.rows


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: load_all("tri", "EQ5", 0.0, 1), "system: found 'tri', expected one of bi, bi6"),
        (lambda: query("EQ6", 0.0, 1), "query: found 'EQ6', expected one of B_NCI, EQ5"),
        (lambda: query("EQ5", -1.0, 1), "skew: found -1.0"),
        (lambda: FixedKeys((0.0, 0.0)), "weights: found .* expected at least one above 0"),
        (lambda: FixedKeys((1.0, -1.0)), r"weights\[1\]: found -1.0"),
    ],
)
def test_wrong_inputs(make: Callable[[], object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        make()
