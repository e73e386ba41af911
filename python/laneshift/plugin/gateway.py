"""The one place where Python calls the plugin: a method of a Gateway is one call.

Requests and replies are messages of ``control.proto``, the same over py4j and over gRPC; errors
come out as :mod:`laneshift.errors`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from google.protobuf.message import Message

from laneshift.errors import LaneshiftError, error, shown
from laneshift.plugin.handoff import Handoff
from laneshift.plugin.jar import check_versions
from laneshift.plugin.press import Press
from laneshift.plugin.prompt import answer_promptly
from laneshift.plugin.rescale import OfflineRescale, RescaleProgress
from laneshift.plugin.snapshot import Snapshot
from laneshift.plugin.standing import Standing
from laneshift.plugin.v1 import control_pb2 as pb
from laneshift.plugin.wire import M, failed, filled, parsed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENTRY_CLASS = "org.apache.spark.sql.laneshift.api.LaneshiftGateway"
PLUGIN_CLASS = "org.apache.spark.sql.laneshift.LaneshiftPlugin"


class Applied(StrEnum):
    """When the plugin applies a command: ``NOW``, or ``NEXT_BATCH``, from that on."""

    NOW = "now"
    NEXT_BATCH = "next-batch"


class Gateway(ABC):
    """What the plugin can be asked; :meth:`ask` says how. Any thread may call.

    Every method may raise a LaneshiftError. A query is named by its id, its run's id or its name.
    """

    @abstractmethod
    def ask(self, method: str, request: Message, reply: type[M]) -> M:
        """The plugin's reply to a request."""

    @abstractmethod
    def version(self) -> str:
        """Version of the jar."""

    # ---- what users may ask, over gRPC too

    def snapshot(self) -> Snapshot:
        """All queries with their elastic operators."""
        return filled(Snapshot, self.ask("Snapshot", pb.SnapshotRequest(), pb.SnapshotReply))

    def set_lanes(self, wishes: Iterable[pb.LanesWish]) -> list[Applied | LaneshiftError]:
        """Ask for numbers of lanes; what comes of each, in the same order."""
        return self._outcomes("SetLanes", pb.SetLanesRequest(wishes=wishes))

    def set_tasks(self, wishes: Iterable[pb.TasksWish]) -> list[Applied | LaneshiftError]:
        """Ask for numbers of tasks for operators' state partitions; what comes of each."""
        return self._outcomes("SetTasks", pb.SetTasksRequest(wishes=wishes))

    def move(self, wishes: Iterable[pb.MoveWish]) -> list[Applied | LaneshiftError]:
        """Ask for handoffs of shards to lanes; what comes of each."""
        return self._outcomes("Move", pb.MoveRequest(wishes=wishes))

    def handoffs(self, query: str, limit: int) -> tuple[Handoff, ...]:
        """The newest ``limit`` handoffs of a query (of all if empty), oldest first."""
        request = pb.HandoffsRequest(query=query, limit=limit)
        found = self.ask("Handoffs", request, pb.HandoffsReply).handoffs
        return tuple(filled(Handoff, each) for each in found)

    def limit_source(self, query: str, rate: float, seconds: float) -> Applied:
        """Hold a query's source to ``rate`` rows/s for a while; 0 seconds end a limit in force."""
        request = pb.LimitSourceRequest(query=query, rows_per_second=rate, duration_s=seconds)
        return _applied(self.ask("LimitSource", request, pb.AppliedReply).applied)

    def rescale(self, query: str, partitions: int) -> RescaleProgress:
        """Ask for another number of state partitions of a running query."""
        request = pb.RescaleRequest(query=query, partitions=partitions)
        return filled(RescaleProgress, self.ask("Rescale", request, pb.RescaleReply))

    def rescaling(self, query: str) -> RescaleProgress:
        """How the newest rescale of a running query stands."""
        request = pb.RescalingRequest(query=query)
        return filled(RescaleProgress, self.ask("Rescaling", request, pb.RescaleReply))

    def cancel_rescale(self, query: str) -> RescaleProgress:
        """Give the rescale of a running query up."""
        request = pb.CancelRescaleRequest(query=query)
        return filled(RescaleProgress, self.ask("CancelRescale", request, pb.RescaleReply))

    # ---- what autoscalers ask, beside the driver

    def claim(self, autoscaler: str, policy: str, run: str, seconds: float) -> None:
        """Let an autoscaler drive a run, all queries if empty, for so long: none has two."""
        request = pb.ClaimRequest(autoscaler=autoscaler, policy=policy, run_id=run, seconds=seconds)
        self.ask("Claim", request, pb.DoneReply)

    def release(self, autoscaler: str) -> None:
        """Give an autoscaler's claim up."""
        self.ask("Release", pb.ReleaseRequest(autoscaler=autoscaler), pb.DoneReply)

    def claim_keys(self, query: str, operator: int, apart: bool | None, seconds: float) -> None:
        """Decide for so many seconds where keys of an operator go; 0 ends it.

        The plugin moves no shard by itself then, and row-wise work above the state is apart from
        the next batch on or not, or with None as it would be.
        """
        request = pb.ClaimKeysRequest(query=query, operator=operator, apart=apart, seconds=seconds)
        self.ask("ClaimKeys", request, pb.AppliedReply)

    def demand_executors(
        self, autoscaler: str, most: int, total: int, give_back: Iterable[str]
    ) -> Standing:
        """How many executors an autoscaler wants in all, at ``most``, and which it does not need.

        0 executors are as many as before, and a ``most`` of 0 is what the configuration says.
        """
        request = pb.DemandExecutorsRequest(
            autoscaler=autoscaler, most=most, total=total, give_back=give_back
        )
        return filled(Standing, self.ask("DemandExecutors", request, pb.DemandExecutorsReply))

    def await_pressed(
        self, autoscaler: str, run: str, after: int, seconds: float
    ) -> tuple[int, tuple[Press, ...]]:
        """Wait for pressed partitions of a run, of all if empty, told of after number ``after``.

        The newest number, and they: none after ``seconds``, or if the same autoscaler calls again.
        """
        request = pb.AwaitPressedRequest(
            autoscaler=autoscaler, run_id=run, after=after, seconds=seconds
        )
        said = self.ask("AwaitPressed", request, pb.AwaitPressedReply)
        return said.seq, tuple(filled(Press, each) for each in said.presses)

    def decided(self, decision: pb.Decision) -> None:
        """Tell the plugin what an autoscaler has decided: Spark's UI shows it."""
        self.ask("Decided", decision, pb.DoneReply)

    def _outcomes(self, method: str, request: Message) -> list[Applied | LaneshiftError]:
        return [
            failed(each.failure) if each.HasField("failure") else _applied(each.applied)
            for each in self.ask(method, request, pb.OutcomesReply).outcomes
        ]


def _applied(said: pb.Applied.ValueType) -> Applied:
    return Applied[pb.Applied.Name(said)]


def the_one(outcomes: list[Applied | LaneshiftError]) -> Applied:
    """What came of the only wish. Errors: what it came to."""
    (outcome,) = outcomes
    if isinstance(outcome, LaneshiftError):
        raise outcome
    return outcome


def connect(gateway: Gateway) -> str:
    """The version of the plugin behind ``gateway``, which must run and fit this package.

    Errors: :class:`~laneshift.errors.SessionError` if it does not.
    """
    version = gateway.version()
    check_versions(version)
    gateway.snapshot()  # raises LANESHIFT_NOT_LOADED if the plugin did not start
    return version


class Py4jGateway(Gateway):
    """The gateway of a classic PySpark session, in the driver's JVM.

    Errors: :class:`~laneshift.errors.ArgumentError` for what is no such session,
    :class:`~laneshift.errors.SessionError` if it has stopped or its JVM does not have the plugin's
    entry class.
    """

    def __init__(self, spark: SparkSession) -> None:
        if not hasattr(spark, "_jvm") or not hasattr(spark, "sparkContext"):
            # One of Spark Connect has the same name.
            kind = f"{type(spark).__module__}.{type(spark).__qualname__}".removeprefix("builtins.")
            raise error("LANESHIFT_NOT_A_SESSION", value=shown(spark), type=kind)
        self._calls: dict[str, Any] = {}
        self._context = spark.sparkContext
        self._require_running("attach")
        self._entry = _entry(spark._jvm)
        if self._entry is None:
            plugins = spark.sparkContext.getConf().get("spark.plugins", "") or ""
            state = f"spark.plugins is '{plugins}'" if plugins else "spark.plugins is not set"
            raise error("LANESHIFT_NOT_LOADED", found=f"no class {ENTRY_CLASS}, {state}")

    def version(self) -> str:
        return str(self._called("version", "version"))

    def ask(self, method: str, request: Message, reply: type[M]) -> M:
        asked = b64encode(request.SerializeToString()).decode("ascii")
        said = self._called(method, "ask", method, asked)
        return _answered(method, reply, said)

    def rescale_offline(
        self, spark: SparkSession, checkpoint: str, partitions: int, check: bool
    ) -> OfflineRescale:
        """Give the checkpoint of a query that does not run other state partitions."""
        arguments = (spark._jsparkSession, checkpoint, partitions, check)
        said = self._called("rescaleOffline", "rescaleOffline", *arguments)
        return filled(OfflineRescale, _answered("rescaleOffline", pb.OfflineRescaleReply, said))

    def _called(self, said: str, method: str, *arguments: Any) -> Any:
        """What the entry class answers; errors call that what was ``said``."""
        from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

        self._require_running(said)
        try:
            answer_promptly(self._entry._gateway_client)
            call = self._calls.get(method)
            if call is None:  # py4j asks the JVM what an attribute is, each time
                call = self._calls[method] = getattr(self._entry, method)
            return call(*arguments)
        except Py4JJavaError as cause:
            reason = str(cause.java_exception.toString())
            raise error("LANESHIFT_JVM_FAILED", method=said, cause=reason) from cause
        except (Py4JNetworkError, ConnectionError) as cause:
            raise error("LANESHIFT_SESSION_STOPPED", method=said) from cause
        except Py4JError as cause:
            reason = str(cause).strip().splitlines()[0]
            raise error("LANESHIFT_BAD_REPLY", method=said, problem=reason) from cause

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


def _entry(jvm: Any) -> Any:
    """The plugin's entry class, None if the JVM does not have it."""
    found = jvm
    for name in ENTRY_CLASS.split("."):
        found = getattr(found, name)
    # py4j hands out a JavaPackage for any name that it does not know, and fails when called.
    return found if type(found).__name__ == "JavaClass" else None


def _answered(method: str, reply: type[M], said: Any) -> M:
    """The reply in an answer of the plugin; raises the error that it carries, if it does."""
    try:
        packed = b64decode(str(said), validate=True)
    except ValueError as cause:
        raise error("LANESHIFT_BAD_REPLY", method=method, problem=str(cause)) from cause
    answer = parsed(method, pb.Answer, packed)
    if answer.HasField("failure"):
        raise failed(answer.failure)
    if not answer.HasField("reply"):
        raise error("LANESHIFT_BAD_REPLY", method=method, problem="neither reply nor failure in it")
    return parsed(method, reply, answer.reply)
