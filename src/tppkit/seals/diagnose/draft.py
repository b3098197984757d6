"""A signing string in parts, so that mistakes can be made in it one by one and together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tppkit.httpsig.cavage import SignatureParameters
from tppkit.httpsig.message import Message

SIGNATURE_PARAMS = '"@signature-params"'


class Line(NamedTuple):
    """One line of a signing string.

    Attributes:
        name: of the component, as it is written.
        value: bytes as Latin-1.
        colon: what stands between them.
    """

    name: str
    value: str
    colon: str = ": "

    @property
    def component(self) -> str:
        """The name in lower case, without the quotes that RFC 9421 has around it."""
        return self.name.strip('"').lower()


class Draft(NamedTuple):
    """What may have been signed.

    Attributes:
        lines: in order.
        joiner: what stands between lines.
        before: what stands before the first line.
        after: what stands after the last.
        encoding: of the text; the values are bytes already, so the right one is Latin-1.
        hashed: how the bytes were changed as a whole before they were signed: a name of `strings.WHOLE`, or nothing.
        instead: other bytes that were signed in place of the signing string.
        nameless: the lines are their values alone.
        prefix: what stands before the whole: the protected header of a JSON Web Signature and its point.
    """

    lines: tuple[Line, ...]
    joiner: str = "\n"
    before: str = ""
    after: str = ""
    encoding: str = "latin-1"
    hashed: str = ""
    instead: bytes | None = None
    nameless: bool = False
    prefix: str = ""

    def text(self) -> bytes:
        """The bytes, before any change as a whole."""
        if self.instead is not None:
            return self.instead
        if self.nameless:
            lines = self.joiner.join([line.value for line in self.lines])
        else:
            lines = self.joiner.join([f"{name}{colon}{value}" for name, value, colon in self.lines])
        return self.prefix.encode("ascii") + f"{self.before}{lines}{self.after}".encode(self.encoding, "replace")

    def replaced(self, data: bytes) -> Iterator[Draft]:
        """Other bytes in place of the lines, and, where there is a prefix, in place of that too."""
        if self.prefix:
            yield self._replace(instead=self.prefix.encode("ascii") + data)
        yield self._replace(instead=data)

    @property
    def quotes_names(self) -> bool:
        """The lines are those of RFC 9421."""
        return any(line.name == SIGNATURE_PARAMS for line in self.lines)

    def value(self, name: str) -> str | None:
        """The value of a line, by its name in lower case and without quotes."""
        return next((line.value for line in self.lines if line.component == name), None)

    def with_value(self, name: str, value: str) -> Draft:
        """The same with another value in a line."""
        return self._replace(
            lines=tuple([line._replace(value=value) if line.name == name else line for line in self.lines])
        )


class Field(NamedTuple):
    """A header field as it stands in the request: its place from 0, its name as it is written, its value."""

    place: int
    name: str
    value: str


def fields_of(message: Message) -> Mapping[str, tuple[Field, ...]]:
    """The fields of a request by lower-case name, in wire order."""
    found: dict[str, list[Field]] = {}
    for place, (name, value) in enumerate(message.headers):
        found.setdefault(name.lower(), []).append(Field(place, name, value))
    return {name: tuple(fields) for name, fields in found.items()}


class Seen(NamedTuple):
    """What the mistakes may look at. They are asked thousands of times, so none of them walks through all headers.

    Attributes:
        message: as received.
        fields: its header fields by lower-case name.
        values: every component by lower-case name, joined as the draft has it.
        parameters: of the signature, as read.
        digests: values that the header with the digest could have had: (what was done to the body, the value).
        digest_name: of that header, in lower case.
        right: the signing string of a format whose lines are not those of draft-cavage.
        payload: that a JSON Web Signature carries of its own, as written.
    """

    message: Message
    fields: Mapping[str, tuple[Field, ...]]
    values: Mapping[str, str]
    parameters: SignatureParameters
    digests: tuple[tuple[str, str], ...] = ()
    digest_name: str = "digest"
    right: Draft | None = None
    payload: str = ""

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.message.target.partition("?")[0]


def right_draft(seen: Seen) -> Draft:
    """The signing string as it should have been; a covered field that the request does not have has no line."""
    if seen.right is not None:
        return seen.right
    return Draft(tuple([Line(name, seen.values[name]) for name in seen.parameters.headers if name in seen.values]))
