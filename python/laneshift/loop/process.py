"""The process that ``spark.sql.laneshift.scheduler`` asks for: the driver starts it and ends it.

``python -m laneshift.loop.process``, with the settings as JSON in ``LANESHIFT_SCHEDULER``. What it
prints goes to the driver's log. Exit codes: 0 the driver has ended, 2 wrong settings (to start it
again would not help), anything else a failure.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any

from laneshift.errors import InputError, LaneshiftError
from laneshift.loop.decision import Decision
from laneshift.loop.scheduler import LiveScheduler
from laneshift.loop.start import check_turns, chosen_policy
from laneshift.plugin.gateway import Gateway, PortGateway, connect

VARIABLE = "LANESHIFT_SCHEDULER"


def main() -> int:
    """Run until the driver closes our standard input or does not answer any more."""
    settings = json.loads(os.environ[VARIABLE])
    try:
        gateway = PortGateway(int(settings["port"]), str(settings["token"]))
        connect(gateway)
        scheduler = begun(gateway, settings)
    except InputError as problem:
        say(str(problem))
        return 2
    except LaneshiftError as problem:
        say(str(problem))
        return 1
    scheduler.on_decision(show)
    over = ending()
    while scheduler.is_running and not over.wait(0.5):
        pass
    scheduler.stop()
    return 0


def begun(gateway: Gateway, settings: Mapping[str, Any]) -> LiveScheduler:
    """The scheduler that the driver's settings ask for, running. Errors: those of its start."""
    chosen = chosen_policy(settings["policy"], settings["target_latency_ms"] or None, {})
    check_turns(settings["interval_s"])
    scheduler = LiveScheduler(gateway, chosen, interval_s=settings["interval_s"]).begin()
    say(f"{scheduler.policy.name} decides every {settings['interval_s']:g} s")
    return scheduler


def ending() -> threading.Event:
    """Set once the driver has closed our standard input, as its own end does."""
    over = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    return over


def show(decision: Decision) -> None:
    """A line for each thing that a decision has to say."""
    for line in decision.lines():
        say(line)


def say(line: str) -> None:
    """Print at once: the driver reads line by line."""
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
