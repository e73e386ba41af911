"""A Spark session with laneshift: how it is made, looked at, and changed while queries run."""
