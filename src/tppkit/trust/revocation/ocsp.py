"""OCSP: the question, the response, and what it says of a certificate."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from asn1crypto import ocsp as asn1_ocsp
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from cryptography.x509.oid import SignatureAlgorithmOID

from tppkit._clock import format_time, shift
from tppkit.certificates import EidasCertificate
from tppkit.errors import CertificateRejected, Finding, FormatError, Severity, VerificationError
from tppkit.trust.path.chain_rules import PROCESSED
from tppkit.trust.path.links import Link, read_key_bits, read_link
from tppkit.trust.path.names import comparable_der
from tppkit.trust.path.strength import (
    check_key,
    check_signature_algorithm,
    is_signature_of,
    is_signed_by,
    signature_weakness,
)
from tppkit.trust.revocation.answers import CLOCK_SKEW, Answer
from tppkit.trust.revocation.crl import read_generalized_time
from tppkit.trust.revocation.status import Source, State

MAX_OCSP_BYTES = 256 * 1024
MAX_RESPONDERS = 10
_CLAUSE = "RFC 6960 section 3.2"
_STATES = {
    ocsp.OCSPCertStatus.GOOD: State.GOOD,
    ocsp.OCSPCertStatus.REVOKED: State.REVOKED,
    ocsp.OCSPCertStatus.UNKNOWN: State.UNKNOWN,
}
_UNREADABLE = (
    ValueError, TypeError, KeyError, IndexError, OverflowError, UnsupportedAlgorithm, x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OcspResponse:
    """An OCSP response, read; nothing is proven of it yet.

    Attributes:
        der: its bytes.
        sha256: of the DER, lower-case hexadecimal.
        status: `successful`, or why there is no answer (RFC 6960 section 4.2.1), as `cryptography` names it in lower case.
        produced_at: when it was signed, aware UTC; None unless successful.
        nonce: the nonce that it repeats, or None.
        x509: the response as `cryptography` has it.
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
    except _UNREADABLE as e:
        reason = (str(e).splitlines() or [""])[0][:120]
        raise FormatError("ocsp.malformed", f"this is not an OCSP response: {reason}") from e


def make_ocsp_request(certificate: EidasCertificate, *, issuer: EidasCertificate, nonce: bytes | None = None) -> bytes:
    """The DER of a question for one certificate's status.

    The certificate is named by SHA-1 hashes, which every responder knows (RFC 5019 section 2.1.1); nothing rests on them.

    Args:
        certificate: whose status is asked for.
        issuer: who issued it.
        nonce: 1 to 128 bytes that the answer should repeat (RFC 9654), or None.
    """
    sha1 = hashes.SHA1()  # noqa: S303  # names a certificate only; the one hash that every responder knows (RFC 5019)
    builder = ocsp.OCSPRequestBuilder().add_certificate_by_hash(
        _hash(sha1, certificate.issuer_der), _hash(sha1, read_key_bits(issuer)), certificate.serial, sha1
    )
    if nonce is not None:
        builder = builder.add_extension(x509.OCSPNonce(nonce), critical=False)
    return builder.build().public_bytes(Encoding.DER)


def verify_ocsp(
    response: OcspResponse,
    *,
    certificate: EidasCertificate,
    issuer: EidasCertificate,
    nonce: bytes | None = None,
    require_nonce: bool = False,
    skew: timedelta = CLOCK_SKEW,
) -> Answer:
    """Authenticate an OCSP response, and read what it says of a certificate.

    Args:
        response: the response.
        certificate: whose status is asked for.
        issuer: who issued the certificate; it, or a responder that it certified itself, must have signed.
        nonce: what was sent with the question, None for a retained response.
        require_nonce: whether a response that does not repeat the nonce that was sent is refused; many responders sign theirs
            in advance.
        skew: by how much the responder's clocks may differ.

    Raises:
        VerificationError: `ocsp.status`, `ocsp.other-certificate`, `ocsp.critical-extension`, `ocsp.nonce`, `ocsp.dates`,
            `ocsp.stranger`, `ocsp.weak-signature`, `ocsp.signature`, `ocsp.malformed`.

    Source: RFC 6960 sections 3.2, 4.2.1 and 4.2.2; RFC 9654.
    """
    # 1. It is an answer.
    # 2. It is about this certificate; of several that are, the worst counts.
    # 3. It repeats the nonce.
    # 4. The issuer, or a responder that it certified, signed it; and not before the time of which it speaks.
    if response.status != "successful":
        raise _refused("ocsp.status", f"the OCSP responder gives no answer: {response.status}")  # 1
    try:
        single, index = _find(response, certificate, issuer)  # 2
        details = _SingleDetails(response, index)
        findings = [*_check_nonce(response, nonce, require_nonce)]  # 3
        signer = _find_signer(response, issuer)  # 4
        _check_dates(response, single, signer, skew)
        return Answer(
            source=Source.OCSP,
            sha256=response.sha256,
            state=_STATES[single.certificate_status],
            this_update=single.this_update_utc,
            next_update=single.next_update_utc,
            signer=signer,
            produced_at=response.produced_at,
            revoked_at=single.revocation_time_utc,
            reason=single.revocation_reason.name if single.revocation_reason else None,
            kept_since=details.archive_cutoff,
            signer_may_be_revoked=signer != issuer
            and x509.OCSPNoCheck.oid.dotted_string not in signer.extensions.present,
            findings=tuple(findings),
        )
    except (FormatError, *_UNREADABLE) as e:
        raise _refused("ocsp.malformed", f"the OCSP response cannot be read: {str(e)[:120]}") from e


def _refused(code: str, message: str) -> VerificationError:
    return VerificationError(code, message, clause=_CLAUSE)


def _find(
    response: OcspResponse, certificate: EidasCertificate, issuer: EidasCertificate
) -> tuple[ocsp.OCSPSingleResponse, int]:
    # RFC 6960 section 4.1.1 names the issuer as the certificate does, which may encode the name otherwise than the issuer.
    names, key = {certificate.issuer_der, issuer.subject_der}, read_key_bits(issuer)
    found = [
        (single, index)
        for index, single in enumerate(response.x509.responses)
        if single.serial_number == certificate.serial
        and single.issuer_name_hash in {_hash(single.hash_algorithm, name) for name in names}
        and single.issuer_key_hash == _hash(single.hash_algorithm, key)
    ]
    if not found:
        raise _refused(
            "ocsp.other-certificate",
            f"the OCSP response is not about {certificate.subject}, serial number {certificate.serial_hex}",
        )
    return max(found, key=lambda one: _gravity(one[0]))


def _gravity(single: ocsp.OCSPSingleResponse) -> tuple[int, datetime]:
    if single.certificate_status is ocsp.OCSPCertStatus.REVOKED:
        rank = 2 if single.revocation_reason is x509.ReasonFlags.certificate_hold else 3
    else:
        rank = int(single.certificate_status is ocsp.OCSPCertStatus.UNKNOWN)
    return rank, single.this_update_utc


def _hash(algorithm: hashes.HashAlgorithm, data: bytes) -> bytes:
    digest = hashes.Hash(algorithm)
    digest.update(data)
    return digest.finalize()


def _check_dates(
    response: OcspResponse, single: ocsp.OCSPSingleResponse, signer: EidasCertificate, skew: timedelta
) -> None:
    """Refuse what was known only after the response was signed, or after its signer's certificate ended."""
    latest = min(shift(response.produced_at, skew) if response.produced_at else signer.not_after, signer.not_after)
    if single.this_update_utc > latest:
        raise _refused(
            "ocsp.dates",
            f"the OCSP response speaks of {format_time(single.this_update_utc)}, but cannot be from after"
            f" {format_time(latest)}",
        )


class _SingleDetails:
    """The extensions of one single response, which `cryptography` shows only where there is but one."""

    def __init__(self, response: OcspResponse, index: int) -> None:
        self.archive_cutoff: datetime | None = None
        basic = asn1_ocsp.OCSPResponse.load(response.der)["response_bytes"]["response"].parsed
        for extension in basic["tbs_response_data"]["responses"][index]["single_extensions"]:
            self._read(extension)
        for extension in basic["tbs_response_data"]["response_extensions"]:
            if extension["critical"].native and extension["extn_id"].dotted != x509.OCSPNonce.oid.dotted_string:
                raise _refused(
                    "ocsp.critical-extension",
                    f"the OCSP response has the critical extension {extension['extn_id'].dotted}",
                )

    def _read(self, extension: Any) -> None:
        oid = extension["extn_id"].dotted
        if oid == "1.3.6.1.5.5.7.48.1.6":
            value = x509.UnrecognizedExtension(x509.ObjectIdentifier(oid), extension["extn_value"].contents)
            self.archive_cutoff = read_generalized_time(value)
        elif extension["critical"].native:
            raise _refused("ocsp.critical-extension", f"the OCSP response has the critical extension {oid}")


def _check_nonce(response: OcspResponse, nonce: bytes | None, required: bool) -> Iterator[Finding]:
    if nonce is None:
        return
    if response.nonce is None and not required:
        yield Finding(
            "ocsp.nonce-absent", Severity.NOTICE, "the OCSP response repeats no nonce: it was signed in advance",
            "RFC 6960 section 4.4.1",
        )  # fmt: skip
    elif response.nonce != nonce:
        raise _refused("ocsp.nonce", "the OCSP response does not repeat the nonce that was sent")


def _find_signer(response: OcspResponse, issuer: EidasCertificate) -> EidasCertificate:
    """The issuer, or the responder that it certified, when its key made the signature.

    Raises:
        VerificationError: `ocsp.stranger`, `ocsp.weak-signature`, `ocsp.signature`.
    """
    parsed = response.x509
    algorithm, pss = _signature_algorithm(response)
    weak = signature_weakness(parsed.signature_algorithm_oid.dotted_string, algorithm)
    if weak:
        raise _refused("ocsp.weak-signature", f"the OCSP response is signed with {weak}")
    if _is_named(response, issuer):
        _require_signature(response, issuer, algorithm, pss)
        return issuer
    delegated = [c for c in parsed.certificates[:MAX_RESPONDERS] if _is_named(response, c)]
    refusal = _refused("ocsp.stranger", "the OCSP response is signed by somebody whose certificate is not in it")
    for (
        candidate
    ) in delegated:  # a responder has several certificates for one key, or keys of one name, while it renews them
        try:
            signer = _read_responder(candidate)
            _check_delegation(read_link(signer), issuer, response.produced_at)
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
        raise _refused("ocsp.stranger", f"the certificate of the OCSP responder cannot be read: {e.message}") from e


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
        raise _refused("ocsp.signature", f"the OCSP response is not signed with the key of {signer.subject}")


def _is_named(response: OcspResponse, certificate: EidasCertificate | x509.Certificate) -> bool:
    parsed = certificate.x509 if isinstance(certificate, EidasCertificate) else certificate
    name, key_hash = response.x509.responder_name, response.x509.responder_key_hash
    if name is not None:
        return comparable_der(name.public_bytes()) == comparable_der(parsed.subject.public_bytes())
    return key_hash == x509.SubjectKeyIdentifier.from_public_key(parsed.public_key()).digest


def _check_delegation(responder: Link, issuer: EidasCertificate, produced_at: datetime | None) -> None:
    certificate = responder.certificate
    try:
        check_signature_algorithm(certificate)
        check_key(certificate)
    except CertificateRejected as e:
        raise _refused("ocsp.weak-signature", e.message) from e
    if not is_signed_by(certificate, issuer):
        raise _refused("ocsp.stranger", f"the OCSP responder {responder} is not certified by {issuer.subject}")
    unknown = [oid for oid in responder.facts.critical if oid not in PROCESSED]
    if unknown:
        raise _refused("ocsp.critical-extension", f"{responder} has the critical extension {unknown[0]}")
    if "OCSPSigning" not in responder.facts.extended_key_usage:
        raise _refused("ocsp.stranger", f"{responder} is not certified to sign OCSP responses (no OCSPSigning)")
    if not responder.may("digitalSignature", "nonRepudiation"):
        raise _refused("ocsp.stranger", f"the key of the OCSP responder {responder} may not sign")
    if produced_at is None or not certificate.is_valid_at(produced_at):
        when = "an unknown time" if produced_at is None else format_time(produced_at)
        raise _refused("ocsp.stranger", f"the certificate of the OCSP responder {responder} was not valid at {when}")


# The hashes of RSASSA-PSS that are strong enough, as asn1crypto names them.
_PSS_HASHES: Mapping[str, hashes.HashAlgorithm] = MappingProxyType(
    {"sha256": hashes.SHA256(), "sha384": hashes.SHA384(), "sha512": hashes.SHA512()}
)


def _signature_algorithm(response: OcspResponse) -> tuple[hashes.HashAlgorithm | None, padding.PSS | None]:
    """The hash, and the parameters of RSASSA-PSS (RFC 4055 section 3.1), which `cryptography` does not read here."""
    if response.x509.signature_algorithm_oid != SignatureAlgorithmOID.RSASSA_PSS:
        return response.x509.signature_hash_algorithm, None
    basic = asn1_ocsp.OCSPResponse.load(response.der)["response_bytes"]["response"].parsed
    parameters = basic["signature_algorithm"]["parameters"]
    name = parameters["hash_algorithm"]["algorithm"].native
    algorithm = _PSS_HASHES.get(name)
    if algorithm is None or parameters["mask_gen_algorithm"]["parameters"]["algorithm"].native != name:
        raise _refused("ocsp.weak-signature", f"the OCSP response is signed with RSASSA-PSS and {name}")
    return algorithm, padding.PSS(padding.MGF1(algorithm), int(parameters["salt_length"].native))
