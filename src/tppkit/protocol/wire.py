"""JSON bodies of every interface: one model class for both directions, strict when written, tolerant when read."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidationInfo,
    model_serializer,
)

from tppkit._encoding import parse_json, shown
from tppkit.errors import FormatError

MAX_BODY_BYTES = 64 * 1024

_TOLERANT = {"tolerant": True}


def written(check: Callable[[str], str]) -> AfterValidator:
    """A rule for what we send and for requests that we receive; answers of a peer are kept as they came.

    Args:
        check: returns the value, or raises ValueError with a reason that does not repeat the value.

    Example:
        Amount = Annotated[str, written(check_amount)]
    """

    def validate(value: str, info: ValidationInfo) -> str:
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
    def from_wire(cls, raw: bytes, *, tolerant: bool = False, max_bytes: int = MAX_BODY_BYTES) -> Self:
        """Read the object from a body.

        Args:
            raw: the body as received.
            tolerant: skip the rules of `written`; for answers of a peer.
            max_bytes: reject a longer body.

        Raises:
            FormatError: `json.*`, or `model.invalid` with the name of each field that does not fit, never its value.
        """
        parse_json(raw, what=f"the {cls.__name__} body", max_bytes=max_bytes)
        try:
            return cls.model_validate_json(raw, by_alias=True, by_name=False, context=_TOLERANT if tolerant else None)
        except ValidationError as e:
            raise FormatError("model.invalid", _describe(cls, e)) from None

    def to_wire(self) -> bytes:
        """Compact JSON in UTF-8, without absent fields."""
        return json.dumps(self.to_object(), ensure_ascii=False, separators=(",", ":")).encode()

    def to_object(self) -> dict[str, Any]:
        """The object as JSON values, without absent fields."""
        return self.model_dump(mode="json", by_alias=True)

    @model_serializer(mode="wrap")
    def _leave_out_absent(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        unknown = self.model_extra or {}
        return {name: value for name, value in write(self).items() if value is not None or name in unknown}


def _describe(model: type[BaseModel], error: ValidationError) -> str:
    faults = error.errors(include_input=False, include_url=False, include_context=False)
    parts = [f"{'.'.join(str(step)[:40] for step in fault['loc']) or 'body'}: {fault['msg']}" for fault in faults[:5]]
    return f"{model.__name__}: {'; '.join(parts)}"


Value = TypeVar("Value")
Model = TypeVar("Model", bound=WireModel)


def require_media_type(content_type: str | None, media_type: str) -> None:
    """Check the Content-Type of a request; its parameters are ignored.

    Raises:
        FormatError: `message.content-type`.
    """
    if (content_type or "").partition(";")[0].strip().lower() != media_type:
        raise FormatError(
            "message.content-type", f"the Content-Type is {shown(content_type or 'absent')}, not {media_type}"
        )


class Body(Protocol[Value]):
    """How a body is written and read.

    Attributes:
        media_type: its Content-Type, or None where nothing is sent.
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

    model: type[Model]
    max_bytes: int = MAX_BODY_BYTES

    @property
    def media_type(self) -> str:
        """The Content-Type."""
        return "application/json"

    def write(self, value: Model) -> bytes:
        """The object as compact JSON."""
        return value.to_wire()

    def read(self, raw: bytes, *, tolerant: bool) -> Model:
        """The object.

        Raises:
            FormatError: as `WireModel.from_wire`.
        """
        return self.model.from_wire(raw, tolerant=tolerant, max_bytes=self.max_bytes)


@dataclass(frozen=True, slots=True)
class Nothing:
    """No body. A request that has one all the same is rejected; an answer's is ignored."""

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
            raise FormatError(
                "body.unexpected", f"the request has a body of {len(raw)} bytes, and this call takes none"
            )
