"""Our errors over gRPC: google.rpc.ErrorInfo on the way out, our classes on the way in."""

from __future__ import annotations

from collections.abc import Mapping

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from laneshift.control.address import NO_TLS, Address, ClientTls
from laneshift.control.probe import reason
from laneshift.control.protocol import DOMAIN
from laneshift.errors import (
    ArgumentError,
    InputError,
    LaneshiftError,
    NotFoundError,
    SessionError,
    UnsupportedError,
    error,
    from_jvm,
)
from laneshift.version import __version__

LONGEST = 600
"""Characters of a parameter, 2,000 of a message: metadata has 8 kB for all (ours)."""

_CODES = (
    (NotFoundError, code_pb2.NOT_FOUND),
    (ArgumentError, code_pb2.INVALID_ARGUMENT),
    (SessionError, code_pb2.FAILED_PRECONDITION),
    (UnsupportedError, code_pb2.UNIMPLEMENTED),
)


def status_of(problem: LaneshiftError) -> grpc.Status:
    """A call's end that says what ``problem`` says."""
    code = next((code for kind, code in _CODES if isinstance(problem, kind)), code_pb2.UNKNOWN)
    text = str(problem).removeprefix(f"[{problem.condition}] ")[:2000]
    details = any_pb2.Any()
    details.Pack(
        error_details_pb2.ErrorInfo(
            reason=problem.condition,
            domain=DOMAIN,
            metadata={k: str(v)[:LONGEST] for k, v in problem.parameters.items()},
        )
    )
    whole = status_pb2.Status(code=code, message=text, details=[details])
    status: grpc.Status = rpc_status.to_status(whole)
    return status


def failure(
    call: grpc.RpcError, method: str, address: Address, tls: ClientTls = NO_TLS
) -> LaneshiftError:
    """What a failed call means to its caller, who has shown ``tls``."""
    assert isinstance(call, grpc.Call)
    told = _told(call)
    if told is not None:
        return told
    code, cause = call.code(), call.details() or ""
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return error("LANESHIFT_CONTROL_REFUSED", address=address, cause=cause)
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        why = reason(address, tls, cause)
        return error(
            "LANESHIFT_CONTROL_UNREACHABLE", address=address, cause=why.cause, remedy=why.remedy
        )
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return error(
            "LANESHIFT_CONTROL_VERSION", address=address, found=f"no method {method}",
            client=__version__,
        )  # fmt: skip
    return error(
        "LANESHIFT_CONTROL_FAILED",
        method=method,
        address=address,
        cause=cause or str(code.name).lower().replace("_", " "),
    )


def _told(call: grpc.Call) -> LaneshiftError | None:
    try:
        status = rpc_status.from_call(call)
    except ValueError:  # its details are of another status than the call
        return None
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info) and info.domain == DOMAIN:
            return _ours(info.reason, dict(info.metadata), call.details() or "")
    return None


def _ours(condition: str, parameters: Mapping[str, str], message: str) -> LaneshiftError:
    if condition == "LANESHIFT_INVALID_INPUT":
        names = ("field", "found", "expected", "remedy")
        field, found, expected, remedy = (parameters.get(name, "") for name in names)
        return InputError(field, _AsShown(found), expected, remedy)
    return from_jvm(condition, message, parameters)


class _AsShown(str):
    """A value that the other side has made readable already."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
