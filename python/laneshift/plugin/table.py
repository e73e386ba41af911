"""Snapshots as a table: for a terminal, a notebook and pandas. A row is a partition."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from laneshift.plugin.partition import PartitionSnapshot

if TYPE_CHECKING:
    import pandas as pd

    from laneshift.plugin.snapshot import QuerySnapshot

NAMED = ("query", "operator", "name")
"""Columns that say which operator a partition is of."""

MEASURED = (
    *("partition", "executor", "lanes", "max_lanes", "rows_in_per_s", "rows_out_per_s"),
    *("queue_rows", "imbalance", "handoffs", "pause_p99_us", "latency_p99_ms", "state_rows"),
)
"""Columns of a partition, with the names and units of docs/metrics.md."""

COLUMNS = NAMED + MEASURED

Row = tuple[Any, ...]


def rows(queries: Iterable[QuerySnapshot]) -> list[Row]:
    """One for each partition, a value for each of :data:`COLUMNS`."""
    return [
        (query.name or query.id, operator.operator_id, operator.name.strip(), *_measured(part))
        for query in queries
        for operator in query.operators
        for part in operator.partitions
    ]


def text(head: str, queries: Iterable[QuerySnapshot]) -> str:
    """A line of words and the table."""
    cells = [COLUMNS, *(tuple(map(_shown, row)) for row in rows(queries))]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join([head, *(_line(row, widths) for row in cells)])


def html(head: str, queries: Iterable[QuerySnapshot]) -> str:
    """The same for a notebook."""
    names = "".join(f"<th>{name}</th>" for name in COLUMNS)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(_shown(value))}</td>' for value in row)}</tr>"
        for row in rows(queries)
    )
    return f"<p>{escape(head)}</p><table><tr>{names}</tr>{body}</table>"


def pandas(queries: Iterable[QuerySnapshot]) -> pd.DataFrame:
    """The table as a DataFrame. Errors: ImportError without pandas."""
    from pandas import DataFrame

    return DataFrame(rows(queries), columns=list(COLUMNS))


def _measured(part: PartitionSnapshot) -> Row:
    special = {
        "queue_rows": int(part.queue_rows.sum()),
        "pause_p99_us": part.pause_us.p99,
        "latency_p99_ms": part.latency_ms.p99,
    }
    return tuple(special[n] if n in special else getattr(part, n) for n in MEASURED)


def _shown(value: object) -> str:
    return f"{value:,.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
