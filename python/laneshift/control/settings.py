"""What the driver tells its control process of ``spark.sql.laneshift.control``."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laneshift.control.tokens import checked, kept, written
from laneshift.errors import InputError

PREFIX = "spark.sql.laneshift.control."


@dataclass(frozen=True, slots=True)
class ServerTls:
    """PEM files: the server's key and chain; the CA of its clients, if they need certificates."""

    key: str
    certificate: str
    client_ca: str | None

    def texts(self) -> tuple[bytes, bytes, bytes | None]:
        """What they are now, in that order. Errors: InputError for one that is none."""
        ca = None if self.client_ca is None else _pem("client_ca", self.client_ca)
        return _pem("key", self.key), _pem("certificate", self.certificate), ca


@dataclass(frozen=True, slots=True)
class ControlSettings:
    """Where the service listens, and for whom.

    Attributes:
        port: 0 for any free one.
        address: host or IP address to listen on.
        token: the operator's.
        token_file: where it stands if it was not given; the address is written beside it.
        generated: whether the token file is this application's own, and goes with it.
        tls: None for none.
        tenant_key: key of the tokens of Connect sessions.
        tenants_share: whether each session may steer every query.
    """

    port: int
    address: str
    token: str
    token_file: Path
    generated: bool
    tls: ServerTls | None
    tenant_key: str
    tenants_share: bool

    @staticmethod
    def of(said: Mapping[str, Any]) -> ControlSettings:
        """Read the driver's settings, its files included. Errors: InputError."""
        given, named = str(said.get("token") or ""), str(said.get("token_file") or "")
        tenant_key = str(said.get("tenant_key") or "")
        if given and named:
            raise InputError(
                PREFIX + "token", "a token and a token file", "one of them", "Leave one out."
            )
        tls = _tls(said)  # before a token is written: who is refused leaves nothing
        file = Path(named) if named else default_token_file()
        if given:
            token = checked(given, PREFIX + "token")
        else:
            # Nobody but this driver has a file of its own name: one that is there is of a process
            # that had its number.
            token = kept(file) if named else written(file, tenant_key)
        return ControlSettings(
            port=int(said["port"]),
            address=str(said["address"]).strip(),
            token=token,
            token_file=file,
            generated=not named,
            tls=tls,
            tenant_key=tenant_key,
            tenants_share=said.get("tenants") == "all",
        )

    @property
    def address_file(self) -> Path:
        """Where HOST:PORT is written."""
        return self.token_file.with_name(self.token_file.name + ".address")

    @property
    def is_open_and_plain(self) -> bool:
        """Whether tokens would go over a network as they are."""
        if self.tls is not None or self.address == "localhost":
            return False
        try:
            return not ipaddress.ip_address(self.address.strip("[]")).is_loopback
        except ValueError:
            return True


def default_token_file() -> Path:
    """One for each driver: the process that has started this one. Machines may share a home."""
    name = f"driver-{socket.gethostname()}-{os.getppid()}.token"
    return Path.home() / ".laneshift" / name


def _tls(said: Mapping[str, Any]) -> ServerTls | None:
    names = ("certificate", "key", "client_ca")
    files = {name: str(said.get(f"tls_{name}") or "") for name in names}
    if not any(files.values()):
        return None
    if not (files["certificate"] and files["key"]):
        missing = "tls.key" if files["certificate"] else "tls.certificate"
        raise InputError(
            PREFIX + missing, "nothing", "a PEM file", "TLS takes a certificate and its key."
        )
    tls = ServerTls(files["key"], files["certificate"], files["client_ca"] or None)
    tls.texts()
    return tls


def _pem(name: str, file: str) -> bytes:
    option = PREFIX + "tls." + {"client_ca": "clientCa"}.get(name, name)
    try:
        text = Path(file).read_bytes()
    except OSError as cause:
        raise InputError(
            option, f"{file} ({cause.strerror})", "a PEM file that the driver can read",
            "Correct the path, or the file's owner.",
        ) from cause  # fmt: skip
    if b"-----BEGIN " not in text:
        raise InputError(option, file, "a PEM file: -----BEGIN ...", "Convert it with openssl.")
    return text
