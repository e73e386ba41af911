"""The calls of ``laneshift.control.v1``, answered by the plugin."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from laneshift.autoscale.loop import AutoscaleLoop
from laneshift.autoscale.options import AutoscaleOptions, chosen_policy
from laneshift.control.calls import Call
from laneshift.control.feed import SnapshotFeed
from laneshift.control.protocol import LONGEST_S, REVISION, SHORTEST_S
from laneshift.control.replies import Replies, SharedReplies, next_tick
from laneshift.control.running import Run, RunningAutoscalers
from laneshift.control.streams import Streams
from laneshift.errors import InputError, LaneshiftError, error, shown
from laneshift.inputcheck import number, whole
from laneshift.plugin.gateway import Gateway
from laneshift.plugin.v1 import control_pb2 as pb
from laneshift.plugin.wire import M, failure
from laneshift.version import __version__

MOST_HANDOFFS = 100_000


class ControlService:
    """Answers for one application. Its calls may come on any thread, but for streams of snapshots.

    Args:
        gateway: its plugin.
        policies: the policies that run here.
        tenants_share: whether each Connect session may see and steer every query.
        tell: writes a line to the log.
    """

    def __init__(
        self,
        gateway: Gateway,
        policies: RunningAutoscalers,
        *,
        tenants_share: bool = False,
        tell: Callable[[str], None] = print,
    ) -> None:
        self._gateway = gateway
        self._feed = SnapshotFeed(
            lambda request: gateway.ask("Snapshot", request, pb.SnapshotReply)
        )
        self._replies = Replies(self._feed)
        self._shared = SharedReplies(self._replies)
        self._policies = policies
        self._tenants_share = tenants_share
        self._tell = tell
        self._streams = Streams()

    @property
    def streams(self) -> int:
        """How many streams are open."""
        return self._streams.count

    def close(self) -> None:
        """End all streams."""
        self._streams.close()

    # ---- looking

    def Hello(self, request: pb.HelloRequest, call: Call) -> pb.HelloReply:
        tenant = call.caller.tenant
        return pb.HelloReply(version=__version__, revision=REVISION, tenant=tenant or "")

    def Snapshot(self, request: pb.SnapshotRequest, call: Call) -> bytes:
        newest = self._replies.newest(self._tenant(call))
        return newest.same if request.known == newest.number else newest.whole

    async def WatchSnapshots(
        self, request: pb.WatchSnapshotsRequest, call: Call
    ) -> AsyncIterator[bytes]:
        interval_s = number(
            "interval_s", request.interval_s, low=SHORTEST_S, high=LONGEST_S, unit="s"
        )
        tenant = self._tenant(call)
        last = None
        with self._streams.opened():
            while not self._streams.is_over:
                reply = await self._shared.newest(tenant, interval_s / 2)
                if last is None or reply.time_ms != last.time_ms:
                    known = last is not None and last.body is reply.body
                    last = reply
                    yield reply.same if known else reply.whole
                now = time.monotonic()
                await self._streams.rest(next_tick(now, interval_s) - now)
        raise _ended("WatchSnapshots")

    def Handoffs(self, request: pb.HandoffsRequest, call: Call) -> pb.HandoffsReply:
        whole("limit", request.limit, low=1, high=MOST_HANDOFFS)
        tenant = self._tenant(call)
        if tenant is None or request.query:
            return self._passed("Handoffs", request, pb.HandoffsReply, call)
        mine = dict.fromkeys(q.id for q in self._seen(tenant))
        each = (pb.HandoffsRequest(query=query, limit=request.limit) for query in mine)
        replies = (self._gateway.ask("Handoffs", one, pb.HandoffsReply) for one in each)
        found = chain.from_iterable(reply.handoffs for reply in replies)
        every = sorted(found, key=lambda h: (h.time_ms, h.seq))
        return pb.HandoffsReply(handoffs=every[-request.limit :])

    def Decisions(self, request: pb.DecisionsRequest, call: Call) -> Iterator[pb.Decision]:
        may_see = self._may_see(call)
        if request.id:
            self._policies.find(request.id, may_see)
        with self._streams.opened():
            for number, decision in self._policies.decisions(
                may_see,
                whole("limit", request.limit, low=0, high=10_000),
                request.id,
                after=request.after if request.HasField("after") else None,
                follow=request.follow,
                is_wanted=lambda: not (call.ended.is_set() or self._streams.is_over),
            ):
                yield decision.to_message(number)
        if self._streams.is_over:
            raise _ended("Decisions")

    # ---- commands

    def SetLanes(self, request: pb.SetLanesRequest, call: Call) -> pb.OutcomesReply:
        return self._wished("SetLanes", request, call)

    def SetTasks(self, request: pb.SetTasksRequest, call: Call) -> pb.OutcomesReply:
        return self._wished("SetTasks", request, call)

    def Move(self, request: pb.MoveRequest, call: Call) -> pb.OutcomesReply:
        return self._wished("Move", request, call)

    def LimitSource(self, request: pb.LimitSourceRequest, call: Call) -> pb.AppliedReply:
        number("rows_per_second", request.rows_per_second, low=0, unit="rows/s")
        number("duration", request.duration_s, low=0, high=3600.0, unit="s")
        return self._passed("LimitSource", request, pb.AppliedReply, call)

    def Rescale(self, request: pb.RescaleRequest, call: Call) -> pb.RescaleReply:
        done = self._passed("Rescale", request, pb.RescaleReply, call)
        self._tell(
            f"control: {call.peer} rescales {request.query} to {request.partitions} partitions"
        )
        return done

    def Rescaling(self, request: pb.RescalingRequest, call: Call) -> pb.RescaleReply:
        return self._passed("Rescaling", request, pb.RescaleReply, call)

    def CancelRescale(self, request: pb.CancelRescaleRequest, call: Call) -> pb.RescaleReply:
        return self._passed("CancelRescale", request, pb.RescaleReply, call)

    def _passed(self, method: str, request: Any, reply: type[M], call: Call) -> M:
        """What the plugin replies, if the caller may steer the query of the request."""
        tenant = self._tenant(call)
        if tenant is not None:
            request.query = _found(self._seen(tenant), request.query).id
        return self._gateway.ask(method, request, reply)

    def _wished(self, method: str, request: Any, call: Call) -> pb.OutcomesReply:
        """The same for each wish: what comes of one is by itself."""
        tenant = self._tenant(call)
        if tenant is None:
            return self._gateway.ask(method, request, pb.OutcomesReply)
        mine, outcomes, allowed = self._seen(tenant), [], type(request)()
        for wish in request.wishes:
            outcome = pb.Outcome()
            try:
                wish.query = _found(mine, wish.query).id
                allowed.wishes.append(wish)
            except LaneshiftError as problem:
                outcome.failure.CopyFrom(failure(problem))
            outcomes.append(outcome)
        came = iter(self._gateway.ask(method, allowed, pb.OutcomesReply).outcomes)
        each = (o if o.HasField("failure") else next(came) for o in outcomes)
        return pb.OutcomesReply(outcomes=each)

    # ---- policies

    def Autoscale(self, request: pb.AutoscaleRequest, call: Call) -> pb.Autoscaler:
        tenant = self._tenant(call)
        if tenant is not None and not request.query:
            raise error("LANESHIFT_OTHER_TENANT", value="all queries", range=self._mine(tenant))
        if ":" in request.policy and call.caller.tenant is not None:
            raise InputError(
                "policy", request.policy, "a policy's name",
                "Only who has the control process's own token may name module:Class; a package "
                "that is installed there can give a policy a name.",
            )  # fmt: skip
        target = request.target_latency_s if request.HasField("target_latency_s") else None
        policy = chosen_policy(request.policy, target, _parameters(request.parameters))
        options = AutoscaleOptions(
            interval_s=request.interval_s,
            cores=request.cores if request.HasField("cores") else None,
            max_executors=request.max_executors if request.HasField("max_executors") else None,
            dry_run=request.dry_run,
        )
        most = options.max_executors
        if most and call.caller.tenant is not None:
            raise InputError(
                "max_executors", most, "0, or left out",
                "Executors are the whole server's: who has the control process's own token asks "
                "for them, or the server's spark.sql.laneshift.executors.max.",
            )  # fmt: skip
        options.check_for(policy)
        query = _found(self._seen(tenant), request.query).id if request.query else ""
        autoscaler = AutoscaleLoop(self._gateway, policy, replace(options, query=query or None))
        run = self._policies.add(autoscaler, query, call.caller.tenant)
        try:
            autoscaler.begin()
        except BaseException:
            self._policies.drop(run)
            raise
        self._tell(f"control: {call.peer} has started {run.id}")
        return _told(run)

    def StopAutoscaler(self, request: pb.StopAutoscalerRequest, call: Call) -> pb.Autoscaler:
        run = self._policies.find(request.id, self._may_see(call))
        run.autoscaler.stop()
        self._tell(f"control: {call.peer} has stopped {run.id}")
        return _told(run)

    def PauseAutoscaler(self, request: pb.PauseAutoscalerRequest, call: Call) -> pb.Autoscaler:
        run = self._policies.find(request.id, self._may_see(call))
        if request.paused:
            run.autoscaler.pause()
        else:
            run.autoscaler.resume()
        return _told(run)

    def Autoscalers(self, request: pb.AutoscalersRequest, call: Call) -> pb.AutoscalersReply:
        return pb.AutoscalersReply(runs=map(_told, self._policies.visible(self._may_see(call))))

    # ---- whose is what

    def _tenant(self, call: Call) -> str | None:
        """Whose queries the caller may see and steer, None for all."""
        return None if self._tenants_share else call.caller.tenant

    def _may_see(self, call: Call) -> Callable[[Run], bool]:
        tenant = self._tenant(call)
        return lambda run: tenant is None or run.tenant == tenant

    def _seen(self, tenant: str | None) -> list[pb.Query]:
        every = self._feed.newest().content.queries
        return [q for q in every if tenant is None or q.tenant == tenant]

    def _mine(self, tenant: str) -> str:
        return ", ".join(map(_label, self._seen(tenant)[:20])) or "none now"


def _found(every: Sequence[pb.Query], query: str) -> pb.Query:
    """The query of that name. Errors: NotFoundError."""
    same = [q for q in every if query and query in (q.id, q.run_id, q.name)]
    if len(same) > 1:
        ids = ", ".join(sorted(q.id for q in same))
        raise error("LANESHIFT_AMBIGUOUS_QUERY", value=shown(query), count=len(same), ids=ids)
    if not same:
        there = ", ".join(_label(q) for q in every[:20]) or "none"
        raise error("LANESHIFT_NO_SUCH_QUERY", value=shown(query), range=there)
    return same[0]


def _ended(method: str) -> Exception:
    """How a stream ends that its caller still wants."""
    return error("LANESHIFT_SESSION_STOPPED", method=method)


def _label(query: pb.Query) -> str:
    return f"{query.name!r} ({query.id})" if query.name else query.id


def _parameters(given: Mapping[str, str]) -> dict[str, Any]:
    try:
        return {name: json.loads(text) for name, text in given.items()}
    except ValueError as cause:
        raise InputError("parameters", dict(given), "JSON values", f"{cause}.") from cause


def _told(run: Run) -> pb.Autoscaler:
    autoscaler = run.autoscaler
    return pb.Autoscaler(
        id=run.id,
        policy=autoscaler.policy.name,
        query=run.query,
        running=autoscaler.is_running,
        paused=autoscaler.is_paused,
        dry_run=autoscaler.is_dry_run,
        turns=autoscaler.turns,
    )
