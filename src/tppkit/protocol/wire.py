"""Bodies of the interfaces in JSON: one model class for both directions, strict for writing, tolerant for reading."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    model_serializer,
)
from pydantic_core import CoreSchema
from pydantic_core.core_schema import nullable_schema, with_info_after_validator_function

from tppkit._encoding import parse_json
from tppkit._locals import without_locals
from tppkit.errors import FormatError

MAX_BODY_BYTES = 64 * 1024
MAX_ARRAY_BYTES = 4 * 1024 * 1024

TOLERANT = {"tolerant": True}

_PRINTABLE = r"[^\x00-\x1f\x7f-\x9f]*"
_FIELD = re.compile("(?:3ds_)?[A-Za-z_]{1,40}")


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


def rule(holds: Callable[[Any], object], reason: str) -> AfterValidator:
    """Make a rule as `written` does, from what must hold for a value.

    Args:
        holds: called with the value; a false result breaks the rule.
        reason: why, without the value.
    """

    def check(value: Any) -> Any:
        if not holds(value):
            raise ValueError(reason)
        return value

    return written(check)


def known(kind: type[StrEnum]) -> AfterValidator:
    """Make a rule as `written` does: one of these values. Another value of a peer is kept."""

    def check(value: str) -> str:
        if value not in tuple(kind):
            raise ValueError(f"not one of {', '.join(kind)}")
        return kind(value)

    return written(check)


def form(**schema: Any) -> WithJsonSchema:
    """Publish the JSON schema of a text whose rule is a function.

    Args:
        **schema: what it has in addition to its type, for example a pattern.
    """
    return WithJsonSchema({"type": "string", **schema})


def printable_form(most: int, *, least: int = 1) -> WithJsonSchema:
    """Publish the schema of a printable text; with `least` of 1 it is not blank. A pattern cannot name all characters that are refused.

    Args:
        most: the maximum length.
        least: the minimum length, 0 or 1.
    """
    visible = r"[^\x00-\x20\x7f-\xa0]" + _PRINTABLE if least else ""
    return form(minLength=least, maxLength=most, pattern=f"^{_PRINTABLE}{visible}$")


class NullAsEmpty:
    """Makes null in answers of a peer an empty array; elsewhere null is rejected.

    Example:
        flags: Annotated[tuple[str, ...], NullAsEmpty] = ()
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return with_info_after_validator_function(_null_as_empty, nullable_schema(handler(source)))

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(schema["schema"]["schema"])  # null is not published


def _null_as_empty(value: tuple[Any, ...] | None, info: ValidationInfo) -> tuple[Any, ...]:
    if value is None and not (info.context and info.context.get("tolerant")):
        raise ValueError("not an array")
    return value or ()


def _array_as_object(value: Any, info: ValidationInfo) -> Any:
    return {} if value == [] and info.context and info.context.get("tolerant") else value


# PHP writes an empty map as an empty array. Accepted in answers of a peer only.
EmptyArrayAsObject = BeforeValidator(_array_as_object)


if TYPE_CHECKING:
    _CheckedModel = BaseModel
else:
    # An __init__ of the model would also be called for each object within a body, without the context of the reading.
    class _Constructed(type(BaseModel)):
        @without_locals
        def __call__(cls, /, *, unknown_fields=MappingProxyType({}), **fields):
            name = cls.__name__.lstrip("_")
            if not isinstance(unknown_fields, Mapping) or not all(isinstance(one, str) for one in unknown_fields):
                raise FormatError("model.invalid", f"{name}: unknown_fields= is not a mapping of names to values")
            further = dict(unknown_fields)
            if further and (twice := further.keys() & (fields.keys() | _names_of(cls))):
                raise FormatError("model.invalid", f"{name}: unknown_fields= repeats the field {safe_name(min(twice))}")
            try:
                made = super().__call__(**fields, **further)
            except ValidationError as e:
                raise invalid_body(cls, e) from None
            if made.model_extra and (twice := made.model_extra.keys() & _names_of(cls)):
                raise FormatError("model.invalid", f"{name}: {min(twice)} is given under its other name too")
            return made._known(further)

    class _CheckedModel(BaseModel, metaclass=_Constructed):
        pass


class WireModel(_CheckedModel):
    """A JSON object of an interface: immutable, unknown fields kept.

    Args:
        unknown_fields: further fields to send, by name; without them a request rejects the fields that the document does not name.
        **fields: the fields, by their names here or on the wire.

    Attributes:
        is_request: whether fields that the document does not name are rejected in constructors, `from_wire` and `from_object`.
        is_open: whether the document leaves open which further fields the object may have.

    Raises:
        FormatError: `model.invalid` with the name of each field that does not fit, never its value.

    Example:
        class Payer(WireModel):
            name: Annotated[str, written(check_name)]

        Payer.from_wire(b'{"name": "Ada"}').to_wire()
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, hide_input_in_errors=True, populate_by_name=True)
    is_request: ClassVar[bool] = False
    is_open: ClassVar[bool] = False

    @classmethod
    @without_locals
    def from_wire(
        cls, raw: bytes, *, tolerant: bool = False, max_bytes: int = MAX_BODY_BYTES,
        unknown_fields: Collection[str] | Literal[True] = (),
    ) -> Self:  # fmt: skip
        """Read the object from a body.

        Args:
            raw: the body as received.
            tolerant: skip the rules of `written`, and accept any unknown field; for answers of a peer.
            max_bytes: reject a longer body.
            unknown_fields: the names of unknown fields that a request can have; True for any name.

        Raises:
            FormatError: `json.*`, or `model.invalid` with the name of each field that does not fit, never its value.
        """
        parse_json(raw, what=f"the {cls.__name__.lstrip('_')} body", max_bytes=max_bytes)
        try:
            read = super().model_validate_json(
                raw, by_alias=True, by_name=False, context=TOLERANT if tolerant else None
            )
        except ValidationError as e:
            raise invalid_body(cls, e) from None
        return read._known(True if tolerant else unknown_fields)

    @classmethod
    @without_locals
    def from_object(
        cls, value: Any, *, tolerant: bool = False, unknown_fields: Collection[str] | Literal[True] = ()
    ) -> Self:
        """Read the object from parsed JSON, for models whose fields all have JSON types.

        Args:
            value: what `parse_json` returned.
            tolerant: as in `from_wire`.
            unknown_fields: as in `from_wire`.

        Raises:
            FormatError: `model.invalid`.
        """
        try:
            read = super().model_validate(value, by_alias=True, by_name=False, context=TOLERANT if tolerant else None)
        except ValidationError as e:
            raise invalid_body(cls, e) from None
        return read._known(True if tolerant else unknown_fields)

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """As in pydantic; a request rejects fields that the document does not name."""
        return super().model_validate(obj, **options)._known(())

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """As in pydantic; a request rejects fields that the document does not name."""
        return super().model_validate_json(json_data, **options)._known(())

    def _known(self, allowed: Collection[str] | Literal[True]) -> Self:
        """Return itself, unless it is a request with another unknown field."""
        for model, name in unknown_fields_of(self) if self.is_request else ():
            if allowed is not True and name not in allowed:
                # The begin of a longer name is near too: of two that begin alike, the shorter.
                known = sorted(_names_of(model) - {name}, key=lambda one: (-len(one), one))
                begins = {text: one for one in known for text in (one, one[: len(name)])}
                near = get_close_matches(name, begins, 1)
                wanted = f"; the nearest is {begins[near[0]]}" if near else ""
                raise FormatError(
                    "model.invalid",
                    f"{model.__name__.lstrip('_')}: {safe_name(name)} is not a field of the interface{wanted};"
                    " unknown_fields= allows others on purpose",
                )
        return self

    def to_wire(self) -> bytes:
        """Compact JSON in UTF-8, without absent fields."""
        return self.model_dump_json(by_alias=True).encode()

    def to_object(self) -> dict[str, Any]:
        """The object as JSON values, without absent fields."""
        return self.model_dump(mode="json", by_alias=True)

    @property
    def unknown(self) -> Mapping[str, Any]:
        """Fields that the document does not name, as they came."""
        return MappingProxyType(self.model_extra or {})

    if TYPE_CHECKING:
        unknown_fields: Mapping[str, Any] = {}  # in the signature of each constructor

    @model_serializer(mode="wrap")
    def _leave_out_absent(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        unknown = self.model_extra or {}
        return {name: value for name, value in write(self).items() if value is not None or name in unknown}


def _names_of(model: type[BaseModel]) -> set[str]:
    return {one for name, field in model.model_fields.items() for one in (name, field.alias or name)}


def unknown_fields_of(value: object) -> Iterator[tuple[type[WireModel], str]]:
    """Yield each field that the document does not name: the class of its object, and its name. Objects within `value` included."""
    if isinstance(value, WireModel):
        yield from ((type(value), name) for name in value.model_extra or ())
        for name in value.model_fields_set & type(value).model_fields.keys():
            yield from unknown_fields_of(getattr(value, name))
    elif isinstance(value, tuple):
        for part in value:
            yield from unknown_fields_of(part)


def safe_name(name: str) -> str:
    """Return the name of an unknown field for a message; one of other characters could be card data."""
    return name if _FIELD.fullmatch(name) else "another"


def invalid_body(model: type[BaseModel], error: ValidationError, place: str = "") -> FormatError:
    """Return the error of a body that is not of its model, without the values that it has.

    Args:
        model: of the body.
        error: of pydantic.
        place: in the body, for the message.
    """
    parts = []
    for fault in error.errors(include_url=False, include_context=False)[:5]:
        parts.append(f"{'.'.join(str(step)[:40] for step in fault['loc']) or 'body'}: {fault['msg']}")
        if fault["type"] == "missing" and isinstance(fault["input"], Mapping):
            sent = [name for name in fault["input"] if isinstance(name, str) and _FIELD.fullmatch(name)]
            wanted = str(fault["loc"][-1])
            # Fields of one model are less alike.
            parts += [f"{name}: did you mean {wanted}?" for name in get_close_matches(wanted, sent, 1, cutoff=0.8)]
    reasons = "; ".join(parts).replace(str(2**63 - 1), "2^63 - 1")  # logs would mask its digits as a card number
    return FormatError("model.invalid", f"{model.__name__.lstrip('_')}{place}: {reasons}")


Model = TypeVar("Model", bound=WireModel)


def require_media_type(content_type: str | None, media_type: str) -> None:
    """Check the Content-Type of a request; its parameters are ignored.

    Raises:
        FormatError: `message.content-type`.
    """
    given = (content_type or "absent").partition(";")[0].strip().lower()
    if given != media_type:
        # Another could be a card number.
        usual = given if re.fullmatch("[a-z]{1,40}(?:/[a-z.+-]{1,40})?", given) else "another"
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


@dataclass(frozen=True, slots=True)
class Json(Generic[Model]):
    """A JSON object.

    Attributes:
        model: its class.
        max_bytes: a longer body is rejected.
    """

    media_type: ClassVar = "application/json"
    model: type[Model]
    max_bytes: int = MAX_BODY_BYTES

    def write(self, value: Model) -> bytes:
        """The object as compact JSON."""
        return value.to_wire()

    @without_locals
    def read(self, raw: bytes, *, tolerant: bool) -> Model:
        """The object, with any unknown fields.

        Raises:
            FormatError: as `WireModel.from_wire`.
        """
        return self.model.from_wire(raw, tolerant=tolerant, max_bytes=self.max_bytes, unknown_fields=True)


@dataclass(frozen=True, slots=True)
class Nothing:
    """No body. A request with a body is rejected; the body of an answer is ignored."""

    media_type: ClassVar = None

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

    media_type: ClassVar = "application/json"
    model: type[Model]
    max_bytes: int = MAX_ARRAY_BYTES

    def write(self, value: tuple[Model, ...]) -> bytes:
        """The objects as compact JSON."""
        return b"[" + b",".join([one.to_wire() for one in value]) + b"]"

    @without_locals
    def read(self, raw: bytes, *, tolerant: bool) -> tuple[Model, ...]:
        """The objects.

        Raises:
            FormatError: as `WireModel.from_wire`.
        """
        parse_json(raw, what=f"the array of {self.model.__name__}", max_bytes=self.max_bytes)
        context = TOLERANT if tolerant else None
        try:
            return tuple(_array(self.model).validate_json(raw, by_alias=True, by_name=False, context=context))
        except ValidationError as e:
            raise invalid_body(self.model, e) from None


@lru_cache(maxsize=256)  # making an adapter takes longer than reading a body
def _array(model: type[Model]) -> TypeAdapter[list[Model]]:
    return TypeAdapter(list[model])  # type: ignore[valid-type]  # a class as a value
