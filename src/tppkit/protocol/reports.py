"""Reports in CSV, written and read row by row, so that memory does not grow with them."""

from __future__ import annotations

import csv
import io
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, cast

from pydantic import ValidationError

from tppkit.errors import FormatError
from tppkit.protocol.wire import TOLERANT, WireModel, invalid_body

MAX_RECORD_BYTES = 64 * 1024
ROWS_PER_CHUNK = 500
# Behind white space and invisible characters; a number is no formula.
_FORMULA = re.compile(
    r"(?!-?[0-9]+(\.[0-9]+)?\Z)([\t\r\n]|[\s\x00-\x1f\x7f-\x9f\xad\u200b-\u200f\u2060\ufeff]*[=+\-@])"
)

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class CsvRows(Generic[Row]):
    """A CSV report: a line of column names, then a line for each row, each with CRLF at the end; an empty cell is an absent field.

    Attributes:
        columns: the names to write. An answer must have those of required fields; further columns are ignored.
        model: the class of each row; its names on the wire are the columns.
        max_record_bytes: a longer row is rejected.

    Source: RFC 4180.
    """

    media_type: ClassVar = "text/csv"
    columns: tuple[str, ...]
    model: type[Row]
    max_record_bytes: int = MAX_RECORD_BYTES

    def chunks(self, rows: Iterable[Row]) -> Iterator[bytes]:
        """The bytes to send, with at most `ROWS_PER_CHUNK` rows a chunk."""
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(self.columns)
        for number, row in enumerate(rows, 1):
            cells = cast("WireModel", row).to_object()
            writer.writerow([_cell(cells.get(column)) for column in self.columns])
            if number % ROWS_PER_CHUNK == 0:
                yield text.getvalue().encode()
                text.seek(0)
                text.truncate()
        yield text.getvalue().encode()

    def reader(self) -> CsvReader[Row]:
        """A reader for one answer of a peer."""
        return CsvReader(self)


def _cell(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


class CsvReader(Generic[Row]):
    """Reads the rows of `CsvRows` from an answer as it arrives.

    Args:
        form: columns, model and limit.
    """

    def __init__(self, form: CsvRows[Row]) -> None:
        self._form = form
        self._tail = b""  # of a line without its end
        self._lines: list[bytes] = []  # of a record with a line break in quotes
        self._size = 0
        self._quoted = False
        self._names: list[str] | None = None
        self._count = 0

    def feed(self, chunk: bytes) -> list[Row]:
        """Return the rows that these bytes complete.

        Raises:
            FormatError: `csv.*`, `model.invalid`.
        """
        rows: list[Row] = []
        *lines, self._tail = (self._tail + chunk).split(b"\n")
        for line in lines:
            self._lines.append(line)
            self._size += len(line) + 1
            self._require_bounded(self._size)
            self._quoted ^= line.count(b'"') % 2 == 1
            if not self._quoted:
                rows += self._read(self._cells(b"\n".join(self._lines)))
                self._lines, self._size = [], 0
        self._require_bounded(self._size + len(self._tail))
        return rows

    def end(self) -> list[Row]:
        """Return the last row if it has no line end, after the last `feed`. A second call returns nothing.

        The caller must know that the answer is complete, for example by its length.

        Raises:
            FormatError: `csv.*`, `model.invalid`.
        """
        rows = self.feed(b"\n") if self._tail else []
        if self._names is None or self._lines:
            where = "before its column names" if self._names is None else "inside a quoted cell"
            raise FormatError("csv.cut-off", f"the report ends {where}, after {self._count} rows")
        return rows

    def _require_bounded(self, size: int) -> None:
        if size > self._form.max_record_bytes:
            raise FormatError(
                "csv.too-long", f"after {self._count} rows, one has more than {self._form.max_record_bytes} bytes"
            )

    def _cells(self, record: bytes) -> list[str]:
        try:
            (cells,) = csv.reader([record.decode("utf-8-sig" if self._names is None else "utf-8")], strict=True)
        except (csv.Error, ValueError) as e:
            raise self._malformed("not UTF-8" if isinstance(e, UnicodeError) else str(e)) from None
        return cells

    def _read(self, cells: list[str]) -> Iterator[Row]:
        columns, model = self._form.columns, cast("type[WireModel]", self._form.model)
        if self._names is None:
            required = {field.alias or name for name, field in model.model_fields.items() if field.is_required()}
            if len(set(cells)) != len(cells) or not required <= set(cells):
                raise self._malformed("the first line does not name each required column once")
            self._names = cells
            return
        if len(cells) != len(self._names):
            raise self._malformed(f"{len(cells)} cells for {len(self._names)} columns")
        found = dict(zip(self._names, cells, strict=True))
        values = {column: found[column] for column in columns if found.get(column)}
        self._count += 1
        try:
            row = model.model_validate_strings(values, by_alias=True, by_name=False, context=TOLERANT)
            yield cast("Row", row)
        except ValidationError as e:
            raise invalid_body(model, e, f" in row {self._count}") from None

    def _malformed(self, reason: str) -> FormatError:
        return FormatError("csv.malformed", f"after {self._count} rows: {reason}")


class InertText(CsvReader[Any]):
    """Checks the rows of `CsvRows`, and returns each as CSV again, in which no cell is a formula for a spreadsheet.

    A formula gets an apostrophe, also behind white space, in full-width characters, or behind a semicolon, at which some spreadsheets
    begin a new cell.
    """

    def _read(self, cells: list[str]) -> Iterator[bytes]:
        list(super()._read(cells))
        line = io.StringIO(newline="")
        csv.writer(line).writerow([_inert(cell) for cell in cells])
        yield line.getvalue().encode()


def _inert(cell: str) -> str:
    parts = cell.split(";")
    shown = [cell, *parts[1:]]  # the whole cell is no number if it has a semicolon
    formulas = [_FORMULA.match(unicodedata.normalize("NFKC", text)) for text in shown]
    return ";".join([f"'{part}" if formula else part for part, formula in zip(parts, formulas, strict=True)])
