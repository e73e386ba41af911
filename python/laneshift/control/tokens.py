"""Who may come in: the operator's token, and one for each session of a Spark Connect server.

A session's token is ``TENANT.SIGNATURE``: the plugin signs it with a key that only it and the
control process know, so neither has to keep a list.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from laneshift.control.address import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from laneshift.errors import InputError

SHORTEST = 16
"""Characters of a token that was given (ours); generated ones have 43."""

_OPERATOR = "the operator"
"""No session's name: these are hexadecimal."""

_FORM = re.compile(rf"[!-~]{{{SHORTEST},512}}")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: the operator, or the Connect session ``tenant``, who has queries of its own."""

    tenant: str | None = None


class Tokens:
    """Tells callers by their tokens.

    Args:
        operator: the operator's token.
        tenant_key: key of the sessions' tokens, empty if there are none.
    """

    def __init__(self, operator: str, tenant_key: str = "") -> None:
        self._operator = operator.encode()
        self._tenant_key = tenant_key.encode()

    def caller(self, presented: str) -> Caller | None:
        """Whose token it is, None if nobody's."""
        if hmac.compare_digest(presented.encode("utf-8", "replace"), self._operator):
            return Caller()
        tenant, _, signature = presented.rpartition(".")
        if tenant and self._tenant_key:
            expected = signed(self._tenant_key, tenant)
            if hmac.compare_digest(signature.encode("utf-8", "replace"), expected.encode()):
                return Caller(tenant)
        return None


def signed(key: bytes, tenant: str) -> str:
    """The signature of a tenant, as the plugin makes it."""
    return hmac.new(key, tenant.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def checked(token: str, where: str) -> str:
    """The token without spaces around it. Errors: InputError if it has no token's form."""
    text = token.strip()
    if not _FORM.fullmatch(text):
        raise InputError(
            where,
            "a text of no token's form" if text else "nothing",
            f"a token: {SHORTEST} to 512 printable characters without spaces",
            "The driver generates one if neither control.token nor control.tokenFile is set.",
        )
    return text


def kept(file: Path) -> str:
    """The driver's token in ``file``, generated now if there is no such file.

    Errors: InputError if it is another user's, others than its owner may read it, or it cannot be
    read or written.
    """
    with _usable(file):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        token = secrets.token_urlsafe(32)
        try:
            _create(file, token + "\n")
        except FileExistsError:
            with file.open(encoding="utf-8") as there:
                _check_owner(file, os.fstat(there.fileno()))
                return checked(there.read(), f"token file {file}")
        return token


def written(file: Path, key: str) -> str:
    """A new token in ``file``, whatever was there: always the same one of ``key``, which is secret.

    Errors: InputError if it cannot be written.
    """
    token = signed(key.encode(), _OPERATOR) if key else secrets.token_urlsafe(32)
    with _usable(file):
        write(file, token + "\n")
    return token


def write(file: Path, text: str) -> None:
    """Whole or not at all, for its owner. Errors: OSError."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = file.with_name(file.name + ".new")
    new.unlink(missing_ok=True)
    _create(new, text)
    new.replace(file)


def _create(file: Path, text: str) -> None:
    made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(made, "w", encoding="utf-8") as out:
        out.write(text)


def _check_owner(file: Path, about: os.stat_result) -> None:
    if about.st_uid != os.geteuid():
        raise InputError(
            f"token file {file}",
            f"a file of user {about.st_uid}",
            f"one of user {os.geteuid()}, who runs the driver",
            "Whoever owns it knows the token: remove it, and the driver makes one.",
        )
    if about.st_mode & 0o077:
        raise InputError(
            f"token file {file}",
            f"mode {about.st_mode & 0o777:o}",
            "a file that only its owner can read",
            f"Run chmod 600 {file}, and take a new token if others may have read it.",
        )


@contextmanager
def _usable(file: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, UnicodeDecodeError) as cause:
        raise InputError(
            f"token file {file}",
            f"{type(cause).__name__}: {cause}",
            "a file that the driver can read, or write if it is not there",
            "Set spark.sql.laneshift.control.tokenFile to a path that the driver's user owns.",
        ) from cause


def client_token(token: str | None = None, file: str | Path | None = None) -> str:
    """A client's token: given, in a file, or named by the environment.

    Errors: InputError if there is none, two, or none of a token's form.
    """
    if token is not None and file is not None:
        raise InputError("token", "a token and a token file", "one of them", "Leave one out.")
    if token is None and file is None:
        token = os.environ.get(TOKEN_VARIABLE) or None
        file = None if token else os.environ.get(TOKEN_FILE_VARIABLE) or None
    if token is not None:
        return checked(token, "token")
    if file is None:
        raise InputError(
            "token",
            "none",
            f"a token, by token=, token_file=, --token-file, {TOKEN_VARIABLE} or "
            f"{TOKEN_FILE_VARIABLE}",
            "The driver's log names the file that has it.",
        )
    try:
        return checked(Path(file).read_text("utf-8"), f"token file {file}")
    except (OSError, UnicodeDecodeError) as cause:
        raise InputError(
            f"token file {file}",
            f"{type(cause).__name__}: {cause}",
            "a file with the driver's token",
            "Copy it from the driver's machine; its log names the file.",
        ) from cause
