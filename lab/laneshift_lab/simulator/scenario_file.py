"""Scenarios as TOML files, so that one can be tried without a program: ``read_scenario``.

Tables and keys have the names of the classes' fields: ``[cluster]`` is a `Cluster`, each
``[[operators]]`` an `Operator`, ``[engine]`` an `Engine`; ``[keys]`` and ``[rate]`` say which
``kind`` they are. What is left out has the class's default.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

from laneshift import inputcheck
from laneshift.errors import InputError
from laneshift_lab.simulator.rates import Constant, Levels, Rate, Sine
from laneshift_lab.simulator.run import Scenario
from laneshift_lab.simulator.spec import Cluster, Engine, Fault, Operator, Split
from laneshift_lab.simulator.workload import FixedKeys, Keys, StockKeys, TopicKeys, ZipfKeys

__all__ = ["read_scenario"]

KEYS: dict[str, type[Any]] = {
    "fixed": FixedKeys,
    "stock": StockKeys,
    "topic": TopicKeys,
    "zipf": ZipfKeys,
}
RATES: dict[str, type[Any]] = {"constant": Constant, "levels": Levels, "sine": Sine}

TOP = ("cluster", "operators", "keys", "rate", "duration_s", "engine", "cores", "seed")

T = TypeVar("T")


def read_scenario(file: str | Path, seed: int | None = None) -> Scenario:
    """The scenario that the TOML file describes.

    Args:
        seed: in place of the file's own; keys that have no ``seed`` of theirs take it, too.

    Raises:
        InputError: the file cannot be read, or names the table and key that is wrong.
    """
    try:
        data = tomllib.loads(Path(file).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as cause:
        raise InputError(
            "scenario", str(file), "a TOML file", f"{type(cause).__name__}: {cause}"
        ) from cause
    _known("scenario", data, TOP)
    for name in ("operators", "keys", "rate", "duration_s"):
        if name not in data:
            raise InputError("scenario", f"no {name}", f"{name}", "docs/simulator.md shows one.")
    used = inputcheck.whole("seed", data.get("seed", 1) if seed is None else seed, low=0)
    operators = data["operators"]
    if not isinstance(operators, list):
        raise InputError("operators", operators, "tables", "Write [[operators]], once for each.")
    cores = data.get("cores")
    return Scenario(
        cluster=_made(Cluster, data.get("cluster", {}), "cluster"),
        operators=tuple(_operator(table, i, used) for i, table in enumerate(operators)),
        keys=_keys(data["keys"], "keys", used),
        rate=_rate(data["rate"]),
        duration_s=data["duration_s"],
        engine=_engine(data.get("engine", {})),
        cores=None if cores is None else tuple(cores),
        seed=used,
    )


def _operator(table: Any, index: int, seed: int) -> Operator:
    where = f"operators[{index}]"
    given = dict(_table(table, where))
    if "keys" in given:
        given["keys"] = _keys(given["keys"], f"{where}.keys", seed)
    if "split" in given:
        given["split"] = _made(Split, given["split"], f"{where}.split")
    return _made(Operator, given, where)


def _engine(table: Any) -> Engine:
    given = dict(_table(table, "engine"))
    if "faults" in given:
        given["faults"] = [
            _made(Fault, fault, f"engine.faults[{i}]") for i, fault in enumerate(given["faults"])
        ]
    return _made(Engine, given, "engine")


def _keys(table: Any, where: str, seed: int) -> Keys:
    kind, given = _kind(table, where, KEYS)
    if any(f.name == "seed" for f in fields(kind)):
        given.setdefault("seed", seed)
    keys: Keys = _made(kind, given, where)
    return keys


def _rate(value: Any) -> Rate:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Constant(float(value))
    kind, given = _kind(value, "rate", RATES)
    rate: Rate = _made(kind, given, "rate")
    return rate


def _kind(
    table: Any, where: str, known: Mapping[str, type[Any]]
) -> tuple[type[Any], dict[str, Any]]:
    given = dict(_table(table, where))
    name = inputcheck.choice(f"{where}.kind", str(given.pop("kind", "none")), known)
    return known[name], given


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(where, value, "a table", "docs/simulator.md shows one.")
    return value


def _made(kind: type[T], table: Any, where: str) -> T:
    """An instance of the dataclass, with the table's values."""
    known = {f.name: f for f in fields(kind) if f.init}  # type: ignore[arg-type]
    given = _table(table, where)
    _known(where, given, known)
    hints = get_type_hints(kind)
    values = {name: _tuples(value) for name, value in given.items()}
    for name, value in values.items():
        if not _fits(value, hints[name]):
            words = str(known[name].type)
            raise InputError(f"{where}.{name}", value, words, "Write it like its default.")
    try:
        return kind(**values)
    except TypeError as cause:  # a field without a default is missing
        raise InputError(where, sorted(given), f"{cause}", "docs/simulator.md shows one.") from None


def _known(where: str, given: Mapping[str, Any], known: Any) -> None:
    for name in given:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            remedy = f"Did you mean {near[0]}?" if near else "Leave it out."
            raise InputError(where, name, "one of " + ", ".join(known), remedy)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _fits(value: object, hint: Any) -> bool:
    """Whether a value of the file is of a field's type; what is inside of it the class checks."""
    kinds = get_args(hint) if NoneType in get_args(hint) else (hint,)
    if isinstance(value, bool):
        return bool in kinds
    if isinstance(value, int | float):
        return float in kinds or (isinstance(value, int) and int in kinds)
    if isinstance(value, str):
        return str in kinds
    if isinstance(value, tuple):
        return any(getattr(kind, "__origin__", kind) is tuple for kind in kinds)
    return not isinstance(value, Mapping)
