"""Time stamps over heads (RFC 3161): another party states when the records of a sealed part existed.

    raw = request_stamp(head, url, fetch=make_fetch())
    token = verify_stamp(raw, head, paths=PathVerifier(anchors))
    token.at, token.authority.subject

Needs the extra `audit`. A stamp is verified at its own time, and its chain must end at an authority of the caller.
Sources: RFC 3161 sections 2.2 to 2.4; RFC 5816 for the identifier of the signer.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from asn1crypto import tsp
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from tppkit._extras import needs_extra
from tppkit.certificates import EidasCertificate
from tppkit.errors import CertificateRejected, FormatError, VerificationError
from tppkit.evidence.heads import Head
from tppkit.trust import Fetch, PathVerifier

with needs_extra("audit"):
    from rfc3161_client import HashAlgorithm, TimestampRequestBuilder, VerifierBuilder, decode_timestamp_response
    from rfc3161_client.errors import VerificationError as TokenRejected

MAX_STAMP_BYTES = 64 * 1024
_TIMEOUT_S = 15.0
_TYPE = "application/timestamp-query"
_GRANTED = 0
_SIGNED_BY = MappingProxyType(
    {"rsa": ("rsassa_pkcs1v15", "rsassa_pss"), "rsa-pss": ("rsassa_pss",), "ec": ("ecdsa",), "ed25519": ("ed25519",)}
)
_SHA256 = "2.16.840.1.101.3.4.2.1"


@dataclass(frozen=True, slots=True)
class Stamp:
    """A time stamp that holds.

        stamp = verify_stamp(raw, head, paths=paths)
        stamp.at

    Attributes:
        at: when the authority saw the head, aware UTC.
        authority: the certificate that signed it.
        chain: from that certificate to a root.
    """

    at: datetime
    authority: EidasCertificate
    chain: tuple[EidasCertificate, ...]


def request_stamp(head: Head, url: str, *, fetch: Fetch) -> bytes:
    """Ask a time-stamping authority to stamp a head.

    Args:
        head: the head; its three lines are stamped.
        url: the authority's address.
        fetch: posts the request, such as `client.make_fetch()`.

    Returns:
        DER of the TimeStampResp. Its signature is verified by the audit, which knows the trusted authorities.

    Raises:
        TransportError: as `fetch`.
        FormatError: `stamp.malformed`; `stamp.refused`, the authority gave no token, or it is not for this request.
    """
    request = (
        TimestampRequestBuilder()
        .data(head.text.encode())
        .hash_algorithm(HashAlgorithm.SHA256)
        .nonce(nonce=True)
        .cert_request(cert_request=True)
        .build()
    )
    raw = fetch(url, max_bytes=MAX_STAMP_BYTES, timeout=_TIMEOUT_S, body=request.as_bytes(), content_type=_TYPE)
    response = _decode(raw)
    _require_head(response, head)
    if response.tst_info.nonce != request.nonce:
        raise FormatError("stamp.refused", "the token has another nonce than the request: it answers another one")
    if not response.signed_data.certificates:
        raise FormatError("stamp.refused", "the token has no certificate, although one was asked for")
    return raw


def verify_stamp(raw: bytes, head: Head, *, paths: PathVerifier) -> Stamp:
    """Verify a time stamp over a head, at the time that it states.

    Args:
        raw: DER of the TimeStampResp.
        head: the head that it must be for.
        paths: the trusted authorities.

    Raises:
        FormatError: `stamp.malformed`; `stamp.refused`, it has no token, or it is for another head.
        VerificationError: `stamp.signature`, the signature or the signer's certificate is not that of a time stamp.
        CertificateRejected: the signer's certificate is not trusted, as `PathVerifier.verify`.
    """
    response = _decode(raw)
    _require_head(response, head)
    at: datetime = response.tst_info.gen_time.astimezone(UTC)
    signer, others = _signer(response)
    path = paths.verify(signer, at=at, intermediates=others)
    root = path.chain[-1]
    if root.subject != root.issuer:
        message = f"the time stamp is verified up to a root: give that of {root.subject} too"
        raise CertificateRejected("trust.no-path", message)
    # The certificates in a token are trusted only through `path`, so the library gets no others.
    verifier = VerifierBuilder(
        tsa_certificate=signer.x509,
        intermediates=[one.x509 for one in path.chain[1:-1]],
        roots=[root.x509],
    ).build()
    try:
        verifier.verify_message(response, head.text.encode())
    except (TokenRejected, ValueError) as e:
        raise VerificationError("stamp.signature", f"the time stamp does not hold: {str(e)[:300]}") from e
    return Stamp(at, signer, path.chain)


def _decode(raw: bytes) -> Any:
    try:
        response = decode_timestamp_response(raw)
        if response.status != _GRANTED:
            said = "; ".join(response.status_string)[:200] or "no reason given"
            raise FormatError("stamp.refused", f"the authority gave no time stamp (status {response.status}): {said}")
        _ = response.tst_info.gen_time, response.tst_info.message_imprint.message, response.signed_data.certificates
    except ValueError as e:
        raise FormatError("stamp.malformed", f"this is not a time-stamp response: {str(e)[:200]}") from e
    return response


def _require_head(response: Any, head: Head) -> None:
    imprint = response.tst_info.message_imprint
    if imprint.hash_algorithm.dotted_string != _SHA256:
        raise FormatError("stamp.refused", "the token is over another hash than SHA-256")
    if imprint.message != hashlib.sha256(head.text.encode()).digest():
        raise FormatError("stamp.refused", "the token is for another head")


def _signer(response: Any) -> tuple[EidasCertificate, list[EidasCertificate]]:
    """Return the certificate of the signer, which must be one for time stamps only, and the others in the token."""
    try:
        (info,) = response.signed_data.signer_infos
        certificates = [EidasCertificate.from_der(bytes(raw)) for raw in response.signed_data.certificates]
        named = info.serial_number, info.issuer
        (signer,) = (one for one in certificates if (one.x509.serial_number, one.x509.issuer) == named)
        _require_form(response, signer)
        purposes = signer.x509.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    except (ValueError, TypeError, KeyError, FormatError, CertificateRejected, x509.ExtensionNotFound) as e:
        message = "the token is damaged, or does not have exactly one signer with the certificate for time stamps that it names"
        raise VerificationError("stamp.signature", message) from e
    if not purposes.critical or list(purposes.value) != [ExtendedKeyUsageOID.TIME_STAMPING]:
        message = f"the certificate of {signer.subject} is not one for time stamps only"
        raise VerificationError("stamp.signature", message, clause="RFC 3161 section 2.3")
    return signer, [one for one in certificates if one is not signer]


def _require_form(response: Any, signer: EidasCertificate) -> None:
    """Check what does not need a trusted signer, and nothing else would notice: a damaged token is not one of an unknown authority.

    The signed attributes name the content, and this certificate, so that no other one with its issuer and number can replace it.
    """
    content = tsp.TimeStampResp.load(response.as_bytes(), strict=True)["time_stamp_token"]["content"]
    (info,) = content["signer_infos"]
    algorithm, digest = info["signature_algorithm"], info["digest_algorithm"]["algorithm"].native
    if (
        (content["version"].native, info["version"].native) != ("v3", "v1")
        or algorithm.signature_algo not in _SIGNED_BY.get(signer.key.type, ())
        or (algorithm["algorithm"].native != "rsassa_pkcs1v15" and algorithm.hash_algo != digest)
    ):
        raise FormatError("stamp.malformed", "its versions or algorithms are not those of a time stamp")
    signed = {one["type"].native: one["values"] for one in info["signed_attrs"]}
    info_hash = hashlib.new(digest, bytes(content["encap_content_info"]["content"])).digest()
    is_first = "signing_certificate_v2" not in signed
    named = signed["signing_certificate" if is_first else "signing_certificate_v2"][0]["certs"][0]
    name = "sha1" if is_first else named["hash_algorithm"]["algorithm"].native
    if (signed["message_digest"][0].native, named["cert_hash"].native) != (
        info_hash,
        hashlib.new(name, signer.der).digest(),
    ):
        raise FormatError("stamp.malformed", "the signed attributes name other content or another certificate")
