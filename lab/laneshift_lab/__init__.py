"""Policies and partitioners without Spark: simulated clusters, recorded traces, samples."""
