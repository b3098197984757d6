"""Verification of OCSP responses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from cryptography import x509
from cryptography.x509 import ocsp

from tppkit._clock import format_time, shift
from tppkit.certificates import EidasCertificate, der
from tppkit.errors import Finding, FormatError, Severity, VerificationError
from tppkit.trust.path.links import read_key_bits
from tppkit.trust.revocation.answers import CLOCK_SKEW, ON_HOLD, RevocationAnswer, RevocationSource, State
from tppkit.trust.revocation.crl_entries import INVALIDITY_DATE, read_time
from tppkit.trust.revocation.ocsp_response import (
    UNREADABLE,
    OcspResponse,
    basic_response,
    hash_of_names,
    hashed,
    reason_of,
    refused,
    revoked_at,
)
from tppkit.trust.revocation.ocsp_signer import find_signer

_STATES = {
    ocsp.OCSPCertStatus.GOOD: State.GOOD,
    ocsp.OCSPCertStatus.REVOKED: State.REVOKED,
    ocsp.OCSPCertStatus.UNKNOWN: State.UNKNOWN,
}
_ARCHIVE_CUTOFF = "1.3.6.1.5.5.7.48.1.6"
_PROCESSED = frozenset({_ARCHIVE_CUTOFF, INVALIDITY_DATE, x509.OCSPNonce.oid.dotted_string})


def verify_ocsp(
    response: OcspResponse,
    *,
    certificate: EidasCertificate,
    issuer: EidasCertificate,
    nonce: bytes | None = None,
    require_nonce: bool = False,
) -> RevocationAnswer:
    """Authenticate an OCSP response and read its status of a certificate.

    Args:
        response: the response.
        certificate: the certificate.
        issuer: its issuer; it, or a responder that it certified itself, must have signed the response.
        nonce: the nonce of the request; None for a retained response.
        require_nonce: rejects a response that does not repeat the nonce; many responders sign theirs in advance.

    Raises:
        VerificationError: `ocsp.status`, `ocsp.other-certificate`, `ocsp.stranger`, `ocsp.weak-signature`, `ocsp.signature`,
            `ocsp.malformed`, `path.extension-malformed` (of the responder); and unless the status is revoked
            `ocsp.critical-extension`, `ocsp.nonce`, `ocsp.dates`.

    Source: RFC 6960 sections 3.2, 4.2.1 and 4.2.2; RFC 9654.
    """
    # 1. It is an answer.
    # 2. It is about this certificate; of several single responses about it, the worst and the earliest dates count.
    # 3. The issuer, or a responder that it certified, signed it.
    # 4. It repeats the nonce, was not signed before its thisUpdate, and every critical extension is known. If not, it can still
    #    prove a revocation.
    if response.status != "successful":
        raise refused("ocsp.status", f"the OCSP responder gives no answer: {response.status}")  # 1
    try:
        singles = _find(response, certificate, issuer)  # 2
        single, index = max(singles, key=lambda one: _gravity(one[0]))
        signer = find_signer(response, issuer)  # 3
        revoking = [place for one, place in singles if one.certificate_status is ocsp.OCSPCertStatus.REVOKED]
        critical, archive_cutoff, invalid_since = _read_extensions(response, index, revoking)
        findings: tuple[Finding, ...] = ()
        only_revokes: Finding | None = None
        try:
            _check_critical(critical)  # 4
            findings = (*_check_nonce(response, nonce, require_nonce),)
            _check_dates(response, single, signer)
        except VerificationError as e:
            if not revoking:
                raise
            only_revokes = Finding(e.code, Severity.WARNING, e.message, e.clause)
        return RevocationAnswer(
            source=RevocationSource.OCSP,
            sha256=response.sha256,
            state=_STATES[single.certificate_status],
            this_update=single.this_update_utc,
            next_update=single.next_update_utc,
            signer=signer,
            produced_at=response.produced_at,
            revoked_at=min(filter(None, (revoked_at(one) for one, _ in singles)), default=None),
            reason=reason_of(single),
            invalid_since=invalid_since,
            kept_since=archive_cutoff,
            signer_may_be_revoked=signer != issuer
            and x509.OCSPNoCheck.oid.dotted_string not in signer.extensions.present,
            only_revokes=only_revokes,
            findings=findings,
        )
    except (FormatError, *UNREADABLE) as e:
        raise refused("ocsp.malformed", f"the OCSP response cannot be read: {der.parse_failure(e)}") from e


def _find(
    response: OcspResponse, certificate: EidasCertificate, issuer: EidasCertificate
) -> list[tuple[ocsp.OCSPSingleResponse, int]]:
    # RFC 6960 section 4.1.1 hashes the issuer's name of the certificate, whose encoding may differ from the issuer's own.
    names, key = {certificate.issuer_der, issuer.subject_der}, read_key_bits(issuer)
    found = [
        (single, index)
        for index, single in enumerate(response.x509.responses)
        if single.serial_number == certificate.serial
        and (algorithm := hash_of_names(single)) is not None
        and single.issuer_name_hash in {hashed(algorithm, name) for name in names}
        and single.issuer_key_hash == hashed(algorithm, key)
    ]
    if not found:
        raise refused(
            "ocsp.other-certificate",
            f"the OCSP response is not about {certificate.subject}, serial number {certificate.serial_hex}",
        )
    return found


def _gravity(single: ocsp.OCSPSingleResponse) -> tuple[int, datetime]:
    if single.certificate_status is ocsp.OCSPCertStatus.REVOKED:
        rank = 2 if reason_of(single) == ON_HOLD else 3
    else:
        rank = int(single.certificate_status is ocsp.OCSPCertStatus.UNKNOWN)
    return rank, single.this_update_utc


def _check_dates(response: OcspResponse, single: ocsp.OCSPSingleResponse, signer: EidasCertificate) -> None:
    """Reject a thisUpdate after the response was signed, or after its signer's certificate ended."""
    latest = min(
        shift(response.produced_at, CLOCK_SKEW) if response.produced_at else signer.not_after, signer.not_after
    )
    if single.this_update_utc > latest:
        raise refused(
            "ocsp.dates",
            f"the OCSP response is about {format_time(single.this_update_utc)}, but cannot be from after"
            f" {format_time(latest)}",
        )


def _read_extensions(
    response: OcspResponse, index: int, revoking: Sequence[int]
) -> tuple[list[str], datetime | None, datetime | None]:
    """The critical extensions of a response and of one single response, its archive cutoff, and the earliest invalidity date.

    `cryptography` shows those of a single response only if there is exactly one.
    """
    data = basic_response(response)["tbs_response_data"]
    extensions = {place: data["responses"][place]["single_extensions"] for place in (index, *revoking)}
    both = (*extensions[index], *data["response_extensions"])
    critical = [extension["extn_id"].dotted for extension in both if extension["critical"].native]
    invalid = [_read_date(extensions[place], INVALIDITY_DATE) for place in revoking]
    return critical, _read_date(extensions[index], _ARCHIVE_CUTOFF), min(filter(None, invalid), default=None)


def _read_date(extensions: Any, oid: str) -> datetime | None:
    values = {extension["extn_id"].dotted: extension["extn_value"].contents for extension in extensions}
    return read_time(values.get(oid, b""))


def _check_critical(critical: Sequence[str]) -> None:
    for oid in critical:
        if oid not in _PROCESSED:
            raise refused("ocsp.critical-extension", f"the OCSP response has the critical extension {oid}")


def _check_nonce(response: OcspResponse, nonce: bytes | None, required: bool) -> Iterator[Finding]:
    if nonce is None:
        return
    if response.nonce is None and not required:
        yield Finding(
            "ocsp.nonce-absent", Severity.NOTICE, "the OCSP response repeats no nonce: it was signed in advance",
            "RFC 6960 section 4.4.1",
        )  # fmt: skip
    elif response.nonce != nonce:
        raise refused("ocsp.nonce", "the OCSP response does not repeat the nonce that was sent")
