"""The picture at the end: throughput, latency and moves over time, one column for each mode."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from laneshift import Handoff
from laneshift.demo.failure import DemoError
from laneshift.demo.run import Run
from laneshift.plotting import BLUE, GREEN, INK, MUTED, ORANGE, STYLE, pyplot

BIN_S = {"micro-batch": 1.0, "real-time": 0.25}
SMOOTH_S = {"micro-batch": 1.2, "real-time": 0.25}
STEP_S = 0.05
BANDS = {1: "#f4f5f7", 2: "#e6eef6", 4: "#d3e3f2"}
REASONS = {
    "user": ("asked for by the demo", GREEN),
    "balance": ("by the balancer", ORANGE),
    "scale": ("for a lane change", BLUE),
    "motion": ("fault mode", MUTED),
}

FloatArray = NDArray[np.float64]


def draw(runs: Sequence[Run], title: str, file: Path) -> None:
    """Write the picture of the runs. Errors: DemoError if matplotlib is missing."""
    plt = pyplot(DemoError("matplotlib is missing: pip install 'laneshift[demo]'."))
    with plt.rc_context(STYLE | {"legend.frameon": False}):
        figure, grid = plt.subplots(
            3,
            len(runs),
            figsize=(1.5 + 6.2 * len(runs), 8.4),
            sharex="col",
            sharey="row",
            squeeze=False,
            height_ratios=(3, 3, 2),
            layout="constrained",
        )
        size = 14 if len(runs) > 1 else 10
        figure.suptitle(title, fontsize=size, fontweight="bold", x=0.01, ha="left")
        for column, run in enumerate(runs):
            _column([row[column] for row in grid], run, first=column == 0)
        grid[0][0].set_ylim(bottom=0)
        for row in grid[1:]:
            low, high = row[0].get_ylim()
            row[0].set_ylim(10 ** np.floor(np.log10(low)), 10 ** np.ceil(np.log10(high)))
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=110, facecolor="white")
        plt.close(figure)


def _column(axes: Sequence[Any], run: Run, *, first: bool) -> None:
    throughput, latency, moves = axes
    at_us, latency_us, new_rows = run.updates.columns()
    seconds = (at_us - run.began_us) / 1e6
    width = BIN_S[run.mode]
    edges = np.arange(0.0, run.seconds + width, width)
    middle = edges[:-1] + width / 2

    steps = np.arange(0.0, run.seconds + STEP_S, STEP_S)
    rows, _ = np.histogram(seconds, bins=steps, weights=new_rows)
    rate = _rate(rows, SMOOTH_S[run.mode]) / 1000
    throughput.fill_between(steps[:-1], rate, color=BLUE, alpha=0.2, lw=0)
    throughput.plot(steps[:-1], rate, color=BLUE, lw=1.6)
    throughput.set_title(_headline(run), loc="left", fontsize=11, pad=18)

    for percent, colour, line in ((50, BLUE, 1.8), (99, ORANGE, 1.2)):
        values = _percentile(seconds, latency_us / 1000, edges, percent)
        there = np.isfinite(values)
        latency.plot(middle[there], values[there], color=colour, lw=line, label=f"p{percent}")
    latency.set_yscale("log")

    moved = run.mid_batch()
    pause = np.array([handoff.pause_us / 1000 for handoff in moved])
    why = np.array([handoff.reason for handoff in moved])
    for reason, (label, colour) in REASONS.items():
        chosen = why == reason
        if chosen.any():
            points = (_since(moved, run)[chosen], pause[chosen])
            moves.scatter(*points, s=7, color=colour, alpha=0.5, lw=0, label=label)
    moves.set_yscale("log")
    moves.set_xlabel("seconds since the start")
    when = _since(run.handoffs, run)
    for ax in (throughput, latency):
        rug = ax.get_xaxis_transform()
        ax.vlines(when, 0, 0.035, transform=rug, color=GREEN, lw=0.5, alpha=0.5)
    _lane_bands(axes, run)
    for ax in (latency, moves):
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
        ax.yaxis.set_minor_formatter(lambda value, _: "")
    if first:
        throughput.set_ylabel("throughput\n(1000 rows/s)")
        latency.set_ylabel("latency\n(ms, sent to answered)")
        moves.set_ylabel("pause of each\nmoved shard (ms)")
        latency.legend(loc="lower right", bbox_to_anchor=(1, 0.98), ncols=2)
    if moved:
        legend = moves.legend(
            loc="lower right", bbox_to_anchor=(1, 0.96), ncols=4, handletextpad=0.1, fontsize=9
        )
        for handle in legend.legend_handles:
            handle.set_alpha(1.0)
            handle.set_sizes([24])
    else:
        why_not = "shards move between batches, without a pause" if run.handoffs else "no moves"
        moves.text(0.5, 0.5, why_not, transform=moves.transAxes, ha="center", color=MUTED)
    for ax in axes:
        ax.grid(axis="y", color="white" if run.lane_changes else "#e4e7eb", lw=0.8)
        ax.set_axisbelow(True)
        ax.set_xlim(0, run.seconds)


def _since(handoffs: Sequence[Handoff], run: Run) -> FloatArray:
    """When each handoff ended, in seconds since the run began."""
    return np.array([(h.time_ms * 1000 - run.began_us) / 1e6 for h in handoffs], dtype=np.float64)


def _lane_bands(axes: Sequence[Any], run: Run) -> None:
    """Shade the time by the number of lanes, and say it at the top."""
    starts = [max(0.0, at) for at, _ in run.lane_changes]
    ends = [*starts, run.seconds][1:]
    for start, end, (_, lanes) in zip(starts, ends, run.lane_changes, strict=True):
        for ax in axes:
            ax.axvspan(start, end, color=BANDS.get(lanes, "#eeeeee"), lw=0, zorder=-5)
            if start > 0:
                ax.axvline(start, color=INK, lw=0.8, ls=(0, (4, 3)))
        label = f"{lanes} lane{'s' if lanes > 1 else ''} per partition"
        axes[0].text(
            (start + end) / 2,
            1.015,
            label if end - start > 0.15 * run.seconds else str(lanes),
            transform=axes[0].get_xaxis_transform(),
            ha="center",
            va="bottom",
            fontsize=9,
            color=INK,
        )


def _headline(run: Run) -> str:
    rate = run.updates.rows / run.seconds if run.seconds else 0.0
    moved = f", {len(run.handoffs):,} shard moves" if run.handoffs else ""
    return f"{run.mode}: {run.updates.rows:,} rows at {rate:,.0f} rows/s{moved}"


def _rate(rows: FloatArray, sigma: float) -> FloatArray:
    """Rows per second of rows per step, smoothed by a Gaussian of width ``sigma`` (s)."""
    reach = np.arange(-4 * sigma, 4 * sigma + STEP_S, STEP_S)
    kernel = np.exp(-0.5 * (reach / sigma) ** 2)
    seen = np.convolve(np.pad(np.ones(rows.size), kernel.size // 2), kernel, "same")
    smooth = np.convolve(np.pad(rows, kernel.size // 2), kernel, "same")
    middle = slice(kernel.size // 2, kernel.size // 2 + rows.size)
    return np.asarray(smooth[middle] / seen[middle] / STEP_S, dtype=np.float64)


def _percentile(
    at: FloatArray, values: FloatArray, edges: FloatArray, percent: float
) -> FloatArray:
    """Percentile of the values in each bin; NaN in an empty one."""
    order = np.argsort(at, kind="stable")
    cuts = np.searchsorted(at[order], edges)
    sorted_values = values[order]
    return np.array(
        [np.percentile(sorted_values[a:b], percent) if b > a else np.nan for a, b in pairwise(cuts)]
    )
