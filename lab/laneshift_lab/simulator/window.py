"""Window-fluid operators of CRAA and OERA: shared bounded buffers, integer units, one-window lag.

Sources: CRAA, 2018; OERA, 2023. Exact for rates that are constant in a window:
processed = min(capacity * time, backlog + arrivals); what exceeds the buffer is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from laneshift import inputcheck


@dataclass(frozen=True)
class BufferedOperator:
    """name; unit_rate: rows/s of one unit (P_unit, P_E); buffer_rows: BS; ratio: CR, rows out per
    row in; units: at the start; max_units: tasks; bandwidth: b of the edge to it.
    """

    name: str
    unit_rate: float
    buffer_rows: float
    ratio: float = 1.0
    units: int = 1
    max_units: int = 1_000_000
    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        of = f"of {self.name}"
        for name in ("unit_rate", "buffer_rows"):
            inputcheck.number(
                f"{name} {of}", getattr(self, name), "Must be positive.", low=0.0, low_open=True
            )
        inputcheck.number(f"ratio {of}", self.ratio, "Rows out per row in.", low=0.0)
        inputcheck.number(f"bandwidth {of}", self.bandwidth, "1: enough.", low=0.0, high=1.0)
        inputcheck.whole(f"max_units {of}", self.max_units, "At least one.", low=1)
        inputcheck.whole(f"units {of}", self.units, "1 to max_units.", low=1, high=self.max_units)


#: Table 2 of the CRAA paper [P]; every CR is 1.
CRAA_CHAIN = tuple(
    BufferedOperator(f"O{i + 1}", unit, buffer)
    for i, (buffer, unit) in enumerate(
        [(50, 500), (500, 400), (1000, 300), (2000, 200), (5000, 100)]
    )
)


@dataclass(frozen=True)
class WindowState:
    """One operator in one window: input_rate, output_rate (rows/s); backlog at the end, processed,
    lost (rows); capacity: rows/s in force on average; units: valid at the end.
    """

    input_rate: float
    output_rate: float
    backlog: float
    processed: float
    lost: float
    capacity: float
    units: int


@dataclass
class _Op:
    spec: BufferedOperator
    units: int
    backlog: float = 0.0
    throttle: float = float("inf")


class Chain:
    """Operators in a line; the output of window n arrives downstream in window n + 1.

    delay_s: old units stay in force that long after a change; pause_s: no service that long (OERA's
    rebalance), once per window with any change. lag False: output arrives in the same window.
    """

    def __init__(
        self,
        operators: tuple[BufferedOperator, ...],
        window_s: float,
        *,
        delay_s: float = 0.0,
        pause_s: float = 0.0,
        lag: bool = True,
    ) -> None:
        self.window_s = inputcheck.number("window_s", window_s, "Seconds.", low=0.0, low_open=True)
        self.delay_s = inputcheck.number(
            "delay_s", delay_s, "At most the window.", low=0.0, high=window_s
        )
        self.pause_s = inputcheck.number(
            "pause_s", pause_s, "At most the window.", low=0.0, high=window_s
        )
        self.lag = lag
        self._ops = [_Op(spec, spec.units) for spec in operators]
        self._arriving = [0.0] * len(operators)

    def step(self, source_rate: float, units: list[int] | None = None) -> list[WindowState]:
        """One window: ``units`` (one per operator; None: unchanged) take effect at its start."""
        old = [op.units for op in self._ops]
        if units is not None:
            for op, n in zip(self._ops, units, strict=True):
                name = f"units of {op.spec.name}"
                op.units = inputcheck.whole(name, n, "Cap it.", low=1, high=op.spec.max_units)
        changed = any(a != op.units for a, op in zip(old, self._ops, strict=True))
        service_s = self.window_s - (self.pause_s if changed else 0.0)
        inflow = inputcheck.number("source_rate", source_rate, "Rows per second.", low=0.0)
        out: list[WindowState] = []
        for i, op in enumerate(self._ops):
            if i > 0:
                inflow = self._arriving[i] if self.lag else out[-1].output_rate * op.spec.bandwidth
            late = min(self.delay_s, service_s) if old[i] != op.units else 0.0
            seconds = old[i] * late + op.units * (service_s - late)
            out.append(self._serve(op, inflow, op.spec.unit_rate * seconds))
        for i in range(1, len(self._ops)):
            self._arriving[i] = out[i - 1].output_rate * self._ops[i].spec.bandwidth
        return out

    def throttle(self, index: int, rate: float) -> None:
        """Cap the processing rate of an operator (rows/s) for the next window only."""
        self._ops[index].throttle = inputcheck.number("rate", rate, "Rows per second.", low=0.0)

    def _serve(self, op: _Op, inflow: float, capacity_rows: float) -> WindowState:
        capacity_rows = min(capacity_rows, op.throttle * self.window_s)
        op.throttle = float("inf")
        rows = op.backlog + inflow * self.window_s
        processed = min(capacity_rows, rows)
        left = rows - processed
        op.backlog = min(left, op.spec.buffer_rows)
        return WindowState(
            inflow,
            op.spec.ratio * processed / self.window_s,
            op.backlog,
            processed,
            left - op.backlog,
            capacity_rows / self.window_s,
            op.units,
        )
