"""Calls of ``laneshift.control.v1``: who gets through, on which thread, and how an error goes back.

gRPC's own part runs on one thread, that of an event loop, and so do streams of snapshots, which
wait nearly all the time. All else may wait for the plugin, and has a thread of the loop's executor
for as long as that.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc

from laneshift.control.failures import status_of
from laneshift.control.protocol import SCHEME, TOKEN_KEY
from laneshift.control.tokens import Caller, Tokens
from laneshift.errors import LaneshiftError
from laneshift.plugin.v1 import control_pb2 as pb

LOOK_S = 1.0
"""Between two looks of a thread that waits for room whether its call has ended (ours)."""

TENANT_CALLS, TENANTS_CALLS = 32, 96
"""Calls at a time of one tenant, and of all of them: the operator always gets through (ours)."""

TOLD = 1000
"""Peers whose refusals are remembered as told (ours)."""

SERVICE = pb.DESCRIPTOR.services_by_name["Control"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call: ``caller`` from ``peer``; ``ended`` is set once nobody waits for its stream."""

    peer: str
    caller: Caller
    ended: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class _Method:
    """A method of the protocol, and what answers it: a value, an iterator or an async one."""

    name: str
    request: type[Any]
    streams: bool
    answer: Callable[[Any, Call], Any]


class Calls(grpc.GenericRpcHandler):
    """Refuses every call without a valid token, whatever it calls, and passes on the others.

    Args:
        service: has a method for each of the protocol, of a request and its :class:`Call`. One that
            answers with a stream is a generator, which has a thread, or an async one, which has
            none and must not block.
        tell: writes a line to the log.
    """

    def __init__(self, service: object, tokens: Tokens, tell: Callable[[str], None]) -> None:
        self._tokens = tokens
        self._tell = tell
        self._told: set[tuple[str, str]] = set()
        # By tenant, calls that are not over. On the loop's thread only.
        self._open: Counter[str] = Counter()
        self._methods = {
            f"/{SERVICE.full_name}/{found.name}": _Method(
                found.name,
                getattr(pb, found.input_type.name),
                found.server_streaming,
                getattr(service, found.name),
            )
            for found in SERVICE.methods
        }

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        """What answers a call. On the loop's thread, as all here that is not on the executor's."""
        presented = _presented(details.invocation_metadata)
        caller = self._tokens.caller(presented) if presented else None
        if caller is None:
            why = "the token is not its own" if presented else "the call has no token"
            return _unread(partial(self._refuse, why))
        method = self._methods.get(details.method)
        if method is None:
            return None
        if self._is_full_for(caller):
            return _unread(self._refuse_more)
        if method.streams:
            return grpc.unary_stream_rpc_method_handler(partial(self._stream, method, caller))
        return grpc.unary_unary_rpc_method_handler(partial(self._answer, method, caller))

    def _is_full_for(self, caller: Caller) -> bool:
        tenant = caller.tenant
        return tenant is not None and (
            self._open[tenant] >= TENANT_CALLS or self._open.total() >= TENANTS_CALLS
        )

    async def _refuse_more(self, _: object, context: Any) -> None:
        said = f"{TENANT_CALLS} calls at a time of a tenant are answered, {TENANTS_CALLS} of all"
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, said)

    @contextmanager
    def _counted(self, caller: Caller) -> Iterator[None]:
        tenant = caller.tenant
        if tenant is not None:
            self._open[tenant] += 1
        try:
            yield
        finally:
            if tenant is not None:
                self._open[tenant] -= 1
                if not self._open[tenant]:
                    del self._open[tenant]

    async def _refuse(self, why: str, _: object, context: Any) -> None:
        peer = str(context.peer())
        host = peer.rpartition(":")[0] or peer
        if (host, why) not in self._told and len(self._told) < TOLD:
            self._told.add((host, why))
            self._tell(f"control: refused {peer}: {why} (told once for {host})")
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, why)

    async def _answer(
        self, method: _Method, caller: Caller, request: bytes, context: Any
    ) -> bytes | None:
        call = Call(str(context.peer()), caller)

        def answer() -> bytes:
            return _bytes(method.answer(method.request.FromString(request), call))

        try:
            with self._counted(caller):
                return await asyncio.get_running_loop().run_in_executor(None, answer)
        except Exception as problem:
            await self._fail(method, call, context, problem)
        return None

    async def _stream(self, method: _Method, caller: Caller, request: bytes, context: Any) -> None:
        call = Call(str(context.peer()), caller)
        try:
            with self._counted(caller):
                replies = method.answer(method.request.FromString(request), call)
                if isinstance(replies, AsyncIterator):
                    async for reply in replies:
                        await context.write(_bytes(reply))
                else:
                    loop = asyncio.get_running_loop()
                    await loop.run_in_executor(None, _send, replies, call, context, loop)
        except Exception as problem:
            await self._fail(method, call, context, problem)
        finally:
            call.ended.set()

    async def _fail(self, method: _Method, call: Call, context: Any, problem: Exception) -> None:
        """End the call with what was raised; what is not ours is told to the log, too."""
        if isinstance(problem, LaneshiftError):
            await context.abort_with_status(status_of(problem))
        said = f"{type(problem).__name__}: {problem}"[:500]
        self._tell(f"control: {method.name} of {call.peer} failed: {said}")
        await context.abort(grpc.StatusCode.INTERNAL, said)


def _send(
    replies: Iterator[Any], call: Call, context: Any, loop: asyncio.AbstractEventLoop
) -> None:
    """Each reply as there is room for it, until the call has ended."""
    for reply in replies:
        sent = asyncio.run_coroutine_threadsafe(context.write(_bytes(reply)), loop)
        while not call.ended.is_set():
            with suppress(TimeoutError):
                sent.result(LOOK_S)
                break
        if call.ended.is_set():
            return


def _bytes(reply: Any) -> bytes:
    """A message's; what is made once for all who look are bytes already."""
    return reply if isinstance(reply, bytes) else reply.SerializeToString()


def _unread(refuse: Callable[[object, Any], Any]) -> grpc.RpcMethodHandler[Any, Any]:
    """Refuse before there is a message: who sends none would keep its place among all calls."""
    return grpc.stream_unary_rpc_method_handler(refuse)


def _presented(metadata: Any) -> str:
    for key, value in metadata or ():
        if key == TOKEN_KEY and isinstance(value, str) and value.startswith(SCHEME):
            return value[len(SCHEME) :].strip()
    return ""
