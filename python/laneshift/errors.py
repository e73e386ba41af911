"""What laneshift raises: one class per way out, one condition per message.

The conditions are data (``error_conditions.json``): name, SQLSTATE, kind and a message with
``<parameters>``. The plugin sends its own errors with the same names; they become the same classes.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

_PARAMETER = re.compile(r"<([a-z_]+)>")


class LaneshiftError(Exception):
    """Any error of laneshift's Python package. It can be pickled.

        try:
            query.set_lanes(1000)
        except laneshift.ArgumentError as error:
            print(error.condition, error.parameters["range"])

    Attributes:
        condition: name of the error condition, such as ``LANESHIFT_NO_SUCH_SHARD``.
        parameters: the values that the message was made of.
        sqlstate: the condition's SQLSTATE, five characters.
    """

    def __init__(
        self,
        condition: str,
        parameters: Mapping[str, object] | None = None,
        *,
        message: str | None = None,
        sqlstate: str | None = None,
    ) -> None:
        self.condition = condition
        self.parameters: dict[str, object] = dict(parameters or {})
        known = conditions().get(condition, {})
        self.sqlstate = sqlstate or str(known.get("sqlState", "XX000"))
        text = message if message is not None else _filled(condition, self.parameters)
        super().__init__(f"[{condition}] {text}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Copied and sent to other processes as it is; of what cannot be sent, the words."""
        return _again, (type(self), self.args, {k: _sent(v) for k, v in vars(self).items()})


class ArgumentError(LaneshiftError, ValueError):
    """A wrong option or argument; nothing was sent to Spark."""


class InputError(ArgumentError):
    """A wrong argument; says what was found, expected, and the way out.

    Attributes:
        field, found, expected, remedy: what the message is made of, ``found`` as it was given.
    """

    def __init__(self, field: str, found: object, expected: str, remedy: str) -> None:
        self.field = field
        self.found = found
        self.expected = expected
        self.remedy = remedy
        said = {"field": field, "found": repr(found), "expected": expected, "remedy": remedy}
        super().__init__("LANESHIFT_INVALID_INPUT", said)


class NotFoundError(ArgumentError, LookupError):
    """A query, operator, partition, shard or lane that does not exist."""


class SessionError(LaneshiftError, RuntimeError):
    """The Spark session, its plugin or the query is not in the state that the call needs."""


class UnsupportedError(LaneshiftError, NotImplementedError):
    """Something that this version of laneshift cannot do yet."""


KINDS: dict[str, type[LaneshiftError]] = {
    "argument": ArgumentError,
    "not-found": NotFoundError,
    "session": SessionError,
    "unsupported": UnsupportedError,
}


@cache
def conditions() -> dict[str, dict[str, str]]:
    """The error conditions by name: ``kind``, ``message`` and ``sqlState`` of each."""
    text = resources.files("laneshift").joinpath("error_conditions.json").read_text("utf-8")
    data: dict[str, dict[str, str]] = json.loads(text)
    return data


def placeholders(template: str) -> set[str]:
    """The names in angle brackets of a message template."""
    return set(_PARAMETER.findall(template))


def error(condition: str, **parameters: object) -> LaneshiftError:
    """The exception of a condition that Python found, ready to raise."""
    return KINDS[conditions()[condition]["kind"]](condition, parameters)


def from_jvm(
    condition: str, message: str, parameters: Mapping[str, object], sqlstate: str = ""
) -> LaneshiftError:
    """The exception of an error that the plugin answered.

    A condition that this version does not know becomes a plain :class:`LaneshiftError`.
    """
    kind = conditions().get(condition, {}).get("kind", "")
    return KINDS.get(kind, LaneshiftError)(
        condition, parameters, message=message, sqlstate=sqlstate or None
    )


def _again(
    kind: type[LaneshiftError], args: tuple[Any, ...], values: dict[str, Any]
) -> LaneshiftError:
    made = kind.__new__(kind, *args)
    vars(made).update(values)
    return made


def _sent(value: object) -> object:
    try:
        pickle.dumps(value)
    except Exception:  # whatever a user's own object throws
        return {k: _sent(v) for k, v in value.items()} if type(value) is dict else shown(value)
    return value


def shown(value: object) -> str:
    """A value for a message: its repr, shortened to 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _filled(condition: str, parameters: Mapping[str, object]) -> str:
    template = conditions()[condition]["message"]
    missing = placeholders(template) - parameters.keys()
    if missing:
        raise KeyError(f"error condition {condition} needs the parameters {sorted(missing)}")
    return _PARAMETER.sub(lambda match: str(parameters[match.group(1)]), template)
