"""The control process: the driver starts and ends it, if its options name a policy or a port.

``python -m laneshift.control.process``, with the settings as JSON in ``LANESHIFT_CONTROL``:

    port, token         how to call the driver
    policy, ...         the policy, ``none`` for none: :mod:`laneshift.control.policy`
    control             where the service listens, if it does: :mod:`laneshift.control.settings`

What it prints goes to the driver's log. Exit codes: 0 the driver has ended, 2 wrong settings (to
start it again would not help), anything else a failure. Only the service needs grpcio.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from contextlib import suppress

from laneshift.control import log
from laneshift.control.policy import AGAIN_S, PolicySettings, stays_wrong
from laneshift.control.running import RunningAutoscalers
from laneshift.control.settings import ControlSettings
from laneshift.control.tokens import write
from laneshift.errors import InputError, LaneshiftError
from laneshift.plugin.gateway import Gateway, PortGateway, connect

VARIABLE = "LANESHIFT_CONTROL"


def main() -> int:
    """Run until the driver closes our standard input or, without a service, does not answer."""
    # It has the plugin's token, and children inherit it.
    data = json.loads(os.environ.pop(VARIABLE))
    over = ending()
    try:
        gateway = PortGateway(int(data["port"]), str(data["token"]))
        connect(gateway)
        policy = None if data["policy"] == "none" else PolicySettings.of(data)
        # It writes a token: last, so that who is refused leaves nothing.
        control = ControlSettings.of(data["control"]) if data.get("control") else None
        if control is not None:
            serve(gateway, control, policy, over)
        elif policy is not None:
            policy.drive(gateway, over)
    except LaneshiftError as problem:
        log.warn(str(problem))
        return 2 if stays_wrong(problem) else 1
    return 0


def ending() -> threading.Event:
    """Set once the driver has closed our standard input, as its own end does."""
    over = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    return over


def serve(
    gateway: Gateway,
    control: ControlSettings,
    policy: PolicySettings | None,
    over: threading.Event,
) -> None:
    """Listen, a policy beside it, until it is over. Errors: InputError for wrong settings."""
    policies = RunningAutoscalers()
    if policy is not None:
        threading.Thread(
            target=policy.drive_beside,
            args=(gateway, policies, over),
            name="laneshift policy",
            daemon=True,
        ).start()
    try:
        listen(gateway, control, policies, over)
    finally:
        policies.stop_all()
        _forget(control)


def listen(
    gateway: Gateway, control: ControlSettings, policies: RunningAutoscalers, over: threading.Event
) -> None:
    """Serve at the address. A port that is taken is asked for again: policies run meanwhile."""
    from laneshift.control.server import ControlServer
    from laneshift.control.service import ControlService

    told = ""
    while not over.is_set():
        service = ControlService(
            gateway, policies, tenants_share=control.tenants_share, tell=log.say
        )
        server = ControlServer(control, service, log.warn)
        try:
            address = server.start()
        except InputError:
            raise
        except LaneshiftError as problem:
            if str(problem) != told:
                log.warn(told := str(problem))
            over.wait(AGAIN_S)
            continue
        try:
            _announce(control, address)
            over.wait()
        finally:
            server.stop()


def _announce(control: ControlSettings, address: str) -> None:
    has_tls = "TLS" if control.tls else "no TLS"
    where = control.token_file if control.token_file.is_file() else "as given"
    log.say(f"control listens at {address}, {has_tls}, token: {where}")
    if control.is_open_and_plain:
        log.warn(
            "control: tokens reach this address unencrypted; set "
            "spark.sql.laneshift.control.tls.certificate and .key, or listen on 127.0.0.1"
        )
    try:
        write(control.address_file, address + "\n")
    except OSError as problem:
        log.warn(f"control: the address is not written to {control.address_file}: {problem}")


def _forget(control: ControlSettings) -> None:
    """Remove what this application has written; a token file that was named stays."""
    with suppress(OSError):
        control.address_file.unlink(missing_ok=True)
        if control.generated:
            control.token_file.unlink(missing_ok=True)


if __name__ == "__main__":
    # Who cancels a job in the driver's terminal does not mean this process: the driver ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Who stops a container or a machine means all of its processes: the token goes with this one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
