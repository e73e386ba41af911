"""The version of package and plugin; the build writes it into ``_version.py``."""

from __future__ import annotations

try:
    from laneshift._version import __version__ as __version__
except ImportError:  # a bare source tree
    __version__ = "0.0.0.dev0"
