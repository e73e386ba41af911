"""What the control process prints: the driver reads it line by line and puts it in its log."""

from __future__ import annotations

WARNING = "warning: "
"""What a line begins with that is one, for ``ControlProcess``."""


def say(line: str) -> None:
    """Print at once: the driver reads line by line."""
    print(line, flush=True)


def warn(line: str) -> None:
    """Print what the driver's log is to have as a warning: PySpark shows nothing below."""
    say(WARNING + line)
