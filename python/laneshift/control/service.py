"""The calls of ``laneshift.control.v1``, answered by the plugin."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import grpc

from laneshift.control.codec import to_message
from laneshift.control.failures import status_of
from laneshift.control.feed import PackedQuery, SnapshotFeed
from laneshift.control.protocol import LONGEST_S, REVISION, SHORTEST_S
from laneshift.control.replies import Replies, next_tick
from laneshift.control.running import Run, RunningPolicies
from laneshift.control.streams import Streams
from laneshift.control.tokens import Caller
from laneshift.control.v1 import control_pb2 as pb
from laneshift.control.v1.control_pb2_grpc import ControlServicer
from laneshift.errors import InputError, LaneshiftError, error, shown
from laneshift.inputcheck import number, whole
from laneshift.loop.scheduler import LiveScheduler
from laneshift.loop.start import check_executors, check_turns, chosen_policy
from laneshift.plugin.gateway import Gateway
from laneshift.version import __version__

F = TypeVar("F", bound=Callable[..., Any])

MOST_HANDOFFS = 100_000
READY = frozenset({"Snapshot", "WatchSnapshots"})
"""Calls that answer with bytes, made once for all who look."""


def answered(call: F) -> F:
    """Let a call's errors reach its caller; one that is not ours is told to the log, too."""

    @functools.wraps(call)
    def wrapped(self: ControlService, request: Any, context: grpc.ServicerContext) -> Any:
        with self.problems(call.__name__, context):
            return call(self, request, context)

    return wrapped  # type: ignore[return-value]


def streamed(call: F) -> F:
    """The same for a call that answers with a stream."""

    @functools.wraps(call)
    def wrapped(self: ControlService, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        with self.problems(call.__name__, context):
            yield from call(self, request, context)

    return wrapped  # type: ignore[return-value]


class _Problems:
    """A context manager that ends the call with what was raised in it."""

    def __init__(self, method: str, context: grpc.ServicerContext, tell: Callable[[str], None]):
        self._method = method
        self._context = context
        self._tell = tell

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if isinstance(problem, LaneshiftError):
            self._context.abort_with_status(status_of(problem))
        if isinstance(problem, Exception):
            said = f"{type(problem).__name__}: {problem}"[:500]
            self._tell(f"control: {self._method} of {self._context.peer()} failed: {said}")
            self._context.abort(grpc.StatusCode.INTERNAL, said)


class ControlService(ControlServicer):
    """Answers for one application.

    Args:
        gateway: its plugin.
        policies: the policies that run here.
        caller: tells who calls from the call's metadata; who is nobody does not get here.
        tenants_share: whether each Connect session may see and steer every query.
        tell: writes a line to the log.
    """

    def __init__(
        self,
        gateway: Gateway,
        policies: RunningPolicies,
        caller: Callable[[grpc.ServicerContext], Caller],
        *,
        tenants_share: bool = False,
        tell: Callable[[str], None] = print,
    ) -> None:
        self._gateway = gateway
        self._feed = SnapshotFeed(gateway.packed_snapshot)
        self._replies = Replies(self._feed)
        self._policies = policies
        self._caller_of = caller
        self._tenants_share = tenants_share
        self._tell = tell
        self._streams = Streams()

    def problems(self, method: str, context: grpc.ServicerContext) -> _Problems:
        """Ends the call with what is raised inside."""
        return _Problems(method, context, self._tell)

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return self._streams.count

    def close(self) -> None:
        """End all streams."""
        self._streams.close()

    # ---- looking

    @answered
    def Hello(self, request: pb.HelloRequest, context: grpc.ServicerContext) -> pb.HelloReply:
        tenant = self._caller_of(context).tenant
        return pb.HelloReply(version=__version__, revision=REVISION, tenant=tenant or "")

    @answered
    def Snapshot(  # type: ignore[override]  # as bytes: see READY
        self, request: pb.SnapshotRequest, context: grpc.ServicerContext
    ) -> bytes:
        return self._replies.newest(self._tenant(context)).whole

    @streamed
    def WatchSnapshots(  # type: ignore[override]
        self, request: pb.WatchSnapshotsRequest, context: grpc.ServicerContext
    ) -> Iterator[bytes]:
        interval_s = number(
            "interval_s", request.interval_s, low=SHORTEST_S, high=LONGEST_S, unit="s"
        )
        tenant = self._tenant(context)
        ended, last = self._streams.ended(context), None
        while not ended.is_set():
            reply = self._replies.newest(tenant, interval_s / 2)
            if last is None or reply.time_ms != last.time_ms:
                known = request.may_say_same and last is not None and last.body is reply.body
                last = reply
                yield reply.same if known else reply.whole
            now = time.monotonic()
            ended.wait(next_tick(now, interval_s) - now)
        self._end("WatchSnapshots")

    @answered
    def Handoffs(
        self, request: pb.HandoffsRequest, context: grpc.ServicerContext
    ) -> pb.HandoffsReply:
        whole("limit", request.limit, low=1, high=MOST_HANDOFFS)
        tenant = self._tenant(context)
        if tenant is None:
            found = self._gateway.handoffs(request.query, request.limit)
        elif request.query:
            found = self._gateway.handoffs(self._own(tenant, request.query), request.limit)
        else:
            mine = {q.id for q in self._queries(tenant)}
            everyone = self._gateway.handoffs("", MOST_HANDOFFS)
            found = [h for h in everyone if h["query_id"] in mine][-request.limit :]
        return pb.HandoffsReply(handoffs=(to_message(pb.Handoff(), each) for each in found))

    @streamed
    def Decisions(
        self, request: pb.DecisionsRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.Decision]:
        may_see = self._may_see(context)
        if request.id:
            self._policies.find(request.id, may_see)
        ended = self._streams.ended(context)
        for decision in self._policies.decisions(
            may_see,
            whole("limit", request.limit, low=0, high=10_000),
            request.id,
            follow=request.follow,
            is_wanted=lambda: not ended.is_set(),
        ):
            yield to_message(pb.Decision(), decision.to_json())
        self._end("Decisions")

    def _end(self, method: str) -> None:
        """A stream that its caller still wants ends with an error only."""
        if self._streams.is_over:
            raise error("LANESHIFT_SESSION_STOPPED", method=method)

    # ---- commands

    @answered
    def SetLanes(
        self, request: pb.SetLanesRequest, context: grpc.ServicerContext
    ) -> pb.AppliedReply:
        query = self._own(self._tenant(context), request.query)
        there = None if request.keep_elsewhere else dict(request.elsewhere)
        done = self._gateway.set_lanes(
            query, request.operator, request.partition, request.lanes, there
        )
        return pb.AppliedReply(applied=str(done["applied"]))

    @answered
    def SetTasks(
        self, request: pb.SetTasksRequest, context: grpc.ServicerContext
    ) -> pb.AppliedReply:
        query = self._own(self._tenant(context), request.query)
        done = self._gateway.set_tasks(query, request.operator, request.tasks)
        return pb.AppliedReply(applied=str(done["applied"]))

    @answered
    def Rescale(self, request: pb.RescaleRequest, context: grpc.ServicerContext) -> pb.RescaleReply:
        query = self._own(self._tenant(context), request.query)
        done = self._gateway.rescale(query, request.partitions)
        self._tell(f"control: {context.peer()} rescales {query} to {request.partitions} partitions")
        return to_message(pb.RescaleReply(), done)

    @answered
    def Rescaling(
        self, request: pb.RescalingRequest, context: grpc.ServicerContext
    ) -> pb.RescaleReply:
        query = self._own(self._tenant(context), request.query)
        return to_message(pb.RescaleReply(), self._gateway.rescaling(query))

    @answered
    def CancelRescale(
        self, request: pb.CancelRescaleRequest, context: grpc.ServicerContext
    ) -> pb.RescaleReply:
        query = self._own(self._tenant(context), request.query)
        return to_message(pb.RescaleReply(), self._gateway.cancel_rescale(query))

    @answered
    def MoveShard(
        self, request: pb.MoveShardRequest, context: grpc.ServicerContext
    ) -> pb.AppliedReply:
        query = self._own(self._tenant(context), request.query)
        done = self._gateway.move_shard(
            query, request.operator, request.partition, request.shard, request.lane
        )
        return pb.AppliedReply(applied=str(done["applied"]))

    @answered
    def LimitSource(
        self, request: pb.LimitSourceRequest, context: grpc.ServicerContext
    ) -> pb.AppliedReply:
        number("rows_per_second", request.rows_per_second, low=0, unit="rows/s")
        number("seconds", request.seconds, low=0, high=3600.0, unit="s")
        query = self._own(self._tenant(context), request.query)
        done = self._gateway.limit_source(query, request.rows_per_second, request.seconds)
        return pb.AppliedReply(applied=str(done["applied"]))

    # ---- policies

    @answered
    def StartPolicy(
        self, request: pb.StartPolicyRequest, context: grpc.ServicerContext
    ) -> pb.PolicyRun:
        tenant = self._tenant(context)
        if tenant is not None and not request.query:
            raise error("LANESHIFT_OTHER_TENANT", value="all queries", range=self._mine(tenant))
        if ":" in request.policy and self._caller_of(context).tenant is not None:
            raise InputError(
                "policy", request.policy, "a policy's name",
                "Only who has the control process's own token may name module:Class; a package "
                "that is installed there can give a policy a name.",
            )  # fmt: skip
        target = request.target_latency_ms if request.HasField("target_latency_ms") else None
        cores = request.cores if request.HasField("cores") else None
        policy = chosen_policy(request.policy, target, _parameters(request.parameters))
        check_turns(request.interval_s, cores)
        most = request.max_executors if request.HasField("max_executors") else None
        if most and self._caller_of(context).tenant is not None:
            raise InputError(
                "max_executors", most, "0, or left out",
                "Executors are the whole server's: who has the control process's own token asks "
                "for them, or the server's spark.sql.laneshift.executors.max.",
            )  # fmt: skip
        check_executors(policy, most)
        query = self._run_of(tenant, request.query) if request.query else ""
        scheduler = LiveScheduler(
            self._gateway,
            policy,
            interval_s=request.interval_s,
            query=query or None,
            cores=cores,
            dry_run=request.dry_run,
            max_executors=most,
        )
        run = self._policies.add(scheduler, query, self._caller_of(context).tenant)
        try:
            scheduler.begin()
        except BaseException:
            self._policies.drop(run)
            raise
        self._tell(f"control: {context.peer()} has started {run.id}")
        return _told(run)

    @answered
    def StopPolicy(
        self, request: pb.StopPolicyRequest, context: grpc.ServicerContext
    ) -> pb.PolicyRun:
        run = self._policies.find(request.id, self._may_see(context))
        run.scheduler.stop()
        self._tell(f"control: {context.peer()} has stopped {run.id}")
        return _told(run)

    @answered
    def PausePolicy(
        self, request: pb.PausePolicyRequest, context: grpc.ServicerContext
    ) -> pb.PolicyRun:
        run = self._policies.find(request.id, self._may_see(context))
        if request.paused:
            run.scheduler.pause()
        else:
            run.scheduler.resume()
        return _told(run)

    @answered
    def Policies(
        self, request: pb.PoliciesRequest, context: grpc.ServicerContext
    ) -> pb.PoliciesReply:
        return pb.PoliciesReply(runs=map(_told, self._policies.visible(self._may_see(context))))

    # ---- whose is what

    def _tenant(self, context: grpc.ServicerContext) -> str | None:
        """Whose queries the caller may see and steer, None for all."""
        return None if self._tenants_share else self._caller_of(context).tenant

    def _may_see(self, context: grpc.ServicerContext) -> Callable[[Run], bool]:
        tenant = self._tenant(context)
        return lambda run: tenant is None or run.tenant == tenant

    def _queries(self, tenant: str) -> list[PackedQuery]:
        return [q for q in self._feed.newest().content.queries if q.tenant == tenant]

    def _own(self, tenant: str | None, query: str) -> str:
        """The query as it was named, if the caller may steer it. Errors: NotFoundError."""
        return query if tenant is None else self._found(tenant, query).id

    def _run_of(self, tenant: str | None, query: str) -> str:
        return self._found(tenant, query).run_id

    def _found(self, tenant: str | None, query: str) -> PackedQuery:
        every: Sequence[PackedQuery] = (
            self._feed.newest().content.queries if tenant is None else self._queries(tenant)
        )
        same = [q for q in every if query in (q.id, q.run_id, q.name)]
        if len(same) > 1:
            ids = ", ".join(sorted(q.id for q in same))
            raise error("LANESHIFT_AMBIGUOUS_QUERY", value=shown(query), count=len(same), ids=ids)
        if not same:
            there = ", ".join(_label(q) for q in every[:20]) or "none"
            raise error("LANESHIFT_NO_SUCH_QUERY", value=shown(query), range=there)
        return same[0]

    def _mine(self, tenant: str) -> str:
        return ", ".join(map(_label, self._queries(tenant)[:20])) or "none now"


def _label(query: PackedQuery) -> str:
    return f"{query.name!r} ({query.id})" if query.name else query.id


def _parameters(given: Mapping[str, str]) -> dict[str, Any]:
    try:
        return {name: json.loads(text) for name, text in given.items()}
    except ValueError as cause:
        raise InputError("parameters", dict(given), "JSON values", f"{cause}.") from cause


def _told(run: Run) -> pb.PolicyRun:
    scheduler = run.scheduler
    return pb.PolicyRun(
        id=run.id,
        policy=scheduler.policy.name,
        query=run.query,
        running=scheduler.is_running,
        paused=scheduler.is_paused,
        dry_run=scheduler.is_dry_run,
        turns=scheduler.turns,
    )
