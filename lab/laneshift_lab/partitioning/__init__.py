"""Partitioners by name, and what is known of their plans: costs, conditions, how tuples go.

>>> from laneshift.partitioning import Loads, Routing
>>> plan = partitioner("qmmp").plan(Loads.of([6.0, 2.0]), Routing.at_home([0, 1], 2), 0.0)
>>> [(m.key, m.amount, m.source, m.target) for m in plan.moves]
[(0, 2.0, 0, 1)]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laneshift import inputcheck
from laneshift.errors import InputError
from laneshift.partitioning.balancer import Balancer
from laneshift.partitioning.bi import Bi
from laneshift.partitioning.bi6 import Bi6
from laneshift.partitioning.dynamic import Dynamic
from laneshift.partitioning.mnrt import Mnrt
from laneshift.partitioning.model import Partitioner
from laneshift.partitioning.pkg import Pkg
from laneshift.partitioning.qmmp import Qmmp
from laneshift.partitioning.readj import Readj
from laneshift.partitioning.w_choices import WChoices

__all__ = ["PARTITIONERS", "partitioner"]

PARTITIONERS: dict[str, Callable[..., Partitioner]] = {
    "balancer": Balancer,
    "bi": Bi,
    "bi6": Bi6,
    "dynamic": Dynamic,
    "mnrt": Mnrt,
    "pkg": Pkg,
    "qmmp": Qmmp,
    "readj": Readj,
    "w-choices": WChoices,
}
"""All partitioners by name."""


def partitioner(name: str, **options: Any) -> Partitioner:
    """The partitioner called ``name`` with its dataclass fields as options.

    >>> partitioner("mnrt", tie_break="largest-first").name
    'mnrt'

    Errors: ``InputError`` for an unknown name or option.
    """
    inputcheck.choice("partitioner", name, PARTITIONERS, "Pick one of these names.")
    make = PARTITIONERS[name]
    try:
        return make(**options)
    except TypeError as cause:
        fields = ", ".join(getattr(make, "__dataclass_fields__", {})) or "none"
        raise InputError(
            f"options of {name}", sorted(options), f"options out of: {fields}", "Drop the others."
        ) from cause
