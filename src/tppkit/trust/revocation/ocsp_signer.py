"""The signer of an OCSP response, and whether it may sign.

Source: RFC 6960 section 4.2.2.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import SignatureAlgorithmOID

from tppkit._clock import format_time
from tppkit.certificates import EidasCertificate
from tppkit.errors import CertificateRejected, FormatError, VerificationError
from tppkit.trust.path.chain_rules import PROCESSED
from tppkit.trust.path.links import Link, read_link
from tppkit.trust.path.strength import (
    is_signature_of,
    is_signed_by,
    require_key,
    require_signature_algorithm,
    signature_weakness,
)
from tppkit.trust.revocation.ocsp_response import OcspResponse, basic_response, refused, responder_name

MAX_RESPONDERS = 10


def find_signer(response: OcspResponse, issuer: EidasCertificate) -> EidasCertificate:
    """The issuer, or the responder that it certified, whose key made the signature.

    Raises:
        VerificationError: `ocsp.stranger`, `ocsp.weak-signature`, `ocsp.signature`, `ocsp.critical-extension`,
            `path.extension-malformed`.
    """
    parsed = response.x509
    algorithm, pss = _signature_algorithm(response)
    weak = signature_weakness(parsed.signature_algorithm_oid.dotted_string, algorithm)
    if weak:
        raise refused("ocsp.weak-signature", f"the OCSP response is signed with {weak}")
    if _is_named(response, issuer):
        _require_signature(response, issuer, algorithm, pss)
        return issuer
    refusal = refused("ocsp.stranger", "the certificate of the OCSP response's signer is not in it")
    # During a renewal, a responder has several certificates for one key, or several keys of one name.
    for candidate in parsed.certificates[:MAX_RESPONDERS]:
        try:
            signer = _read_responder(candidate)
            if not _is_named(response, signer):
                continue
            _check_delegation(read_link(signer), issuer, parsed.produced_at_utc)
            _require_signature(response, signer, algorithm, pss)
        except VerificationError as e:
            refusal = e
        else:
            return signer
    raise refusal


def _read_responder(certificate: x509.Certificate) -> EidasCertificate:
    try:
        return EidasCertificate.from_der(certificate.public_bytes(Encoding.DER))
    except FormatError as e:
        raise refused("ocsp.stranger", f"the certificate of the OCSP responder cannot be read: {e.message}") from e


def _require_signature(
    response: OcspResponse, signer: EidasCertificate, algorithm: hashes.HashAlgorithm | None, pss: padding.PSS | None
) -> None:
    parsed = response.x509
    if not is_signature_of(
        signer.x509.public_key(),
        signature=parsed.signature,
        data=parsed.tbs_response_bytes,
        hash_algorithm=algorithm,
        pss=pss,
    ):
        raise refused("ocsp.signature", f"the OCSP response is not signed with the key of {signer.subject}")


def _is_named(response: OcspResponse, certificate: EidasCertificate) -> bool:
    name = responder_name(response)
    if name is not None:
        return name.comparable == certificate.subject.comparable
    key_hash = x509.SubjectKeyIdentifier.from_public_key(certificate.public_key).digest
    return response.x509.responder_key_hash == key_hash


def _check_delegation(responder: Link, issuer: EidasCertificate, produced_at: datetime) -> None:
    certificate = responder.certificate
    try:
        require_signature_algorithm(certificate)
        require_key(certificate)
    except CertificateRejected as e:
        raise refused("ocsp.weak-signature", e.message) from e
    if not is_signed_by(certificate, issuer):
        raise refused("ocsp.stranger", f"the OCSP responder {responder} is not certified by {issuer.subject}")
    unknown = [oid for oid in responder.facts.critical if oid not in PROCESSED]
    if unknown:
        raise refused("ocsp.critical-extension", f"{responder} has the critical extension {unknown[0]}")
    if "OCSPSigning" not in responder.facts.extended_key_usage:
        raise refused("ocsp.stranger", f"{responder} is not certified to sign OCSP responses (no OCSPSigning)")
    if not responder.may("digitalSignature", "nonRepudiation"):
        raise refused("ocsp.stranger", f"the key of the OCSP responder {responder} may not sign")
    if not certificate.is_valid_at(produced_at):
        when = format_time(produced_at)
        raise refused("ocsp.stranger", f"the certificate of the OCSP responder {responder} was not valid at {when}")


# The strong hashes of RSASSA-PSS, as asn1crypto names them.
_PSS_HASHES: Mapping[str, hashes.HashAlgorithm] = MappingProxyType(
    {"sha256": hashes.SHA256(), "sha384": hashes.SHA384(), "sha512": hashes.SHA512()}
)


def _signature_algorithm(response: OcspResponse) -> tuple[hashes.HashAlgorithm | None, padding.PSS | None]:
    """The hash, and the parameters of RSASSA-PSS (RFC 4055 section 3.1), which `cryptography` does not read here."""
    if response.x509.signature_algorithm_oid != SignatureAlgorithmOID.RSASSA_PSS:
        return response.x509.signature_hash_algorithm, None
    parameters = basic_response(response)["signature_algorithm"]["parameters"]
    name = parameters["hash_algorithm"]["algorithm"].native
    algorithm = _PSS_HASHES.get(name)
    if algorithm is None or parameters["mask_gen_algorithm"]["parameters"]["algorithm"].native != name:
        raise refused("ocsp.weak-signature", f"the OCSP response is signed with RSASSA-PSS and {name}")
    return algorithm, padding.PSS(padding.MGF1(algorithm), int(parameters["salt_length"].native))
