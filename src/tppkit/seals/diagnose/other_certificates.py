"""Certificates in forms that no dialect has in a header, and that no reader of files takes out of one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tppkit._encoding import decode_base64, decode_base64url
from tppkit.certificates import der
from tppkit.errors import FormatError

_SEPARATORS = ",;"
_LETTERS = str.maketrans("-_", "+/")
_SIGNED_DATA = "1.2.840.113549.1.7.2"
_IN_BRACKETS = 0xA0  # the tag [0], around the content and, within that, of the certificates


def other_certificates(value: str) -> Iterator[tuple[bytes, str]]:
    """What may be the DER of the first certificate in a header, and the form in words.

    Args:
        value: of the header, short enough to be decoded.
    """
    text = value.strip(" \t:")
    if "-" in text or "_" in text:
        with suppress(FormatError):
            yield (
                decode_base64url(text.rstrip("="), what="the certificate header"),
                "DER in the alphabet for addresses (- and _)",
            )
    for separator in _SEPARATORS:
        first, found, _ = text.partition(separator)
        with suppress(FormatError):
            if found:
                yield (
                    decode_base64(first.strip(" \t:"), what="the certificate header"),
                    f"a chain, parted by {separator}",
                )
    with suppress(FormatError):
        raw = decode_base64(text.translate(_LETTERS), what="the certificate header")
        for certificate in _in_container(raw)[:1]:
            yield certificate, "a PKCS#7 container"


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
