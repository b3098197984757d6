"""A check that no card number or security code of a test was written anywhere."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

from tppkit.card_search.files import Place, Skipped, SkipReason, search_path, searched
from tppkit.card_search.forms import CardForms, Secret
from tppkit.errors import ConfigurationError, FormatError

_MAX_LINES = 20
# Fields that logging itself sets; line numbers and process ids could be mistaken for codes.
_RECORD = vars(logging.makeLogRecord({})).keys() - {"msg", "args", "exc_info", "exc_text", "stack_info"}


@dataclass(frozen=True, slots=True)
class Searched:
    """What `assert_no_pan` searched.

    Attributes:
        searched: the names of places, such as paths, `logs.tar: shop.log` for a member of an archive, and `place 2` for a value.
        skipped: places that were not searched, with the reasons.

    Example:
        searched = assert_no_pan(tmp_path, cards=["4111111111111111"])
        assert not searched.skipped
    """

    searched: tuple[str, ...]
    skipped: tuple[Skipped, ...]


def assert_no_pan(*places: object, cards: Iterable[str | Secret]) -> Searched:
    """Check that none of the cards of a test is in any of the places.

    A card number is found as digits with and without separators, percent-encoded, in UTF-16, hexadecimal, base64 and as a binary
    integer. A security code is found as a separate word; choose one that no amount or counter has, such as 0739. Gzip, zip and tar
    files are unpacked; encrypted content and other compression are not searched. No other process may write to a SQLite database that is
    searched.

    Args:
        places: `Path` objects of files and folders, where SQLite databases are also read by SQL and with their journals; texts, bytes,
            JSON values, pydantic models, exceptions, log records, HTTP answers (`content` and `headers`), and lists of them.
            A text is never a path.
        cards: every card number and security code of the test.

    Returns:
        what was searched, and what was not.

    Raises:
        AssertionError: a card was found; the message has place, form and offset or column, never the card.
        ConfigurationError: `pan.search`.
        FormatError: `file.unreadable`.

    Example:
        caplog.set_level("DEBUG")
        answer = shop.pay(pan="4111111111111111", cvc="0739")
        assert_no_pan(tmp_path, caplog.records, answer, cards=["4111111111111111", "0739"])
    """
    __tracebackhide__ = True  # pytest prints the arguments of each frame in a traceback
    forms = CardForms(cards)
    if not places or any(isinstance(place, str) and _is_file_name(place) for place in places):
        raise ConfigurationError(
            "pan.search", "give the places to search, and files as Path: a text is searched itself"
        )
    lines: dict[str, str] = {}
    searched: list[str] = []
    skipped: list[Skipped] = []
    for found in _places(places, forms):
        if isinstance(found, Skipped):
            if found.why is SkipReason.UNREADABLE:
                raise FormatError("file.unreadable", f"{found.name} cannot be read: {found.reason}")
            skipped.append(found)
            continue
        searched.append(found.name)
        for hit, at in found.hits:
            line = f"{found.name}: {hit.card}, {hit.form}"
            lines.setdefault(line, f"{line}, {at}")
        if len(lines) >= _MAX_LINES:
            break
    if lines:
        not_searched = [f"not searched: {one.name}, {one.reason}" for one in skipped[:_MAX_LINES]]
        raise AssertionError(
            "\n".join(
                [
                    "card data was found:",
                    *[*lines.values()][:_MAX_LINES],
                    *not_searched,
                    f"places searched: {len(searched)}",
                ]
            )
        )
    return Searched(tuple(searched), tuple(skipped))


def _is_file_name(text: str) -> bool:
    return os.sep in text and len(text) < 4096 and "\0" not in text and os.path.exists(text)


def _places(places: tuple[object, ...], forms: CardForms) -> Iterator[Place | Skipped]:
    """Yield each place with its hits. Containers are searched item by item, without recursion."""
    waiting: list[tuple[str, Any, bool]] = [(f"place {at}", place, True) for at, place in enumerate(places, 1)][::-1]
    seen: dict[int, object] = {}  # keeps the objects alive, so that no id is reused
    while waiting:
        name, value, strict = waiting.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        parts: Iterable[tuple[str, Any]] = ()
        match value:
            case None | bool():
                continue
            case str():
                yield searched(name, forms.in_text(value), forms)
            case bytes() | bytearray() | memoryview():
                yield searched(name, forms.in_bytes(bytes(value)), forms)
            case int() | float() | Decimal() | date() | UUID():
                yield searched(name, forms.in_text(str(value)), forms)
            case os.PathLike():
                yield from search_path(Path(value), forms)
            case Mapping():
                parts = [
                    pair for key, one in value.items() for pair in ((f"key of {name}", key), (f"{name}.{key}", one))
                ]
            case list() | tuple() | set() | frozenset():
                parts = [(f"{name}[{at}]", one) for at, one in enumerate(value)]
            case logging.LogRecord():
                own = [(f"{name}.{key}", one) for key, one in vars(value).items() if key not in _RECORD]
                parts, strict = [(name, value.getMessage()), *own], False
            case BaseException():
                chain = (value.__cause__, value.__context__, *getattr(value, "exceptions", ()))
                shown = (str(value), repr(value), value.args, vars(value), chain)
                parts, strict = [(name, one) for one in shown], False
            case _ if hasattr(value, "model_dump"):
                parts, strict = [(name, one) for one in (value.model_dump(), str(value), repr(value))], False
            case _ if strict and hasattr(value, "content") and hasattr(value, "headers"):
                parts = [(f"{name}.content", value.content), (f"{name}.headers", dict(value.headers))]
            case _ if strict:
                raise ConfigurationError("pan.search", f"{name}, a {type(value).__name__}, cannot be searched")
            case _:
                parts = [(name, one) for one in (str(value), repr(value))]
        waiting += [(part, one, strict) for part, one in reversed([*parts])]
