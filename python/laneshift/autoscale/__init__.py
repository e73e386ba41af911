"""The closed loop: policies of :mod:`laneshift.scheduler` drive running queries."""
