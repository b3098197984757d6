"""Tables of a TOML file: the line of each key for messages, the depth, and two files as one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_TABLE_LINE = re.compile(r"\s*\[([^\[\]]+)\]\s*(?:#.*)?")
_KEY_LINE = re.compile(
    r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_KEY_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")

Path = tuple[str, ...]


def merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of two files as one; a table merges, any other value replaces."""
    both = {
        name: merged(base[name], one) if isinstance(one, dict) and isinstance(base.get(name), dict) else one
        for name, one in own.items()
    }
    return {**base, **both}


def depth_of(value: Any) -> int:
    """Return how deep tables and arrays nest."""
    deepest, waiting = 0, [(value, 0)]
    while waiting:
        one, depth = waiting.pop()
        deepest = max(deepest, depth)
        parts: Iterable[Any] = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        waiting += [(part, depth + 1) for part in parts]
    return deepest


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
    return tuple(part.strip("\"'") for part in _KEY_PART.findall(key))
