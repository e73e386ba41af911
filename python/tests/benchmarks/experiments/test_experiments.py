"""Experiments at a small scale: orderings over seeds, files, commands, wrong inputs."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from experiments import main
from laneshift.errors import InputError
from laneshift_experiments.base import Options, Report, Statement, Table, silent
from laneshift_experiments.buffers import craa_run
from laneshift_experiments.micro import Micro, run
from laneshift_experiments.registry import EXPERIMENTS, experiment
from laneshift_experiments.write import UNKNOWN, page

SMALL = Options(seeds=1, nodes=4, cores=4)
SEEDS = range(1, 6)


@pytest.mark.deep("policies")
def test_elasticutor_beats_static_and_rc_over_five_seeds() -> None:
    """Fig 6 [S], at a small scale: mean and spread over the seeds, not single runs."""
    m = Micro(omega=8.0, keys=1000, skew=0.7, y=4)
    rate = {
        s: np.array([run(s, m, SMALL, 25.0, seed).mean("throughput", 10.0) for seed in SEEDS])
        for s in ("static", "resource-centric", "elasticutor")
    }
    best = rate["elasticutor"]
    for other in ("static", "resource-centric"):
        gap = best - rate[other]
        assert gap.mean() > 2 * gap.std() / np.sqrt(len(SEEDS)), other


@pytest.mark.deep("policies")
def test_craa_loses_no_rows_but_at_the_head_over_five_seeds() -> None:
    """Figs 8-16 [P]: non-heads lose nearly nothing; TA and KPA do."""
    for seed in SEEDS:
        assert craa_run("craa", "random", seed).loss_share[1:].max() < 1e-3
    assert craa_run("threshold", "random", 1).loss_share[1:].min() > 0.01
    assert craa_run("kalman", "random", 1).loss_share[1:].min() > 0.01


@pytest.mark.parametrize("load", ["step", "jitter", "sine", "stage"])
def test_the_earlier_simulation_of_craa_is_reproduced(load: str) -> None:
    """Loss % of O1..O5 of TA from an earlier simulation of ours [SIM]."""
    known = {
        "step": [21.4, 25.6, 29.2, 11.0, 8.3],
        "jitter": [4.8, 2.2, 2.2, 2.5, 2.2],
        "sine": [0.43, 0.49, 0.54, 0.71, 0.55],
        "stage": [1.6, 1.7, 1.7, 1.7, 1.7],
    }[load]
    found = 100 * craa_run("threshold", load, 1).loss_share
    np.testing.assert_allclose(found, known, rtol=0.04)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("keys-costs", marks=pytest.mark.deep("policies")),
        "keys-received",
        "craa-feedback",
        "oera-wordcount",
    ],
)
def test_quick_experiments_run_and_judge(name: str) -> None:
    report = experiment(name).run(Options(seeds=1), silent)
    assert report.table.rows
    assert any(s.holds for s in report.statements)
    text = page(experiment(name), report, SMALL, with_png=True)
    assert all(s.claim in text for s in report.statements)


def test_a_simulated_experiment_runs_at_a_small_size() -> None:
    few = Options(seeds=1, duration_s=22.0, nodes=4, cores=2, values=(0.0, 4.0))
    report = experiment("elasticutor-fig6").run(few, silent)
    assert report.table.one("rows_per_s", system="Elasticutor", omega=4.0) > 0


def test_command_writes_csv_picture_and_page(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main, ["craa-feedback", "--values", "0.7,0.8", "--out", str(tmp_path)]
    )
    assert done.exit_code == 0, done.output
    rows = list(csv.reader((tmp_path / "craa" / "craa-feedback.csv").open(encoding="utf-8")))
    assert len(rows) == 5
    assert (tmp_path / "craa" / "craa-feedback.png").stat().st_size > 1000
    assert "stated by the paper" in (tmp_path / "craa" / "craa-feedback.md").read_text("utf-8")
    assert CliRunner().invoke(main, ["--list"]).output.count("\n") == len(EXPERIMENTS)


PAPERS = Path(__file__).parents[4] / "benchmarks" / "papers"


def missing(page_text: str) -> list[str]:
    """What a page of results lacks: five seeds, a reason for each statement that does not hold."""
    seeds = re.search(r"cores, (\d+) seeds", page_text)
    found = [] if seeds is not None and int(seeds[1]) >= 5 else ["five seeds"]
    reasons = re.findall(r"^- (.*)$", page_text, flags=re.MULTILINE)
    for claim in re.findall(r"^\| (.*?) \|.*\| DISAGREES \|$", page_text, flags=re.MULTILINE):
        if not any(r.startswith(f"{claim}: ") and UNKNOWN not in r for r in reasons):
            found.append(f"why not: {claim}")
    return found


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_committed_pages_have_five_seeds_and_a_reason_for_what_does_not_reproduce(
    name: str,
) -> None:
    text = (PAPERS / EXPERIMENTS[name].paper / f"{name}.md").read_text("utf-8")
    assert missing(text) == []


def test_pages_are_those_of_the_experiments() -> None:
    assert {p.stem for p in PAPERS.glob("*/*.md")} == set(EXPERIMENTS)


def test_a_page_without_seeds_or_reasons_is_found_out() -> None:
    said = Statement("it is fast", "[S]", "slow", holds=False)
    for why, lacks in (("it is old.", []), ("", ["why not: it is fast"])):
        report = Report(Table(("a",), ()), (replace(said, why=why),), ())
        made = experiment("keys-costs")
        assert missing(page(made, report, Options(seeds=5), with_png=False)) == lacks
        assert missing(page(made, report, Options(seeds=4), with_png=False)) == [
            "five seeds",
            *lacks,
        ]


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: experiment("fig99"), "experiment: found 'fig99', expected one of compare-buffers"),
        (lambda: Options(seeds=0), "seeds: found 0"),
        (lambda: Options(duration_s=1.0), "duration_s: found 1.0"),
        (lambda: Table(("a",), ((1, 2),)), "row: found 2"),
        (lambda: Table(("a",), ((1,), (1,))).one("a", a=1), "2 rows match"),
    ],
)
def test_wrong_inputs(make: Callable[[], object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        make()


def test_wrong_command_lines() -> None:
    for words, match in (
        (["craa-feedback", "--values", "a,b"], "not a list of numbers"),
        (["fig99"], "experiment: found 'fig99'"),
    ):
        bad = CliRunner().invoke(main, words)
        assert bad.exit_code == 2
        assert match in bad.output
