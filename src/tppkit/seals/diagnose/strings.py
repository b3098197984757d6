"""Mistakes in a signing string: which lines, how they are written and joined, and other bytes signed in its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice, permutations
from types import MappingProxyType
from typing import NamedTuple

from tppkit._encoding import encode_base64
from tppkit.httpsig.message import REQUEST_TARGET, Message
from tppkit.seals.diagnose.mistakes import Mistake, Part
from tppkit.seals.diagnose.signatures import digest_by

SIGNATURE_PARAMS = '"@signature-params"'
MAX_LINES = 32
_PERMUTED = 4  # lines; of more, only the usual orders are tried
_PRINTED = ("{}", "{}\n", "{}  -\n", "SHA2-256(stdin)= {}\n", "(stdin)= {}\n")  # how shell tools print a hash

_LINE = "Write each line as the name in lower case, a colon, one space and the value; join the lines by one line feed."
_JOIN = "Join the lines by one line feed, without one after the last."
_ONCE = "Pass the signing string itself to the function that signs; it hashes by itself."


class Line(NamedTuple):
    """One line of a signing string: name as written, value with its bytes as Latin-1, and what is between them."""

    name: str
    value: str
    colon: str = ": "

    @property
    def component(self) -> str:
        """The name in lower case, without the quotes of RFC 9421."""
        return self.name.strip('"').lower()


class SigningString(NamedTuple):
    """What may have been signed, in parts that mistakes can change one by one.

    Attributes:
        lines: in order.
        joiner: the text between lines.
        after: the text after the last line.
        instead: other bytes that were signed in its place.
        hashed: how these were made of it, a name of `WHOLE`; empty if they were not.
        prefix: of a JSON Web Signature, its protected header and the dot after it.
    """

    lines: tuple[Line, ...]
    joiner: str = "\n"
    after: str = ""
    instead: bytes | None = None
    hashed: str = ""
    prefix: str = ""

    @classmethod
    def from_bytes(cls, raw: bytes, *, is_jws: bool) -> SigningString:
        """The parts of a signing string as the verifier makes it."""
        prefix, dot, text = raw.decode("latin-1").partition(".") if is_jws else ("", "", raw.decode("latin-1"))
        lines = [line.partition(": ") for line in text.split("\n")]
        return cls(tuple([Line(name, value, colon) for name, colon, value in lines]), prefix=prefix + dot)

    def text(self) -> bytes:
        """The bytes of the lines."""
        lines = self.joiner.join([f"{name}{colon}{value}" for name, value, colon in self.lines])
        return f"{self.prefix}{lines}{self.after}".encode("latin-1", "replace")

    def signed(self) -> bytes:
        """The bytes that were signed."""
        return self.text() if self.instead is None else self.instead

    def value(self, component: str) -> str | None:
        """The value of a line."""
        return next((line.value for line in self.lines if line.component == component), None)

    def with_value(self, component: str, value: str) -> SigningString:
        """The same with another value in a line."""
        return self._replace(
            lines=tuple([line._replace(value=value) if line.component == component else line for line in self.lines])
        )


class Seen(NamedTuple):
    """What the mistakes may use.

    Attributes:
        message: as received.
        values: every component by lower-case name.
        digests: values that the digest header could have had.
        digest_name: of that header, in lower case.
    """

    message: Message
    values: Mapping[str, str]
    digests: tuple[str, ...]
    digest_name: str


# What may have been signed, given the right signing string.
Apply = Callable[[SigningString, Seen], Iterator[SigningString]]


def _print(form: str, data: bytes) -> bytes:
    return form.format(digest_by("SHA-256", data).hex()).encode()


# What was done to the bytes before they were signed.
WHOLE: Mapping[str, Callable[[bytes], bytes]] = MappingProxyType({
    **{name: partial(digest_by, name) for name in ("SHA-256", "SHA-512", "SHA-1")},
    **{f"SHA-256 as text, written {form.format('<hex>')!r}": partial(_print, form) for form in _PRINTED},
    "SHA-512 as text": lambda data: digest_by("SHA-512", data).hex().encode(),
    "SHA-256 in base64": lambda data: encode_base64(digest_by("SHA-256", data)).encode(),
    "SHA-512 in base64": lambda data: encode_base64(digest_by("SHA-512", data)).encode(),
})  # fmt: skip


def _row(name: str, cause: str, apply: Apply, fix: str = _LINE) -> tuple[Mistake, Apply]:
    return Mistake(name, Part.STRING, cause, fix), apply


def _after(*texts: str) -> Apply:
    return lambda string, seen: (string._replace(after=text) for text in texts)


def _hashed(*names: str) -> Apply:
    return lambda string, seen: (string._replace(instead=WHOLE[name](string.text()), hashed=name) for name in names)


def _orders(string: SigningString, seen: Seen) -> Iterator[SigningString]:
    lines, sent = string.lines, list(dict.fromkeys([name.lower() for name, _ in seen.message.headers]))
    yield string._replace(lines=tuple(sorted(lines)))
    yield string._replace(lines=lines[::-1])
    places = {name: place for place, name in enumerate(sent)}
    for target in (-1, len(sent)):
        placed = places | {REQUEST_TARGET: target}
        yield string._replace(lines=tuple(sorted(lines, key=lambda line: placed.get(line.component, len(sent) + 1))))
    if len(lines) <= _PERMUTED:
        yield from (string._replace(lines=order) for order in permutations(lines))


def _left_out(string: SigningString, seen: Seen) -> Iterator[SigningString]:
    for number in range(len(string.lines[:MAX_LINES])):
        yield string._replace(lines=string.lines[:number] + string.lines[number + 1 :])


def _added(string: SigningString, seen: Seen) -> Iterator[SigningString]:
    present = {line.component for line in string.lines} | {"signature", "signature-input"}
    quote = '"' if any(line.name == SIGNATURE_PARAMS for line in string.lines) else ""
    more = [
        Line(f"{quote}{name}{quote}", value) for name, value in islice(seen.values.items(), 64) if name not in present
    ]
    for line in more[:MAX_LINES]:
        for place in (len(string.lines), 0):
            yield string._replace(lines=(*string.lines[:place], line, *string.lines[place:]))


def _names(string: SigningString, seen: Seen) -> Iterator[SigningString]:
    sent = {name.lower(): name for name, _ in seen.message.headers}

    def spelled(write: Callable[[str], str]) -> SigningString:
        lines = [line if line.name[:1] in '("' else line._replace(name=write(line.name)) for line in string.lines]
        return string._replace(lines=tuple(lines))

    yield spelled(lambda name: sent.get(name, name))
    yield spelled(lambda name: re.sub(r"(?<![a-z0-9])[a-z]", lambda first: first[0].upper(), name))
    yield spelled(str.upper)


def _no_space(string: SigningString, seen: Seen) -> Iterator[SigningString]:
    yield string._replace(lines=tuple([line._replace(colon=":") for line in string.lines]))


def _digest_other(string: SigningString, seen: Seen) -> Iterator[SigningString]:
    if string.value(seen.digest_name) is not None:
        yield from (string.with_value(seen.digest_name, digest) for digest in seen.digests)


def _signed_body(string: SigningString, seen: Seen) -> Iterator[SigningString]:
    if seen.message.body:
        for before in dict.fromkeys((string.prefix.encode("latin-1"), b"")):
            yield string._replace(instead=before + seen.message.body)


LINE_MISTAKES: tuple[tuple[Mistake, Apply], ...] = (
    _row("value-digest-other", "The signature covers another digest than the one that was sent: that of the body, or of a form of it.",
         _digest_other, "Set the digest once, from the bytes that are sent, and sign that value."),
    _row("header-missing", "A header that the headers parameter names is missing from what was signed.", _left_out,
         "Sign every header that the headers parameter names, or name fewer."),
    _row("order", "The lines were signed in another order than the headers parameter names them.", _orders,
         "Write the lines in the order of the headers parameter."),
    _row("header-added", "A header was signed that the headers parameter does not name.",
         _added, "Name every signed header in the headers parameter."),
    _row("names-not-lower-case", "The names of the headers are not in lower case in what was signed.", _names),
    _row("colon-no-space", "No space follows the colon in what was signed.", _no_space),
)  # fmt: skip

WHOLE_MISTAKES: tuple[tuple[Mistake, Apply], ...] = (
    _row("string-newline-after", "A line break follows the last line of what was signed.", _after("\n", "\r\n", "\n\n"), _JOIN),
    _row("string-crlf", "The lines were joined by CR LF instead of LF.",
         lambda string, seen: (string._replace(joiner="\r\n", after=after) for after in ("", "\r\n")), _JOIN),
    _row("string-joined-otherwise", "The lines were not joined by line feeds.",
         lambda string, seen: (string._replace(joiner=text) for text in ("", "\\n", " ", ", ", ",", "\r")), _JOIN),
    _row("signed-body", "The body was signed, not the signing string.", _signed_body,
         "Sign the lines of the signing string; the digest covers the body."),
    _row("hashed-first", "The signature is over the hash of the signing string: it was hashed twice.",
         _hashed("SHA-256", "SHA-512", "SHA-1"), _ONCE),
    _row("hashed-first-as-hex", "The signature is over the hash of the signing string in hexadecimal text.",
         _hashed(*[name for name in WHOLE if " as text" in name]), _ONCE),
    _row("hashed-first-as-base64", "The signature is over the hash of the signing string in base64 text.",
         _hashed("SHA-256 in base64", "SHA-512 in base64"), _ONCE),
)  # fmt: skip
