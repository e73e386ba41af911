"""The picture at the end: stock and laneshift over the same seconds."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from laneshift.plotting import BLUE, FAINT, INK, MUTED, ORANGE, STYLE, pyplot
from laneshift_demo.calibrate import Calibration
from laneshift_demo.failure import DemoError
from laneshift_demo.race import Race, SideRun
from laneshift_demo.settings import CORES, ELASTIC, PARTITIONS, STOCK, Settings
from laneshift_demo.stream import HOT_AIRPORTS, HOT_WORDS

BIN_S = 0.5
COLOURS = {STOCK: ORANGE, ELASTIC: BLUE}
LANES = ("#12436d", "#1f6fb4", "#6aa9dc", "#b5d6f0")
HOT = "#fdf0e3"

FloatArray = NDArray[np.float64]


def draw(both: Race, chosen: Calibration, settings: Settings) -> None:
    """Write the picture of a race. Errors: DemoError if matplotlib is missing."""
    plt = pyplot(DemoError("matplotlib is missing: `make setup` brings it."))
    with plt.rc_context(STYLE | {"legend.frameon": False, "font.size": 11}):
        figure, axes = plt.subplots(3, 1, figsize=(11, 9), sharex=True, height_ratios=(3, 3, 2.2))
        figure.subplots_adjust(left=0.095, right=0.895, top=0.845, bottom=0.065, hspace=0.24)
        _title(figure, both, chosen, settings)
        _throughput(axes[0], both)
        _latency(axes[1], both)
        _lanes(axes[2], both)
        _spells(axes, both)
        axes[-1].set_xlabel("seconds since the first row was due")
        axes[-1].set_xlim(0, both.stream.seconds)
        settings.picture.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(settings.picture, dpi=110, facecolor="white")
        plt.close(figure)


def _title(figure: Any, both: Race, chosen: Calibration, settings: Settings) -> None:
    source = "Kafka" if settings.source == "kafka" else "files"
    figure.text(
        0.012, 0.985, "The same rows, at the same time, on as many cores; the hot airports change",
        fontsize=16, fontweight="bold", va="top",
    )  # fmt: skip
    figure.text(
        0.012, 0.95,
        f"Flights of 2013 from {source}, {both.stream.rows_per_s:,.0f} rows/s; delays by airport, "
        f"Spark Real-time Mode. {CORES} emulated cores on each side, on {os.cpu_count()} real "
        f"ones:\neach answer costs its core {chosen.cost_us / 1000:g} ms of waiting. A spell's "
        f"{HOT_AIRPORTS} hot airports: {HOT_WORDS[settings.hot]}.\n"
        f"Stock: {CORES} state partitions, a core each. laneshift: {PARTITIONS}, whose {CORES} "
        f"lanes (a core each) policy {settings.policy} moves while the query runs.",
        fontsize=10.5, color=MUTED, va="top", linespacing=1.35,
    )  # fmt: skip


def _heading(ax: Any, what: str, said: dict[str, str]) -> None:
    """A panel's title, with what each side did at its right end."""
    ax.set_title(what, loc="left", fontsize=11, pad=7)
    words = [(f"{side} {text}", COLOURS[side]) for side, text in said.items()]
    for (text, colour), place in zip(reversed(words), (1.0, 0.66), strict=False):
        ax.text(
            place, 1.035, text, transform=ax.transAxes, ha="right", va="bottom",
            color=colour, fontweight="bold", fontsize=10.5,
        )  # fmt: skip


def _throughput(ax: Any, both: Race) -> None:
    edges = _edges(both)
    offered = both.stream.rows_per_s
    ax.axhline(offered, color=INK, lw=1, ls=(0, (4, 3)))
    ax.text(1.01, offered, "due", transform=ax.get_yaxis_transform(), fontsize=10, va="center")
    said = {}
    for run in (both.stock, both.elastic):
        rates = per_second(both, run, edges)
        ax.plot(edges[:-1] + BIN_S / 2, rates, color=COLOURS[run.side], lw=2.4)
        behind = both.behind(run)
        said[run.side] = f"{behind:,} late at the end"
    ax.set_ylim(0, 1.75 * offered)  # room for the names of the hot airports
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    _heading(ax, "Answers per second", said)


def _latency(ax: Any, both: Race) -> None:
    edges = _edges(both)
    middle = edges[:-1] + BIN_S / 2
    said = {}
    for run in (both.stock, both.elastic):
        due, latency = both.latencies(run)
        for percent, width, line in ((99, 2.4, "-"), (50, 1.6, (0, (1.5, 1.2)))):
            found = percentile(due, latency, edges, percent)
            there = np.isfinite(found)
            ax.plot(middle[there], found[there], color=COLOURS[run.side], lw=width, ls=line)
        p50, p99 = np.percentile(latency, [50, 99])
        said[run.side] = f"p50 {_duration(p50)}, p99 {_duration(p99)}"
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    ax.set_ylim(10 ** np.floor(np.log10(low)), 10 ** np.ceil(np.log10(high)))
    ax.yaxis.set_major_formatter(_duration)
    ax.yaxis.set_minor_formatter(lambda value, _: "")
    for percent, line in ((99, "-"), (50, (0, (1.5, 1.2)))):
        ax.plot([], [], color=MUTED, ls=line, lw=2, label=f"p{percent}")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=10, handlelength=1.6)
    _heading(ax, "Latency, by when a row was due", said)


def _lanes(ax: Any, both: Race) -> None:
    held = [(at, lanes) for at, lanes in both.elastic.lanes if len(lanes) == PARTITIONS]
    at = np.array([0.0, *(at for at, _ in held)])
    counts = np.array([*(lanes for _, lanes in held[:1]), *(lanes for _, lanes in held)])
    if held:
        stacks = counts.astype(np.float64).T
        ax.stackplot(at, stacks, step="pre", colors=LANES, lw=0.6, edgecolor="white")
    for spell in both.stream.spells if held else ():
        if spell.partition is None:
            continue
        begin, end = (both.stream.due_s(np.array(row)) for row in (spell.begin, spell.end))
        last = counts[at <= end][-1]
        below, its = int(last[: spell.partition].sum()), int(last[spell.partition])
        ax.text(
            (begin + end) / 2, below + its / 2, f"hot: {its} lanes", ha="center", va="center",
            color="white" if spell.partition < 2 else INK, fontweight="bold",
        )  # fmt: skip
    ax.set_ylim(0, CORES)
    for number in reversed(range(PARTITIONS)):
        ax.plot([], [], color=LANES[number % len(LANES)], lw=7, label=f"{number}")
    ax.legend(
        title="partition", loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=10,
        title_fontsize=10, handlelength=1.2,
    )  # fmt: skip
    pauses = [h.pause_us for h in both.elastic.handoffs if h.pause_us > 0]
    paused = f", pause p99 {np.percentile(pauses, 99) / 1000:.1f} ms" if pauses else ""
    moved = {ELASTIC: f"moved {len(both.elastic.handoffs):,} shards{paused}"}
    _heading(ax, "laneshift's lanes, by state partition", moved)


def _spells(axes: Any, both: Race) -> None:
    for spell in both.stream.spells:
        begin, end = (both.stream.due_s(np.array(row)) for row in (spell.begin, spell.end))
        for ax in axes[:2]:
            ax.axvspan(begin, end, color=HOT, lw=0, zorder=-5)
        for ax in axes:
            for edge in (begin, end):
                ax.axvline(edge, color=MUTED, lw=0.9, ls=(0, (1, 2)))
        names = " ".join(spell.airports[:4])
        axes[0].text(
            (begin + end) / 2, 0.97, f"hot: {names} ...", va="top", ha="center",
            transform=axes[0].get_xaxis_transform(), fontsize=10,
        )  # fmt: skip
    for ax in axes[:2]:
        ax.grid(axis="y", color=FAINT, lw=0.7)
        ax.set_axisbelow(True)


def _edges(both: Race) -> FloatArray:
    return np.arange(0.0, both.stream.seconds + 1e-9, BIN_S)


def per_second(both: Race, run: SideRun, edges: FloatArray) -> FloatArray:
    """Rows that were answered between the edges (s since the start), per second."""
    at_us, _, new_rows = run.updates.columns()
    rows, _ = np.histogram(at_us / 1e6 - both.start_s, bins=edges, weights=new_rows)
    return np.asarray(rows / np.diff(edges), dtype=np.float64)


def percentile(at: FloatArray, values: FloatArray, edges: FloatArray, percent: float) -> FloatArray:
    """Percentile of the values in each bin; NaN in an empty one."""
    order = np.argsort(at, kind="stable")
    cuts = np.searchsorted(at[order], edges)
    ordered = values[order]
    return np.array(
        [np.percentile(ordered[a:b], percent) if b > a else np.nan for a, b in pairwise(cuts)]
    )


def _duration(ms: float, _: object = None) -> str:
    return f"{ms / 1000:,.3g} s" if ms >= 1000 else f"{ms:,.3g} ms"
