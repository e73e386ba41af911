"""The options of :func:`laneshift.configure`: name, key, allowed values, how a value is written.

The plugin has the same entries; a test holds the two against each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path

from laneshift.errors import error, shown

PREFIX = "spark.sql.laneshift."
MAX_LANES = 256
DEFAULT_MAX_LANES = 8
AT_START = ("control", "executors", "scheduler", "lanesPerExecutor", "remote.port")
"""First words of the keys that are read when an application starts, not a query."""

STATELESS = ("auto", "true", "false")
TASKS = ("stock", "auto")

_BYTES = re.compile(r"(\d+)(b|k|kb|m|mb|g|gb|t|tb)?", re.IGNORECASE)
_BYTE_UNIT = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_TIME = re.compile(r"(\d+)(us|ms|s|m|min|h)?", re.IGNORECASE)
_TIME_UNIT_MS = {"us": 0.001, "": 1.0, "ms": 1.0, "s": 1e3, "m": 6e4, "min": 6e4, "h": 3.6e6}

Write = Callable[[object], str | None]
"""Gives the setting's text, or None if the value is not allowed."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: keyword, the rest of its Spark key, what it allows, and how to get there.

    No message repeats the value of a secret one.
    """

    name: str
    suffix: str
    write: Write
    allowed: str
    remedy: str
    secret: bool = False

    @property
    def key(self) -> str:
        """The Spark setting."""
        return PREFIX + self.suffix

    @property
    def at_start(self) -> bool:
        """Whether it is read when an application starts; the others are, when a query does."""
        return self.suffix.partition(".")[0] in AT_START or self.suffix in AT_START


def _flag(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value).lower() if isinstance(value, str) else ""
    return text if text in ("true", "false") else None


def _whole(low: int, high: int) -> Write:
    def write(value: object) -> str | None:
        if isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,19}", value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        return str(value) if low <= value <= high else None

    return write


def _lanes(value: object) -> str | None:
    return "auto" if value == "auto" else _whole(1, MAX_LANES)(value)


def _above_one(value: object) -> str | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return repr(float(value)) if 1 < value <= 100 else None


def _one_of(*words: str) -> Write:
    return lambda value: value if isinstance(value, str) and value in words else None


def _matching(form: str) -> Write:
    return lambda value: value if isinstance(value, str) and re.fullmatch(form, value) else None


def _path(value: object) -> str | None:
    text = str(value).strip() if isinstance(value, str | Path) else ""
    return text or None


def _policy(value: object) -> str | None:
    from laneshift.scheduler.registry import names, policy_class

    if not isinstance(value, str):
        return None
    if ":" in value:
        policy_class(value)  # says what is wrong with it
        return value
    return value if value in ("none", *names()) else None


def _bytes(low: int, high: int) -> Write:
    return lambda value: _bytes_text(value, low, high)


def _bytes_text(value: object, low: int, high: int) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    match = _BYTES.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    size = int(match[1]) * _BYTE_UNIT[(match[2] or "").lower()[:1]]
    return match[0] if low <= size <= high else None


def _time(low_ms: float, high_ms: float) -> Write:
    return lambda value: _time_text(value, low_ms, high_ms)


def _time_text(value: object, low_ms: float, high_ms: float) -> str | None:
    if isinstance(value, timedelta):
        micros = value // timedelta(microseconds=1)
        value = f"{micros}us" if 0 < micros < 1000 else f"{round(micros / 1000)}ms"
    elif isinstance(value, int) and not isinstance(value, bool):
        value = f"{value}ms"
    match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    millis = int(match[1]) * _TIME_UNIT_MS[(match[2] or "").lower()]
    # Spark counts milliseconds: less than one is 0, which may mean something else.
    return match[0] if low_ms <= millis <= high_ms and not 0 < millis < 1 else None


_BY_SIZE = "such as '512k', '1m' or a number of bytes"
_FILE = "the path of a file on the driver's machine"
_PEM = "PEM, as openssl writes it; a certificate and its key go together."
_SPAN = "such as '200ms', 200 (milliseconds) or a timedelta"

OPTIONS: Mapping[str, Option] = {
    option.name: option
    for option in (
        Option("enabled", "enabled", _flag, "True or False", "Leave it out for True."),
        Option(
            "shards_per_partition",
            "shardsPerPartition",
            _whole(1, 4096),
            "a whole number from 1 to 4096",
            "64 suits up to 8 lanes; take 8 or more shards per lane.",
        ),
        Option(
            "lanes",
            "lanes",
            _lanes,
            f"'auto' or a whole number from 1 to max_lanes (at most {MAX_LANES})",
            "Take fewer lanes or raise max_lanes.",
        ),
        Option(
            "max_lanes",
            "maxLanes",
            _whole(1, MAX_LANES),
            f"a whole number from 1 to {MAX_LANES}",
            "Take no more than the cores that one partition may get.",
        ),
        Option(
            "lanes_per_executor",
            "lanesPerExecutor",
            _whole(0, 4096),
            "a whole number from 0 to 4096",
            "It bounds the threads of one process; 0 leaves each partition its first lane.",
        ),
        Option(
            "stateless",
            "stateless",
            lambda value: _flag(value) if isinstance(value, bool) else _one_of(*STATELESS)(value),
            "one of 'auto', True and False",
            "'auto' serves stages without state that may be costly; False leaves all to Spark.",
        ),
        Option(
            "tasks",
            "tasks",
            lambda value: _one_of(*TASKS)(value) or _whole(1, 2**31 - 1)(value),
            "'stock', 'auto' or a whole number from 1 to the number of state partitions",
            "'stock' is one task for each state partition, as Spark has it.",
        ),
        Option(
            "rescale_cores",
            "rescale.cores",
            _whole(1, 4096),
            "a whole number from 1 to 4096",
            "It bounds the tasks that write the stores of another number of partitions.",
        ),
        Option(
            "rescale_bytes_per_second",
            "rescale.bytesPerSecond",
            _bytes(64 << 10, 1 << 60),
            f"a size from 64k, {_BY_SIZE}",
            "It bounds what these tasks write in a second.",
        ),
        Option(
            "remote_port",
            "remote.port",
            lambda value: "0" if _whole(0, 0)(value) else _whole(1024, 65535)(value),
            "a port from 1024 to 65535, or 0 for any free one",
            "If it is taken, an executor tries those after it (spark.port.maxRetries).",
        ),
        Option(
            "remote_max_lanes",
            "remote.maxLanes",
            _whole(0, 256),
            "a whole number from 0 to 256",
            "It bounds a partition's lanes on other executors; 0 keeps all at home.",
        ),
        Option(
            "remote_window_bytes",
            "remote.windowBytes",
            _bytes(32 << 10, 64 << 20),
            f"a size from 32k to 64m, {_BY_SIZE}",
            "256k keeps a lane busy over most networks.",
        ),
        Option(
            "remote_cache_bytes",
            "remote.cacheBytes",
            _bytes(0, 4 << 30),
            f"a size from 0 to 4g, {_BY_SIZE}",
            "What a lane elsewhere does not have in memory it reads at home.",
        ),
        Option(
            "remote_leases",
            "remote.leases",
            _flag,
            "True or False",
            "A Spark task holds the core of each lane on another executor, in micro-batches.",
        ),
        Option(
            "queue_bytes",
            "queueBytes",
            _bytes(1 << 10, 1 << 30),
            f"a size from 1k to 1g, {_BY_SIZE}",
            "It bounds one lane's queue.",
        ),
        Option(
            "queue_time",
            "queueTime",
            _time(10, 3.6e6),
            f"a time from 10ms to 1h, {_SPAN}",
            "1s suits most queries: more makes batches of Real-time Mode late under a backlog.",
        ),
        Option(
            "latency_column",
            "latencyColumn",
            lambda value: value if isinstance(value, str) and value.strip() else None,
            "the name of a timestamp column of the answers",
            "Leave it out where answers do not say when they set out.",
        ),
        Option(
            "hot_keys_show",
            "hotKeys.show",
            _one_of("hashes", "values", "none"),
            "'hashes', 'values' or 'none'",
            "Keys may be personal data: 'values' shows them, 'hashes' only their share of rows.",
        ),
        Option(
            "hot_keys_spread",
            "hotKeys.spread",
            lambda value: _flag(value) if isinstance(value, bool) else _one_of(*STATELESS)(value),
            "one of 'auto', True and False",
            "'auto' lets lanes share a hot key's row-wise work where that is measured to pay.",
        ),
        Option(
            "balance_enabled",
            "balance.enabled",
            _flag,
            "True or False",
            "False leaves every move to you.",
        ),
        Option(
            "balance_threshold",
            "balance.threshold",
            _above_one,
            "a number greater than 1, at most 100",
            "It is the busiest lane's load over the mean: 1.2 allows 20 % more than even.",
        ),
        Option(
            "balance_interval",
            "balance.interval",
            _time(10, 3.6e6),
            f"a time from 10ms to 1h, {_SPAN}",
            "200ms suits most queries.",
        ),
        Option(
            "balance_metric",
            "balance.metric",
            _one_of("rows", "cpu"),
            "'rows' or 'cpu'",
            "Take 'cpu' if some keys' rows cost more than others'.",
        ),
        Option(
            "scheduler",
            "scheduler",
            _policy,
            "'none', the name of a policy, as `laneshift policies` lists them, or module:Class",
            "Leave it out to set lanes yourself, or start one by laneshift.attach(spark).start().",
        ),
        Option(
            "scheduler_target_latency",
            "scheduler.targetLatency",
            _time(0, 3.6e6),
            f"a time from 1ms to 1h, {_SPAN}; 0 for the policy's own",
            "Not every policy has one.",
        ),
        Option(
            "scheduler_interval",
            "scheduler.interval",
            _time(100, 3.6e6),
            f"a time from 100ms to 1h, {_SPAN}",
            "1s suits most queries.",
        ),
        Option(
            "scheduler_query",
            "scheduler.query",
            lambda value: value if isinstance(value, str) else None,
            "the name or id of a query",
            "Leave it out for all queries.",
        ),
        Option(
            "scheduler_cores",
            "scheduler.cores",
            _whole(0, 4096),
            "a whole number from 0 to 4096; 0 for all cores",
            "Leave it out for all cores of each executor.",
        ),
        Option(
            "scheduler_dry_run",
            "scheduler.dryRun",
            _flag,
            "True or False",
            "True decides and reports, and changes nothing.",
        ),
        Option(
            "scheduler_trace",
            "scheduler.trace",
            lambda value: value if isinstance(value, str) else None,
            "the path of a file on the driver's machine",
            "Leave it out for no trace.",
        ),
        Option(
            "scheduler_python",
            "scheduler.python",
            lambda value: value if isinstance(value, str) else None,
            "the path of a Python that has laneshift",
            "Leave it out for the driver's own Python.",
        ),
        Option(
            "executors_max",
            "executors.max",
            _whole(0, 10_000),
            "a whole number of executors from 0 to 10000; 0 asks for none",
            "Those that the application has without a scheduler count.",
        ),
        Option(
            "executors_rest_time",
            "executors.restTime",
            _time(1000, 8.64e7),
            f"a time from 1s to 24h, {_SPAN}",
            "60s suits most clusters.",
        ),
        Option(
            "control_port",
            "control.port",
            _whole(-1, 65535),
            "a port from 1 to 65535, 0 for any free one, or -1 for none",
            "The driver's log names the address and the file with the token.",
        ),
        Option(
            "control_address",
            "control.address",
            _matching(r"[A-Za-z0-9_.:\[\]%-]+"),
            "one host name or IP address",
            "127.0.0.1 lets only this machine in, 0.0.0.0 others, too.",
        ),
        Option(
            "control_token",
            "control.token",
            _matching(r"[!-~]{16,512}"),
            "16 to 512 printable characters without spaces",
            "Leave it out: one is generated, into a file that only its owner can read.",
            secret=True,
        ),
        Option("control_token_file", "control.tokenFile", _path, _FILE, "Or leave it out."),
        Option("control_tls_certificate", "control.tls.certificate", _path, _FILE, _PEM),
        Option("control_tls_key", "control.tls.key", _path, _FILE, _PEM),
        Option("control_tls_client_ca", "control.tls.clientCa", _path, _FILE, _PEM),
        Option(
            "control_tenants",
            "control.tenants",
            _one_of("own", "all"),
            "'own' or 'all'",
            "It is for sessions of a Spark Connect server.",
        ),
        Option(
            "motion",
            "motion",
            _one_of("never", "random", "always"),
            "'never', 'random' or 'always'",
            "It is a fault mode for tests; leave it out in production.",
        ),
        Option(
            "motion_remote_lanes",
            "motion.remoteLanes",
            _whole(0, 8),
            "a whole number from 0 to 8",
            "It is part of the fault mode for tests; leave it out in production.",
        ),
        Option(
            "motion_tasks",
            "motion.tasks",
            _flag,
            "True or False",
            "It is part of the fault mode for tests; leave it out in production.",
        ),
        Option(
            "motion_seed",
            "motion.seed",
            _whole(-(2**63), 2**63 - 1),
            "a whole number of 64 bits",
            "Any number does; the same one repeats a run's moves.",
        ),
        Option(
            "motion_interval",
            "motion.interval",
            _time(1, 6e4),
            f"a time from 1ms to 1min, {_SPAN}",
            "20ms moves 50 times a second.",
        ),
    )
}


def settings(options: Mapping[str, object]) -> dict[str, str]:
    """The Spark settings that the options stand for, every value checked.

    Errors: :class:`~laneshift.errors.ArgumentError` naming key, value, range and the way out.
    """
    result: dict[str, str] = {}
    for name, value in options.items():
        option = OPTIONS.get(name)
        if option is None:
            near = get_close_matches(name, OPTIONS, n=1)
            suggestion = f" Did you mean {near[0]!r}?" if near else ""
            known = ", ".join(OPTIONS) + "."
            raise error(
                "LANESHIFT_UNKNOWN_OPTION", value=shown(name), suggestion=suggestion, range=known
            )
        text = option.write(value)
        if text is None:
            raise _refused(option, value, option.allowed)
        result[option.key] = text
    _lanes_fit(options, result)
    return result


def _lanes_fit(options: Mapping[str, object], result: Mapping[str, str]) -> None:
    """Refuse more initial lanes than a partition may have."""
    lanes = OPTIONS["lanes"]
    wanted = result.get(lanes.key, "auto")
    most = int(result.get(OPTIONS["max_lanes"].key, DEFAULT_MAX_LANES))
    if wanted != "auto" and int(wanted) > most:
        raise _refused(
            lanes, options["lanes"], f"'auto' or a whole number from 1 to {most} (max_lanes)"
        )


def _refused(option: Option, value: object, allowed: str) -> Exception:
    return error(
        "LANESHIFT_INVALID_OPTION",
        key=option.key,
        option=option.name,
        value="..." if option.secret else shown(value),
        range=allowed,
        remedy=option.remedy,
    )
