"""Input and output of commands: results on stdout, messages on stderr, one line for each failure.

A command returns a `Result`, which `json_option` prints.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from itertools import repeat, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import click

from tppkit._clock import parse_time, utc_now
from tppkit._files import read_bounded
from tppkit._text import printable
from tppkit.certificates.rules import first_error
from tppkit.codes import CODES
from tppkit.errors import ConfigurationError, Finding, FormatError, Severity, TppkitError, VerificationError

# Errors of writing only; an error of standard output has no file name.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
# Settings for the library, but unreadable files for a command.
_UNREADABLE_KEYS = frozenset({"key.unreadable", "callback-key.unreadable"})
_WIDTH, _MOST_ITEMS = 100, 10  # of a fact as text
HOLDS, DOES_NOT_HOLD, WRONG_USAGE, UNREADABLE = 0, 1, 2, 3


class UnreadableFile(FormatError):
    """A file that an argument or option names is unreadable.

    Attributes:
        file: its name as given.

    Example:
        with reading("qwac.pem"):
            certificate = load_certificates("qwac.pem")[0]
    """

    def __init__(self, file: str, error: FormatError) -> None:
        name = re.compile(r"\bFILE\b")  # in the command that converts the file
        message = error.message if file == "-" else name.sub(lambda _: shlex.quote(printable(file)), error.message)
        super().__init__(error.code, message, clause=error.clause, offset=error.offset)
        self.file = file


@contextmanager
def reading(file: str | Path) -> Iterator[None]:
    """Raise `UnreadableFile` for a `FormatError` in the body."""
    try:
        yield
    except FormatError as e:
        raise UnreadableFile(str(file), e) from e


def parsed(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Return the callback of an option that parses its text, or each of its texts.

    A `FormatError` is wrong usage, except for an unreadable file.
    """

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if value is None:
            return None
        try:
            return tuple(map(parse, value)) if isinstance(value, tuple) else parse(value)
        except UnreadableFile:
            raise
        except FormatError as e:
            raise click.BadParameter(e.message, ctx, param) from e

    return callback


read_time = parsed(parse_time)
at_option = click.option("--at", metavar="TIME", callback=read_time, help="The time to judge at; now by default.")
# For commands that print while they run; others return a `Result` and have `json_option`.
json_flag = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class Raw(str):
    """A line that is printed without escaping: it has colours, or programs read it."""


Fact = tuple[str, object]


def counted(number: int, what: str) -> str:
    """Return a number and what it counts, in the plural unless it is one."""
    return f"{number} {what}{'' if number == 1 else 's'}"


class Result(NamedTuple):
    """What a command prints, and its exit code.

    Attributes:
        value: printed with --json.
        lines: printed without --json; an iterator is read only then.
        exit_code: of the command.
        message: printed on stderr after the lines; empty for none.

    Example:
        return Result({"text": code.text}, [code.text])
    """

    value: Any
    lines: Iterable[str]
    exit_code: int = HOLDS
    message: str = ""


def json_option(command: Callable[..., Result]) -> Callable[..., int]:
    """Add --json to a command, and print the result that it returns."""

    @json_flag
    @wraps(command)
    def printing(*args: Any, as_json: bool, **options: Any) -> int:
        result = command(*args, **options)
        if as_json:
            print_json(result.value)
            return result.exit_code
        # One write, so that a reader which ends after some lines (head) does not break the pipe of a result that fits it.
        if lines := [line if isinstance(line, Raw) else printable(line) for line in result.lines]:
            echo(Raw("\n".join(lines)))
        if result.message:
            say(result.message)
        return result.exit_code

    return printing


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
    # ASCII, because text of a peer could control a terminal, and file names and locales need not be UTF-8.
    click.echo(json.dumps(value, indent=2))


def echo(line: str, *, err: bool = False) -> None:
    """Print a line; characters that could control a terminal are escaped, except in `Raw`."""
    # A failure is printed when click's context, which has the colour setting of `main`, is closed.
    color = False if os.environ.get("NO_COLOR") else None
    click.echo(line if isinstance(line, Raw) else printable(line), err=err, color=color)


def say(text: str) -> None:
    """Print a message on stderr."""
    echo(text, err=True)


def table_lines(rows: Iterable[Sequence[str]], *, indent: str = "") -> Iterator[str]:
    """Return rows as lines with aligned columns."""
    shown = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip_longest(*shown, fillvalue="")]
    for row in shown:
        yield indent + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)).rstrip()


def headers_result(headers: Iterable[tuple[str, str]]) -> Result:
    """Return headers to send, one a line; they are values of the caller, which must not change."""
    headers = tuple(headers)
    return Result({"headers": [list(one) for one in headers]}, [Raw(f"{name}: {value}") for name, value in headers])


def fact_lines(facts: Iterable[Fact]) -> Iterator[str]:
    """Return facts as indented lines `name  value`.

    A fact without a value is left out. A list or mapping that is long, or whose items contain commas, has one line an item.
    """
    rows: list[Sequence[str]] = []
    for name, value in facts:
        rows += zip((name, *repeat("", _MOST_ITEMS)), _parts(value), strict=False)
    return table_lines(rows, indent="  ")


def _parts(value: object) -> list[str]:
    if not isinstance(value, (Mapping, list, tuple)):
        return [text_of(value)] if text_of(value) else []
    # Only a few of many items are shown, and more items than a line has characters never fit one.
    few = value if isinstance(value, Mapping) else value[:_WIDTH]
    items = _items(few)
    text = text_of(few)
    if len(text) <= _WIDTH and (isinstance(value, Mapping) or not any("," in item for item in items)):
        return [text] if text else []
    more = len(items) + len(value) - len(few) - _MOST_ITEMS
    return items if more <= 0 else [*items[:_MOST_ITEMS], f"and {more} more (--json shows all)"]


def _items(value: Mapping[Any, Any] | Sequence[Any]) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{name}: {text}" for name, one in value.items() if (text := text_of(one))]
    return [text_of(one) for one in value]


def text_of(value: object) -> str:
    """Return a value as text: `yes` or `no`, the items of a list with commas, those of a mapping with semicolons, "" for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (Mapping, list, tuple)):
        return ("; " if isinstance(value, Mapping) else ", ").join(_items(value))
    text = str(value)
    return text if text == text.strip() else f'"{text}"'  # a space at an end would not be seen


def colored(text: str, *, holds: bool) -> str:
    """Return a text in green or red; `click.echo` removes the colours where they are not wanted."""
    return click.style(printable(text), fg="green" if holds else "red", bold=True)


def verdict_object(code: str | None, findings: Iterable[Finding], **proven: Any) -> dict[str, Any]:
    """Return a verdict as a JSON object; it fails if there is a code."""
    shown = [finding.to_object() for finding in findings]
    return {"verdict": "fails" if code else "holds", "code": code, **proven, "findings": shown}


def verdict(
    about: str,
    findings: Sequence[Finding],
    *,
    proven: Mapping[str, Any],
    facts: Mapping[str, object] | None = None,
    code: str | None = None,
    without_advice: Container[str] = (),
) -> Result:
    """Return a verdict, which fails if a finding is an error: one line, what was proven, the findings by severity.

    Args:
        about: what was judged, for the first line.
        findings: every finding, in any order.
        proven: what was proven, for JSON.
        facts: the same as text; by default the values of `proven`.
        code: the failure, if it is not the first error.
        without_advice: codes whose advice is left out, because it names the command that is running.
    """
    error = first_error(tuple(findings))
    code = code or (error.code if error else None)
    shown = proven if facts is None else facts
    state = colored(f"fails ({code})" if code else "holds", holds=not code)
    first = Raw(f"{state}: {printable(about)}")
    lines = (first, *fact_lines(shown.items()), *_finding_blocks(findings, without_advice))
    return Result(verdict_object(code, findings, **proven), lines, DOES_NOT_HOLD if code else HOLDS)


def _finding_blocks(findings: Sequence[Finding], without_advice: Container[str]) -> Iterator[str]:
    for severity in Severity:
        group = [finding for finding in findings if finding.severity is severity]
        if group:
            yield from ("", f"{len(group)} {severity}{'s' if len(group) > 1 else ''}")
        for finding in group:
            yield f"  {finding.code}{f' ({finding.clause})' if finding.clause else ''}"
            yield f"    {finding.message}{_place(finding)}"
            row = CODES.get(finding.code)
            if row and finding.code not in without_advice and severity is not Severity.NOTICE:
                yield f"    do: {row.hint}"


def combine(results: Sequence[Result | UnreadableFile]) -> Result:
    """Return the results about several files as one: a list, with an empty line between them. The worst exit code counts."""
    values = [failure_object(one) if isinstance(one, UnreadableFile) else one.value for one in results]
    codes = [UNREADABLE if isinstance(one, UnreadableFile) else one.exit_code for one in results]
    return Result(values, _combined_lines(results), max(codes, default=HOLDS))


def _combined_lines(results: Iterable[Result | UnreadableFile]) -> Iterator[str]:
    separator: tuple[str, ...] = ()
    for one in results:
        if isinstance(one, UnreadableFile):
            say_error(one)
        else:
            yield from (*separator, *one.lines)
            separator = ("",)


def say_error(error: TppkitError) -> None:
    """Print a failure on stderr: the file, if it is about one, its message, its code, and a hint."""
    if isinstance(error, UnreadableFile):
        say(error.file)
    echo(Raw(f"{click.style('error:', fg='red')} {printable(error.message)} [{error.code}]"), err=True)
    if isinstance(error, FormatError) and error.offset is not None:
        say(f"  at byte {error.offset}")
    if error.hint:
        say(f"  {error.hint}")


def failure(error: TppkitError, exit_code: int, *, on_stderr: bool = True) -> Result:
    """Return the failure that ends a command, an object for --json, and print it on stderr.

    Args:
        error: after a failed verification, the object is a verdict too.
        exit_code: of the command.
        on_stderr: False if click has already printed the failure there.
    """
    if on_stderr:
        say_error(error)
    refusal = {}
    if isinstance(error, VerificationError):
        findings = error.findings or (Finding(error.code, Severity.ERROR, error.message, error.clause),)
        refusal = verdict_object(error.code, findings, message=error.message)
    return Result({**refusal, **failure_object(error)}, (), exit_code)


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
    return TppkitError("internal.unexpected", f"unexpected error: {type(error).__name__}")


def exit_code_of(error: TppkitError) -> int:
    """Return 2 for wrong settings, 1 for a failed verification, 3 for all other errors."""
    if isinstance(error, ConfigurationError) and error.code not in _UNREADABLE_KEYS:
        return WRONG_USAGE
    return DOES_NOT_HOLD if isinstance(error, VerificationError) else UNREADABLE


def finding_line(finding: Finding) -> str:
    """Return a finding on one line, for lists of many."""
    return f"{finding.severity}: {finding.message}{_place(finding)} [{finding.code}]"


def _place(finding: Finding) -> str:
    return "" if finding.offset is None else f" at byte {finding.offset}"


def failure_object(error: TppkitError) -> dict[str, Any]:
    """Return a failure, and the file that it is about, as a JSON object."""
    file = {"file": error.file} if isinstance(error, UnreadableFile) else {}
    offset = error.offset if isinstance(error, FormatError) else None
    place = {} if offset is None else {"offset": offset}
    return {**file, "error": {"code": error.code, "message": error.message, **place}}
