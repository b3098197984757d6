"""Read certificates and certificate requests in any common format into DER.

The formats are PEM (also bundles), DER, one-line base64 of either, URL-escaped PEM (as proxies forward it in a header),
RFC 9440's `:base64:` and PKCS#12.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal
from urllib.parse import unquote_to_bytes

from tppkit._encoding import pem_fault
from tppkit._locals import without_locals
from tppkit.certificates import der
from tppkit.certificates.pkcs12_files import certificates_of, is_pkcs12, open_pkcs12
from tppkit.errors import FormatError

MAX_SOURCE_BYTES = 4 * 1024 * 1024
MAX_CERTIFICATES = 10_000

PEM_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----([^-]*)-----END \1-----")
# A first or last line of a block that can decide a verdict, also if it is damaged.
_BOUNDARY = re.compile(rb"(?:^-|--)[ \t]*(?:BEGIN|END)[^-\r\n]{0,40}(?:CERTIFICATE|CRL)", re.IGNORECASE | re.MULTILINE)
_PLUS_LABEL = re.compile(rb"-----(?:BEGIN|END)\+[A-Z0-9+]{1,40}-----")  # form encoding writes a space as +
# No UTF-8 text begins like this, and a certificate is always long enough to have such a length.
_LONG_DER = re.compile(rb"\x30[\x80-\x84]")
_CERTIFICATE_LABELS = frozenset({"CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"})
_REQUEST_LABELS = frozenset({"CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"})


@dataclass(frozen=True, slots=True)
class Source:
    """One certificate or request found in the input.

    Attributes:
        kind: `certificate` or `csr`.
        der: its bytes.
    """

    kind: Literal["certificate", "csr"]
    der: bytes


@without_locals
def read_sources(data: bytes, *, password: bytes | str | None = None) -> tuple[Source, ...]:
    """Find every certificate and certificate request in `data`, in any supported format.

    Args:
        data: the bytes of a file. Do not pass a header of a peer: a PKCS#12 file states how much work opening it takes.
        password: for PKCS#12; None for no password, which differs from an empty one.

    Returns:
        At least one, in the order of the input.

    Raises:
        FormatError: `certificate.not-found`, `certificate.malformed`, `certificate.too-large`, `pem.malformed`,
            `pem.trust-settings`, `pkcs12.unreadable`, `pkcs12.too-costly`.
    """
    if len(data) > MAX_SOURCE_BYTES:
        raise FormatError("certificate.too-large", f"the input has more than {MAX_SOURCE_BYTES} bytes")
    text = data.strip()
    if is_der(data):
        found = _from_der(data, password)
    elif b"-----BEGIN " in text:
        found = _from_pem(text)
    elif text[:32].upper().startswith((b"-----BEGIN%20", b"%2D%2D%2D%2D%2DBEGIN", b"-----BEGIN+")):
        found = _from_pem(_PLUS_LABEL.sub(lambda label: label.group().replace(b"+", b" "), unquote_to_bytes(text)))
    else:
        found = _from_base64(text, password)
    if not found:
        hint = pem_fault(data, "; ")
        raise FormatError("certificate.not-found", f"this input contains no certificate or certificate request{hint}")
    return found


def is_der(data: bytes) -> bool:
    """Whether an input begins like DER, and is no text with PEM blocks."""
    return data[:1] == b"\x30" and (b"-----BEGIN " not in data or _LONG_DER.match(data) is not None)


def read_pem_blocks(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the PEM blocks of a text as (label, content), in order; text between them is ignored.

    Raises:
        FormatError: `pem.malformed`, the content of a block is not base64, or a certificate or CRL is cut. It must not be left
            out: the next certificate would be taken for the leaf, or an issuing CA for the root.
    """
    end = 0
    for match in PEM_BLOCK.finditer(data):
        _require_no_boundary(data, end, match.start())
        end = match.end()
        label = match.group(1).decode("ascii")
        if "PRIVATE KEY" in label:
            continue
        try:
            content = binascii.a2b_base64(b"".join(match.group(2).split()), strict_mode=True)
        except binascii.Error as e:
            message = f"the {label} block at byte {match.start()} is not base64{pem_fault(match.group(), '; ')}"
            raise FormatError("pem.malformed", message) from e
        yield label, content
    _require_no_boundary(data, end, len(data))


def _require_no_boundary(data: bytes, start: int, end: int) -> None:
    damaged = _BOUNDARY.search(data, start, end)
    if damaged:
        message = f"the certificate or CRL near byte {damaged.start()} is cut, or its first and last line do not match"
        raise FormatError("pem.malformed", message)


def _from_pem(text: bytes) -> tuple[Source, ...]:
    found = tuple(islice(read_pem_sources(text), MAX_CERTIFICATES + 1))
    if len(found) > MAX_CERTIFICATES:
        raise FormatError("certificate.too-large", f"more than {MAX_CERTIFICATES} certificates in one input")
    return found


def read_pem_sources(text: bytes) -> Iterator[Source]:
    """Yield the certificates and requests of a PEM text, in order; other blocks are ignored.

    Raises:
        FormatError: `pem.malformed`, `pem.trust-settings`.
    """
    for label, content in read_pem_blocks(text):
        if label in _CERTIFICATE_LABELS:
            _require_no_trust_settings(label, content)
            yield Source("certificate", content)
        elif label in _REQUEST_LABELS:
            yield Source("csr", content)


def _require_no_trust_settings(label: str, content: bytes) -> None:
    # OpenSSL writes trusted and rejected uses after the certificate. Ignoring a rejected use would be wrong.
    if label != "TRUSTED CERTIFICATE":
        return
    try:
        der.read_whole(content, tag=der.SEQUENCE)
    except FormatError as e:
        message = "a TRUSTED CERTIFICATE has OpenSSL's trust settings, which are not supported"
        raise FormatError("pem.trust-settings", message, offset=e.offset) from e


def _from_base64(text: bytes, password: bytes | str | None) -> tuple[Source, ...]:
    if text.startswith(b":") and text.endswith(b":") and len(text) > 2:
        text = text[1:-1]
    try:
        raw = binascii.a2b_base64(b"".join(text.split()), strict_mode=True)
    except binascii.Error:
        return ()
    return _from_der(raw, password) if is_der(raw) else _from_pem(raw)


def _from_der(data: bytes, password: bytes | str | None) -> tuple[Source, ...]:
    if is_pkcs12(data):
        return tuple([Source("certificate", one) for one in certificates_of(open_pkcs12(data, password))])
    try:
        whole = der.read_whole(data, tag=der.SEQUENCE)
        first = der.read_element(data, whole.start, whole.end)
        if first.tag != der.SEQUENCE:
            return ()  # a private key, for example
        return (Source("csr" if _is_request(data, first) else "certificate", data),)
    except FormatError as e:
        raise FormatError(
            "certificate.malformed", f"this is not a whole certificate: {e.message}", offset=e.offset
        ) from e


def _is_request(data: bytes, to_be_signed: der.Element) -> bool:
    # The to-be-signed part of a certificate has its validity, a SEQUENCE of two times, at position 3 or 4. That of a request
    # has version, name, key and attributes [0] (RFC 2986 section 4.1).
    parts = der.read_children(data, to_be_signed)
    return 3 <= len(parts) <= 4 and parts[0].tag == der.INTEGER and parts[-1].tag != der.INTEGER
