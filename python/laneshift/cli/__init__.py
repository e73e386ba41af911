"""The command ``laneshift``: one file per sub-command."""
