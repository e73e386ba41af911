"""The sub-command ``laneshift-lab replay``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

from laneshift.contract.cluster_load import ClusterLoad
from laneshift.contract.plan import Plan
from laneshift.contract.trace import read_trace, to_json
from laneshift.policies import registry
from laneshift_lab.replay import Replayed
from laneshift_lab.replay import replay as replay_trace


@click.command()
@click.argument("trace")
@click.option("--policy", "name", required=True, help="Name, as in `laneshift policies`.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="A parameter of the policy."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per decision.")
@click.option("--all", "show_all", is_flag=True, help="Show decisions that change nothing, too.")
def replay(trace: str, name: str, settings: tuple[str, ...], as_json: bool, show_all: bool) -> None:
    """Feed the cluster loads of TRACE to a policy and print what it decides.

    The cluster loads are what was measured: a decision has no effect on later ones.
    """
    policy = registry.policy(name, **registry.parse_parameters(name, _pairs(settings)))
    recorded = list(read_trace(trace))  # a bad trace is refused before anything is printed
    decisions = replay_trace(recorded, policy)
    if as_json:
        for each in decisions:
            click.echo(json.dumps(plan_json(each)))
        return
    total = Totals()
    click.echo(f"{'time s':>10} {'cores':>13} {'moved MB':>9} {'shards':>6}  changes")
    for each in _counted(decisions, total):
        if show_all or not each.plan.is_empty or each.plan.shortfalls:
            click.echo(_line(each.cluster, each.plan))
    click.echo(
        f"\n{name}: {total.decisions} decisions, {total.adjustments} of them adjust"
        f" {total.changes} core counts, {total.moves} shard moves,"
        f" {total.migrated / 1e6:.1f} MB of state moved, {total.short} fall short"
    )


@dataclass
class Totals:
    """Sums over a replay."""

    decisions: int = 0
    adjustments: int = 0
    changes: int = 0
    moves: int = 0
    short: int = 0
    migrated: float = 0.0


def _counted(decisions: Iterator[Replayed], total: Totals) -> Iterator[Replayed]:
    for each in decisions:
        total.decisions += 1
        total.adjustments += bool(each.plan.core_changes)
        total.changes += len(each.plan.core_changes)
        total.moves += len(each.plan.shard_moves)
        total.short += not each.plan.feasible
        total.migrated += each.plan.note("migration_bytes") or 0.0
        yield each


def _line(cluster: ClusterLoad, plan: Plan) -> str:
    held = sum(part.cores for part in cluster.partitions)
    after = held + sum(change.after - change.before for change in plan.core_changes)
    moved = (plan.note("migration_bytes") or 0.0) / 1e6
    words = [f"{c.partition} {c.before}->{c.after}" for c in plan.core_changes]
    words += [f"throttle {t.target} to {t.rate:g} rows/s" for t in plan.throttles]
    words += [f"split {s.key} {s.ways} ways" for s in plan.key_splits]
    words += [str(change) for change in (*plan.rescales, *plan.tasks)]
    words += [f"! {s.reason.value}: {s.message}" for s in plan.shortfalls]
    cores = f"{held}->{after}"
    return f"{cluster.time_s:>10.1f} {cores:>13} {moved:>9.2f} {len(plan.shard_moves):>6}  " + (
        ", ".join(words) or "-"
    )


def plan_json(each: Replayed) -> dict[str, Any]:
    """A decision as a JSON object: the plan's fields that are not empty, and the time."""
    plan = each.plan
    out: dict[str, Any] = {"time_s": each.cluster.time_s, "feasible": plan.feasible}
    if each.cluster.island:
        out["island"] = each.cluster.island
    lists = ("core_changes", "placement_changes", "key_splits", "throttles", "rescales", "tasks")
    for name in lists:
        if getattr(plan, name):
            out[name] = [to_json(item) for item in getattr(plan, name)]
    if plan.shard_moves:
        out["shard_moves"] = [
            {
                "shard": move.shard,
                "source": [move.source.partition, move.source.lane],
                "target": [move.target.partition, move.target.lane],
                "scope": move.scope.value,
            }
            for move in plan.shard_moves
        ]
    if plan.shortfalls:
        out["shortfalls"] = [
            {"reason": s.reason.value, "message": s.message} for s in plan.shortfalls
        ]
    # JSON has no infinity: a latency that diverges is null.
    out["notes"] = {k: v if abs(v) < float("inf") else None for k, v in plan.notes}
    return out


def _pairs(settings: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise click.BadParameter(f"{setting!r} is not KEY=VALUE", param_hint="--set")
        pairs[key.strip()] = value.strip()
    return pairs
