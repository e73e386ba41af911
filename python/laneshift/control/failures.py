"""Our errors over gRPC: google.rpc.ErrorInfo on the way out, our classes on the way in."""

from __future__ import annotations

import re
from collections.abc import Mapping

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from laneshift.control.address import NO_TLS, ClientTls
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

_AROUND = re.compile(r"^[A-Z]+: (ipv[46]:\S+: )?|: OK$")
"""What gRPC puts around the reason."""

_NO_HOST, _NOT_OURS = "there is no host of that name", "something answers that is no such service"
_NO_PORT, _PLAIN = "nobody listens at that port", "it answers without TLS"
_MEANT = {
    "domain name not found": _NO_HOST,
    "name or service not known": _NO_HOST,
    "connection refused": _NO_PORT,
    "failed parsing http/2": _NOT_OURS,
    "wrong_version_number": _PLAIN,
    "before receiving settings frame": "something listens there, and says nothing",
}
"""What gRPC's reasons mean to who has typed an address."""

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
    call: grpc.RpcError, method: str, address: object, tls: ClientTls = NO_TLS
) -> LaneshiftError:
    """What a failed call means to its caller, who has shown ``tls``."""
    assert isinstance(call, grpc.Call)
    told = _told(call)
    if told is not None:
        return told
    code, cause = call.code(), _sentence(call.details() or "")
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return error("LANESHIFT_CONTROL_REFUSED", address=address, cause=cause)
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        return error(
            "LANESHIFT_CONTROL_UNREACHABLE",
            address=address,
            cause=cause,
            remedy=_remedy(cause, tls),
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
    return from_jvm({"condition": condition, "message": message, "parameters": parameters})


class _AsShown(str):
    """A value that the other side has made readable already."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _sentence(details: str) -> str:
    """The last error of a chain that gRPC gives, on one line."""
    last = " ".join(details.rpartition("last error: ")[2].split())
    lower = last.lower()
    for words, sentence in _MEANT.items():
        if words in lower:
            return sentence
    return _AROUND.sub("", last)[:300].rstrip(".") or "no answer"


def _remedy(cause: str, tls: ClientTls) -> str:
    lower = cause.lower()
    # The other side closes without a word if it does not take a certificate.
    if tls != NO_TLS and ("socket closed" in lower or "connection reset" in lower):
        if tls.cert is None:
            return "It may take clients with a certificate only: give cert and key."
        return (
            "It may not take this client's certificate: check that the CA in "
            "spark.sql.laneshift.control.tls.clientCa has signed it, and that it has not expired "
            "(openssl x509 -enddate -noout -in FILE)."
        )
    if cause == _NO_HOST:
        return "Correct the name, or use the IP address of the driver's machine."
    if cause == _NO_PORT:
        return (
            "Check that the application runs with spark.sql.laneshift.control.port, that the "
            "address is the one in the driver's log, and that spark.sql.laneshift.control.address "
            "lets other machines in."
        )
    if cause == _NOT_OURS:
        return (
            "Take the port of spark.sql.laneshift.control.port: the driver's log has the address, "
            "and so has the file beside the token."
        )
    if "certificate has expired" in lower or "certificate is not yet valid" in lower:
        return (
            "Renew the certificate of spark.sql.laneshift.control.tls.certificate: the driver shows "
            "new files of the same names at once."
        )
    if "hostname verification" in lower or "peer name" in lower:
        return "Take an address that its certificate names."
    if "certificate_required" in lower or "alert_certificate" in lower:
        return "It takes clients with a certificate of its client CA only: give cert and key."
    if "certificate_verify_failed" in lower:
        return "Give the CA that has signed its certificate: ca=FILE or --ca FILE."
    if cause == _PLAIN:
        return "Leave out ca, cert and key, or give it a certificate."
    return (
        "Check that the application runs with spark.sql.laneshift.control.port, that the address is"
        " the one in the driver's log, that spark.sql.laneshift.control.address lets other machines"
        " in, and that ca is given if it speaks TLS."
    )
