"""Pictures of the live benchmarks: a line a side, panels over one time axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from laneshift.contract.trace import TraceWriter, read_entries
from laneshift.errors import InputError
from laneshift.plotting import BLUE, FAINT, GREEN, INK, MUTED, ORANGE, STYLE, pyplot
from laneshift.report import picture
from laneshift.report.recording import Recording, read_recording
from laneshift_bench.setting import HOME, RESOURCE_CENTRIC, STOCK

FloatArray = NDArray[np.float64]
Line = tuple[FloatArray, FloatArray]
PURPLE = "#8e5ea2"
COLOURS = {
    STOCK: MUTED,
    "static": INK,
    "peak": INK,
    HOME: INK,
    "naive-ec": GREEN,
    "elasticutor": ORANGE,
    "laneshift": BLUE,
    RESOURCE_CENTRIC: PURPLE,
    "craa": BLUE,
    "threshold": MUTED,
    "kalman": ORANGE,
    "oera": BLUE,
    "median": ORANGE,
    "driver": BLUE,
    "executor": ORANGE,
    "python": GREEN,
}


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
        title: with the unit.
        lines: (seconds, values) by side.
        dashed: (seconds, values) of a line to compare with, by its label.
        log: whether the scale is logarithmic.
    """

    title: str
    lines: Mapping[str, Line]
    dashed: Mapping[str, Line]
    log: bool = False


def latency(lines: Mapping[str, Line]) -> Panel:
    """Latency over time."""
    return Panel("99th percentile of latency, ms", lines, {}, log=True)


def lanes(
    lines: Mapping[str, Line], cores: int, seconds: float, needed: Line | None = None
) -> Panel:
    """Lanes over time, below the line of all cores, beside what is needed if that is known."""
    most = np.array([0.0, seconds]), np.array([cores, cores], dtype=np.float64)
    dashed = {"cores": most} if needed is None else {"needed": needed}
    return Panel("Lanes of all partitions", lines, dashed)


def over_time(file: Path, title: str, panels: Sequence[Panel], axis: str = "seconds") -> None:
    """The picture as a PNG ``file``; ``axis`` is the unit of times.

    Errors: InputError if matplotlib is missing.
    """
    plt = pyplot(InputError("picture", str(file), "matplotlib", "pip install matplotlib."))
    with plt.rc_context(STYLE | {"axes.titlesize": 10, "axes.titlelocation": "left"}):
        figure, axes = plt.subplots(
            len(panels), 1, sharex=True, figsize=(10, 0.9 + 2.2 * len(panels)), squeeze=False,
            layout="constrained",
        )  # fmt: skip
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
        for ax, panel in zip(axes[:, 0], panels, strict=True):
            _draw(ax, panel)
        axes[0, 0].legend(
            loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=7, frameon=False, fontsize=9
        )
        axes[-1, 0].set_xlabel(axis, loc="left")
        figure.savefig(file, dpi=100, facecolor="white", metadata={"Software": None})
        plt.close(figure)


def _draw(ax: Any, panel: Panel) -> None:
    for label, (x, y) in panel.dashed.items():
        ax.plot(x, y, color=INK, lw=1.0, ls=(0, (4, 2)), label=label)
    for side, (x, y) in panel.lines.items():
        ax.plot(x, y, color=COLOURS[side], lw=2.0 if side == "laneshift" else 1.3, label=side)
    if panel.log:
        ax.set_yscale("log")
        ax.yaxis.set_minor_formatter(lambda value, _: f"{value:,.10g}" if _is_round(value) else "")
    else:
        most = ax.dataLim.y1  # -inf without points
        ax.set_ylim(0, 1.05 * most if most > 0 else None)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    ax.set_title(panel.title)
    ax.grid(axis="y", color=FAINT, lw=0.6)
    ax.margins(x=0.01)


def _is_round(value: float) -> bool:
    """Whether it is 2 or 5 times a power of ten: labels enough for a part of a decade."""
    return f"{value:.0e}"[0] in "25"


@dataclass(frozen=True)
class Kept:
    """A run's trace without shards and single lanes: small, and enough for ``laneshift report``."""

    text: str
    recording: Recording

    @classmethod
    def of(cls, trace: Path) -> Kept:
        """Read a trace, whose folder may go away afterwards."""
        small = trace.with_name(f"{trace.name}.small")
        with TraceWriter(small) as out:
            for entry in read_entries(trace):
                if entry.cluster is None:
                    out.note(entry.event, dict(entry.value))
                    continue
                parts = [replace(p, shards=None, lanes=()) for p in entry.cluster.partitions]
                out.record(replace(entry.cluster, partitions=tuple(parts)))
        return cls(small.read_text(), read_recording(small))

    def write(self, file: Path) -> None:
        """The trace as a file."""
        file.write_text(self.text)

    def draw(self, file: Path) -> None:
        """What ``laneshift report`` draws of it."""
        picture.save(self.recording, file)
