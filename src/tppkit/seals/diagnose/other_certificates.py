"""Certificates in forms that no dialect has in a header, and that no reader of files takes out of one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from cryptography.hazmat.primitives.serialization import Encoding, pkcs7

from tppkit._encoding import decode_base64, decode_base64url
from tppkit.errors import FormatError

_SEPARATORS = ",;"
_LETTERS = str.maketrans("-_", "+/")


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
    with suppress(FormatError, ValueError):
        raw = decode_base64(text.translate(_LETTERS), what="the certificate header")
        for certificate in pkcs7.load_der_pkcs7_certificates(raw)[:1]:
            yield certificate.public_bytes(Encoding.DER), "a PKCS#7 container"
