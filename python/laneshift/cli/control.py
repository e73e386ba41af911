"""What all commands that reach a running application have in common: options and exit codes."""

from __future__ import annotations

import functools
import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from laneshift.control.address import (
    CONTROL_VARIABLE,
    TOKEN_FILE_VARIABLE,
    TOKEN_VARIABLE,
    Address,
    ClientTls,
)
from laneshift.control.tokens import client_token
from laneshift.durations import seconds
from laneshift.errors import ArgumentError, InputError, LaneshiftError, NotFoundError

if TYPE_CHECKING:
    from laneshift.api.application import Application
    from laneshift.control.client import ControlClient

FAILED, USAGE, NOT_FOUND, UNREACHABLE, REFUSED = 1, 2, 3, 4, 5
"""Exit codes, beside 0: of commands that reach an application, for scripts."""

CODES = {
    "LANESHIFT_CONTROL_UNREACHABLE": UNREACHABLE,
    "LANESHIFT_CONTROL_VERSION": UNREACHABLE,
    "LANESHIFT_CONTROL_REFUSED": REFUSED,
}


class Failed(click.ClickException):
    """One of our errors, as the command's end."""

    def __init__(self, problem: LaneshiftError) -> None:
        super().__init__(str(problem))
        kinds = ((NotFoundError, NOT_FOUND), (ArgumentError, USAGE), (LaneshiftError, FAILED))
        by_kind = next(code for kind, code in kinds if isinstance(problem, kind))
        self.exit_code = CODES.get(problem.condition, by_kind)  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Target:
    """The application that a command is to reach, as its options say."""

    control: str | None
    token_file: str | None
    tls: ClientTls

    @property
    def is_named(self) -> bool:
        """Whether there is an address, or a file beside which one is written."""
        return bool(self.control or self.token_file)

    @property
    def address(self) -> Address:
        """Where its control service listens. Errors: InputError."""
        if self.control:
            return Address.of(self.control, "--control")
        beside = None if self.token_file is None else Path(self.token_file + ".address")
        if self.token_file is not None and not Path(self.token_file).exists():
            client_token(file=self.token_file)  # says so
        if beside is None or not beside.is_file():
            raise InputError(
                "--control",
                "nothing" if beside is None else f"no file {beside}",
                f"HOST:PORT of the application's control service, by --control or "
                f"{CONTROL_VARIABLE}",
                "The driver's log names it, if spark.sql.laneshift.control.port is set.",
            )
        return Address.of(beside.read_text("utf-8"), str(beside))

    @contextmanager
    def client(self) -> Iterator[ControlClient]:
        """Its control service. Errors: LaneshiftError, also if packages are missing here."""
        with self.application() as app:
            client: Any = app._gateway
            yield client

    @contextmanager
    def application(self) -> Iterator[Application]:
        """The application, attached."""
        from laneshift.api.application import attached

        address = self.address
        with attached(address, client_token(file=self._token_file()), self.tls) as app:
            yield app

    def _token_file(self) -> str | None:
        """The file that was named; the environment's token wins over the environment's file."""
        if os.environ.get(TOKEN_VARIABLE) and self.token_file == os.environ.get(
            TOKEN_FILE_VARIABLE
        ):
            return None
        return self.token_file


_OPTIONS = (
    click.option(
        "--control",
        metavar="HOST:PORT",
        envvar=CONTROL_VARIABLE,
        show_envvar=True,
        help="The application's control service (default: as written beside the token file).",
    ),
    click.option(
        "--token-file",
        metavar="FILE",
        envvar=TOKEN_FILE_VARIABLE,
        show_envvar=True,
        help=f"A file with its token; or the token itself in {TOKEN_VARIABLE}.",
    ),
    click.option("--ca", metavar="FILE", help="Who has signed its certificate, PEM: for TLS."),
    click.option("--cert", metavar="FILE", help="This client's certificate, PEM."),
    click.option("--key", metavar="FILE", help="The key of that certificate, PEM."),
)


def controlled(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that name an application, as one argument ``target``."""

    @functools.wraps(command)
    def wrapped(
        control: str | None,
        token_file: str | None,
        ca: str | None,
        cert: str | None,
        key: str | None,
        **others: Any,
    ) -> None:
        command(target=Target(control, token_file, ClientTls(ca, cert, key)), **others)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


class DurationType(click.ParamType[float]):
    """A duration with its unit, in seconds for the command."""

    name = "duration"

    def __init__(self, low: float, high: float = math.inf, *, low_open: bool = False) -> None:
        self._low = low
        self._high = high
        self._low_open = low_open

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds. Errors: click.BadParameter."""
        field = "duration" if param is None else str(param.name)
        try:
            return seconds(field, value, low=self._low, high=self._high, low_open=self._low_open)
        except InputError as problem:
            self.fail(f"found {value!r}, expected {problem.expected}: {problem.remedy}", param, ctx)


as_json = click.option("--json", "as_json", is_flag=True, help="JSON, for programs.")


def show(value: Any) -> None:
    """Print a value as one line of JSON: numpy's arrays are lists."""
    click.echo(json.dumps(value, separators=(",", ":"), default=lambda array: array.tolist()))
