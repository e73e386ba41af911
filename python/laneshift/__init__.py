"""Elastic stateful operators for Apache Spark Structured Streaming, while the query runs."""

try:
    from laneshift._version import __version__
except ImportError:  # a bare source tree: the build writes _version.py
    __version__ = "0.0.0.dev0"

__all__ = ["__version__"]
