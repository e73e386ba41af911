"""A cluster simulator that drives the same policies and partitioners as a live query.

``simulate(Scenario(...), policy)`` runs the fluid engine (fast, approximate: see ``fluid``);
``event.run_events`` is an exact event simulation for small cases; ``window`` steps the window
models of CRAA and OERA.
"""

from laneshift_lab.simulator.result import Result, WindowRow
from laneshift_lab.simulator.run import Scenario, Simulation, simulate
from laneshift_lab.simulator.scenario_file import read_scenario
from laneshift_lab.simulator.spec import Cluster, Engine, Fault, Operator, Split

__all__ = [
    "Cluster",
    "Engine",
    "Fault",
    "Operator",
    "Result",
    "Scenario",
    "Simulation",
    "Split",
    "WindowRow",
    "read_scenario",
    "simulate",
]
