"""``python -m laneshift.cli`` is the command ``laneshift``."""

from laneshift.cli.main import main

main(prog_name="laneshift")
