"""A Spark Connect session's way to its server's control service: both are in its configuration."""

from __future__ import annotations

from typing import Any

from laneshift.control.address import Address
from laneshift.control.tokens import checked
from laneshift.errors import error

FUNCTION = "laneshift_control"
"""Of the plugin: Spark Connect hides configurations with "token" in their names."""

EVERYWHERE = ("0.0.0.0", "::", "[::]")


def of_connect(session: Any) -> tuple[Address, str]:
    """The address and the token of a Connect session.

    Errors: :class:`~laneshift.errors.SessionError` if its server has no control service, or the
    session is at its end.
    """
    try:
        rows = session.sql(f"SELECT address, port, token FROM {FUNCTION}()").collect()
    except Exception as cause:  # Spark has a class of its own for each way to fail
        what = str(cause).strip().partition("\n")[0][:300]
        if FUNCTION in what:
            rows = []
        else:
            raise error("LANESHIFT_SESSION_STOPPED", method=f"attach ({what})") from cause
    if not rows:
        raise error("LANESHIFT_NO_CONTROL", what="The Spark Connect server of this session")
    host, port, token = map(str, rows[0])
    if host in EVERYWHERE:
        host = str(session.client.host)
    return Address.of(f"{host}:{port}", FUNCTION), checked(token, FUNCTION)
