"""Messages as the frozen dataclasses that Python works with: the one place where they are read.

A dataclass takes the fields of its message that have its fields' names: messages become dataclasses
too, enums :class:`~enum.StrEnum` s of the same names, lists of numbers read-only numpy arrays or
tuples, what may be left out None.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import cache
from operator import attrgetter
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from google.protobuf.message import DecodeError, Message

from laneshift.errors import LaneshiftError, error, from_jvm
from laneshift.plugin.v1 import control_pb2 as pb

T = TypeVar("T")
M = TypeVar("M", bound=Message)
E = TypeVar("E", bound=StrEnum)


def filled(kind: type[T], message: Message, **more: Any) -> T:
    """A ``kind`` of what ``message`` says, and of ``more``, of which it says nothing.

    Errors: :class:`~laneshift.errors.SessionError` for a value that this version does not know.
    """
    try:
        return _filled(kind, message, more)
    except KeyError as cause:
        name = message.DESCRIPTOR.name
        raise error("LANESHIFT_BAD_REPLY", method=name, problem=f"no value {cause}") from cause


def parsed(method: str, kind: type[M], data: bytes) -> M:
    """A message of its bytes. Errors: :class:`~laneshift.errors.SessionError` if they are none."""
    try:
        return kind.FromString(data)
    except (DecodeError, TypeError) as cause:
        problem = f"{type(cause).__name__} {cause}"
        raise error("LANESHIFT_BAD_REPLY", method=method, problem=problem) from cause


def failed(said: pb.Failure) -> LaneshiftError:
    """The exception of a failure."""
    return from_jvm(said.condition, said.message, dict(said.parameters), said.sqlstate)


def failure(problem: LaneshiftError) -> pb.Failure:
    """What :func:`failed` makes ``problem`` of."""
    return pb.Failure(
        condition=problem.condition,
        sqlstate=problem.sqlstate,
        message=str(problem).removeprefix(f"[{problem.condition}] "),
        parameters={name: str(value) for name, value in problem.parameters.items()},
    )


def _filled(kind: type[T], message: Message, more: dict[str, Any]) -> T:
    kinds: tuple[Any, Any] = (kind, type(message))
    shape = _shape(*kinds)
    values = dict(zip(shape.plain, shape.values(message), strict=True))
    for name, read in shape.others:
        values[name] = read(message)
    return kind(**values, **more)


class _Shape:
    """How a message becomes a dataclass: most of a snapshot's fields are plain values."""

    def __init__(self, kind: type[Any], message: type[Message]) -> None:
        hints = get_type_hints(kind)
        fields = [f for f in message.DESCRIPTOR.fields if f.name in hints]
        self.plain = [f.name for f in fields if _is_plain(f)]
        many = len(self.plain) > 1  # of one name it gives no tuple
        self.values: Callable[[Message], tuple[Any, ...]] = (
            attrgetter(*self.plain)
            if many
            else lambda said: tuple(getattr(said, name) for name in self.plain)
        )
        self.others = [(f.name, _reader(f, hints[f.name])) for f in fields if not _is_plain(f)]


@cache
def _shape(kind: Any, message: Any) -> _Shape:
    return _Shape(kind, message)


def _is_plain(field: Any) -> bool:
    return not (field.is_repeated or field.has_presence or field.enum_type)


def _reader(field: Any, hint: Any) -> Callable[[Message], Any]:
    """Reads a field of a message as ``hint`` says."""
    of, name = attrgetter(field.name), field.name
    if field.is_repeated:
        return _reader_of_many(field, hint)
    kinds = get_args(hint)
    optional = NoneType in kinds
    if optional:
        (hint,) = (kind for kind in kinds if kind is not NoneType)
    read: Callable[[Any], Any] = _same
    if field.message_type is not None:
        read = lambda said: _filled(hint, said, {})  # noqa: E731
    elif field.enum_type is not None:
        read = {value.number: hint[value.name] for value in field.enum_type.values}.__getitem__
    if optional:
        return lambda message: read(of(message)) if message.HasField(name) else None
    return lambda message: read(of(message))


def _reader_of_many(field: Any, hint: Any) -> Callable[[Message], Any]:
    of = attrgetter(field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return lambda message: dict(of(message))
    if field.message_type is not None:
        kind = get_args(hint)[0]
        return lambda message: tuple(_filled(kind, one, {}) for one in of(message))
    if get_origin(hint) is np.ndarray:
        (dtype,) = get_args(get_args(hint)[1])
        return lambda message: _array(of(message), dtype)
    return lambda message: tuple(of(message))


def _array(values: Any, dtype: type[Any]) -> Any:
    array = np.fromiter(values, dtype, len(values))
    array.setflags(write=False)
    return array


def _same(value: Any) -> Any:
    return value
