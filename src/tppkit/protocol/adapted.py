"""JSON bodies in the form of another bank: fields that it requires, other names, other values and further fields.

Rows without such a form keep their plain `Json`, so only the bodies of an adapted row are parsed and written a second time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from tppkit._encoding import JsonNumber, parse_json, write_json
from tppkit._locals import without_locals
from tppkit.errors import FormatError
from tppkit.protocol.wire import Json, WireModel

_PLACE = re.compile(r"\{([a-z_]+)\}")

Model = TypeVar("Model", bound=WireModel)


@dataclass(frozen=True, slots=True)
class RequiredFields(Generic[Model]):
    """The body of a request that must have further fields.

    Attributes:
        inner: the body without this demand.
        fields: the fields by their names on the wire, each with what a client sends if its caller gives none, or None.
        optional: further fields that the bank knows, at any depth.
    """

    media_type: ClassVar = "application/json"
    inner: Json[Model]
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)
    optional: tuple[str, ...] = ()

    def write(self, value: Model) -> bytes:
        """The object with the defaults of absent fields.

        Raises:
            FormatError: `model.invalid`, a required field is absent and has no default.
        """
        body = _parse(value.to_wire(), self.inner.max_bytes)
        body = {
            **body,
            **{name: one for name, one in self.fields.items() if body.get(name) is None and one is not None},
        }
        self._require(body)
        return write_json(body).encode()

    @without_locals
    def read(self, raw: bytes, *, tolerant: bool) -> Model:
        """The object.

        Raises:
            FormatError: as `Json.read`; `model.invalid`, a required field is absent.
        """
        read = self.inner.read(raw, tolerant=tolerant)
        if not tolerant:
            self._require(_parse(raw, self.inner.max_bytes))
        return read

    def _require(self, body: Mapping[str, Any]) -> None:
        absent = [name for name in self.fields if body.get(name) is None]
        if absent:
            name = self.inner.model.__name__.lstrip("_")
            raise FormatError("model.invalid", f"{name}: this bank requires {', '.join(absent)}")


class States(NamedTuple):
    """The bank's names for the values of a field.

    Attributes:
        written: by our names.
        read: our names by those of the bank.
    """

    written: Mapping[str, str]
    read: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptedAnswer(Generic[Model]):
    """The body of an answer in another form.

    Attributes:
        inner: the body in the form of the document.
        states: the bank's names for the values of a field, by its name in the document.
        names: the bank's name of a field of the object.
        further: fields to add where the answer does not have them; objects are merged, also into each object of an array. A text may
            have places such as `{self}` for facts; a field without its fact is left out.
        without: dotted paths of fields to leave out.
    """

    media_type: ClassVar = "application/json"
    inner: Json[Model]
    states: Mapping[str, States] = field(default_factory=dict, hash=False)
    names: Mapping[str, str] = field(default_factory=dict, hash=False)
    further: Mapping[str, Any] = field(default_factory=dict, hash=False)
    without: tuple[str, ...] = ()

    def write(self, value: Model) -> bytes:
        """The object, without the fields that need facts."""
        return self.write_with(value, {})

    def write_with(self, value: Model, facts: Mapping[str, str]) -> bytes:
        """The object.

        Args:
            value: the answer in the form of the document.
            facts: what fills the places; `state` replaces the value of a field in `states`.
        """
        body = _parse(value.to_wire(), self.inner.max_bytes)
        for name, states in self.states.items():
            if name in body:
                body[name] = states.written.get(facts.get("state", body[name]), body[name])
        for path in self.without:
            *parents, last = path.split(".")
            place = body
            for parent in parents:
                place = place.get(parent, {})
            place.pop(last, None)
        _merge(body, self.further, facts)
        return write_json({self.names.get(name, name): one for name, one in body.items()}).encode()

    @without_locals
    def read(self, raw: bytes, *, tolerant: bool) -> Model:
        """The object in the form of the document.

        Raises:
            FormatError: as `Json.read`.
        """
        body = parse_json(
            raw, what=f"the {self.inner.model.__name__} body", max_bytes=self.inner.max_bytes, number=JsonNumber
        )
        if isinstance(body, dict):
            for ours, name in self.names.items():
                if name in body:
                    body[ours] = body.pop(name)
            for name, states in self.states.items():
                if isinstance(body.get(name), str):
                    body[name] = states.read.get(body[name], body[name])
            raw = write_json(body).encode()
        return self.inner.read(raw, tolerant=tolerant)


def filled(text: str, facts: Mapping[str, str]) -> str | None:
    """Return a text with its places filled, or None if a fact is missing."""
    names = _PLACE.findall(text)
    return None if any(name not in facts for name in names) else _PLACE.sub(lambda found: facts[found[1]], text)


def places(content: Any) -> set[str]:
    """Return the names of the places in a text, or in all texts of a table or array."""
    if isinstance(content, str):
        return set(_PLACE.findall(content))
    parts = content.values() if isinstance(content, Mapping) else content if isinstance(content, list) else ()
    return {name for part in parts for name in places(part)}


def _merge(body: Any, further: Mapping[str, Any], facts: Mapping[str, str]) -> None:
    if isinstance(body, list):
        for one in body:
            _merge(one, further, facts)
    if not isinstance(body, dict):
        return
    for name, content in further.items():
        if isinstance(content, Mapping):
            inner = body.get(name, {})
            _merge(inner, content, facts)
            if inner or not content:
                body[name] = inner
        elif name not in body:
            value = filled(content, facts) if isinstance(content, str) else content
            if value is not None:
                body[name] = value


def _parse(raw: bytes, max_bytes: int) -> dict[str, Any]:
    body: dict[str, Any] = parse_json(raw, what="the body", max_bytes=max_bytes, number=JsonNumber)
    return body
