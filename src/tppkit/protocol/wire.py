"""Bodies of the interfaces in JSON and CSV: one model class for both directions, strict for writing, tolerant for reading."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, Protocol, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_serializer,
)

from tppkit._encoding import parse_json, without_frames
from tppkit.errors import FormatError

MAX_BODY_BYTES = 64 * 1024
MAX_ARRAY_BYTES = 4 * 1024 * 1024
MAX_RECORD_BYTES = 64 * 1024
ROWS_PER_CHUNK = 500

_TOLERANT = {"tolerant": True}


Value = TypeVar("Value")


def written(check: Callable[[Value], Value]) -> AfterValidator:
    """Make a rule that applies to written bodies and to received requests; answers of a peer are not checked.

    Args:
        check: returns the value, or raises ValueError with a reason that does not repeat the value.

    Example:
        Amount = Annotated[str, written(check_amount)]
    """

    def validate(value: Value, info: ValidationInfo) -> Value:
        return value if info.context and info.context.get("tolerant") else check(value)

    return AfterValidator(validate)


class WireModel(BaseModel):
    """A JSON object of an interface: immutable, unknown fields kept.

    Example:
        class Payer(WireModel):
            name: Annotated[str, written(check_name)]

        Payer.from_wire(b'{"name": "Ada"}').to_wire()
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, hide_input_in_errors=True)

    @classmethod
    @without_frames
    def from_wire(cls, raw: bytes, *, tolerant: bool = False, max_bytes: int = MAX_BODY_BYTES) -> Self:
        """Read the object from a body.

        Args:
            raw: the body as received.
            tolerant: skip the rules of `written`; for answers of a peer.
            max_bytes: reject a longer body.

        Raises:
            FormatError: `json.*`, or `model.invalid` with the name of each field that does not fit, never its value.
        """
        parse_json(raw, what=f"the {cls.__name__.lstrip('_')} body", max_bytes=max_bytes)
        try:
            return cls.model_validate_json(raw, by_alias=True, by_name=False, context=_TOLERANT if tolerant else None)
        except ValidationError as e:
            raise _invalid(cls, e) from None

    @classmethod
    @without_frames
    def from_object(cls, value: Any, *, tolerant: bool = False) -> Self:
        """Read the object from parsed JSON, for models whose fields all have JSON types.

        Args:
            value: what `parse_json` returned.
            tolerant: skip the rules of `written`.

        Raises:
            FormatError: `model.invalid`.
        """
        try:
            return cls.model_validate(value, by_alias=True, by_name=False, context=_TOLERANT if tolerant else None)
        except ValidationError as e:
            raise _invalid(cls, e) from None

    def to_wire(self) -> bytes:
        """Compact JSON in UTF-8, without absent fields."""
        return self.model_dump_json(by_alias=True).encode()

    def to_object(self) -> dict[str, Any]:
        """The object as JSON values, without absent fields."""
        return self.model_dump(mode="json", by_alias=True)

    @model_serializer(mode="wrap")
    def _leave_out_absent(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        unknown = self.model_extra or {}
        return {name: value for name, value in write(self).items() if value is not None or name in unknown}


def _invalid(model: type[BaseModel], error: ValidationError, place: str = "") -> FormatError:
    faults = error.errors(include_input=False, include_url=False, include_context=False)
    parts = [f"{'.'.join(str(step)[:40] for step in fault['loc']) or 'body'}: {fault['msg']}" for fault in faults[:5]]
    return FormatError("model.invalid", f"{model.__name__.lstrip('_')}{place}: {'; '.join(parts)}")


Row = TypeVar("Row")
Model = TypeVar("Model", bound=WireModel)


def require_media_type(content_type: str | None, media_type: str) -> None:
    """Check the Content-Type of a request; its parameters are ignored.

    Raises:
        FormatError: `message.content-type`.
    """
    given = (content_type or "absent").partition(";")[0].strip().lower()
    if given != media_type:
        usual = (
            given if re.fullmatch("[a-z]{1,40}(?:/[a-z.+-]{1,40})?", given) else "another"
        )  # it could be a card number
        raise FormatError("message.content-type", f"the Content-Type is {usual}, not {media_type}")


class Body(Protocol[Value]):
    """Writes and reads a body.

    Attributes:
        media_type: its Content-Type, or None if no body is sent.
    """

    @property
    def media_type(self) -> str | None:
        """The Content-Type."""
        ...

    def write(self, value: Value) -> bytes:
        """The bytes to send."""
        ...

    def read(self, raw: bytes, *, tolerant: bool) -> Value:
        """The value of a received body; `tolerant` for answers of a peer.

        Raises:
            FormatError: `json.*`, `model.invalid`, `body.unexpected`.
        """
        ...


class RowReader(Protocol[Row]):
    """Reads rows from an answer as it arrives."""

    def feed(self, chunk: bytes) -> list[Row]:
        """Return the rows that these bytes complete.

        Raises:
            FormatError: `csv.*`, `model.invalid`.
        """
        ...

    def end(self) -> None:
        """Check that the last row was complete, after the last `feed`.

        Raises:
            FormatError: `csv.cut-off`.
        """
        ...


class Streamed(Protocol[Row]):
    """Writes and reads a body of many rows without holding all of them in memory.

    Attributes:
        media_type: its Content-Type.
    """

    @property
    def media_type(self) -> str:
        """The Content-Type."""
        ...

    def chunks(self, rows: Iterable[Row]) -> Iterator[bytes]:
        """The bytes to send, with at most `ROWS_PER_CHUNK` rows a chunk."""
        ...

    def reader(self) -> RowReader[Row]:
        """A reader for one answer of a peer."""
        ...


def is_streamed(body: Body[Any] | Streamed[Any]) -> bool:
    """Whether a body is sent row by row. A runtime-checkable protocol would take 8 microseconds in each request."""
    return hasattr(body, "chunks")


@dataclass(frozen=True, slots=True)
class Json(Generic[Model]):
    """A JSON object.

    Attributes:
        model: its class.
        max_bytes: a longer body is rejected.
    """

    model: type[Model]
    max_bytes: int = MAX_BODY_BYTES

    @property
    def media_type(self) -> str:
        """The Content-Type."""
        return "application/json"

    def write(self, value: Model) -> bytes:
        """The object as compact JSON."""
        return value.to_wire()

    @without_frames
    def read(self, raw: bytes, *, tolerant: bool) -> Model:
        """The object.

        Raises:
            FormatError: as `WireModel.from_wire`.
        """
        return self.model.from_wire(raw, tolerant=tolerant, max_bytes=self.max_bytes)


@dataclass(frozen=True, slots=True)
class Nothing:
    """No body. A request with a body is rejected; the body of an answer is ignored."""

    @property
    def media_type(self) -> None:
        """No Content-Type."""
        return None

    def write(self, value: None) -> bytes:
        """No bytes."""
        return b""

    def read(self, raw: bytes, *, tolerant: bool) -> None:
        """Check that a request has no body.

        Raises:
            FormatError: `body.unexpected`.
        """
        if raw and not tolerant:
            raise FormatError("body.unexpected", f"the request has a body of {len(raw)} bytes, but this call has none")


@dataclass(frozen=True, slots=True)
class JsonArray(Generic[Model]):
    """A JSON array of objects.

    Attributes:
        model: the class of each object.
        max_bytes: a longer body is rejected.
    """

    model: type[Model]
    max_bytes: int = MAX_ARRAY_BYTES

    @property
    def media_type(self) -> str:
        """The Content-Type."""
        return "application/json"

    def write(self, value: tuple[Model, ...]) -> bytes:
        """The objects as compact JSON."""
        return b"[" + b",".join([one.to_wire() for one in value]) + b"]"

    @without_frames
    def read(self, raw: bytes, *, tolerant: bool) -> tuple[Model, ...]:
        """The objects.

        Raises:
            FormatError: as `WireModel.from_wire`.
        """
        parse_json(raw, what=f"the array of {self.model.__name__}", max_bytes=self.max_bytes)
        context = _TOLERANT if tolerant else None
        try:
            return tuple(_array(self.model).validate_json(raw, by_alias=True, by_name=False, context=context))
        except ValidationError as e:
            raise _invalid(self.model, e) from None


@lru_cache(maxsize=256)  # making an adapter takes longer than reading a body
def _array(model: type[Model]) -> TypeAdapter[list[Model]]:
    return TypeAdapter(list[model])  # type: ignore[valid-type]  # a class as a value


@dataclass(frozen=True, slots=True)
class CsvRows(Generic[Model]):
    """A CSV report: a line of column names, then a line for each row, each with CRLF at the end; an empty cell is an absent field.

    Attributes:
        columns: the names to write, which an answer must have too; further columns of an answer are ignored.
        model: the class of each row; its names on the wire are the columns.
        max_record_bytes: a longer row is rejected.

    Source: RFC 4180, except that the last line ends with CRLF too, to detect a truncated report.
    """

    columns: tuple[str, ...]
    model: type[Model]
    max_record_bytes: int = MAX_RECORD_BYTES

    @property
    def media_type(self) -> str:
        """The Content-Type."""
        return "text/csv"

    def chunks(self, rows: Iterable[Model]) -> Iterator[bytes]:
        """See `Streamed.chunks`."""
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(self.columns)
        for number, row in enumerate(rows, 1):
            cells = row.to_object()
            writer.writerow([_cell(cells.get(column)) for column in self.columns])
            if number % ROWS_PER_CHUNK == 0:
                yield text.getvalue().encode()
                text.seek(0)
                text.truncate()
        yield text.getvalue().encode()

    def reader(self) -> CsvReader[Model]:
        """See `Streamed.reader`."""
        return CsvReader(self)


def _cell(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


class CsvReader(Generic[Model]):
    """Reads the rows of `CsvRows` as they arrive; see `RowReader`.

    Args:
        form: columns, model and limit.
    """

    def __init__(self, form: CsvRows[Model]) -> None:
        self._form = form
        self._tail = b""  # of a line without its end
        self._lines: list[bytes] = []  # of a record with a line break in quotes
        self._size = 0
        self._quoted = False
        self._names: list[str] | None = None
        self._count = 0

    def feed(self, chunk: bytes) -> list[Model]:
        """See `RowReader.feed`."""
        rows: list[Model] = []
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

    def end(self) -> None:
        """See `RowReader.end`."""
        if self._names is None or self._lines or self._tail:
            raise FormatError("csv.cut-off", f"the report ends in the middle of a line, after {self._count} rows")

    def _require_bounded(self, size: int) -> None:
        if size > self._form.max_record_bytes:
            raise FormatError(
                "csv.too-long", f"after {self._count} rows, one has more than {self._form.max_record_bytes} bytes"
            )

    def _cells(self, record: bytes) -> list[str]:
        try:
            (cells,) = csv.reader([record.decode()], strict=True)
        except (csv.Error, ValueError) as e:
            raise self._malformed("not UTF-8" if isinstance(e, UnicodeError) else str(e)) from None
        return cells

    def _read(self, cells: list[str]) -> Iterator[Model]:
        columns, model = self._form.columns, self._form.model
        if self._names is None:
            if len(set(cells)) != len(cells) or not set(columns) <= set(cells):
                raise self._malformed("the first line does not name each column once")
            self._names = cells
            return
        if len(cells) != len(self._names):
            raise self._malformed(f"{len(cells)} cells for {len(self._names)} columns")
        found = dict(zip(self._names, cells, strict=True))
        values = {column: found[column] for column in columns if found[column]}
        self._count += 1
        try:
            yield model.model_validate_strings(values, by_alias=True, by_name=False, context=_TOLERANT)
        except ValidationError as e:
            raise _invalid(model, e, f" in row {self._count}") from None

    def _malformed(self, reason: str) -> FormatError:
        return FormatError("csv.malformed", f"after {self._count} rows: {reason}")
