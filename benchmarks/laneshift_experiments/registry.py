"""Experiments by name."""

from __future__ import annotations

from laneshift.inputcheck import choice
from laneshift_experiments import (
    buffers,
    compare,
    elasticutor_data,
    elasticutor_load,
    elasticutor_moves,
    elasticutor_system,
    key_distribution,
    key_joins,
    key_signs,
    key_topk,
    models,
)
from laneshift_experiments.base import Experiment

_ALL: tuple[Experiment, ...] = (
    *elasticutor_load.EXPERIMENTS,
    *elasticutor_data.EXPERIMENTS,
    *elasticutor_moves.EXPERIMENTS,
    *elasticutor_system.EXPERIMENTS,
    *key_distribution.EXPERIMENTS,
    *key_joins.EXPERIMENTS,
    *key_topk.EXPERIMENTS,
    *key_signs.EXPERIMENTS,
    *buffers.EXPERIMENTS,
    *compare.EXPERIMENTS,
    *models.EXPERIMENTS,
)
EXPERIMENTS: dict[str, Experiment] = {e.name: e for e in _ALL}


def experiment(name: str) -> Experiment:
    """The experiment ``name``; the error lists the known names."""
    choice("experiment", name, EXPERIMENTS, "Pick one of these names.")
    return EXPERIMENTS[name]
