"""The proven revocation status of one certificate."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tppkit.certificates import EidasCertificate


class Source(StrEnum):
    """The kind of answer that proved a status."""

    OCSP = "ocsp"
    CRL = "crl"


class State(StrEnum):
    """The state of a certificate at a time."""

    GOOD = "good"
    REVOKED = "revoked"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CertificateStatus:
    """The status of one certificate at the time of judgement, and its proof.

    Attributes:
        certificate: the certificate.
        state: `good`; `revoked` (never in a path that holds); `unknown` after a soft failure.
        source: `ocsp` or `crl`; None when unknown.
        evidence_sha256: SHA-256 of the answer's DER, lower-case hexadecimal; None when unknown.
        this_update: thisUpdate of the answer, aware UTC; None if unknown.
        next_update: until when it is fresh, aware UTC; None if unknown or not stated.
        produced_at: when an OCSP response was signed, aware UTC; else None.
        signer: the authority, or the responder that it delegated to; None if unknown.
        revoked_at: when it was revoked, even if after the time of judgement; else None.
        reason: the reason of the revocation, a name of RFC 5280 section 5.3.1, else None.
    """

    certificate: EidasCertificate
    state: State
    source: Source | None = None
    evidence_sha256: str | None = None
    this_update: datetime | None = None
    next_update: datetime | None = None
    produced_at: datetime | None = None
    signer: EidasCertificate | None = None
    revoked_at: datetime | None = None
    reason: str | None = None
