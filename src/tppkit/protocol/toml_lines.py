"""Tables of a TOML file: the line of each key and of each fault for messages, what nests too deep, and two files as one."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_TABLE_LINE = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?")
_KEY_PART = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'""")
_KEY_LINE = re.compile(rf"\s*((?:{_KEY_PART.pattern})(?:\s*\.\s*(?:{_KEY_PART.pattern}))*)\s*=")
MAX_DOTS = 64  # of a line; tomllib takes a time that grows with the square of the parts of a key

Path = tuple[str, ...]


def merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of two files as one; a table merges, any other value replaces."""
    both = {
        name: merged(base[name], one) if isinstance(one, dict) and isinstance(base.get(name), dict) else one
        for name, one in own.items()
    }
    return {**base, **both}


def parse(raw: bytes) -> tuple[dict[str, Any], str]:
    """Return the tables of a file and its text.

    Raises:
        NotToml: it is not TOML in UTF-8, or no file that a person writes.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as e:
        raise NotToml(raw.count(b"\n", 0, e.start) + 1, "not UTF-8") from None
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if line.count(".") > MAX_DOTS and not line.lstrip().startswith("#"):
            raise NotToml(number, f"more than {MAX_DOTS} dots in a line")
    try:
        return tomllib.loads(text), text
    except tomllib.TOMLDecodeError as e:
        at = re.search(r"at line (\d+)", str(e))
        raise NotToml(int(at[1]) if at else len(text.rstrip().split("\n")), str(e)) from None
    except (
        ValueError,
        RecursionError,
    ) as e:  # they name no line: of an integer of thousands of digits, of very deep arrays
        number = bisect_left(range(1, len(lines)), True, key=lambda length: _fails(lines[:length])) + 1
        raise NotToml(number, "too many digits" if isinstance(e, ValueError) else "nested too deep") from None


class NotToml(Exception):
    """A file that cannot be read.

    Attributes:
        line: where, from 1.
        reason: why.
    """

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line, self.reason = line, reason


def _fails(lines: list[str]) -> bool:
    """Whether tomllib gives up before it reaches a fault of the syntax."""
    try:
        tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError:
        return False
    except (ValueError, RecursionError):
        return True
    return False


def too_deep(table: Mapping[str, Any], deepest: int) -> Path | None:
    """Return the path of a key whose value nests deeper, or None."""
    waiting: list[tuple[Path, int, Any]] = [((), 0, table)]
    while waiting:
        path, depth, one = waiting.pop()
        if depth > deepest:
            return path
        if isinstance(one, dict):
            waiting += [((*path, name), depth + 1, part) for name, part in one.items()]
        elif isinstance(one, list):
            waiting += [(path, depth + 1, part) for part in one]
    return None


def lines_of(text: str) -> Mapping[Path, int]:
    """Return the line of each table and key, because tomllib gives none. Only for messages: it reads line by line."""
    lines: dict[Path, int] = {}
    table: Path = ()
    for number, line in enumerate(text.split("\n"), 1):
        if found := _TABLE_LINE.fullmatch(line):
            table = _parts(found[1])
            lines.setdefault(table, number)
        elif found := _KEY_LINE.match(line):
            key = _parts(found[1])
            for length in range(1, len(key) + 1):
                lines.setdefault((*table, *key[:length]), number)
    return lines


def _parts(key: str) -> Path:
    return tuple(map(_part, _KEY_PART.findall(key)))


def _part(written: str) -> str:
    if "\\" in written:
        with suppress(tomllib.TOMLDecodeError):
            return str(tomllib.loads(f"key = {written}")["key"])
    return written.strip("\"'")
