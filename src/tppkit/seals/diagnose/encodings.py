"""How senders encode the bytes of a signature or digest."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

from tppkit._encoding import decode_base64
from tppkit.errors import FormatError

MAX_ENCODED = 16 * 1024
# Hexadecimal text, also as sha256sum prints it ("…  file") and openssl dgst -hex ("SHA2-256(file)= …").
_HEX = re.compile(r"(?:[^\n=]{0,256}= ?)?((?:[0-9A-Fa-f]{2})+)(?: [ *][^\n]{1,256})?\r?\n?")
_WHITE_SPACE = re.compile(r"[ \t\r\n]+|\\r|\\n")


class Decoded(NamedTuple):
    """One way to read an encoded text.

    Attributes:
        name: of the deviation, as in `ENCODINGS`; empty for canonical base64.
        raw: the bytes.
    """

    name: str
    raw: bytes


def decode_any(text: str) -> tuple[Decoded, ...]:
    """Every way in which a text can be read as bytes, canonical base64 first."""
    found: dict[bytes, str] = {}
    for name, decode in (("", _strict), *ENCODINGS.items()) if len(text) <= MAX_ENCODED else ():
        for raw in decode(text):
            if raw:
                found.setdefault(raw, name)
    return tuple(Decoded(name, raw) for raw, name in found.items())


def _strict(text: str) -> Iterator[bytes]:
    with suppress(FormatError):
        yield decode_base64(text, what="the text")


def _padded(text: str) -> str:
    bare = text.rstrip("=")
    return bare + "=" * (-len(bare) % 4)


def _url_safe(text: str) -> Iterator[bytes]:
    if "-" in text or "_" in text:
        yield from _strict(_padded(text.replace("-", "+").replace("_", "/")))


def _hexadecimal(text: str) -> Iterator[bytes]:
    match = _HEX.fullmatch(text)
    if match is not None:
        yield binascii.a2b_hex(match[1])


def _base64_of_hex(text: str) -> Iterator[bytes]:
    for outer in _strict(text):
        yield from _hexadecimal(outer.decode("latin-1"))


# deviation from canonical base64: the readings of a text
ENCODINGS: Mapping[str, Callable[[str], Iterator[bytes]]] = MappingProxyType({
    "url-safe": _url_safe,
    "wrong-padding": lambda text: _strict(_padded(text)),
    "in-lines": lambda text: _strict(_padded(_WHITE_SPACE.sub("", text))),  # as MIME encoders write it
    "hex": _hexadecimal,
    "base64-of-hex": _base64_of_hex,
})  # fmt: skip
