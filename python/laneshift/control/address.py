"""What a client names: HOST:PORT, environment variables, certificates."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from laneshift.errors import InputError

CONTROL_VARIABLE = "LANESHIFT_CONTROL"
TOKEN_VARIABLE = "LANESHIFT_TOKEN"
TOKEN_FILE_VARIABLE = "LANESHIFT_TOKEN_FILE"

_FORM = re.compile(r"(?:dns:///)?(\[[0-9A-Fa-f:.%]+\]|[^\s:/\[\]@]+):(\d{1,5})")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a control service listens; an IPv6 ``host`` stands in brackets."""

    host: str
    port: int

    @staticmethod
    def of(text: str, field: str = "control") -> Address:
        """Read ``HOST:PORT``. Errors: :class:`~laneshift.errors.InputError`."""
        match = _FORM.fullmatch(text.strip())
        if match is None or not 1 <= int(match[2]) <= 65535:
            raise InputError(
                field,
                text,
                "HOST:PORT, such as driver.example.com:15010 or [::1]:15010",
                "The driver's log names the address, and so does the file beside the token.",
            )
        return Address(match[1], int(match[2]))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ClientTls:
    """PEM files: who signs the server's certificate, and what this client shows of itself.

    There is no TLS if all of them are None.
    """

    ca: str | Path | None = None
    cert: str | Path | None = None
    key: str | Path | None = None


NO_TLS = ClientTls()
