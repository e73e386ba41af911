"""What a run returns: one row per window, totals, and CSV."""

from __future__ import annotations

import csv
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laneshift.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class WindowRow:
    """One window: time_s is its end; rates in rows/s, latencies in s, levels at its end.

    throughput: rows served by the last operators (those that feed nobody); arrived, lost: rows/s at
    the heads and over all operators. latency_mean_s: sum over operators weighted by their rates
    (Jackson's E[T]); latency_p99_s: of the slowest operator. cores: lanes held.
    """

    time_s: float
    arrived: float
    throughput: float
    lost: float
    latency_mean_s: float
    latency_p99_s: float
    queued: float
    backlog: float
    cores: int
    handoffs: int
    migrated_bytes: float
    remote_bytes: float
    decisions: int


@dataclass(frozen=True)
class Result:
    """rows: windows in order; notes: totals by name (units in the name)."""

    rows: tuple[WindowRow, ...]
    notes: dict[str, float]

    def column(self, name: str) -> np.ndarray:
        """One column over the windows, (W,)."""
        if name not in {f.name for f in fields(WindowRow)}:
            known = ", ".join(f.name for f in fields(WindowRow))
            raise InputError("column", name, f"one of {known}", "Check the spelling.")
        return np.array([getattr(row, name) for row in self.rows], dtype=np.float64)

    def mean(self, name: str, after_s: float = 0.0) -> float:
        """Mean of a column over the windows that end after ``after_s``; 0 if there are none.

        Latencies are weighted by the rows that arrived: a window without rows has none.
        """
        keep = self.column("time_s") > after_s
        if not keep.any():
            return 0.0
        values = self.column(name)[keep]
        if not name.startswith("latency"):
            return float(values.mean())
        weight = self.column("arrived")[keep]
        return float(values @ weight / weight.sum()) if weight.sum() > 0 else 0.0

    def frame(self) -> pd.DataFrame:
        """One row per window, indexed by ``time_s``. Errors: no pandas."""
        try:
            import pandas as pd
        except ImportError as cause:
            raise InputError("frame", "no pandas", "pandas", "pip install pandas.") from cause
        return pd.DataFrame([asdict(row) for row in self.rows]).set_index("time_s")

    def write_csv(self, path: str | Path) -> None:
        """One line per window, with a header."""
        with Path(path).open("w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, [f.name for f in fields(WindowRow)])
            writer.writeheader()
            writer.writerows(asdict(row) for row in self.rows)
