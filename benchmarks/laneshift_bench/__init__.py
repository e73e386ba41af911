"""Side-by-side runs of stock Spark and laneshift; see `benchmarks/README.md`."""
