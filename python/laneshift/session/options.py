"""The options of :func:`laneshift.configure`, as the plugin's build has written them.

``options.json`` has of each its name, key, kind and bounds of its values, and the words for who
gave another value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any

from laneshift.errors import error, shown

PREFIX = "spark.sql.laneshift."
PARAMETERS = "autoscaler_parameters"

_BYTES = re.compile(r"(\d+)(b|k|kb|m|mb|g|gb|t|tb)?", re.IGNORECASE)
_BYTE_UNIT = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TIME = re.compile(r"(\d+)(us|ms|s|m|min|h)?", re.IGNORECASE)
_TIME_UNIT_MS = {"us": 0.001, "": 1.0, "ms": 1.0, "s": 1e3, "m": 6e4, "min": 6e4, "h": 3.6e6}


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes:
        name: the keyword.
        key: the Spark setting.
        default: its text where nothing is set.
        allowed, hint: what values there are, and what to do instead of a wrong one.
        secret: no message repeats a value.
        at_start: read when an application starts; the others are, when a query does.
        values: ``kind`` of the values, and what bounds them.
    """

    name: str
    key: str
    default: str
    allowed: str
    hint: str
    secret: bool
    at_start: bool
    values: Mapping[str, Any]

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Option:
        """Of an element of options.json."""
        own = {field: data.pop(field) for field in cls.__slots__ if field != "values"}
        return cls(**own, values=data)

    def write(self, value: object) -> str | None:
        """The setting's text, None if the value is not allowed."""
        return _KINDS[self.values["kind"]](value, self.values)


def _flag(value: object, values: Mapping[str, Any]) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value).lower() if isinstance(value, str) else ""
    return text if text in ("true", "false") else None


def _whole(value: object, values: Mapping[str, Any]) -> str | None:
    if isinstance(value, str):
        if value in values["words"]:
            return value
        if not re.fullmatch(r"[+-]?\d{1,19}", value):
            return None
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    fits = values["low"] <= value <= values["high"] or str(value) in values["words"]
    return str(value) if fits else None


def _above(value: object, values: Mapping[str, Any]) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    fits = math.isfinite(number) and values["low"] < number <= values["high"]
    return repr(number) if fits else None


def _time(value: object, values: Mapping[str, Any]) -> str | None:
    if isinstance(value, timedelta):
        micros = value // timedelta(microseconds=1)
        value = f"{micros}us" if 0 < micros < 1000 else f"{round(micros / 1000)}ms"
    elif isinstance(value, int) and not isinstance(value, bool):
        value = f"{value}ms"
    match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    # Spark counts milliseconds: less than one is 0, which may mean something else.
    millis = int(match[1]) * _TIME_UNIT_MS[(match[2] or "").lower()]
    fits = values["zero"] if millis == 0 else values["low"] <= millis <= values["high"]
    return match[0] if fits else None


def _size(value: object, values: Mapping[str, Any]) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    match = _BYTES.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    size = int(match[1]) * _BYTE_UNIT[(match[2] or "").lower()[:1]]
    return match[0] if values["low"] <= size <= values["high"] else None


def _word(value: object, values: Mapping[str, Any]) -> str | None:
    if isinstance(value, bool):
        value = str(value).lower()
    return value if isinstance(value, str) and value in values["words"] else None


def _text(value: object, values: Mapping[str, Any]) -> str | None:
    return value if isinstance(value, str) and re.fullmatch(values["form"], value) else None


def _path(value: object, values: Mapping[str, Any]) -> str | None:
    return (str(value).strip() or None) if isinstance(value, str | Path) else None


def _policy(value: object, values: Mapping[str, Any]) -> str | None:
    from laneshift.policies.registry import names, policy_class

    if not isinstance(value, str):
        return None
    if ":" in value:
        policy_class(value)  # says what is wrong with it
        return value
    return value if value in ("none", *names()) else None


_KINDS: dict[str, Callable[[object, Mapping[str, Any]], str | None]] = {
    "flag": _flag,
    "whole": _whole,
    "above": _above,
    "time": _time,
    "size": _size,
    "word": _word,
    "text": _text,
    "path": _path,
    "policy": _policy,
}

OPTIONS: Mapping[str, Option] = {
    option.name: option
    for option in map(
        Option.from_json, json.loads((files("laneshift") / "options.json").read_text("utf-8"))
    )
}


def settings(options: Mapping[str, object]) -> dict[str, str]:
    """The Spark settings that the options stand for, every value checked.

    Errors: :class:`~laneshift.errors.ArgumentError` naming key, value, range and the way out.
    """
    result: dict[str, str] = {}
    for name, value in options.items():
        if name == PARAMETERS:
            result |= _parameters(value, options)
            continue
        option = OPTIONS.get(name)
        if option is None:
            near = get_close_matches(name, (*OPTIONS, PARAMETERS), n=1)
            suggestion = f" Did you mean {near[0]!r}?" if near else ""
            known = ", ".join((*OPTIONS, PARAMETERS)) + "."
            raise error(
                "LANESHIFT_UNKNOWN_OPTION", value=shown(name), suggestion=suggestion, range=known
            )
        text = option.write(value)
        if text is None:
            raise _refused(option, value, option.allowed)
        result[option.key] = text
    _lanes_fit(options, result)
    return result


def _parameters(value: object, options: Mapping[str, object]) -> dict[str, str]:
    """Of the policy that is named beside, checked as it will be."""
    from laneshift.policies import registry

    policy = options.get("autoscaler", "none")
    if not isinstance(value, Mapping) or not isinstance(policy, str) or policy == "none":
        raise error(
            "LANESHIFT_INVALID_OPTION",
            key=f"{PREFIX}autoscaler.param.NAME",
            option=PARAMETERS,
            value=shown(value),
            range="a mapping of names to values, with the policy's name as autoscaler=",
            remedy="`laneshift policies NAME` lists a policy's parameters.",
        )
    texts = {str(name): str(given) for name, given in value.items()}
    registry.policy(policy, **registry.parse_parameters(policy, texts))
    return {f"{PREFIX}autoscaler.param.{name}": text for name, text in texts.items()}


def _lanes_fit(options: Mapping[str, object], result: Mapping[str, str]) -> None:
    """Refuse more initial lanes than a partition may have."""
    lanes, max_lanes = OPTIONS["lanes"], OPTIONS["max_lanes"]
    wanted = result.get(lanes.key, lanes.default)
    most = int(result.get(max_lanes.key, max_lanes.default))
    if wanted != "auto" and int(wanted) > most:
        raise _refused(
            lanes, options["lanes"], f"'auto' or a whole number from 1 to {most} (max_lanes)"
        )


def _refused(option: Option, value: object, allowed: str) -> Exception:
    return error(
        "LANESHIFT_INVALID_OPTION",
        key=option.key,
        option=option.name,
        value="..." if option.secret else shown(value),
        range=allowed,
        remedy=option.hint,
    )
