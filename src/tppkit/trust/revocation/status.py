"""What was proven about the revocation of one certificate."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tppkit.certificates import EidasCertificate


class Source(StrEnum):
    """Which kind of answer proved it."""

    OCSP = "ocsp"
    CRL = "crl"


class State(StrEnum):
    """What became of a certificate, at a time."""

    GOOD = "good"
    REVOKED = "revoked"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CertificateStatus:
    """The status of one certificate at the time of judgement, and what proves it.

    Attributes:
        certificate: the certificate.
        state: `good`; `revoked` (never in a path that holds); `unknown` where a soft failure let it pass.
        source: `ocsp` or `crl`; None when unknown.
        evidence_sha256: SHA-256 of the answer's DER, lower-case hexadecimal; None when unknown.
        this_update: from when the answer speaks, aware UTC; None when unknown.
        next_update: until when it is fresh, aware UTC; None when unknown or when it does not say.
        produced_at: when an OCSP response was signed, aware UTC; else None.
        signer: the authority, or the responder it delegated to; None when unknown.
        revoked_at: when it was revoked, also where that is after the time of judgement; else None.
        reason: the reason of that, a name of RFC 5280 section 5.3.1, else None.
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
