"""OCSP: requests read, and responses written and signed.

Sources: RFC 6960 sections 4.1 and 4.2, RFC 9654 section 2.1 (nonces).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import unquote

from tppkit._clock import as_utc
from tppkit.certificates import der
from tppkit.errors import FormatError
from tppkit.testpki.certificate import (
    Extension,
    Issued,
    key_identifier,
    public_key_bits,
    write_extension,
    write_generalized_time,
)
from tppkit.testpki.crl import REASONS, Revocation
from tppkit.testpki.keys import PrivateKey
from tppkit.testpki.pki import Pki
from tppkit.testpki.signing import sign_bytes, signature_algorithm

MAX_REQUEST_BYTES = 64 * 1024
ANSWER_HOURS = 24
_NONCE_SIZES = range(1, 128 + 1)  # octets (RFC 9654 section 2.1)
_ENUMERATED = 0x0A
_BASIC, NONCE = "1.3.6.1.5.5.7.48.1.1", "1.3.6.1.5.5.7.48.1.2"
HASH_NAMES = {
    "1.3.14.3.2.26": "sha1", "2.16.840.1.101.3.4.2.1": "sha256", "2.16.840.1.101.3.4.2.2": "sha384",
    "2.16.840.1.101.3.4.2.3": "sha512",
}  # fmt: skip
_HASH_OIDS = {name: oid for oid, name in HASH_NAMES.items()}

MALFORMED_REQUEST, INTERNAL_ERROR, TRY_LATER, UNAUTHORIZED = 1, 2, 3, 6  # RFC 6960 section 4.2.1


class CertId(NamedTuple):
    """Identifies a certificate: the hashes of its issuer's name and key by one of `HASH_NAMES`, and its serial number."""

    hash_name: str
    issuer_name_hash: bytes
    issuer_key_hash: bytes
    serial: int


class Single(NamedTuple):
    """The status of one certificate: good (`revocation` is None), revoked, or unknown (not `known`). Times are aware UTC."""

    cert_id: CertId
    revocation: Revocation | None
    this_update: datetime
    next_update: datetime | None
    known: bool = True


def make_cert_id(issuer_name: bytes, issuer_key: bytes, serial: int, *, hash_name: str = "sha1") -> CertId:
    """Return the CertID of a certificate.

    Args:
        issuer_name: DER of the issuer's name.
        issuer_key: The issuer's public key: content of the BIT STRING, without the byte of unused bits.
        serial: The serial number.
        hash_name: `sha1`, which every responder knows, or another of `HASH_NAMES`.
    """
    return CertId(
        hash_name, hashlib.new(hash_name, issuer_name).digest(), hashlib.new(hash_name, issuer_key).digest(), serial
    )


def write_refusal(status: int) -> bytes:
    """Write an OCSP response without an answer, as DER.

    Args:
        status: The reason, for example `MALFORMED_REQUEST`.
    """
    return der.write_sequence(der.write_element(_ENUMERATED, bytes([status])))


def write_answer(
    singles: Iterable[Single], responder: Issued, *, produced_at: datetime, nonce: bytes | None = None,
    key: PrivateKey | None = None, hash_name: str | None = None,
) -> bytes:  # fmt: skip
    """Write and sign a successful OCSP response, as DER. It contains the certificate of the responder unless that is an authority.

    Args:
        singles: The status of each certificate.
        responder: The signer.
        produced_at: Aware UTC.
        nonce: DER of the request's nonce value, to repeat it; None writes none.
        key: The signing key; the responder's by default.
        hash_name: One of `signing.HASHES`; the one that fits the key by default.
    """
    key, is_authority = key or responder.key, responder.kind in ("root", "issuing-ca")
    certificates = b"" if is_authority else der.write_sequence(responder.certificate.der)
    extensions = write_extension(Extension(NONCE, nonce)) if nonce is not None else b""
    data = der.write_sequence(
        der.write_element(0xA2, der.write_octets(key_identifier(responder.public_key_der))),
        write_generalized_time(produced_at),
        der.write_sequence(*map(_single, singles)),
        der.write_element(0xA1, der.write_sequence(extensions)) if extensions else b"",
    )
    basic = der.write_sequence(
        data,
        signature_algorithm(key, hash_name),
        der.write_element(der.BIT_STRING, b"\x00", sign_bytes(key, data, hash_name)),
        der.write_element(0xA0, certificates) if certificates else b"",
    )
    answer = der.write_sequence(der.write_oid(_BASIC), der.write_octets(basic))
    return der.write_sequence(der.write_element(_ENUMERATED, b"\x00"), der.write_element(0xA0, answer))


def _single(single: Single) -> bytes:
    following = single.next_update
    return der.write_sequence(
        _cert_id(single.cert_id),
        _status(single),
        write_generalized_time(single.this_update),
        der.write_element(0xA0, write_generalized_time(following)) if following else b"",
    )


def _cert_id(cert_id: CertId) -> bytes:
    return der.write_sequence(
        der.write_sequence(der.write_oid(_HASH_OIDS[cert_id.hash_name]), b"\x05\x00"),
        der.write_octets(cert_id.issuer_name_hash),
        der.write_octets(cert_id.issuer_key_hash),
        der.write_integer(cert_id.serial),
    )


def _status(single: Single) -> bytes:
    if not single.known:
        return der.write_element(0x82)
    if single.revocation is None:
        return der.write_element(0x80)
    reason = der.write_element(0xA0, der.write_element(_ENUMERATED, bytes([REASONS[single.revocation.reason]])))
    return der.write_element(0xA1, write_generalized_time(single.revocation.at), reason)


class OcspRequest(NamedTuple):
    """An OCSP request: the certificates that it names, and DER of the nonce's value, or None."""

    cert_ids: tuple[CertId, ...]
    nonce: bytes | None


def parse_ocsp_request(data: bytes) -> OcspRequest:
    """Read an OCSPRequest; its optional signature is ignored.

    Raises:
        FormatError: `der.malformed` (also for a nonce that is empty or longer than 128 octets, and for an unknown critical
            extension), `der.unexpected-tag`.
    """
    if len(data) > MAX_REQUEST_BYTES:
        raise FormatError("der.malformed", f"an OCSP request of {len(data)} bytes is too long")
    (request, *_) = _children(data, der.read_whole(data, tag=der.SEQUENCE))
    parts = _children(data, der.expect(request, der.SEQUENCE))
    requests = next((part for part in parts if part.tag == der.SEQUENCE), None)
    if requests is None:
        raise FormatError("der.malformed", "an OCSP request names no certificate", offset=request.offset)
    cert_ids = tuple(_requested(data, one) for one in _children(data, requests))
    nonce = _extensions(data, parts, tag=0xA2, known=(NONCE,)).get(NONCE)
    return OcspRequest(cert_ids, None if nonce is None else _require_nonce(nonce))


def _children(data: bytes, element: der.Element) -> list[der.Element]:
    children = der.read_children(data, element)
    if not children:
        raise FormatError("der.malformed", f"the element at byte {element.offset} is empty", offset=element.offset)
    return children


def _read_cert_id(data: bytes, element: der.Element) -> CertId:
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
    return _read_cert_id(data, parts[0])


def _extensions(data: bytes, parts: list[der.Element], *, tag: int, known: tuple[str, ...] = ()) -> dict[str, bytes]:
    """Return the values of the extensions in the part with the tag; a critical one must be known (RFC 6960 section 4.4)."""
    values: dict[str, bytes] = {}
    for part in (part for part in parts if part.tag == tag):
        for extension in _children(data, _children(data, part)[0]):
            identifier, *rest = _children(data, der.expect(extension, der.SEQUENCE))
            if not rest:
                raise FormatError("der.malformed", "an extension has no value", offset=extension.offset)
            *critical, value = rest
            oid = der.read_oid(data, identifier)
            if any(data[flag.start : flag.end] != b"\x00" for flag in critical) and oid not in known:
                raise FormatError("der.malformed", f"the critical extension {oid} is unknown", offset=extension.offset)
            values[oid] = data[value.start : value.end]
    return values


def _require_nonce(value: bytes) -> bytes:
    """Return DER of a nonce, if it has a permitted length."""
    nonce = der.read_whole(value, tag=der.OCTET_STRING)
    if nonce.end - nonce.start not in _NONCE_SIZES:
        message = f"a nonce of {nonce.end - nonce.start} octets is not of 1 to 128 (RFC 9654 section 2.1)"
        raise FormatError("der.malformed", message, offset=nonce.offset)
    return value


def ocsp_request_of_path(path: str) -> bytes:
    """Return the request in the path of a GET (RFC 6960 appendix A.1), which is URL-escaped base64.

    Raises:
        FormatError: `base64.malformed`.
    """
    try:
        return base64.b64decode(unquote(path.lstrip("/")), validate=True)
    except (binascii.Error, ValueError) as e:
        raise FormatError("base64.malformed", "the path contains no OCSP request") from e


def answer_ocsp(pki: Pki, request: bytes, *, at: datetime) -> bytes:
    """Answer an OCSP request, as DER: good, revoked, or unknown if the authority did not issue the certificate.

    Each authority has its own responder, so a request about certificates of two authorities is answered with `unauthorized`.

    Args:
        pki: The PKI.
        request: DER of the OCSPRequest.
        at: The present, aware; the response is valid for a day.
    """
    at = as_utc(at).replace(microsecond=0)
    try:
        parsed = parse_ocsp_request(request)
    except FormatError:
        return write_refusal(MALFORMED_REQUEST)
    issuer = next((issuer for issuer in pki.issuers if _issued_by(issuer, parsed.cert_ids[0])), None)
    if issuer is None or not all(_issued_by(issuer, cert_id) for cert_id in parsed.cert_ids):
        return write_refusal(UNAUTHORIZED)
    singles = _singles(pki, issuer, parsed.cert_ids, at)
    return write_answer(singles, pki.responder(issuer), produced_at=at, nonce=parsed.nonce)


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
