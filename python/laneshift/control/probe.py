"""Why nobody answers: what a connection of our own meets on the way that gRPC's could not go.

gRPC says it in sentences that are others in each of its versions; a socket and TLS say it in kinds.
"""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass

from laneshift.control.address import NO_TLS, Address, ClientTls

PATIENCE_S = 2.0
"""For each step of the way (s, ours)."""

_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""How HTTP/2 begins: its preface, and settings, none of which is another than usual."""

_SETTINGS = 4
"""What kind of frame the other side begins with."""


@dataclass(frozen=True, slots=True)
class Reason:
    """What is wrong, and the way out."""

    cause: str
    remedy: str


_CHECK = (
    "Check that the application runs with spark.sql.laneshift.control.port, that the address is the"
    " one in the driver's log, and that spark.sql.laneshift.control.address lets other machines in."
)
_NO_HOST = Reason(
    "there is no host of that name",
    "Correct the name, or use the IP address of the driver's machine.",
)
_NO_PORT = Reason("nobody listens at that port", _CHECK)
_SILENT = Reason("something listens there, and says nothing", _CHECK)
_NOT_OURS = Reason(
    "something answers that is no such service",
    "Take the port of spark.sql.laneshift.control.port: the driver's log has the address, and so "
    "has the file beside the token.",
)
_CA = "Give the CA that has signed its certificate: ca=FILE or --ca FILE."
_TLS = Reason("it speaks TLS only", _CA)
_PLAIN = Reason("it answers without TLS", "Leave out ca, cert and key, or give it a certificate.")
_RENEW = (
    "Renew the certificate of spark.sql.laneshift.control.tls.certificate: the driver shows new "
    "files of the same names at once."
)
_NAMED = "Take an address that its certificate names."
# By OpenSSL's X509_V_ERR_CERT_NOT_YET_VALID, _HAS_EXPIRED, _HOSTNAME_ and _IP_ADDRESS_MISMATCH.
_UNTRUSTED = {9: _RENEW, 10: _RENEW, 62: _NAMED, 64: _NAMED}
_NAMELESS = Reason(
    "it ends connections once they are encrypted",
    "It may take clients with a certificate only: give cert and key.",
)
_STRANGER = Reason(
    _NAMELESS.cause,
    "It may not take this client's certificate: check that the CA in "
    "spark.sql.laneshift.control.tls.clientCa has signed it, and that it has not expired "
    "(openssl x509 -enddate -noout -in FILE).",
)


def reason(address: Address, tls: ClientTls, said: str) -> Reason:
    """Why a call did not get through. If this way is free (now), what gRPC ``said`` is all there
    is.
    """
    said = " ".join(said.split())[:300].rstrip(".") or "no answer"
    return _met(address, tls) or Reason(said, _CHECK)


def _met(address: Address, tls: ClientTls) -> Reason | None:
    try:
        with _connected(address) as plain:
            return _heard(plain, address) if tls == NO_TLS else _shown(plain, address, tls)
    except socket.gaierror:
        return _NO_HOST
    except ConnectionRefusedError:
        return _NO_PORT
    except OSError as problem:
        return Reason(problem.strerror or str(problem) or "no answer", _CHECK)


def _connected(address: Address) -> socket.socket:
    return socket.create_connection((address.host.strip("[]"), address.port), PATIENCE_S)


def _heard(plain: socket.socket, address: Address) -> Reason | None:
    try:
        plain.sendall(_HELLO)
        answer = plain.recv(9)
    except TimeoutError:
        return _SILENT
    except OSError:
        answer = b""
    if answer[3:4] == bytes((_SETTINGS,)):
        return None
    if _speaks_tls(address):
        return _TLS
    return _NOT_OURS if answer else _SILENT


def _speaks_tls(address: Address) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with _connected(address) as plain, context.wrap_socket(plain):
            return True
    except OSError:
        return False


def _shown(plain: socket.socket, address: Address, tls: ClientTls) -> Reason | None:
    context = ssl.create_default_context(cafile=tls.ca)
    context.set_alpn_protocols(["h2"])
    if tls.cert is not None:
        context.load_cert_chain(tls.cert, tls.key)
    try:
        secured = context.wrap_socket(plain, server_hostname=address.host.strip("[]"))
    except ssl.SSLCertVerificationError as problem:
        return Reason(problem.verify_message.rstrip("."), _UNTRUSTED.get(problem.verify_code, _CA))
    except ssl.SSLError:
        return _PLAIN
    with secured:
        try:
            secured.sendall(_HELLO)
            # It looks at a client's certificate when that takes the connection for made.
            if secured.recv(9):
                return None
        except OSError:
            pass
        return _NAMELESS if tls.cert is None else _STRANGER
