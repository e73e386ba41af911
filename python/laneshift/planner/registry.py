"""Planners by name, with their options as keyword arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laneshift import inputcheck
from laneshift.errors import InputError
from laneshift.planner.balancer import Balancer
from laneshift.planner.bi import Bi
from laneshift.planner.bi6 import Bi6
from laneshift.planner.dynamic import Dynamic
from laneshift.planner.mnrt import Mnrt
from laneshift.planner.model import Planner
from laneshift.planner.pkg import Pkg
from laneshift.planner.qmmp import Qmmp
from laneshift.planner.readj import Readj
from laneshift.planner.w_choices import WChoices

PLANNERS: dict[str, Callable[..., Planner]] = {
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


def planner(name: str, **options: Any) -> Planner:
    """The planner called ``name`` with its dataclass fields as options.

    >>> planner("mnrt", tie_break="largest-first").name
    'mnrt'

    Errors: ``InputError`` for an unknown name or option.
    """
    inputcheck.choice("planner", name, PLANNERS, "Pick one of these names.")
    make = PLANNERS[name]
    try:
        return make(**options)
    except TypeError as cause:
        fields = ", ".join(getattr(make, "__dataclass_fields__", {})) or "none"
        raise InputError(
            f"options of {name}", sorted(options), f"options out of: {fields}", "Drop the others."
        ) from cause
