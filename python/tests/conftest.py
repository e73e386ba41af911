"""Markers of the Python tests."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "live: runs queries on a real local Spark, with the plugin's jar"
    )
