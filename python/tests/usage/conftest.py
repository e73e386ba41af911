"""The suite's Spark, for cases that need none of their own."""

from __future__ import annotations

from live.conftest import spark

__all__ = ["spark"]
