"""How laneshift's pictures look, and matplotlib, which is there or not."""

from __future__ import annotations

from typing import Any

INK, MUTED, FAINT = "#1f2933", "#7b8794", "#d5dbe1"
BLUE, ORANGE, GREEN = "#1f6fb4", "#d9730d", "#2a8f5c"
STYLE: dict[str, Any] = {
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
}
"""For ``rc_context``."""


def pyplot(missing: Exception) -> Any:
    """``matplotlib.pyplot``, drawing into files. Errors: ``missing`` if matplotlib is."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot as plt
    except ImportError as cause:
        raise missing from cause
    return plt
