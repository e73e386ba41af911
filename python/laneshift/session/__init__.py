"""A Spark session with laneshift: its options, and how it is made."""
