"""How bytes of a signature or digest are written, and how else senders write them."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from tppkit._encoding import decode_base64
from tppkit.errors import FormatError

MAX_ENCODED = 16 * 1024
# Hexadecimal text, also as sha256sum prints it ("…  file") and openssl dgst -hex ("SHA2-256(file)= …").
_HEX = re.compile(r"(?:[^\n=]{0,256}= ?)?((?:[0-9A-Fa-f]{2})+)(?: [ *][^\n]{1,256})?\r?\n?")
_WHITE_SPACE = re.compile(r"[ \t\r\n]+|\\r|\\n")


class Decoded(NamedTuple):
    """One way to read an encoded text.

    Attributes:
        name: of the deviation; empty for canonical base64.
        raw: the bytes.
    """

    name: str
    raw: bytes


def decode_any(text: str) -> tuple[Decoded, ...]:
    """Every way in which a text can be read as bytes, the canonical one first."""
    found: dict[bytes, str] = {}
    for name, decode in _READERS.items():
        if len(text) > MAX_ENCODED:
            break
        for raw in decode(text):
            if raw:
                found.setdefault(raw, name)
    return tuple(Decoded(name, raw) for raw, name in found.items())


def _strict(text: str) -> Iterator[bytes]:
    try:
        yield decode_base64(text, what="the text")
    except FormatError:
        return


def _unpadded(text: str) -> Iterator[bytes]:
    if not text.endswith("=") and len(text) % 4 in (2, 3):
        yield from _strict(text + "=" * (-len(text) % 4))


def _url_safe(text: str) -> Iterator[bytes]:
    if "-" in text or "_" in text:
        plain = text.replace("-", "+").replace("_", "/").rstrip("=")
        yield from _strict(plain + "=" * (-len(plain) % 4))


def _in_lines(text: str) -> Iterator[bytes]:
    joined = _WHITE_SPACE.sub("", text)
    if joined != text:
        yield from _strict(joined)


def _plus_lost(text: str) -> Iterator[bytes]:
    if " " in text:
        yield from _strict(text.replace(" ", "+"))


def _percent(text: str) -> Iterator[bytes]:
    if "%" in text:
        yield from _strict(unquote_to_bytes(text).decode("latin-1"))


def _hexadecimal(text: str) -> Iterator[bytes]:
    match = _HEX.fullmatch(text)
    if match is not None:
        yield binascii.a2b_hex(match[1])


def _inside(reader: Callable[[str], Iterable[bytes]]) -> Callable[[str], Iterator[bytes]]:
    """A text that was encoded once more in base64."""

    def read(text: str) -> Iterator[bytes]:
        for outer in _strict(text):
            yield from reader(outer.decode("latin-1"))

    return read


def _bracketed(text: str) -> Iterator[bytes]:
    if len(text) > 2 and text[0] == text[-1] and text[0] in ":'\"":
        yield from _strict(text[1:-1])


def _padded_wrongly(text: str) -> Iterator[bytes]:
    bare = text.rstrip("=")
    padded = bare + "=" * (-len(bare) % 4)
    if padded != text:
        yield from _strict(padded)


_READERS: dict[str, Callable[[str], Iterator[bytes]]] = {
    "": _strict,
    "unpadded": _unpadded,
    "url-safe": _url_safe,
    "in-lines": _in_lines,
    "plus-lost": _plus_lost,
    "percent-encoded": _percent,
    "hex": _hexadecimal,
    "base64-of-hex": _inside(_hexadecimal),
    "base64-twice": _inside(lambda text: (*_strict(text), *_in_lines(text))),
    "in-colons": _bracketed,
    "wrong-padding": _padded_wrongly,
}

# deviation: (what was done, what to do)
ENCODINGS: dict[str, tuple[str, str]] = {
    "unpadded": ("is base64 without its = at the end", "Keep the padding."),
    "url-safe": ("is written in the alphabet for addresses (- and _)", "Use standard base64, with + and /."),
    "in-lines": ("is base64 with line breaks or spaces in it, as MIME encoders write it", "Use an encoder that writes one line."),
    "plus-lost": ("lost its + signs, which became spaces when something decoded it as a form", "Pass the header through unchanged."),
    "percent-encoded": ("is percent-encoded", "Write base64 as it is; a header needs no escaping."),
    "hex": ("is written in hexadecimal", "Write the raw bytes in base64 (openssl dgst -binary)."),
    "base64-of-hex": ("is the base64 of hexadecimal text", "Encode the raw bytes, not their hexadecimal text (openssl dgst -binary)."),
    "base64-twice": ("was encoded in base64 twice", "Encode once; many libraries return base64 already."),
    "in-colons": ("stands between colons or further quotes", "Colons belong to Content-Digest of RFC 9530, not to Digest."),
    "wrong-padding": ("has the wrong number of = at its end", "Encode with a library and pass the text through unchanged."),
}  # fmt: skip
