"""Certificates in forms that no dialect has in a header, and that no reader of files takes out of one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from urllib.parse import unquote

from tppkit._encoding import decode_base64, decode_base64url
from tppkit.certificates import der
from tppkit.errors import FormatError

MAX_SENT = 64  # certificates in one place; no header holds more

_MAX_WRAPPINGS = 2
_SEPARATORS = ",;"
_SIGNED_DATA = "1.2.840.113549.1.7.2"
_IN_BRACKETS = 0xA0  # the tag [0], around the content and, within that, of the certificates


def _unbroken(text: str) -> str:
    return text.replace("\\r", "").replace("\\n", "\n" if "-----" in text else "")


def _unquoted(text: str) -> str:
    bare = text.strip(" \t")
    return bare[1:-1] if bare[:1] in ('"', "'") and bare[:1] == bare[-1:] else text


def _encoded_text(text: str) -> str:
    with suppress(FormatError):
        return decode_base64(text.strip(" \t"), what="the certificate header").decode("latin-1")
    return text


# What was done to a certificate once too often, and its inverse.
_WRAPPINGS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("with line breaks written as \\n", _unbroken),
    ("percent-encoded", unquote),
    ("in base64 once more", _encoded_text),
)


def unwrapped(value: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """A text without quotes, and with what was done to it undone, once and twice; with each in words, the innermost first."""
    bare = _unquoted(value)
    texts: dict[str, tuple[str, ...]] = {bare: () if bare == value else ("in quotes",)}
    newest = [bare]
    for _ in range(_MAX_WRAPPINGS + 1):
        yield from [(text, texts[text]) for text in newest]
        pairs = {unwrap(text): (words, *texts[text]) for text in newest for words, unwrap in _WRAPPINGS}
        newest = [text for text in pairs if text not in texts]
        texts |= {text: pairs[text] for text in newest}


def other_certificates(value: str) -> Iterator[tuple[Sequence[bytes], str]]:
    """What may be the DER of the certificates in a header, in their order, and the form in words.

    Args:
        value: of the header, short enough to be decoded.
    """
    text = value.strip(" \t:")
    if "-" in text or "_" in text:
        yield [_decoded(text)], "DER in the alphabet for addresses (- and _)"
    for separator in _SEPARATORS:
        parts = [part for part in text.split(separator, MAX_SENT)[:MAX_SENT] if part.strip(" \t:")]
        if separator in text:
            yield [_decoded(part.strip(" \t:")) for part in parts], f"a chain, parted by {separator}"
    with suppress(FormatError):
        yield _in_container(_decoded(text))[:MAX_SENT], "a PKCS#7 container"


def _decoded(text: str) -> bytes:
    """The bytes of base64 in either alphabet; none where it is not that."""
    with suppress(FormatError):
        if "-" in text or "_" in text:
            return decode_base64url(text.rstrip("="), what="the certificate header")
        return decode_base64(text, what="the certificate header")
    return b""


def _in_container(raw: bytes) -> list[bytes]:
    """The certificates in a SignedData of PKCS#7, in DER (RFC 5652 sections 3 and 5.1); none where it holds none.

    Raises:
        FormatError: `der.*`.
    """
    outer = der.read_children(raw, der.read_whole(raw, tag=der.SEQUENCE))
    if len(outer) != 2 or der.read_oid(raw, outer[0]) != _SIGNED_DATA:
        return []
    signed = der.read_element(raw, der.expect(outer[1], _IN_BRACKETS).start, outer[1].end)
    parts = der.read_children(raw, der.expect(signed, der.SEQUENCE))
    sets = [part for part in parts if part.tag == _IN_BRACKETS][:1]
    found = [one for part in sets for one in der.read_children(raw, part)]
    return [raw[one.offset : one.end] for one in found if one.tag == der.SEQUENCE]
