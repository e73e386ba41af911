"""Markers of the Python tests, and which of them run."""

from __future__ import annotations

import pytest

import laneshift.control  # noqa: F401 - its settings of gRPC hold from the first import on

pytest_plugins = ("tiers", "stuck", "budgets")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "live: runs queries on a real local Spark, with the plugin's jar"
    )
