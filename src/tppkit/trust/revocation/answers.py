"""What an authenticated CRL or OCSP response says of one certificate, and what that proves for a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from tppkit.certificates import EidasCertificate
from tppkit.errors import Finding
from tppkit.trust.revocation.status import Source, State

CLOCK_SKEW = timedelta(minutes=5)
UNDATED_AGE = timedelta(days=1)
ON_HOLD = "certificate_hold"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one response says of one certificate; its signature holds.

    Attributes:
        source: `ocsp` or `crl`.
        sha256: SHA-256 of the whole response's DER, lower-case hexadecimal.
        state: `good` (for a CRL: not listed), `revoked` or `unknown`.
        this_update: from when it speaks, aware UTC.
        next_update: until when it is fresh, aware UTC; None when it does not say.
        signer: the authority, or the responder it delegated to.
        produced_at: when an OCSP response was signed, aware UTC; else None.
        revoked_at: aware UTC; None unless revoked.
        reason: a name of RFC 5280 section 5.3.1, or None.
        invalid_since: invalidityDate of a CRL entry, aware UTC, or None.
        kept_since: certificates that expired after this moment are still listed (ExpiredCertsOnCRL, archive cutoff); None
            when certificates leave the list as they expire.
        findings: what should be known about the response.
    """

    source: Source
    sha256: str
    state: State
    this_update: datetime
    next_update: datetime | None
    signer: EidasCertificate
    produced_at: datetime | None = None
    revoked_at: datetime | None = None
    reason: str | None = None
    invalid_since: datetime | None = None
    kept_since: datetime | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def fresh_until(self) -> datetime:
        """Last moment for which it is fresh; a response that does not say is so for a day."""
        return self.next_update if self.next_update is not None else self.this_update + UNDATED_AGE


class Proof(StrEnum):
    """What an answer proves about a certificate at a time."""

    GOOD = "good"
    REVOKED = "revoked"
    STALE = "stale"
    NOTHING = "nothing"


def prove(answer: Answer, certificate: EidasCertificate, *, at: datetime, skew: timedelta = CLOCK_SKEW) -> Proof:
    """What an answer proves.

    An answer that was fresh at the time proves what it says. An answer from a later time proves that the certificate was not
    revoked before, as a revocation is never taken back (a hold may be), but only where certificates that had expired by then
    would still be listed. An answer from too long before proves revocation only.

    Args:
        answer: about this certificate.
        certificate: the certificate, valid at the time.
        at: the time to judge at, aware UTC.
        skew: by how much the clocks of the two sides may differ.

    Source: RFC 5280 section 6.3.3, RFC 6960 section 3.2; ETSI EN 319 102-1 clauses 5.2.5 (freshness) and 5.6.2.1 (past
    validation with revocation information issued later).
    """
    if answer.state is State.UNKNOWN:
        return Proof.NOTHING
    is_stale = at > answer.fresh_until + skew
    if answer.revoked_at is not None and answer.revoked_at <= at:
        return Proof.STALE if is_stale and answer.reason == ON_HOLD else Proof.REVOKED
    if answer.this_update <= at + skew:
        return Proof.STALE if is_stale else Proof.GOOD
    still_listed = answer.revoked_at is not None or certificate.not_after >= answer.this_update
    kept = answer.kept_since is not None and answer.kept_since <= certificate.not_after
    return Proof.GOOD if still_listed or kept else Proof.STALE
