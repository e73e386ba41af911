"""The loop: policies of :mod:`laneshift.policies` drive running queries."""
