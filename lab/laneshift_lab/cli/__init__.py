"""The command ``laneshift-lab``."""
