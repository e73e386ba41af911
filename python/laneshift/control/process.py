"""The process that ``spark.sql.laneshift.control.port`` asks for: the driver starts and ends it.

``python -m laneshift.control.process``, with the settings as JSON in ``LANESHIFT_SCHEDULER``. It
does what :mod:`laneshift.autoscale.process` does if the driver has a policy, too, and its exit
codes are the same.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress

from laneshift.autoscale.process import VARIABLE, Settings, code_of, drive, ending, say, warn
from laneshift.control.running import RunningAutoscalers
from laneshift.control.server import ControlServer
from laneshift.control.service import ControlService
from laneshift.control.settings import ControlSettings
from laneshift.control.tokens import write
from laneshift.errors import InputError, LaneshiftError
from laneshift.plugin.gateway import Gateway, PortGateway, connect

AGAIN_S = 5.0
"""Between two tries to have a port, or a query, that another process has (ours)."""


def main() -> int:
    """Run until the driver closes our standard input."""
    data = json.loads(os.environ.pop(VARIABLE))
    policies = RunningAutoscalers()
    over = ending()
    try:
        gateway = PortGateway(int(data["port"]), str(data["token"]))
        connect(gateway)
        control = ControlSettings.of(data["control"])
        if data["policy"] != "none":
            own = (Settings.of(data), gateway, policies, over)
            threading.Thread(
                target=drive_beside, args=own, name="laneshift policy", daemon=True
            ).start()
    except InputError as problem:
        warn(str(problem))
        return 2
    except LaneshiftError as problem:
        warn(str(problem))
        return 1
    try:
        return serve(gateway, control, policies, over)
    finally:
        policies.stop_all()


def drive_beside(
    settings: Settings, gateway: Gateway, policies: RunningAutoscalers, over: threading.Event
) -> None:
    """Run the driver's policy, on this thread, until somebody stops it. It begins again if it ends
    by itself or cannot begin, but for settings that stay wrong. The service goes on all the while.
    """
    say(settings.words)
    again = True
    while again and not over.is_set():
        try:
            scheduler = settings.autoscaler(gateway)
            policies.add(scheduler, settings.options.query or "")
            again = drive(scheduler, over)
            if again:
                warn(f"{scheduler.name} has ended; it begins again")
        except LaneshiftError as problem:  # another scheduler has it, or the driver is gone
            again = code_of(problem) != 2
            warn(str(problem) if again else f"{problem} It goes on without the policy.")
        if again:
            over.wait(AGAIN_S)


def serve(
    gateway: Gateway, control: ControlSettings, policies: RunningAutoscalers, over: threading.Event
) -> int:
    """Listen until it is over. A port that is taken is asked for again: policies run meanwhile."""
    told = ""
    while not over.is_set():
        service = ControlService(gateway, policies, tenants_share=control.tenants_share, tell=say)
        server = ControlServer(control, service, warn)
        try:
            address = server.start()
        except InputError as problem:
            warn(str(problem))
            return 2
        except LaneshiftError as problem:
            if str(problem) != told:
                warn(told := str(problem))
            over.wait(AGAIN_S)
            continue
        try:
            _announce(control, address)
            over.wait()
        finally:
            server.stop()
            _forget(control)
    return 0


def _announce(control: ControlSettings, address: str) -> None:
    has_tls = "TLS" if control.tls else "no TLS"
    where = control.token_file if control.token_file.is_file() else "as given"
    say(f"control listens at {address}, {has_tls}, token: {where}")
    if control.is_open_and_plain:
        warn(
            "control: tokens reach this address unencrypted; set "
            "spark.sql.laneshift.control.tls.certificate and .key, or listen on 127.0.0.1"
        )
    try:
        write(control.address_file, address + "\n")
    except OSError as problem:
        warn(f"control: the address is not written to {control.address_file}: {problem}")


def _forget(control: ControlSettings) -> None:
    """Remove what this application has written; a token file that was named stays."""
    with suppress(OSError):
        control.address_file.unlink(missing_ok=True)
        if control.generated:
            control.token_file.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
