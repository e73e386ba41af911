"""The plugin's JSON as messages of the same names, and back.

Not ``google.protobuf.json_format``: it goes through every number of a list in Python, ten times as
long for a snapshot of 200 partitions, and writes 64-bit integers as strings. A message that has
nothing special in it is made by protobuf's own constructor, in C with all messages inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from laneshift.control.v1 import control_pb2 as pb

M = TypeVar("M", bound=Message)

_FRACTIONS = (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT)


@cache
def _names(kind: Any) -> frozenset[str]:
    return frozenset(field.name for field in kind.fields)


def to_message(message: M, data: Mapping[str, Any]) -> M:
    """Fill ``message`` with the values of its fields' names; what it has no field for is left out.

    Errors: TypeError, ValueError if a value is of another kind than its field.
    """
    for field in message.DESCRIPTOR.fields:
        value = data.get(field.name)
        if value is None:
            continue
        if field.message_type is not None:
            inside = getattr(message, field.name)
            if field.is_repeated:
                for item in value:
                    _append(inside, field.message_type, item)
            else:
                inside.SetInParent()
                to_message(inside, value)
        elif field.is_repeated:
            # JSON has no infinity and no NaN: the plugin's are strings.
            numbers = map(float, value) if field.cpp_type in _FRACTIONS else value
            getattr(message, field.name).extend(numbers)
        else:
            setattr(message, field.name, float(value) if field.cpp_type in _FRACTIONS else value)
    return message


def _append(messages: Any, kind: Any, data: Mapping[str, Any]) -> None:
    if data.keys() <= _names(kind):
        there = len(messages)
        try:
            messages.add(**data)
            return
        except (TypeError, ValueError):  # what is special is inside
            del messages[there:]  # C leaves nothing of it, Python may
    to_message(messages.add(), data)


class _Shape:
    """How messages of a kind are read: most of a snapshot's fields are plain values."""

    def __init__(self, kind: Any) -> None:
        self.none: dict[str, Any] = dict.fromkeys(field.name for field in kind.fields)
        plain = [
            field.name
            for field in kind.fields
            if field.message_type is None and not field.is_repeated and not field.has_presence
        ]
        self.plain = tuple(plain)
        # Two at least: of one name it gives no tuple.
        self.values = attrgetter(*plain) if len(plain) > 1 else None
        known = self.plain if self.values is not None else ()
        self.others = [field for field in kind.fields if field.name not in known]


@cache
def _shape(kind: Any) -> _Shape:
    return _Shape(kind)


def to_json(message: Message) -> dict[str, Any]:
    """All fields of ``message`` by name; None for an optional one that is not there."""
    shape = _shape(message.DESCRIPTOR)
    found = shape.none.copy()
    if shape.values is not None:
        found.update(zip(shape.plain, shape.values(message), strict=True))
    for field in shape.others:
        found[field.name] = _value(message, field)
    return found


def _value(message: Message, field: Any) -> Any:
    if field.has_presence and not message.HasField(field.name):
        return None
    value = getattr(message, field.name)
    if field.message_type is None:
        return list(value) if field.is_repeated else value
    return [to_json(item) for item in value] if field.is_repeated else to_json(value)


def snapshot_json(reply: pb.SnapshotReply) -> dict[str, Any]:
    """A whole snapshot as the plugin says it, which knows nothing of what is the same."""
    found = to_json(reply)
    del found["same"]
    return found
