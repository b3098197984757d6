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

from asn1crypto import core, keys
from asn1crypto import ocsp as asn1_ocsp
from asn1crypto import x509 as asn1_x509
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509 import ocsp

from tppkit._clock import as_utc
from tppkit.errors import FormatError
from tppkit.testpki.certificate import Issued
from tppkit.testpki.crl import REASONS, Revocation
from tppkit.testpki.keys import PrivateKey
from tppkit.testpki.pki import Pki
from tppkit.testpki.signing import sign_bytes, signature_algorithm

MAX_REQUEST_BYTES = 64 * 1024
ANSWER_HOURS = 24
_NONCE_SIZES = range(1, 128 + 1)  # octets (RFC 9654 section 2.1)
_HASHES = frozenset({"sha1", "sha256", "sha384", "sha512"})
MALFORMED_REQUEST, TRY_LATER, _UNAUTHORIZED = "malformed_request", "try_later", "unauthorized"  # RFC 6960 section 4.2.1


class Single(NamedTuple):
    """The status of one certificate.

    Attributes:
        issuer: The authority that is asked about.
        serial: Serial number of the certificate.
        revocation: Its revocation; None for a certificate that is good or unknown.
        this_update: Aware UTC.
        next_update: Aware UTC.
        known: Whether the authority issued it.
        hash_name: The hash that identifies the issuer: `sha1`, which every client knows, `sha256`, `sha384` or `sha512`.
    """

    issuer: Issued
    serial: int
    revocation: Revocation | None
    this_update: datetime
    next_update: datetime
    known: bool = True
    hash_name: str = "sha1"


def issuer_hashes(issuer: Issued, hash_name: str) -> tuple[bytes, bytes]:
    """Return the hashes of an authority's name and key, by which OCSP identifies it."""
    key_bits = keys.PublicKeyInfo.load(issuer.public_key_der)["public_key"].contents[1:]
    return hashlib.new(hash_name, issuer.name).digest(), hashlib.new(hash_name, key_bits).digest()


def write_refusal(status: str) -> bytes:
    """Write an OCSP response without an answer, as DER.

    Args:
        status: The reason, for example `MALFORMED_REQUEST`.
    """
    return bytes(asn1_ocsp.OCSPResponse({"response_status": status}).dump())


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
    data = asn1_ocsp.ResponseData({
        "responder_id": asn1_ocsp.ResponderId("by_key", responder.key_identifier),
        "produced_at": produced_at,
        "responses": [_single(single)],
        "response_extensions": None if nonce is None else [{"extn_id": "nonce", "extn_value": core.OctetString(nonce)}],
    })  # fmt: skip
    basic = asn1_ocsp.BasicOCSPResponse({
        "tbs_response_data": data,
        "signature_algorithm": signature_algorithm(key, hash_name),
        "signature": sign_bytes(key, data.dump(), hash_name),
        "certs": None if is_authority else [asn1_x509.Certificate.load(responder.certificate.der)],
    })  # fmt: skip
    answer = {"response_type": "basic_ocsp_response", "response": basic}
    return bytes(asn1_ocsp.OCSPResponse({"response_status": "successful", "response_bytes": answer}).dump())


def _single(single: Single) -> asn1_ocsp.SingleResponse:
    name_hash, key_hash = issuer_hashes(single.issuer, single.hash_name)
    return asn1_ocsp.SingleResponse({
        "cert_id": {
            "hash_algorithm": {"algorithm": single.hash_name}, "issuer_name_hash": name_hash, "issuer_key_hash": key_hash,
            "serial_number": single.serial,
        },
        "cert_status": _status(single),
        "this_update": single.this_update,
        "next_update": single.next_update,
    })  # fmt: skip


def _status(single: Single) -> asn1_ocsp.CertStatus:
    if not single.known:
        return asn1_ocsp.CertStatus("unknown")
    if single.revocation is None:
        return asn1_ocsp.CertStatus("good")
    at = single.revocation.at.replace(microsecond=0)  # RFC 5280 section 4.1.2.5.2: no fractions
    revoked = {"revocation_time": at, "revocation_reason": REASONS[single.revocation.reason]}
    return asn1_ocsp.CertStatus("revoked", revoked)


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
        hash_name, hashes = asked.hash_algorithm.name, (asked.issuer_name_hash, asked.issuer_key_hash)
        serial, nonce = asked.serial_number, _nonce_of(asked.extensions)
    except (ValueError, NotImplementedError, UnsupportedAlgorithm, x509.DuplicateExtension):
        return write_refusal(MALFORMED_REQUEST)
    for issuer in pki.issuers:
        if hash_name in _HASHES and hashes == issuer_hashes(issuer, hash_name):
            single = _single_of(pki, issuer, serial, at)._replace(hash_name=hash_name)
            return write_answer(single, pki.responder(issuer), produced_at=at, nonce=nonce)
    return write_refusal(_UNAUTHORIZED)


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


def _single_of(pki: Pki, issuer: Issued, serial: int, at: datetime) -> Single:
    certificates = (*(member.certificate for member in pki.issued), *pki.requested)
    issued = {certificate.serial for certificate in certificates if certificate.issuer == issuer.certificate.subject}
    revoked = (one for one in pki.revocations.get(issuer.label, ()) if one.serial == serial and one.at <= at)
    next_update = at + timedelta(hours=ANSWER_HOURS)
    return Single(issuer, serial, next(revoked, None), at, next_update, known=serial in issued)
