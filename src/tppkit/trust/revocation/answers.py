"""Answers about one certificate from authenticated CRLs and OCSP responses, and what they prove for a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from tppkit._clock import shift
from tppkit.certificates import EidasCertificate
from tppkit.errors import Finding

CLOCK_SKEW = timedelta(minutes=5)  # by how much the clocks of the two sides may differ
UNDATED_AGE = timedelta(days=1)
ON_HOLD = "certificate_hold"
SINCE_ALWAYS = datetime.min.replace(tzinfo=UTC)
_INSTANT = timedelta(microseconds=1)


class RevocationSource(StrEnum):
    """The kind of an answer."""

    OCSP = "ocsp"
    CRL = "crl"


class State(StrEnum):
    """The state of a certificate at a time."""

    GOOD = "good"
    REVOKED = "revoked"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RevocationAnswer:
    """What one CRL or OCSP response states about one certificate; its signature was verified.

    Attributes:
        source: `ocsp` or `crl`.
        sha256: SHA-256 of the whole response's DER, lower-case hexadecimal.
        state: `good` (for a CRL: not listed), `revoked` or `unknown`.
        this_update: thisUpdate, aware UTC.
        next_update: until when it is fresh, aware UTC; None if not stated.
        signer: the authority, or the responder that it delegated to.
        produced_at: when an OCSP response was signed, aware UTC; else None.
        revoked_at: aware UTC; `SINCE_ALWAYS` if the date is unreadable; None unless revoked.
        reason: a name of RFC 5280 section 5.3.1, or None.
        invalid_since: invalidityDate of a CRL entry or single response, aware UTC, or None.
        kept_since: certificates that expired after this moment are still listed (ExpiredCertsOnCRL, archive cutoff); None if
            certificates leave the list as they expire.
        number: the number of a CRL, or None. Of two lists of one series and moment the one with the higher number counts.
        series: of a CRL, DER of its issuing distribution point, empty for the complete list; else None.
        signer_may_be_revoked: the signer is a responder that its authority did not mark as needing no check.
        only_revokes: why it cannot prove a certificate good, for example because the list is a delta CRL; None if it can.
        findings: warnings and notices about the response.
    """

    source: RevocationSource
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
    number: int | None = None
    series: bytes | None = None
    signer_may_be_revoked: bool = False
    only_revokes: Finding | None = None
    findings: tuple[Finding, ...] = ()

    def fresh_until(self, max_age: timedelta | None = None) -> datetime:
        """Last moment for which it is fresh: at most until its signer's certificate ends, and for `max_age` if given.

        A response without nextUpdate is fresh for a day.
        """
        until = self.next_update if self.next_update is not None else shift(self.this_update, UNDATED_AGE)
        until = min(until, self.signer.not_after)
        return until if max_age is None else min(until, shift(self.this_update, max_age))

    def is_stale_at(self, at: datetime, max_age: timedelta | None = None) -> bool:
        """Whether it is no longer fresh, with 5 minutes for clocks; `max_age` as in `fresh_until`."""
        return shift(at, -CLOCK_SKEW) > self.fresh_until(max_age)

    def is_superseded_by(self, other: RevocationAnswer) -> bool:
        """Whether both are lists of one authority, scope and moment, and the other has the higher CRL number.

        Source: RFC 5280 section 5.2.3: a list supersedes another of its scope by its number.
        """
        if self.number is None or other.number is None or self.number >= other.number:
            return False
        mine, theirs = ((one.source, one.signer.sha256, one.series, one.this_update) for one in (self, other))
        return mine == theirs


class Proof(StrEnum):
    """What an answer proves about a certificate at a time."""

    GOOD = "good"
    REVOKED = "revoked"
    STALE = "stale"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What several answers prove of one certificate at a time.

    Attributes:
        proof: `good` or `revoked`; `stale`, all are about other times; `nothing`.
        answer: the one that decides; with `stale`, the last known hold, or None; with `nothing`, None.
        begins: first moment for which a verdict that does not reject may be cached, with its warnings, aware UTC.
        ends: last such moment, aware UTC; before the next date of a revocation or invalidity in any answer.
        invalid_since: the earliest invalidityDate of the answers that revoke it later, aware UTC, or None.
    """

    proof: Proof
    answer: RevocationAnswer | None
    begins: datetime
    ends: datetime
    invalid_since: datetime | None = None

    @property
    def is_proven(self) -> bool:
        """Whether the certificate was good or revoked."""
        return self.proof in (Proof.GOOD, Proof.REVOKED)


def weigh(
    answers: Sequence[RevocationAnswer],
    certificate: EidasCertificate,
    *,
    at: datetime,
    max_age: timedelta | None = None,
) -> Verdict:
    """Decide what several answers prove together.

    A revocation in any answer is final. A hold may be lifted: the latest answer issued by then decides, and of two lists of one
    moment the one with the higher number. A later answer without the hold proves nothing for the time. An older answer does
    not lift a hold, however fresh it is.

    Args:
        answers: about this certificate.
        certificate: the certificate, valid at the time.
        at: the time to judge at, aware UTC.
        max_age: how long after its thisUpdate an answer is fresh at most; None for as long as it states.

    Source: RFC 5280 section 6.3.3, RFC 6960 section 3.2; ETSI EN 319 102-1 clauses 5.2.5 (freshness) and 5.6.2.1 (past
    validation with revocation information issued later).
    """
    proofs = [(answer, _prove(answer, certificate, at, max_age)) for answer in answers]
    proving = [(answer, proof) for answer, proof in proofs if proof in (Proof.GOOD, Proof.REVOKED)]
    final = [one for one in proving if one[1] is Proof.REVOKED and one[0].reason != ON_HOLD]
    held = _latest_hold(answers, at)
    if any(_holds_at(answer, at) for answer in answers):
        proving = [
            (answer, proof) for answer, proof in proving
            if proof is Proof.REVOKED or (answer.this_update <= at and held is None)
        ]  # fmt: skip
    current = final or _current(proving)
    best = max(current, key=lambda one: (one[0].this_update, one[1] is Proof.REVOKED), default=None)
    dates = [when for one in answers for when in (one.revoked_at, one.invalid_since) if when is not None]
    before_next = max(at, min([certificate.not_after, *(shift(when, -_INSTANT) for when in dates if when > at)]))
    if best is None:
        is_stale = any(proof in (Proof.GOOD, Proof.STALE) for _, proof in proofs)
        return Verdict(Proof.STALE if is_stale else Proof.NOTHING, held, at, before_next)
    answer, proof = best
    was_held = any(other.reason == ON_HOLD for other in answers)
    begins = max([at if was_held else certificate.not_before, *(when for when in dates if when <= at)])
    ends = max(at, min(before_next, answer.fresh_until(max_age)))
    invalid = [
        one.invalid_since for one in answers
        if one.invalid_since is not None and one.revoked_at is not None and one.revoked_at > at
    ]  # fmt: skip
    return Verdict(proof, answer, begins, ends, invalid_since=min(invalid, default=None))


def _prove(answer: RevocationAnswer, certificate: EidasCertificate, at: datetime, max_age: timedelta | None) -> Proof:
    """Decide what one answer proves by itself.

    An answer that was fresh at the time proves what it states. A later answer proves that the certificate was not revoked
    before, as revocations are final. Both prove a certificate good only if it had not expired by then or would still be listed.
    An answer from too long before proves revocation only, as does a partial one.
    """
    if answer.state is State.UNKNOWN:
        return Proof.NOTHING
    is_stale = answer.is_stale_at(at, max_age)
    if answer.revoked_at is not None and answer.revoked_at <= at:
        return Proof.STALE if is_stale and answer.reason == ON_HOLD else Proof.REVOKED
    if answer.only_revokes is not None:
        return Proof.NOTHING
    still_listed = answer.revoked_at is not None or certificate.not_after >= answer.this_update
    kept = answer.kept_since is not None and answer.kept_since <= certificate.not_after
    return Proof.GOOD if (still_listed or kept) and not is_stale else Proof.STALE


def _current(proving: Sequence[tuple[RevocationAnswer, Proof]]) -> list[tuple[RevocationAnswer, Proof]]:
    return [one for one in proving if not any(one[0].is_superseded_by(other) for other, _ in proving)]


def _holds_at(answer: RevocationAnswer, at: datetime) -> bool:
    return answer.reason == ON_HOLD and answer.revoked_at is not None and answer.revoked_at <= at


def _latest_hold(answers: Sequence[RevocationAnswer], at: datetime) -> RevocationAnswer | None:
    """Return the latest answer issued by then, if it has a hold that had begun.

    A hold revokes while it lasts: RFC 6960 section 2.2 calls it temporary revocation, and by RFC 5280 section 6.3.3 the reason of
    an entry is the status (step k excepts removeFromCRL, which only delta CRLs have; a complete list with it is malformed).
    Only a later answer lifts it, not the age of this one.
    """
    given = [
        answer for answer in answers
        if answer.state is not State.UNKNOWN and answer.this_update <= at
        and (answer.only_revokes is None or _holds_at(answer, at))
    ]  # fmt: skip
    given = [answer for answer in given if not any(map(answer.is_superseded_by, given))]
    latest = max(given, key=lambda answer: (answer.this_update, _holds_at(answer, at)), default=None)
    return latest if latest is not None and _holds_at(latest, at) else None
