"""Policies by name: the built-in ones, and those of the entry-point group ``laneshift.policies``.

A package adds one with, in its pyproject.toml:

    [project.entry-points."laneshift.policies"]
    my-policy = "my_package.my_module:MyPolicy"

A policy without a package is named by where Python finds it: ``my_module:MyPolicy``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Union, get_args, get_origin, get_type_hints

from laneshift.contract.policy import Policy
from laneshift.errors import InputError
from laneshift.policies.rescaling import RESCALING
from laneshift.policies.tasking import TASKING

__all__ = ["defaults", "name_of", "names", "parse_parameters", "policy", "policy_class"]

GROUP = "laneshift.policies"

BUILT_IN: dict[str, str] = {
    "craa": "laneshift.policies.craa:Craa",
    "elasticutor": "laneshift.policies.elasticutor:Elasticutor",
    "faa": "laneshift.policies.faa:Faa",
    "kalman": "laneshift.policies.kalman:Kalman",
    "laneshift": "laneshift.policies.laneshift:Laneshift",
    "median": "laneshift.policies.median:Median",
    "naive-ec": "laneshift.policies.naive_ec:NaiveEc",
    "oera": "laneshift.policies.oera:Oera",
    "resource-centric": "laneshift.policies.resource_centric:ResourceCentric",
    "static": "laneshift.policies.static:Static",
    "threshold": "laneshift.policies.threshold:Threshold",
}
"""Name -> module:class. Built-in names win over entry points, so that no package shadows them."""

PLANNERS: dict[str, str] = {
    name: f"laneshift.policies.planners:{kind}"
    for name, kind in {
        "bi": "BiPlanner",
        "bi6": "Bi6Planner",
        "dynamic": "DynamicPlanner",
        "mnrt": "MnrtPlanner",
        "pkg": "PkgPlanner",
        "qmmp": "QmmpPlanner",
        "readj": "ReadjPlanner",
        "w-choices": "WChoicesPlanner",
    }.items()
}
"""Planners of key distribution, which are built in, too: each has the name of its partitioner."""

_PARTS = ("name", "summary", "source")
"""What a policy says of itself."""


def names() -> tuple[str, ...]:
    """All known names, sorted."""
    added = (point.name for point in entry_points(group=GROUP))
    return tuple(sorted({*BUILT_IN, *PLANNERS, *added}))


def policy_class(name: str) -> type[Policy[Any]]:
    """The class of the policy ``name``, or of ``module:Class``.

    Raises:
        InputError: the name is unknown (the message lists the known ones), or what it or the
            entry point names cannot be loaded or is not a `Policy`.
    """
    built_in = BUILT_IN.get(name) or PLANNERS.get(name)
    if built_in is not None:
        module, _, attribute = built_in.partition(":")
        found = getattr(import_module(module), attribute)
    elif ":" in name:
        found = _class_at(name)
    else:
        points = [point for point in entry_points(group=GROUP) if point.name == name]
        if not points:
            raise InputError(
                "policy",
                name,
                "one of " + ", ".join(names()),
                f"Check the spelling, install the package that offers it in {GROUP}, or write "
                "module:Class.",
            )
        try:
            found = points[0].load()
        except Exception as cause:
            raise InputError(
                f"policy {name}", f"{type(cause).__name__}: {cause}", "a class that can be loaded",
                f"Repair or remove the package that offers {points[0].value}.",
            ) from cause  # fmt: skip
    if not (isinstance(found, type) and issubclass(found, Policy)):
        remedy = "Name its class." if ":" in name else "Fix its entry point."
        raise InputError(f"policy {name}", found, "a subclass of Policy", remedy)
    missing = [part for part in _PARTS if not hasattr(found, part)]
    missing += sorted(getattr(found, "__abstractmethods__", ()))
    if missing or not is_dataclass(found):
        raise InputError(
            f"policy {name}",
            f"{found.__qualname__} without {', '.join(missing) or '@dataclass'}",
            "a dataclass with name, summary, source, start and decide",
            "docs/policies shows one.",
        )
    return found


def _class_at(name: str) -> Any:
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except Exception as cause:  # a module may raise anything when it is imported
        raise InputError(
            f"policy {name}",
            f"{type(cause).__name__}: {cause}",
            "module:Class of a module that Python finds and can import",
            "Install it, or put its folder on PYTHONPATH, where the policy runs.",
        ) from cause


def name_of(found: type[Policy[Any]]) -> str:
    """By which `policy_class` finds a class: its built-in name, or ``module:Class``.

    >>> name_of(policy_class("faa"))
    'faa'
    """
    place = f"{found.__module__}:{found.__qualname__}"
    return next((name for name, at in (BUILT_IN | PLANNERS).items() if at == place), place)


def policy(name: str, **parameters: Any) -> Policy[Any]:
    """The policy ``name`` with its documented defaults, except for ``parameters``.

    >>> policy("elasticutor", target_s=0.02).target_s
    0.02

    Raises:
        InputError: unknown name or parameter, or a value out of range.
    """
    found = policy_class(name)
    known = [f.name for f in fields(found) if f.init]
    for given, value in parameters.items():
        _check_known(name, given, known)
        if isinstance(defaults(name)[given], bool) and not isinstance(value, bool):
            raise InputError(f"{given} of {name}", value, "True or False", "Leave out the quotes.")
    return found(**parameters)


def _check_known(name: str, given: str, known: Sequence[str]) -> None:
    if given in RESCALING + TASKING and given not in known:
        able = [each for each in BUILT_IN if given in defaults(each)]
        what, by_hand = ("state partitions", "query.rescale")
        if given in TASKING:
            what, by_hand = ("tasks", "query.set_tasks")
        raise InputError(
            f"parameter of {name}",
            given,
            f"another one: it does not change the number of {what}",
            f"{', '.join(able)} do; `{by_hand}` is by hand.",
        )
    if given not in known:
        near = get_close_matches(given, known, n=1)
        remedy = f"Did you mean {near[0]}?" if near else f"`laneshift policies {name}` says more."
        raise InputError(
            f"parameter of {name}", given, "one of " + (", ".join(known) or "none"), remedy
        )


def defaults(name: str) -> dict[str, Any]:
    """Parameters of a policy and their defaults, in order of declaration."""
    return {
        f.name: f.default_factory() if f.default_factory is not MISSING else f.default
        for f in fields(policy_class(name))
        if f.init
    }


def parse_parameters(name: str, given: dict[str, str]) -> dict[str, Any]:
    """Parameters as typed values from text, by the types that the policy declares.

    Understands int, float, bool (true/false), str, and "none" where None is allowed.
    """
    kinds = get_type_hints(policy_class(name))
    parsed: dict[str, Any] = {}
    for key, text in given.items():
        _check_known(name, key, list(defaults(name)))
        parsed[key] = _parse(key, text, kinds[key])
    return parsed


def _parse(key: str, text: str, kind: Any) -> Any:
    options = get_args(kind) if get_origin(kind) in (Union, _UNION_TYPE) else (kind,)
    if type(None) in options and text.lower() == "none":
        return None
    for option in options:
        if option is bool and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if option in (int, float):
            try:
                return option(text)
            except ValueError:
                continue
        if option is str:
            return text
    words = " or ".join(getattr(o, "__name__", str(o)) for o in options)
    raise InputError(key, text, words, "Write it like its default.")


_UNION_TYPE = type(int | None)
