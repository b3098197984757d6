"""How commands speak: results on stdout, talk on stderr, one line a failure."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from tppkit._clock import parse_time, utc_now
from tppkit._files import read_bounded
from tppkit._text import printable
from tppkit.errors import ConfigurationError, Finding, FormatError, TppkitError, VerificationError

# What only writing fails with; an error of standard output names no file.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
# Settings to the library; to a command they are files that cannot be read.
_UNREADABLE_KEYS = frozenset({"key.unreadable", "callback-key.unreadable"})
HOLDS, DOES_NOT_HOLD, WRONG_USAGE, UNREADABLE = 0, 1, 2, 3


def read_time(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """Read an option that holds an ISO 8601 time; what has no zone is UTC."""
    try:
        return None if value is None else parse_time(value)
    except FormatError as e:
        raise click.BadParameter(e.message, ctx, param) from e


at_option = click.option("--at", metavar="TIME", callback=read_time, help="The time to judge at; now by default.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def present(at: datetime | None) -> datetime:
    """The time that was asked for, or now."""
    return at or utc_now()


def read_input(name: str, *, max_bytes: int) -> bytes:
    """The bytes of a file, or of standard input for `-`.

    Raises:
        FormatError: `file.unreadable`, `file.too-large`.
    """
    if name != "-":
        return read_bounded(Path(name), max_bytes=max_bytes)
    data = sys.stdin.buffer.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise FormatError("file.too-large", f"standard input has more than {max_bytes} bytes")
    return data


def require_one_stdin(*names: str | None) -> None:
    """Refuse to read standard input twice: whoever is second would get nothing.

    Args:
        names: files, or - for standard input; None: not given.

    Raises:
        click.UsageError: more than one is -.
    """
    if names.count("-") > 1:
        raise click.UsageError("standard input (-) can be read once")


def print_json(value: Any) -> None:
    """A result as JSON."""
    # On a terminal foreign text must not reach it as it is; JSON's own escapes say the same.
    click.echo(json.dumps(value, indent=2, ensure_ascii=sys.stdout.isatty()))


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Aligned lines `name  value`; control characters of foreign text are escaped."""
    rows = [(name, value) for name, value in facts if value]
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        click.echo(f"  {name:<{width}}  {printable(value)}")


def say(text: str) -> None:
    """Talk."""
    click.echo(text, err=True)


def say_error(error: TppkitError) -> None:
    """A failure: what, its code, and what to do."""
    say(f"error: {printable(error.message)} [{error.code}]")
    if error.hint:
        say(f"  {error.hint}")


def say_failure(error: TppkitError, *, as_json: bool, told_already: bool = False) -> None:
    """A failure that ends the command: told (unless it was), and with --json an object on stdout as well.

    The object has `error`; what does not hold is a verdict too, with `verdict` and `code`.
    """
    if not told_already:
        say_error(error)
    if as_json:
        verdict = {"verdict": "fails", "code": error.code} if isinstance(error, VerificationError) else {}
        print_json({**verdict, "error": error_object(error)})


def told(error: Exception) -> TppkitError:
    """Any exception as one of ours; what nobody foresaw is told by its type only, or raised where TPPKIT_TRACEBACK is set."""
    if isinstance(error, TppkitError):
        return error
    if isinstance(error, click.ClickException):
        return ConfigurationError("usage.wrong", " ".join(error.format_message().split()))
    if os.environ.get("TPPKIT_TRACEBACK"):
        raise error
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return FormatError("file.unwritable", f"{error.filename or 'the output'}: {error.strerror}")
    if isinstance(error, OSError):
        return FormatError("file.unreadable", f"{error.filename or 'a file'}: {error.strerror or type(error).__name__}")
    return TppkitError("internal.unexpected", f"this should not happen: {type(error).__name__}")


def exit_code_of(error: TppkitError) -> int:
    """2 for settings that cannot work, 1 for what does not hold, 3 for the rest: what cannot be read."""
    if isinstance(error, ConfigurationError) and error.code not in _UNREADABLE_KEYS:
        return WRONG_USAGE
    return DOES_NOT_HOLD if isinstance(error, VerificationError) else UNREADABLE


def finding_object(finding: Finding) -> dict[str, Any]:
    """A finding as JSON has it."""
    found: dict[str, Any] = {
        "code": finding.code,
        "severity": finding.severity.value,
        "clause": finding.clause,
        "message": finding.message,
    }
    if finding.values:
        found["values"] = dict(finding.values)
    if finding.offset is not None:
        found["offset"] = finding.offset
    return found


def error_object(error: TppkitError) -> Mapping[str, str]:
    """A failure as JSON has it."""
    return {"code": error.code, "message": error.message}
