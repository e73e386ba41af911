"""Answers over py4j without 40 ms of waiting.

py4j writes an answer in pieces of 8 kB, and leaves Nagle's algorithm on: the second piece is sent
once the first is acknowledged, and this side puts an acknowledgement off for 40 ms, since it sends
nothing meanwhile. Only the JVM's end of a connection can turn that off. The server of a driver's
own Python process does (``ControlProcess``); for the connection of a session, Spark's, it is done
from here, by what py4j lets one call.
"""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress
from typing import Any

_prompt = threading.local()
"""The connection of this thread that has been seen to."""


def answer_promptly(client: Any) -> None:
    """Let the JVM send what it answers to this thread at once: TCP_NODELAY on its connection.

    For a session whose threads have a connection each, as PySpark's have unless
    ``PYSPARK_PIN_THREAD`` is false; nothing is done to others, whose answers come as before.
    """
    from py4j.clientserver import JavaClient
    from py4j.java_gateway import JavaObject
    from py4j.protocol import Py4JError

    if not isinstance(client, JavaClient):
        return
    seen = getattr(_prompt, "connection", lambda: None)()
    if seen is not None and seen is client.get_thread_connection():
        return
    with suppress(Py4JError, ConnectionError):  # who calls next finds out what is wrong
        server = JavaObject("GATEWAY_SERVER", client)
        there = server.getCallbackClient().getPerThreadConnection()
        # Once the JVM has called this process (foreachBatch), it may not know this thread's.
        if there is not None:
            there.getSocket().setTcpNoDelay(True)
    connection = client.get_thread_connection()
    if connection is not None:
        _prompt.connection = weakref.ref(connection)
