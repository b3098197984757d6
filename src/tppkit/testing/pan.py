"""A check that no card number or security code of a test was written anywhere."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import date
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

from tppkit._files import regular_only
from tppkit.errors import ConfigurationError, FormatError
from tppkit.testing.card_forms import CODE, CardForms, Hit, Secret

_MAX_LINES = 20
_ROWS = 64
_SQLITE = b"SQLite format 3\0"
_JOURNALS = ("-wal", "-journal")
# Fields that logging itself sets; line numbers and process ids could be mistaken for codes.
_RECORD = vars(logging.makeLogRecord({})).keys() - {"msg", "args", "exc_info", "exc_text", "stack_info"}


def assert_no_pan(*places: object, cards: Iterable[str | Secret]) -> None:
    """Check that none of the cards of a test is in any of the places.

    A card number is found as digits with and without separators, percent-encoded, in UTF-16, hexadecimal, base64 and as a binary
    integer. A security code is found as a separate word; choose one that no amount or counter has, such as 0739. Compressed and
    encrypted content is not searched. No other process may write to a SQLite database that is searched.

    Args:
        places: `Path` objects of files and folders, where SQLite databases are also read by SQL and with their journals; texts, bytes,
            JSON values, pydantic models, exceptions, log records, HTTP answers (`content` and `headers`), and lists of them.
            A text is never a path.
        cards: every card number and security code of the test.

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
    with closing(_search(places, forms)) as lines:
        found = [*islice(lines, _MAX_LINES)]
    if found:
        raise AssertionError("\n".join(["card data was found:", *found]))


def _is_file_name(text: str) -> bool:
    return os.sep in text and len(text) < 4096 and "\0" not in text and os.path.exists(text)


def _search(places: tuple[object, ...], forms: CardForms) -> Generator[str, None, None]:
    reported = set()
    for place, where in _places(places, forms):
        for hit, at in where:
            name = re.sub("[0-9]", "*", place) if any(forms.in_text(place)) else place
            line = f"{name}: card {hit.card}, {hit.form}"
            if line not in reported:
                reported.add(line)
                yield f"{line}, {at}"


_Found = Iterator[tuple[Hit, str]]


def _places(places: tuple[object, ...], forms: CardForms) -> Iterator[tuple[str, _Found]]:
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
                yield name, _at_bytes(forms.in_text(value))
            case bytes() | bytearray() | memoryview():
                yield name, _at_bytes(forms.in_bytes(bytes(value)))
            case int() | float() | Decimal() | date() | UUID():
                yield name, _at_bytes(forms.in_text(str(value)))
            case os.PathLike():
                yield from _files(Path(value), forms)
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


def _at_bytes(hits: Iterator[Hit]) -> _Found:
    return ((hit, f"byte {hit.offset}") for hit in hits)


def _files(path: Path, forms: CardForms) -> Iterator[tuple[str, _Found]]:
    if path.is_dir():
        for folder, folders, files in os.walk(path, onerror=_refuse):
            for name in sorted(folders + files):
                yield f"a name in {folder}", _in_name(name, forms)
            for name in sorted(files):
                file = Path(folder, name)
                if file.is_file() and not file.is_symlink():
                    yield from _file(file, forms)
        return
    yield f"a name in {path.parent}", _in_name(path.name, forms)
    sides = [side for end in _JOURNALS if (side := Path(f"{path}{end}")).is_file()]
    for file in (path.resolve(), *sides):
        yield from _file(file, forms)


def _file(path: Path, forms: CardForms) -> Iterator[tuple[str, _Found]]:
    try:
        with open(path, "rb", opener=regular_only) as file:
            is_sqlite = file.read(len(_SQLITE)) == _SQLITE
            file.seek(0)
            yield str(path), _at_bytes(forms.in_stream(file.read))
    except OSError as e:
        _refuse(e)
    if is_sqlite:
        yield from _cells(path, forms)


def _cells(path: Path, forms: CardForms) -> Iterator[tuple[str, _Found]]:
    """Yield every cell of a database; the file has values longer than a page in several pieces."""
    import sqlite3

    # SQLite creates files next to a database in WAL mode, unless it opens the database as immutable.
    mode = "mode=ro" if any(Path(f"{path}{end}").exists() for end in _JOURNALS) else "immutable=1"
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True)) as database:
            database.text_factory = lambda text: text.decode("utf-8", "replace")
            # Virtual tables have no pages; their data is in other tables.
            for (table,) in database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
            ).fetchall():
                quoted = table.replace('"', '""')
                rows = database.execute(f'SELECT * FROM "{quoted}"')  # noqa: S608  # of the database's own schema
                columns = [column[0] for column in rows.description]
                while batch := rows.fetchmany(_ROWS):
                    cells = [cell for row in batch for cell in zip(columns, row, strict=True)]
                    texts = "\x1f".join(str(cell) for _, cell in cells if not isinstance(cell, bytes))
                    for column, cell in cells if any(forms.in_text(texts)) else ():
                        yield f"{path}, {table}.{column}", _in_cell(forms.in_text(str(cell)))
                    for column, cell in cells:
                        if isinstance(cell, bytes):
                            yield f"{path}, {table}.{column}", _in_cell(forms.in_bytes(cell))
    except sqlite3.Error as e:
        raise FormatError("file.unreadable", f"{path} is a SQLite database that cannot be read: {e}") from e


def _in_name(name: str, forms: CardForms) -> _Found:
    return _at_bytes(hit for hit in forms.in_text(name) if not hit.form.startswith(CODE))


def _in_cell(hits: Iterator[Hit]) -> _Found:
    return ((hit, "a cell") for hit in hits)


def _refuse(error: OSError) -> None:
    raise FormatError("file.unreadable", f"{error.filename} cannot be read: {error.strerror}") from error
