"""OCSP: requests read, and responses written and signed.

Sources: RFC 6960 sections 4.1 and 4.2, RFC 5019, RFC 9654 section 2.1 (nonces).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import unquote

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509 import ocsp

from tppkit._clock import as_utc
from tppkit.certificates import der
from tppkit.errors import FormatError
from tppkit.testpki.certificate import (
    Extension,
    Issued,
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
_BASIC, _NONCE = "1.3.6.1.5.5.7.48.1.1", "1.3.6.1.5.5.7.48.1.2"
_HASH_OIDS = {
    "sha1": "1.3.14.3.2.26", "sha256": "2.16.840.1.101.3.4.2.1", "sha384": "2.16.840.1.101.3.4.2.2",
    "sha512": "2.16.840.1.101.3.4.2.3",
}  # fmt: skip

MALFORMED_REQUEST, INTERNAL_ERROR, TRY_LATER, UNAUTHORIZED = 1, 2, 3, 6  # RFC 6960 section 4.2.1


class CertId(NamedTuple):
    """Identifies a certificate: a hash algorithm, the hashes of its issuer's name and key, and its serial number."""

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


def make_cert_id(issuer: Issued, serial: int, *, hash_name: str = "sha1") -> CertId:
    """Return the CertID of a certificate.

    Args:
        issuer: The authority that issued it.
        serial: The serial number.
        hash_name: `sha1`, which every responder knows, `sha256`, `sha384` or `sha512`.
    """
    name, key = (hashlib.new(hash_name, part) for part in (issuer.name, public_key_bits(issuer.public_key_der)))
    return CertId(hash_name, name.digest(), key.digest(), serial)


def write_refusal(status: int) -> bytes:
    """Write an OCSP response without an answer, as DER.

    Args:
        status: The reason, for example `MALFORMED_REQUEST`.
    """
    return der.write_sequence(der.write_element(_ENUMERATED, bytes([status])))


def write_answer(
    single: Single, responder: Issued, *, produced_at: datetime, nonce: bytes | None = None,
    key: PrivateKey | None = None, hash_name: str | None = None,
) -> bytes:  # fmt: skip
    """Write and sign a successful OCSP response, as DER. It contains the certificate of the responder unless that is an authority.

    Args:
        single: The status of the certificate.
        responder: The signer.
        produced_at: Aware UTC.
        nonce: The request's nonce, to repeat it; None writes none.
        key: The signing key; the responder's by default.
        hash_name: One of `signing.HASHES`; the one that fits the key by default.
    """
    key, is_authority = key or responder.key, responder.kind in ("root", "issuing-ca")
    certificates = b"" if is_authority else der.write_sequence(responder.certificate.der)
    extensions = write_extension(Extension(_NONCE, der.write_octets(nonce))) if nonce is not None else b""
    data = der.write_sequence(
        der.write_element(0xA2, der.write_octets(responder.key_identifier)),
        write_generalized_time(produced_at),
        der.write_sequence(_single(single)),
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

    A request is about one certificate (RFC 5019 section 2.1.1). Its optional signature is ignored.

    Args:
        pki: The PKI.
        request: DER of the OCSPRequest.
        at: The present, aware; the response is valid for a day.
    """
    at = as_utc(at).replace(microsecond=0)
    try:
        asked = ocsp.load_der_ocsp_request(request)
        cert_id = CertId(asked.hash_algorithm.name, asked.issuer_name_hash, asked.issuer_key_hash, asked.serial_number)
        nonce = _nonce_of(asked.extensions)
    except (ValueError, NotImplementedError, UnsupportedAlgorithm, x509.DuplicateExtension):
        return write_refusal(MALFORMED_REQUEST)
    issuer = next((issuer for issuer in pki.issuers if _is_issued_by(issuer, cert_id)), None)
    if issuer is None:
        return write_refusal(UNAUTHORIZED)
    single = _single_of(pki, issuer, cert_id, at)
    return write_answer(single, pki.responder(issuer), produced_at=at, nonce=nonce)


def _nonce_of(extensions: x509.Extensions) -> bytes | None:
    """Return the nonce of a request. A nonce of another length and an unknown critical extension are malformed."""
    nonce = None
    for extension in extensions:
        if isinstance(extension.value, x509.OCSPNonce):
            nonce = extension.value.nonce
        elif extension.critical:
            raise ValueError(f"the critical extension {extension.oid.dotted_string} is unknown")
    if nonce is not None and len(nonce) not in _NONCE_SIZES:
        raise ValueError(f"a nonce of {len(nonce)} octets is not of 1 to 128 (RFC 9654 section 2.1)")
    return nonce


def _is_issued_by(issuer: Issued, cert_id: CertId) -> bool:
    if cert_id.hash_name not in _HASH_OIDS:
        return False
    return cert_id == make_cert_id(issuer, cert_id.serial, hash_name=cert_id.hash_name)


def _single_of(pki: Pki, issuer: Issued, cert_id: CertId, at: datetime) -> Single:
    certificates = (*(member.certificate for member in pki.issued), *pki.requested)
    issued = {certificate.serial for certificate in certificates if certificate.issuer == issuer.certificate.subject}
    known = cert_id.serial in issued
    revoked = (one for one in pki.revocations.get(issuer.label, ()) if one.serial == cert_id.serial and one.at <= at)
    return Single(cert_id, next(revoked, None) if known else None, at, at + timedelta(hours=ANSWER_HOURS), known=known)
