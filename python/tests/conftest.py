"""What the tests load first: which of them run, and what may not be stuck or cost more."""

from __future__ import annotations

import laneshift.control  # noqa: F401 - its settings of gRPC hold from the first import on

pytest_plugins = ("tiers", "stuck", "budgets")
