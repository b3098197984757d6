"""Input and output of commands: results on stdout, messages on stderr, one line for each failure."""

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
from tppkit.errors import ConfigurationError, Finding, FormatError, Severity, TppkitError, VerificationError

# Errors of writing only; an error of standard output has no file name.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
# Settings for the library, but unreadable files for a command.
_UNREADABLE_KEYS = frozenset({"key.unreadable", "callback-key.unreadable"})
HOLDS, DOES_NOT_HOLD, WRONG_USAGE, UNREADABLE = 0, 1, 2, 3


def read_time(ctx: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    """Parse an option with an ISO 8601 time; without a zone it is UTC."""
    try:
        return None if value is None else parse_time(value)
    except FormatError as e:
        raise click.BadParameter(e.message, ctx, param) from e


at_option = click.option("--at", metavar="TIME", callback=read_time, help="The time to judge at; now by default.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def present(at: datetime | None) -> datetime:
    """Return the given time, or now."""
    return at or utc_now()


def read_input(name: str, *, max_bytes: int) -> bytes:
    """Read a file, or standard input for `-`.

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
    """Refuse to read standard input twice.

    Args:
        names: files, - for standard input, or None for an absent option.

    Raises:
        click.UsageError: more than one name is -.
    """
    if names.count("-") > 1:
        raise click.UsageError("standard input (-) can be read once")


def print_json(value: Any) -> None:
    """Print a result as JSON."""
    # Text of a peer could control a terminal, so JSON for a terminal is ASCII.
    click.echo(json.dumps(value, indent=2, ensure_ascii=sys.stdout.isatty()))


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print aligned lines `name  value`, with control characters escaped; facts without a value are left out."""
    rows = [(name, value) for name, value in facts if value]
    width = max((len(name) for name, _ in rows), default=0)
    for name, value in rows:
        click.echo(f"  {name:<{width}}  {printable(value)}")


def say(text: str) -> None:
    """Print a message on stderr."""
    click.echo(text, err=True)


def say_error(error: TppkitError) -> None:
    """Print a failure on stderr: its message, its code, and a hint."""
    say(f"{click.style('error:', fg='red')} {printable(error.message)} [{error.code}]")
    if error.hint:
        say(f"  {error.hint}")


def say_failure(error: TppkitError, *, as_json: bool, on_stderr: bool = True) -> None:
    """Print the failure that ends a command.

    With --json an object on stdout has `error`; after a failed verification it is a verdict too.

    Args:
        error: the failure.
        as_json: whether --json was given.
        on_stderr: False if click has already printed it there.
    """
    if on_stderr:
        say_error(error)
    if as_json:
        print_json({**_refusal_object(error), "error": error_object(error)})


def _refusal_object(error: TppkitError) -> dict[str, Any]:
    if not isinstance(error, VerificationError):
        return {}
    findings = error.findings or (Finding(error.code, Severity.ERROR, error.message, error.clause),)
    shown = [finding_object(finding) for finding in findings]
    return {"verdict": "fails", "code": error.code, "message": error.message, "findings": shown}


def as_tppkit_error(error: Exception) -> TppkitError:
    """Convert any exception; an unexpected one is reported by its type only, or raised if TPPKIT_TRACEBACK is set."""
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
    """Return 2 for wrong settings, 1 for a failed verification, 3 for all other errors."""
    if isinstance(error, ConfigurationError) and error.code not in _UNREADABLE_KEYS:
        return WRONG_USAGE
    return DOES_NOT_HOLD if isinstance(error, VerificationError) else UNREADABLE


def finding_object(finding: Finding) -> dict[str, Any]:
    """Return a finding as a JSON object."""
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


def finding_line(finding: Finding) -> str:
    """Return a finding on one line."""
    place = "" if finding.offset is None else f" at byte {finding.offset}"
    return f"{finding.severity}: {printable(finding.message)}{place} [{finding.code}]"


def error_object(error: TppkitError) -> Mapping[str, str]:
    """Return a failure as a JSON object."""
    return {"code": error.code, "message": error.message}
