"""A Spark Connect session's way to its server's control service: both are in its configuration."""

from __future__ import annotations

from typing import Any

from laneshift.control.address import Address
from laneshift.control.tokens import checked
from laneshift.errors import error

PORT = "spark.sql.laneshift.control.port"
ADDRESS = "spark.sql.laneshift.control.address"
TOKEN = "spark.sql.laneshift.control.token"

EVERYWHERE = ("0.0.0.0", "::", "[::]")


def of_connect(session: Any) -> tuple[Address, str]:
    """The address and the token of a Connect session.

    Errors: :class:`~laneshift.errors.SessionError` if its server has no control service, or the
    session is at its end.
    """
    try:
        # The server gives a session its token when it reads its first plan.
        _ = session.sql("SELECT 1").schema
        port, host, token = (session.conf.get(key, "") for key in (PORT, ADDRESS, TOKEN))
    except Exception as cause:  # Spark has a class of its own for each way to fail
        what = str(cause).strip().partition("\n")[0][:300]
        raise error("LANESHIFT_SESSION_STOPPED", method=f"attach ({what})") from cause
    if port in ("", "-1") or not token:
        raise error("LANESHIFT_NO_CONTROL", what="The Spark Connect server of this session")
    if host in EVERYWHERE:
        host = str(session.client.host)
    return Address.of(f"{host}:{port}", ADDRESS), checked(token, TOKEN)
