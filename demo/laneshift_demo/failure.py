"""What stops the demo with one sentence instead of a stack trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class DemoError(Exception):
    """The demo cannot go on; the message says what is missing and the way out."""


def require_running(query: StreamingQuery) -> None:
    """Errors: DemoError if the query has failed or was stopped."""
    if not query.isActive:
        error = query.exception()
        why = str(error).strip().splitlines()[0] if error is not None else "it was stopped"
        raise DemoError(f"The query has failed: {why}")
