"""The one place where Python calls the plugin: every method is one py4j call.

The plugin's entry class answers with JSON, ``{"ok": value}`` or ``{"error": {...}}``; errors come
out as :mod:`laneshift.errors`. :class:`Gateway` is the interface, so that tests need no JVM.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from laneshift.errors import LaneshiftError, error, from_jvm
from laneshift.plugin.jar import check_versions
from laneshift.plugin.prompt import answer_promptly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

ENTRY_CLASS = "org.apache.spark.sql.laneshift.api.LaneshiftGateway"
ALL_PARTITIONS = -1
"""As the entry class is told of them."""
PLUGIN_CLASS = "org.apache.spark.sql.laneshift.LaneshiftPlugin"


@dataclass(frozen=True, slots=True)
class LanesWish:
    """Arguments of :meth:`Commands.set_lanes`."""

    query: str
    operator: int
    partition: int
    lanes: int
    elsewhere: Mapping[str, int] | None = None


class Commands(Protocol):
    """What users may ask of the plugin. Every method may raise a LaneshiftError."""

    def version(self) -> str:
        """Version of the jar."""
        ...

    def snapshot(self) -> dict[str, Any]:
        """All queries with their elastic operators, in the form of ``Snapshot.from_json``."""
        ...

    def set_lanes(
        self,
        query: str,
        operator: int,
        partition: int | None,
        lanes: int,
        elsewhere: Mapping[str, int] | None = None,
    ) -> dict[str, Any]:
        """Ask for a number of lanes; partition None means every partition of the operator.

        ``elsewhere``: how many more on which other executors, by executor id.
        """
        ...

    def set_tasks(self, query: str, operator: int, tasks: str) -> dict[str, Any]:
        """Ask for a number of tasks for an operator's state partitions, ``auto`` or ``stock``."""
        ...

    def move_shard(
        self, query: str, operator: int, partition: int, shard: int, lane: int
    ) -> dict[str, Any]:
        """Ask for a handoff of one shard to a lane."""
        ...

    def handoffs(self, query: str, limit: int) -> list[dict[str, Any]]:
        """The newest ``limit`` handoffs of a query (of all if empty), oldest first."""
        ...

    def limit_source(self, query: str, rate: float, seconds: float) -> dict[str, Any]:
        """Hold a query's source to ``rate`` rows/s for a while; 0 seconds end a limit in force."""
        ...

    def rescale(self, query: str, partitions: int) -> dict[str, Any]:
        """Ask for another number of state partitions of a running query."""
        ...

    def rescaling(self, query: str) -> dict[str, Any]:
        """How the newest rescale of a running query stands."""
        ...

    def cancel_rescale(self, query: str) -> dict[str, Any]:
        """Give the rescale of a running query up."""
        ...


class Gateway(Commands, Protocol):
    """What the plugin can be asked, schedulers' calls included."""

    def set_many_lanes(self, wishes: Sequence[LanesWish]) -> list[dict[str, Any] | LaneshiftError]:
        """As :meth:`Commands.set_lanes` for each, in one call: what it answers, or would raise."""
        ...

    def packed_snapshot(self, known: int) -> dict[str, Any]:
        """The snapshot as the control service sends it, in the form of ``Content.of``.

        Without ``content`` it is that of the number ``known``; 0 knows none.
        """
        ...

    def claim(self, scheduler: str, policy: str, run: str, seconds: float) -> None:
        """Let a scheduler drive a query's run, all queries if empty, for so long: none has two."""
        ...

    def release(self, scheduler: str) -> None:
        """Give a scheduler's claim up."""
        ...

    def claim_keys(self, query: str, operator: int, apart: str, seconds: float) -> dict[str, Any]:
        """Decide for so many seconds where keys of an operator go; 0 ends it.

        The plugin moves no shard by itself then, and row-wise work above the state is apart from
        the next batch on if ``apart`` is ``true``, not if ``false``, and as it would be if empty.
        """
        ...

    def demand_executors(
        self, scheduler: str, most: int, total: int, give_back: Sequence[str]
    ) -> dict[str, Any]:
        """How many executors a scheduler wants in all, at ``most``, and which it does not need.

        0 executors are as many as before, and a ``most`` of 0 is what the configuration says. How
        that stands is in the form of ``Standing.from_json``.
        """
        ...

    def await_pressed(self, scheduler: str, run: str, after: int, seconds: float) -> dict[str, Any]:
        """Wait for pressed partitions of a run, of all if empty, told of after number ``after``.

        ``seq`` is the newest number, ``presses`` are in the form of ``Press.from_json``: none after
        ``seconds``, or once the same scheduler calls again.
        """
        ...

    def decided(self, decision: dict[str, Any]) -> None:
        """Tell the plugin what a scheduler has decided: Spark's UI shows it."""
        ...


def connect(gateway: Gateway) -> str:
    """The version of the plugin behind ``gateway``, which must run and fit this package.

    Errors: :class:`~laneshift.errors.SessionError` if it does not.
    """
    version = gateway.version()
    check_versions(version)
    gateway.snapshot()  # raises LANESHIFT_NOT_LOADED if the plugin did not start
    return version


class Py4jGateway:
    """The gateway of a classic PySpark session, in the driver's JVM.

    Errors: :class:`~laneshift.errors.SessionError` if the session has stopped or its JVM does not
    have the plugin's entry class.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._calls: dict[str, Any] = {}
        self._context = spark.sparkContext
        self._require_running("attach")
        self._entry = _entry(spark._jvm)
        if self._entry is None:
            plugins = spark.sparkContext.getConf().get("spark.plugins", "") or ""
            state = f"spark.plugins is '{plugins}'" if plugins else "spark.plugins is not set"
            raise error("LANESHIFT_NOT_LOADED", found=f"no class {ENTRY_CLASS}, {state}")

    def version(self) -> str:
        return str(self._text("version"))

    def snapshot(self) -> dict[str, Any]:
        return self._object("snapshot")

    def packed_snapshot(self, known: int) -> dict[str, Any]:
        return self._object("packedSnapshot", known)

    def set_lanes(
        self,
        query: str,
        operator: int,
        partition: int | None,
        lanes: int,
        elsewhere: Mapping[str, int] | None = None,
    ) -> dict[str, Any]:
        hosts = "" if elsewhere is None else json.dumps(dict(elsewhere))
        there = ALL_PARTITIONS if partition is None else partition
        return self._object("setLanes", query, operator, there, lanes, hosts)

    def set_many_lanes(self, wishes: Sequence[LanesWish]) -> list[dict[str, Any] | LaneshiftError]:
        found: list[dict[str, Any] | LaneshiftError] = []
        for text in self._list("setManyLanes", json.dumps([asdict(wish) for wish in wishes])):
            try:
                said = decode("setLanes", str(text))
                if "failed" in said:
                    said = error("LANESHIFT_JVM_FAILED", method="setLanes", cause=said["failed"])
            except LaneshiftError as problem:
                said = problem
            found.append(said)
        return found

    def set_tasks(self, query: str, operator: int, tasks: str) -> dict[str, Any]:
        return self._object("setTasks", query, operator, tasks)

    def move_shard(
        self, query: str, operator: int, partition: int, shard: int, lane: int
    ) -> dict[str, Any]:
        return self._object("moveShard", query, operator, partition, shard, lane)

    def handoffs(self, query: str, limit: int) -> list[dict[str, Any]]:
        return self._list("handoffs", query, limit)

    def limit_source(self, query: str, rate: float, seconds: float) -> dict[str, Any]:
        return self._object("limitSource", query, float(rate), float(seconds))

    def claim(self, scheduler: str, policy: str, run: str, seconds: float) -> None:
        decode("claim", self._text("claim", scheduler, policy, run, seconds))

    def release(self, scheduler: str) -> None:
        decode("release", self._text("release", scheduler))

    def demand_executors(
        self, scheduler: str, most: int, total: int, give_back: Sequence[str]
    ) -> dict[str, Any]:
        ids = json.dumps(list(give_back))
        return self._object("demandExecutors", scheduler, most, total, ids)

    def await_pressed(self, scheduler: str, run: str, after: int, seconds: float) -> dict[str, Any]:
        return self._object("awaitPressed", scheduler, run, after, float(seconds))

    def claim_keys(self, query: str, operator: int, apart: str, seconds: float) -> dict[str, Any]:
        return self._object("claimKeys", query, operator, apart, float(seconds))

    def decided(self, decision: dict[str, Any]) -> None:
        decode("decided", self._text("decided", json.dumps(decision)))

    def rescale(self, query: str, partitions: int) -> dict[str, Any]:
        return self._object("rescale", query, partitions)

    def rescaling(self, query: str) -> dict[str, Any]:
        return self._object("rescaling", query)

    def cancel_rescale(self, query: str) -> dict[str, Any]:
        return self._object("cancelRescale", query)

    def _object(self, method: str, *arguments: str | float) -> dict[str, Any]:
        value = decode(method, self._text(method, *arguments))
        if not isinstance(value, dict):
            raise error("LANESHIFT_BAD_REPLY", method=method, problem="not a JSON object")
        return value

    def _list(self, method: str, *arguments: str | float) -> list[Any]:
        value = decode(method, self._text(method, *arguments))
        if not isinstance(value, list):
            raise error("LANESHIFT_BAD_REPLY", method=method, problem="not a JSON list")
        return value

    def _text(self, method: str, *arguments: str | float) -> str:
        from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

        self._require_running(method)
        try:
            answer_promptly(self._entry._gateway_client)
            call = self._calls.get(method)
            if call is None:  # py4j asks the JVM what an attribute is, each time
                call = self._calls[method] = getattr(self._entry, method)
            return str(call(*arguments))
        except Py4JJavaError as cause:
            reason = str(cause.java_exception.toString())
            raise error("LANESHIFT_JVM_FAILED", method=method, cause=reason) from cause
        except (Py4JNetworkError, ConnectionError) as cause:
            raise error("LANESHIFT_SESSION_STOPPED", method=method) from cause
        except Py4JError as cause:
            reason = str(cause).strip().splitlines()[0]
            raise error("LANESHIFT_BAD_REPLY", method=method, problem=reason) from cause

    def _require_running(self, method: str) -> None:
        if self._context._jsc is None:
            raise error("LANESHIFT_SESSION_STOPPED", method=method)


class PortGateway(Py4jGateway):
    """The gateway of a driver that listens on a port of this machine, for a process beside it.

    Errors: :class:`~laneshift.errors.SessionError` if nobody answers there.
    """

    def __init__(self, port: int, token: str) -> None:
        from py4j.java_gateway import GatewayParameters, JavaGateway

        self._calls = {}
        parameters = GatewayParameters(port=port, auth_token=token)
        self._entry = _entry(JavaGateway(gateway_parameters=parameters).jvm)
        if self._entry is None:
            raise error("LANESHIFT_NOT_LOADED", found=f"no class {ENTRY_CLASS}")

    def _require_running(self, method: str) -> None:
        """The call itself finds out."""


def entry_of(spark: SparkSession) -> Any:
    """The plugin's entry class in the driver's JVM. Errors: SessionError if it is not there."""
    return Py4jGateway(spark)._entry


def _entry(jvm: Any) -> Any:
    """The plugin's entry class, None if the JVM does not have it."""
    found = jvm
    for name in ENTRY_CLASS.split("."):
        found = getattr(found, name)
    # py4j hands out a JavaPackage for any name that it does not know, and fails when called.
    return found if type(found).__name__ == "JavaClass" else None


def decode(method: str, text: str) -> Any:
    """The value of an answer's envelope; raises the error that it carries, if it does."""
    try:
        reply = json.loads(text)
    except json.JSONDecodeError as cause:
        raise error("LANESHIFT_BAD_REPLY", method=method, problem=f"no JSON: {cause}") from cause
    if isinstance(reply, dict) and isinstance(reply.get("error"), dict):
        raise from_jvm(reply["error"])
    if not isinstance(reply, dict) or "ok" not in reply:
        raise error("LANESHIFT_BAD_REPLY", method=method, problem='neither "ok" nor "error" in it')
    return reply["ok"]


def read(method: str, reader: Callable[[Any], T], data: object) -> T:
    """What ``reader`` makes of an answer. Errors: SessionError if it is malformed."""
    try:
        return reader(data)
    except (KeyError, TypeError, ValueError) as cause:
        problem = f"{type(cause).__name__} {cause}"
        raise error("LANESHIFT_BAD_REPLY", method=method, problem=problem) from cause
