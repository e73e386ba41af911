"""Reads what a command names and finds it in a snapshot; every failure says what there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from laneshift.errors import LaneshiftError, error, shown
from laneshift.plugin.partition import PartitionSnapshot
from laneshift.plugin.snapshot import OperatorSnapshot, QuerySnapshot, Snapshot

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    QueryRef = StreamingQuery | str
else:
    QueryRef = object

MOST_ELSEWHERE = 256
"""Lanes that one partition may have on one other executor."""


def query_key(query: object) -> str:
    """The id or name that a query argument stands for; no call into Spark for a string.

    Errors: ArgumentError for an empty string or anything but a StreamingQuery or a string.
    """
    if isinstance(query, str):
        if query.strip():
            return query.strip()
        raise error(
            "LANESHIFT_OUT_OF_RANGE",
            argument="query",
            value=shown(query),
            range="the id or the name of a running query",
            remedy="Name a query with writeStream.queryName(...), or pass its StreamingQuery.",
        )
    if hasattr(query, "isActive") and hasattr(query, "id") and hasattr(query, "runId"):
        return str(query.id)
    raise error(
        "LANESHIFT_INVALID_TYPE",
        argument="query",
        value=shown(query),
        type=type(query).__name__,
        expected="a StreamingQuery, its id or its name",
        remedy="Pass what writeStream.start() returned.",
    )


def check_hosts(on: object) -> dict[str, int]:
    """Lanes by executor id, of what a user says. Errors: ArgumentError for anything else."""
    if on is None:
        return {}
    if not isinstance(on, Mapping):
        raise error(
            "LANESHIFT_INVALID_TYPE",
            argument="on",
            value=shown(on),
            type=type(on).__name__,
            expected='a number of lanes by executor id, as {"2": 4}',
            remedy="snapshot().executors names the executors.",
        )
    hosts = {}
    for executor, lanes in on.items():
        (hosts[str(executor)],) = whole_numbers(on=lanes)
        if not 0 <= hosts[str(executor)] <= MOST_ELSEWHERE:
            raise error(
                "LANESHIFT_OUT_OF_RANGE",
                argument=f"on[{str(executor)!r}]",
                value=lanes,
                range=f"0 to {MOST_ELSEWHERE}",
                remedy="An executor runs as many lanes of a partition as it has cores.",
            )
    return {executor: lanes for executor, lanes in hosts.items() if lanes > 0}


def check_tasks(tasks: object) -> str:
    """What a user says of tasks, for the plugin. Errors: ArgumentError for anything else."""
    if isinstance(tasks, str) and tasks in ("auto", "stock"):
        return tasks
    (number,) = whole_numbers("Or 'auto' or 'stock'.", tasks=tasks)
    if number < 1:
        raise error(
            "LANESHIFT_TASKS_OUT_OF_RANGE",
            value=number,
            range="1 to the number of state partitions, 'auto' and 'stock'",
        )
    return str(number)


def whole_numbers(
    remedy: str = "snapshot() shows the ids and counts that exist.", /, **arguments: object
) -> tuple[int, ...]:
    """The arguments as ints of 32 bits, numpy's too. Errors: ArgumentError for anything else."""
    found = []
    for name, value in arguments.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise error(
                "LANESHIFT_INVALID_TYPE",
                argument=name,
                value=shown(value),
                type=type(value).__name__,
                expected="a whole number",
                remedy=remedy,
            )
        if not -(2**31) <= int(value) < 2**31:
            raise error(
                "LANESHIFT_OUT_OF_RANGE",
                argument=name,
                value=value,
                range="a whole number of 32 bits",
                remedy=remedy,
            )
        found.append(int(value))
    return tuple(found)


def find_query(snapshot: Snapshot, key: str) -> QuerySnapshot:
    """The running query of that id, run id or name; it wins over stopped ones of the same name.

    Errors: NotFoundError if there is none, ArgumentError if several run under the name,
    SessionError if it has stopped.
    """
    same = [q for q in snapshot.queries if key in (q.id, q.run_id)] or [
        q for q in snapshot.queries if q.name == key
    ]
    active = [q for q in same if q.active]
    if len(active) > 1 and len({q.id for q in active}) > 1:
        ids = ", ".join(sorted(q.id for q in active))
        raise error("LANESHIFT_AMBIGUOUS_QUERY", value=shown(key), count=len(active), ids=ids)
    if same and not active:
        raise stopped(snapshot, key)
    if not active:
        raise error("LANESHIFT_NO_SUCH_QUERY", value=shown(key), range=_active(snapshot))
    return active[-1]


def stopped(snapshot: Snapshot, key: str) -> LaneshiftError:
    """The error of a command for a query that has stopped."""
    return error("LANESHIFT_QUERY_STOPPED", value=shown(key), range=_active(snapshot))


def find_operator(query: QuerySnapshot, operator: object) -> OperatorSnapshot:
    """The query's elastic operator of that id or name; None is the only one with state, or the only
    one if none has any.

    Errors: NotFoundError if there is none, ArgumentError if several are meant, or for another type.
    """
    if operator is None:
        stateful = [o for o in query.operators if not o.is_dealt]
        same = stateful or list(query.operators)
    elif isinstance(operator, str):
        same = [o for o in query.operators if o.name.strip() == operator.strip()]
    else:
        (number,) = whole_numbers("Or the name of an operator.", operator=operator)
        same = [o for o in query.operators if o.operator_id == number]
    if len(same) == 1:
        return same[0]
    there = _listed(
        [f"{o.operator_id} ({o.name.strip()})" for o in same or query.operators], "none"
    )
    if same:
        raise error("LANESHIFT_AMBIGUOUS_OPERATOR", query=query.label, range=there)
    value = "" if operator is None else shown(operator)
    raise error("LANESHIFT_NO_SUCH_OPERATOR", value=value, query=query.label, range=there)


def find_partition(operator: OperatorSnapshot, partition: object) -> PartitionSnapshot:
    """The operator's partition of that number.

    Errors: NotFoundError, ArgumentError for another type, SessionError if it was not computed yet.
    """
    (partition,) = whole_numbers(partition=partition)
    for found in operator.partitions:
        if found.partition == partition:
            return found
    if 0 <= partition < operator.partition_count:
        raise error(
            "LANESHIFT_PARTITION_NOT_COMPUTED", partition=partition, operator=operator.operator_id
        )
    raise error(
        "LANESHIFT_NO_SUCH_PARTITION",
        value=partition,
        operator=operator.operator_id,
        range=f"0 to {operator.partition_count - 1}",
    )


def _active(snapshot: Snapshot) -> str:
    return _listed([q.label for q in snapshot.queries if q.active], "none")


def _listed(names: list[str], nothing: str) -> str:
    shown_names = sorted(names)[:20]
    rest = len(names) - len(shown_names)
    return (", ".join(shown_names) + (f" and {rest} more" if rest else "")) or nothing
