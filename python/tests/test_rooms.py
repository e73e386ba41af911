"""Which room of the package may import which: one direction only, from top to bottom."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import laneshift

PACKAGE = Path(laneshift.__file__).parent
NAME = "laneshift"
APART = ("laneshift_lab", "laneshift_demo")

# From the bottom to the top; a room may import those that it names, which all stand above it here.
# `errors`, `version`, `inputcheck`, `durations` and `plotting` are modules that all may share.
ROOMS: dict[str, set[str]] = {
    "version": set(),
    "errors": set(),
    "inputcheck": {"errors"},
    "durations": {"errors"},
    "plotting": set(),
    "models": {"errors", "inputcheck"},
    "partitioning": {"errors", "inputcheck"},
    "contract": {"errors", "inputcheck", "models"},
    "policies": {"errors", "inputcheck", "models", "partitioning", "contract"},
    "plugin": {"errors", "version"},
    "autoscale": {"errors", "inputcheck", "models", "contract", "policies", "plugin"},
    "control": {"errors", "inputcheck", "version", "contract", "policies", "plugin", "autoscale"},
    "session": {"errors", "policies", "plugin", "control"},
    "api": {
        *(
            "errors",
            "inputcheck",
            "durations",
            "contract",
            "plugin",
            "autoscale",
            "control",
            "session",
        ),
    },
    "report": {"errors", "inputcheck", "plotting", "contract", "autoscale"},
    "cli": {
        *("errors", "version", "contract", "policies", "plugin", "autoscale", "control", "session"),
        *("durations", "api", "report"),
    },
    NAME: {
        "errors",
        "version",
        "durations",
        "contract",
        "plugin",
        "autoscale",
        "session",
        "api",
    },  # what `import laneshift` offers
}


def room(module: str) -> str:
    """The room that a module's full name is in; what ``laneshift`` itself has is its own."""
    first = module.removeprefix(NAME).lstrip(".").partition(".")[0]
    there = (PACKAGE / first).is_dir() or (PACKAGE / f"{first}.py").is_file()
    return first if first and there else NAME


@cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    """Every module of the package but what the build writes, parsed."""
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
        if name != f"{NAME}._version":
            found.append((name.removesuffix(".__init__"), ast.parse(file.read_text("utf-8"))))
    return tuple(found)


def imported(module: str, tree: ast.Module) -> Iterator[str]:
    """Full names that it imports from here, anywhere in it: in functions, for types only."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}, line {node.lineno}: imports are absolute"
            found = [f"{node.module}.{name.name}" for name in node.names]
        elif isinstance(node, ast.Import):
            found = [name.name for name in node.names]
        else:
            continue
        yield from (name for name in found if name.split(".")[0] in (NAME, *APART))


def edges() -> dict[str, dict[str, list[str]]]:
    """room -> imported room -> ``module: name`` of each import from one to the other."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for module, tree in modules():
        for name in imported(module, tree):
            source, target = room(module), room(name)
            if source != target and name != f"{NAME}._version.__version__":
                found[source][target].append(f"{module}: {name}")
    return found


def test_every_room_is_in_the_table_and_nothing_else() -> None:
    assert {room(module) for module, _ in modules()} == set(ROOMS)


def test_the_table_has_one_direction() -> None:
    order = list(ROOMS)
    for name, below in ROOMS.items():
        assert below <= set(order[: order.index(name)]), name


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_imports_what_the_table_says(name: str) -> None:
    found = edges()[name]
    more = {target: where for target, where in found.items() if target not in ROOMS[name]}
    assert not more, "move the code, or put the import into ROOMS if the direction is right"
    assert set(found) == ROOMS[name], "take what is not imported any more out of ROOMS"


def test_what_is_apart_depends_on_the_wheel_and_never_the_other_way_round() -> None:
    found = [(m, name) for m, tree in modules() for name in imported(m, tree)]
    assert not [(m, name) for m, name in found if name.split(".")[0] in APART]


def test_exported_names_are_not_hidden_by_rooms() -> None:
    assert not set(ROOMS) - {NAME} & set(laneshift.__all__)


def test_imports_in_functions_and_for_types_are_seen() -> None:
    code = """
import os
if TYPE_CHECKING:
    from laneshift.autoscale.measure import Meter
def f():
    import laneshift.session
    from laneshift import cli, attach
    from laneshift_lab.simulator import simulate
"""
    *found, apart = imported("laneshift.errors", ast.parse(code))
    assert sorted(map(room, found)) == ["autoscale", "cli", NAME, "session"]
    assert apart == "laneshift_lab.simulator.simulate"
