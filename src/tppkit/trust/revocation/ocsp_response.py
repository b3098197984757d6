"""OCSP requests, and responses as they are read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from asn1crypto import ocsp as asn1_ocsp
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp

from tppkit.certificates import DistinguishedName, EidasCertificate, der
from tppkit.certificates.names import read_name
from tppkit.errors import FormatError, VerificationError
from tppkit.trust.path.links import read_key_bits
from tppkit.trust.revocation.answers import SINCE_ALWAYS

MAX_OCSP_BYTES = 256 * 1024
# What the libraries raise on a malformed response, in part only when a field is read.
UNREADABLE = (
    ValueError, TypeError, KeyError, IndexError, OverflowError, UnsupportedAlgorithm, x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OcspResponse:
    """An OCSP response as it was read; nothing of it is proven yet.

        response = parse_ocsp_response(Path("leaf.ors").read_bytes())
        response.status, response.produced_at
        verify_ocsp(response, certificate=leaf, issuer=issuing)

    Attributes:
        der: its bytes.
        sha256: of the DER, lower-case hexadecimal.
        status: `successful`, or the reason for no answer (RFC 6960 section 4.2.1), as `cryptography` names it in lower case.
        produced_at: when it was signed, aware UTC; None unless successful.
        nonce: the repeated nonce, or None.
        x509: the response as `cryptography` reads it.
    """

    der: bytes
    sha256: str
    status: str
    produced_at: datetime | None
    nonce: bytes | None
    x509: ocsp.OCSPResponse = field(compare=False)


def parse_ocsp_response(data: bytes) -> OcspResponse:
    """Read one OCSP response from DER.

    Raises:
        FormatError: `ocsp.malformed`, `ocsp.too-large`.
    """
    if len(data) > MAX_OCSP_BYTES:
        raise FormatError("ocsp.too-large", f"{len(data)} bytes are more than is read of an OCSP response")
    try:
        parsed = ocsp.load_der_ocsp_response(data)
        is_answer = parsed.response_status is ocsp.OCSPResponseStatus.SUCCESSFUL
        nonces = [e.value.nonce for e in parsed.extensions if isinstance(e.value, x509.OCSPNonce)] if is_answer else []
        return OcspResponse(
            der=bytes(data),
            sha256=hashlib.sha256(data).hexdigest(),
            status=parsed.response_status.name.lower(),
            produced_at=parsed.produced_at_utc if is_answer else None,
            nonce=nonces[0] if nonces else None,
            x509=parsed,
        )
    except UNREADABLE as e:
        raise FormatError("ocsp.malformed", f"this is not an OCSP response: {der.parse_failure(e)}") from e


def make_ocsp_request(certificate: EidasCertificate, *, issuer: EidasCertificate, nonce: bytes | None = None) -> bytes:
    """DER of a request for the status of one certificate.

    The certificate is identified by SHA-1 hashes, which every responder supports (RFC 5019 section 2.1.1). No security depends on
    them.

    Args:
        certificate: the certificate.
        issuer: its issuer.
        nonce: 1 to 128 bytes that the answer should repeat (RFC 9654), or None.
    """
    sha1 = hashes.SHA1()  # noqa: S303  # names a certificate only; the one hash that every responder knows (RFC 5019)
    builder = ocsp.OCSPRequestBuilder().add_certificate_by_hash(
        hashed(sha1, certificate.issuer_der), hashed(sha1, read_key_bits(issuer)), certificate.serial, sha1
    )
    if nonce is not None:
        builder = builder.add_extension(x509.OCSPNonce(nonce), critical=False)
    return builder.build().public_bytes(Encoding.DER)


def hashed(algorithm: hashes.HashAlgorithm, data: bytes) -> bytes:
    """The hash of data, by which requests and responses identify a certificate's issuer."""
    digest = hashes.Hash(algorithm)
    digest.update(data)
    return digest.finalize()


def refused(code: str, message: str) -> VerificationError:
    """The error for a rejected response."""
    return VerificationError(code, message, clause="RFC 6960 section 3.2")


def basic_response(response: OcspResponse) -> Any:
    """The BasicOCSPResponse of a successful response, for the fields that `cryptography` does not show."""
    return asn1_ocsp.OCSPResponse.load(response.der)["response_bytes"]["response"].parsed


def hash_of_names(single: ocsp.OCSPSingleResponse) -> hashes.HashAlgorithm | None:
    """The hash that identifies the certificate's issuer; None if it is unknown."""
    try:
        return single.hash_algorithm
    except UnsupportedAlgorithm:
        return None


def revoked_at(single: ocsp.OCSPSingleResponse) -> datetime | None:
    """The revocation date, aware UTC; `SINCE_ALWAYS` if it is unreadable, as the response still revokes; None unless revoked."""
    try:
        return single.revocation_time_utc
    except ValueError:
        return SINCE_ALWAYS


def reason_of(single: ocsp.OCSPSingleResponse) -> str | None:
    """The reason of a revocation, a name of RFC 5280 section 5.3.1; None also if it is unknown."""
    try:
        return single.revocation_reason and single.revocation_reason.name
    except ValueError:
        return None


def responder_name(response: OcspResponse) -> DistinguishedName | None:
    """The name of a successful response's signer; None if its key is named.

    Our own reader, as `cryptography` warns about names of more than 64 bytes.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`.
    """
    responder = basic_response(response)["tbs_response_data"]["responder_id"]
    if responder.name != "by_name":
        return None
    encoded = responder.chosen.untag().dump()
    return read_name(encoded, der.read_whole(encoded, tag=der.SEQUENCE))
