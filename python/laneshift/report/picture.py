"""The picture of a run: panels over one time axis, labelled in place."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from laneshift.errors import InputError
from laneshift.inputcheck import FloatArray
from laneshift.plotting import BLUE, FAINT, GREEN, INK, MUTED, ORANGE, STYLE, pyplot
from laneshift.report.recording import Recording
from laneshift.report.words import Row, headline, summary, table

WIDTH = 11.0
"""Inches."""
LABELLED = 24
"""Most partitions that each have their name beside the strip."""
MARKED = 60
"""Most decisions that are marked in the panels: more would hide them."""
ROWS = 30
"""Most rows of the table in a picture; the page has all of them."""


def save(run: Recording, file: Path) -> None:
    """The picture, with the first decisions below it, as ``file``'s suffix says (png, svg).

    Errors: InputError if matplotlib is missing.
    """
    rows = list(table(run))
    lines = _lines(rows[:ROWS], len(rows) - ROWS)

    def write(figure: Any) -> None:
        figure.savefig(file, dpi=110, facecolor="white", metadata=_undated(file.suffix[1:]))

    _drawn(run, lines, file, write)


def svg(run: Recording) -> str:
    """The picture without decisions as an SVG element. Errors: InputError, as `save`."""
    out = StringIO()
    _drawn(run, [], Path("report.html"),
           lambda f: f.savefig(out, format="svg", metadata=_undated("svg")))  # fmt: skip
    text = out.getvalue()
    return text[text.index("<svg") :]


def ready(file: Path) -> Any:
    """What draws ``file``. Errors: InputError if matplotlib is missing."""
    return pyplot(InputError("report", str(file), "matplotlib", "pip install matplotlib."))


def _undated(kind: str) -> dict[str, None]:
    """The same run gives the same bytes."""
    return {"Software": None} if kind == "png" else {"Date": None}


def _drawn(run: Recording, lines: Sequence[str], file: Path, write: Callable[[Any], None]) -> None:
    plt = ready(file)
    style = STYLE | {
        "axes.titlesize": 10,
        "axes.titlelocation": "left",
        "svg.hashsalt": "laneshift",
    }
    panels = [(2.3, _rates), (min(0.24 * max(len(run.partitions), 2), 4.5), _lanes)]
    if np.isfinite(run.occupancy).any():
        panels.append((1.5, _queues))
    if run.moves:
        panels.append((1.1, _moves))
    if any(m.paused for m in run.moves):
        panels.append((1.5, _pauses))
    heights = [height for height, _ in panels] + [0.17 * len(lines)] * bool(lines)
    with plt.rc_context(style):
        figure = plt.figure(figsize=(WIDTH, sum(heights) + 0.62 * len(heights) + 1.05))
        grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
        # Room on both sides for names and labels; gaps are in inches, whatever the height.
        total = figure.get_figheight()
        figure.subplots_adjust(
            left=0.13, right=0.84, top=1 - 1.3 / total, bottom=0.5 / total,
            hspace=0.62 * len(heights) / sum(heights),
        )  # fmt: skip
        figure.text(0.02, 1 - 0.32 / total, headline(run), fontsize=14, fontweight="bold")
        words = textwrap.fill(" ".join(summary(run)), 125)
        figure.text(0.02, 1 - 0.5 / total, words, color=MUTED, va="top", parse_math=False)
        unit, name = _unit(run.seconds)
        axes: list[Any] = []
        for i, (_, draw) in enumerate(panels):
            ax = figure.add_subplot(grid[i], sharex=axes[0] if axes else None)
            axes.append(ax)
            draw(ax, run, (run.time_s - run.start_s) / unit, unit)
            ax.tick_params(labelbottom=i == len(panels) - 1)
        axes[0].set_xlim(0, 1.004 * run.seconds / unit)
        axes[-1].set_xlabel(f"{name} since the start", loc="left")
        _marks(axes, run, unit)
        if lines:
            text = figure.add_subplot(grid[len(panels)])
            text.set_axis_off()
            text.text(
                -0.14, 0.97, "\n".join(lines), va="top", family="monospace", fontsize=7.5,
                linespacing=1.35, transform=text.transAxes, parse_math=False,
            )  # fmt: skip
        write(figure)
        plt.close(figure)


def _unit(seconds: float) -> tuple[float, str]:
    if seconds <= 600:
        return 1.0, "seconds"
    return (60.0, "minutes") if seconds <= 3 * 3600 else (3600.0, "hours")


def _steps(run: Recording, unit: float, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Edges and values of a line that is level in each window."""
    ends = (run.time_s - run.start_s) / unit
    return np.concatenate([[0.0], ends]), np.concatenate([values[:1], values])


def _rates(ax: Any, run: Recording, end: FloatArray, unit: float) -> None:
    offered, capacity = (np.nansum(v, axis=1) for v in (run.offered, run.capacity))
    x, y = _steps(run, unit, offered)
    ax.fill_between(x, y, step="pre", color=BLUE, alpha=0.2, lw=0)
    ax.step(x, y, color=BLUE, lw=1.4)
    labels = [(float(y[-1]), "came in", BLUE)]
    if np.isfinite(run.output).any():
        x, y = _steps(run, unit, np.nansum(run.output, axis=1))
        ax.step(x, y, color=GREEN, lw=1.2)
        labels.append((float(y[-1]), "went out", GREEN))
    # Before the first measurement a core's rate is a guess, far above any: off the scale.
    top = 1.15 * max(float(offered.max()), float(np.nansum(run.output, axis=1).max()), 1.0)
    x, y = _steps(run, unit, capacity)
    ax.step(x, y, color=ORANGE, lw=1.0, ls=(0, (4, 2)))
    ax.set_ylim(0, max(top, min(1.1 * float(np.median(capacity)), 2 * top)))
    labels.append((float(y[-1]), "lanes could take", ORANGE))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    ax.set_title("Rows per second of all partitions", pad=16)  # above the decisions' numbers
    ax.grid(axis="y", color=FAINT, lw=0.6)
    _beside(ax, labels)


def _lanes(ax: Any, run: Recording, end: FloatArray, unit: float) -> None:
    """One strip per partition, darker with more lanes, each run of equal counts with its number."""
    from matplotlib.colors import LinearSegmentedColormap

    shades = LinearSegmentedColormap.from_list("lanes", ["#eef3f8", "#2b6aa3"])
    most = max(float(np.nanmax(run.lanes)), 2.0)
    count = len(run.partitions)
    for j in range(count):
        for first, last, lanes in _runs(run.lanes[:, j]):
            left = 0.0 if first == 0 else float(end[first - 1])
            right = float(end[last])
            shade = (lanes - 1) / (most - 1)
            ax.barh(j, right - left, left=left, height=0.86, color=shades(shade), lw=0)
            if right - left > 0.018 * end[-1] and count <= LABELLED:
                ax.text((left + right) / 2, j, f"{lanes:.0f}", ha="center", va="center",
                        fontsize=8, color="white" if shade > 0.55 else INK)  # fmt: skip
    shown = range(count) if count <= LABELLED else range(0, count, -(-count // LABELLED))
    ax.set_yticks(list(shown), [run.partitions[j] for j in shown], fontsize=8, parse_math=False)
    ax.set_ylim(count - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_title("Lanes of each partition")
    total = np.nansum(run.lanes, axis=1)
    ax.annotate(
        f"{total[-1]:.0f} of {run.cores[-1]:.0f} cores\nat the end", (1.01, 0.5),
        xycoords="axes fraction", va="center", fontsize=9, color=INK, annotation_clip=False,
    )  # fmt: skip


def _runs(values: FloatArray) -> list[tuple[int, int, float]]:
    """(first, last, value) of each stretch of equal values; NaN is left out."""
    cuts = np.flatnonzero(np.diff(values) != 0) + 1
    edges = [0, *cuts.tolist(), values.size]
    return [(a, b - 1, float(values[a])) for a, b in pairwise(edges) if np.isfinite(values[a])]


def _queues(ax: Any, run: Recording, end: FloatArray, unit: float) -> None:
    """Every partition's line in grey, the one that was fullest in colour with its name."""
    peaks = np.nanmax(np.nan_to_num(run.occupancy), axis=0)
    fullest = int(peaks.argmax())
    for j in range(len(run.partitions)):
        if j != fullest:
            ax.step(*_steps(run, unit, run.occupancy[:, j]), color=MUTED, lw=0.8, alpha=0.5)
    x, y = _steps(run, unit, run.occupancy[:, fullest])
    ax.step(x, y, color=ORANGE, lw=1.4)
    ax.set_ylim(0, max(1.05 * float(peaks.max()), 0.01))
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g} %")
    ax.set_title("Rows that wait, of what the queues hold")
    ax.grid(axis="y", color=FAINT, lw=0.6)
    name = run.partitions[fullest] + ",\nfullest of all" * (len(run.partitions) > 1)
    _beside(ax, [(float(np.nan_to_num(y[-1])), name, ORANGE)])


def _moves(ax: Any, run: Recording, end: FloatArray, unit: float) -> None:
    counts: dict[float, int] = {}
    for moved in run.moves:
        at = (moved.time_s - run.start_s) / unit
        counts[at] = counts.get(at, 0) + moved.count
    ax.vlines(list(counts), 0, list(counts.values()), color=BLUE, lw=2)
    ax.set_ylim(bottom=0)
    by_reason: dict[str, int] = {}
    for moved in run.moves:
        by_reason[moved.reason] = by_reason.get(moved.reason, 0) + moved.count
    why = ", ".join(f"{n:,} {_WHY.get(reason, reason)}" for reason, n in by_reason.items())
    paused = any(m.paused for m in run.moves)
    ax.set_title(
        f"Shard moves in each turn: {why}"
        + ("" if paused else "; between batches, without a pause")
    )
    ax.grid(axis="y", color=FAINT, lw=0.6)


_WHY = {
    "user": "asked for by the policy or the user",
    "balance": "by the balancer",
    "scale": "for a change of lanes",
    "motion": "by the fault mode",
}


def _pauses(ax: Any, run: Recording, end: FloatArray, unit: float) -> None:
    paused = [m for m in run.moves if m.paused]
    at = [(m.time_s - run.start_s) / unit for m in paused]
    ax.vlines(at, [m.p50_ms for m in paused], [m.max_ms for m in paused], color=FAINT, lw=1.5)
    ax.scatter(at, [m.max_ms for m in paused], s=10, color=ORANGE, zorder=3)
    ax.scatter(at, [m.p50_ms for m in paused], s=10, color=BLUE, zorder=3)
    ax.set_yscale("log")
    low, high = np.log10([min(m.p50_ms for m in paused), max(m.max_ms for m in paused)])
    ax.set_ylim(10 ** np.floor(low), 10 ** np.ceil(high + 0.02))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g} ms")
    ax.yaxis.set_minor_formatter(lambda value, _: "")
    ax.set_title("Pause of the moved shards")
    ax.grid(axis="y", color=FAINT, lw=0.6)
    _beside(ax, [(paused[-1].p50_ms, "half of them\nat most", BLUE),
                 (paused[-1].max_ms, "the longest", ORANGE)])  # fmt: skip


def _beside(ax: Any, labels: list[tuple[float, str, str]]) -> None:
    """Labels (value, text, colour) at the right of a panel, each at its value or above the last."""
    ax.figure.canvas.draw()
    height = ax.get_window_extent().height / ax.figure.dpi * 72
    free = 0.0
    for value, text, colour in sorted(labels):
        at = float(np.clip(ax.transAxes.inverted().transform(ax.transData.transform((0, value)))[1],
                           0.0, 1.0))  # fmt: skip
        size = 11 * text.count("\n") + 11
        at = max(at * height, free + size / 2 if free else at * height)
        ax.annotate(text, (1.01, at / height), xycoords="axes fraction", va="center", fontsize=9,
                    color=colour, annotation_clip=False, parse_math=False)  # fmt: skip
        free = at + size / 2 + 2


def _marks(axes: Sequence[Any], run: Recording, unit: float) -> None:
    """A line through all panels where lanes changed, with its number in the table if it fits."""
    changed = [d for d in run.decisions if d.changes]
    if len(changed) > MARKED:
        return
    last = -1.0
    for number, decision in enumerate(changed, start=1):
        at = (decision.time_s - run.start_s) / unit
        for ax in axes:
            ax.axvline(at, color=INK, lw=0.6, ls=(0, (1, 2)), alpha=0.6, zorder=0)
        if at - last > 0.02 * run.seconds / unit:
            axes[0].text(at, 1.0, str(number), transform=axes[0].get_xaxis_transform(),
                         ha="center", va="bottom", fontsize=7, color=MUTED)  # fmt: skip
            last = at


def _lines(rows: Sequence[Row], more: int) -> list[str]:
    """The table as text of equal letters."""
    if not rows:
        return ["The trace has no decisions."]
    found = [f"{'#':>4}  {'time':8}  {'s':>8}  what was decided, and why"]
    for row in rows:
        number = str(row.number or "")
        text = f"{row.what}: {row.why}" if row.what else row.why
        first, *rest = textwrap.wrap(text, 134) or [""]
        found.append(f"{number:>4}  {row.time:8}  {row.after:>8}  {first}")
        found += [" " * 26 + line for line in rest]
    if more > 0:
        found.append(f"      and {more:,} more: an .html report has all of them")
    return found
