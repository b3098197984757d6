"""What the authorities of a test PKI answer: pure functions from a request to an answer. Others serve them.

Source: RFC 6960 section 4.1 (OCSP requests), RFC 9654 section 2.1 (nonces), RFC 3161 (time stamps).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import unquote

from tppkit._clock import as_utc
from tppkit.certificates import der
from tppkit.errors import FormatError
from tppkit.testpki.certificate import Issued, key_identifier, public_key_bits
from tppkit.testpki.ocsp import (
    HASH_NAMES,
    MALFORMED_REQUEST,
    NONCE,
    UNAUTHORIZED,
    CertId,
    Single,
    make_cert_id,
    write_answer,
    write_refusal,
)
from tppkit.testpki.pki import Pki
from tppkit.testpki.timestamps import answer_timestamp_request

MAX_REQUEST_BYTES = 64 * 1024
ANSWER_HOURS = 24
_NONCE_SIZES = range(1, 128 + 1)  # octets (RFC 9654 section 2.1)


class OcspRequest(NamedTuple):
    """An OCSP request: which certificates are meant, and DER of the nonce's value, or None."""

    cert_ids: tuple[CertId, ...]
    nonce: bytes | None


def parse_ocsp_request(data: bytes) -> OcspRequest:
    """Read an OCSPRequest; its optional signature is not looked at.

    Raises:
        FormatError: `der.malformed` (also a nonce of no octets or more than 128, and a critical extension that is not known),
            `der.unexpected-tag`.
    """
    if len(data) > MAX_REQUEST_BYTES:
        raise FormatError("der.malformed", f"an OCSP request of {len(data)} bytes is too long")
    (request, *_) = _children(data, der.read_whole(data, tag=der.SEQUENCE))
    parts = _children(data, der.expect(request, der.SEQUENCE))
    requests = next((part for part in parts if part.tag == der.SEQUENCE), None)
    if requests is None:
        raise FormatError("der.malformed", "an OCSP request asks for nothing", offset=request.offset)
    cert_ids = tuple(_requested(data, one) for one in _children(data, requests))
    nonce = _extensions(data, parts, tag=0xA2, known=(NONCE,)).get(NONCE)
    return OcspRequest(cert_ids, None if nonce is None else _require_nonce(nonce))


def _children(data: bytes, element: der.Element) -> list[der.Element]:
    children = der.read_children(data, element)
    if not children:
        raise FormatError("der.malformed", f"the element at byte {element.offset} is empty", offset=element.offset)
    return children


def _cert_id(data: bytes, element: der.Element) -> CertId:
    parts = _children(data, der.expect(element, der.SEQUENCE))
    if len(parts) != 4:
        raise FormatError("der.malformed", f"a CertID has {len(parts)} parts, not 4", offset=element.offset)
    algorithm, name, key, serial = parts
    oid = der.read_oid(data, _children(data, der.expect(algorithm, der.SEQUENCE))[0])
    name_hash, key_hash = (data[part.start : part.end] for part in (name, key))
    return CertId(HASH_NAMES.get(oid, oid), name_hash, key_hash, der.read_integer(data, serial))


def _requested(data: bytes, request: der.Element) -> CertId:
    parts = _children(data, der.expect(request, der.SEQUENCE))
    _extensions(data, parts, tag=0xA0)
    return _cert_id(data, parts[0])


def _extensions(data: bytes, parts: list[der.Element], *, tag: int, known: tuple[str, ...] = ()) -> dict[str, bytes]:
    """The values of extensions by their identifiers, of the part with the tag; a critical one must be known (RFC 6960 section 4.4)."""
    values: dict[str, bytes] = {}
    for part in (part for part in parts if part.tag == tag):
        for extension in _children(data, _children(data, part)[0]):
            identifier, *rest = _children(data, der.expect(extension, der.SEQUENCE))
            if not rest:
                raise FormatError("der.malformed", "an extension has no value", offset=extension.offset)
            *critical, value = rest
            oid = der.read_oid(data, identifier)
            if any(data[flag.start : flag.end] != b"\x00" for flag in critical) and oid not in known:
                raise FormatError(
                    "der.malformed", f"the critical extension {oid} is not known", offset=extension.offset
                )
            values[oid] = data[value.start : value.end]
    return values


def _require_nonce(value: bytes) -> bytes:
    """DER of a nonce, when it has as many octets as one may have."""
    nonce = der.read_whole(value, tag=der.OCTET_STRING)
    if nonce.end - nonce.start not in _NONCE_SIZES:
        message = f"a nonce of {nonce.end - nonce.start} octets is not of 1 to 128 (RFC 9654 section 2.1)"
        raise FormatError("der.malformed", message, offset=nonce.offset)
    return value


def ocsp_request_of_path(path: str) -> bytes:
    """The request that a GET carries in its path (RFC 6960 appendix A.1): URL-escaped base64.

    Raises:
        FormatError: `base64.malformed`.
    """
    try:
        return base64.b64decode(unquote(path.lstrip("/")), validate=True)
    except (binascii.Error, ValueError) as e:
        raise FormatError("base64.malformed", "the path holds no OCSP request") from e


def answer_ocsp(pki: Pki, request: bytes, *, at: datetime) -> bytes:
    """DER of the OCSP answer to a request: good, revoked, or unknown for what the authority that is asked about did not issue.

    Each authority has a responder of its own, so a request about certificates of two is refused as unauthorized.

    Args:
        pki: the PKI.
        request: DER of the OCSPRequest.
        at: the present, aware; the answer is good for a day.
    """
    at = as_utc(at).replace(microsecond=0)
    try:
        parsed = parse_ocsp_request(request)
    except FormatError:
        return write_refusal(MALFORMED_REQUEST)
    issuer = next((issuer for issuer in pki.issuers if _issued_by(issuer, parsed.cert_ids[0])), None)
    if issuer is None or not all(_issued_by(issuer, cert_id) for cert_id in parsed.cert_ids):
        return write_refusal(UNAUTHORIZED)
    responder = pki.responder(issuer)
    return write_answer(
        list(_singles(pki, issuer, parsed.cert_ids, at)),
        responder_key_hash=key_identifier(responder.public_key_der),
        key=responder.key,
        certificates=() if responder is issuer else (responder.certificate.der,),
        produced_at=at,
        nonce=parsed.nonce,
    )


def _issued_by(issuer: Issued, cert_id: CertId) -> bool:
    if cert_id.hash_name not in HASH_NAMES.values():
        return False
    return cert_id == make_cert_id(
        issuer.name, public_key_bits(issuer.public_key_der), cert_id.serial, hash_name=cert_id.hash_name
    )


def _singles(pki: Pki, issuer: Issued, cert_ids: tuple[CertId, ...], at: datetime) -> Iterator[Single]:
    revoked = {
        revocation.serial: revocation for revocation in pki.revocations.get(issuer.label, ()) if revocation.at <= at
    }
    certificates = (*(member.certificate for member in pki.issued), *pki.requested)
    issued = {certificate.serial for certificate in certificates if certificate.issuer == issuer.certificate.subject}
    for cert_id in cert_ids:
        known = cert_id.serial in issued
        yield Single(
            cert_id, revoked.get(cert_id.serial) if known else None, at, at + timedelta(hours=ANSWER_HOURS), known=known
        )


def answer_timestamp(pki: Pki, request: bytes, *, at: datetime, serial: int) -> bytes:
    """DER of the answer to a time-stamp request, by the PKI's time-stamping authority.

    Args:
        pki: the PKI.
        request: DER of the TimeStampReq.
        at: the time that is stamped, aware.
        serial: the token's serial number.
    """
    at = as_utc(at).replace(microsecond=0)
    return answer_timestamp_request(request, certificate=pki.tsa.certificate, key=pki.tsa.key, at=at, serial=serial)
