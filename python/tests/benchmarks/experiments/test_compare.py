"""laneshift against the papers' policies on their own metrics: few seeds here, ten by command.

The whole table: ``make experiments ARGS='compare-buffers compare-cluster --seeds 10'``.
"""

from __future__ import annotations

import pytest

from laneshift_experiments.base import Options, Samples
from laneshift_experiments.compare import (
    BUFFERS,
    OURS,
    Contest,
    buffer_contests,
    dynamics_contests,
    exchange_contests,
    intensity_contest,
)

pytestmark = pytest.mark.deep("policies")

SEEDS = 3
SMALL = Options(seeds=3, nodes=4, cores=4)


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], Contest]:
    return {(c.experiment, c.metric): c for name in BUFFERS for c in buffer_contests(name, SEEDS)}


#: Where ours is worse, and by how much at most: (experiment, metric) -> share of the best.
WORSE = {
    ("jitter", "adjustments"): 1.0,
    ("sine", "use_share"): 0.01,
    ("feedback", "use_share"): 0.02,
}


def test_no_worse_than_the_best_paper_policy_but_where_listed(
    found: dict[tuple[str, str], Contest],
) -> None:
    worse = {key for key, c in found.items() if c.verdict == "worse"}
    assert worse <= set(WORSE)
    for key, most in WORSE.items():
        ours, best = found[key].found[OURS].mean, found[key].found[found[key].best].mean
        assert abs(ours - best) <= most * best, key


def test_better_in_at_least_half_of_the_metrics(found: dict[tuple[str, str], Contest]) -> None:
    assert 2 * sum(c.verdict == "better" for c in found.values()) >= len(found)


def test_loses_fewest_rows_in_every_experiment(found: dict[tuple[str, str], Contest]) -> None:
    """CRAA's first objective; without a pause OERA's loss is met, not beaten, within noise."""
    for (name, metric), contest in found.items():
        if metric == "loss_percent":
            allowed = {"better", "equal"} if name == "wordcount, no pause" else {"better"}
            assert contest.verdict in allowed, name


def test_the_oracle_is_the_limit(found: dict[tuple[str, str], Contest]) -> None:
    for key, contest in found.items():
        if contest.limit is not None:
            gap = contest.found[OURS].mean - contest.limit
            room = 0.02 * max(abs(contest.limit), 0.1)
            assert gap <= room if contest.more else gap >= -room, key


def test_a_cluster_of_elasticutors_metrics_at_a_small_size() -> None:
    contests = [
        *dynamics_contests(8.0, SMALL, 30.0),
        intensity_contest(1e-5, 2048.0, SMALL, 24.0),
        *(c for c in exchange_contests(SMALL, 30.0) if c.metric.startswith(("thr", "mig"))),
    ]
    for contest in contests:
        if contest.metric != "latency_mean_s":
            assert contest.verdict != "worse", contest.row()
    # Rows wait no longer than for a few services of each other.
    late = next(c for c in contests if c.metric == "latency_mean_s")
    assert late.found[OURS].mean < 1.1 * late.found["elasticutor"].mean


def test_verdicts_are_paired_by_seed() -> None:
    base = Samples.of([1.0, 2.0, 3.0])
    better = Samples.of([1.1, 2.1, 3.2])
    contest = Contest("e", "m", True, {"a": base, OURS: better}, None)
    assert (contest.best, contest.verdict) == ("a", "better")
    assert Contest("e", "m", False, {"a": base, OURS: better}, None).verdict == "worse"
    noisy = Samples.of([3.0, 2.0, 1.2])
    assert Contest("e", "m", True, {"a": base, OURS: noisy}, None).verdict == "equal"
    assert not noisy.above(base) and noisy.not_below(base)
