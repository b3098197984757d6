"""The outcome of a revocation check by policy: a status, a rejection or a warning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NoReturn

from tppkit._clock import format_time, shift
from tppkit.certificates import EidasCertificate
from tppkit.errors import CertificateRejected, Finding, LeafRevoked, Severity
from tppkit.trust.path.window import Window
from tppkit.trust.revocation.answers import RevocationAnswer, State

RETRY_AFTER = timedelta(minutes=1)
_CLAUSE = "RFC 5280 section 6.3; RFC 6960"


class RevocationPolicy(StrEnum):
    """What happens to a chain if no usable answer exists for one of its certificates."""

    HARD_FAIL = "hard-fail"  # it is rejected
    HARD_FAIL_LEAF = "hard-fail-leaf"  # the end entity as under HARD_FAIL, the authorities above it as under SOFT_FAIL
    SOFT_FAIL = (
        "soft-fail"  # it holds with a warning, unless the certificate is revoked or its last known state is a hold
    )


class RevocationScope(StrEnum):
    """Which certificates of a chain are checked."""

    CHAIN = "chain"  # each one below the anchor
    LEAF = "leaf"  # the end entity only


@dataclass(frozen=True, slots=True)
class CertificateStatus:
    """The status of one certificate at the time of judgement, and its proof.

    Attributes:
        certificate: the certificate.
        state: `good`; `unknown` after a soft failure. A revoked certificate has no status, as its path is rejected.
        answer: the answer that proves it; None when unknown.
    """

    certificate: EidasCertificate
    state: State
    answer: RevocationAnswer | None = None


@dataclass(frozen=True, slots=True)
class Statuses:
    """The result for a chain.

    Attributes:
        statuses: one for each checked certificate, the leaf first.
        findings: warnings and notices.
        window: the period for which this may be cached.
    """

    statuses: tuple[CertificateStatus, ...]
    findings: tuple[Finding, ...]
    window: Window


@dataclass(frozen=True, slots=True)
class Inquiry:
    """The question about one certificate.

    Attributes:
        certificate: the certificate.
        issuer: its issuer.
        at: the time to judge at, aware UTC.
        window: the period for which the result may be cached.
        fetches: one item for each fetch that is left for the chain.
        above: the authorities above the issuer.
        lists_only: whether only CRLs are asked.
        faults: receives the faults of answers that are of no use.
    """

    certificate: EidasCertificate
    issuer: EidasCertificate
    at: datetime
    window: Window
    fetches: Iterator[object]
    above: tuple[EidasCertificate, ...] = ()
    lists_only: bool = False
    faults: list[Finding] = field(default_factory=list)


def refuse_revoked(certificate: EidasCertificate, answer: RevocationAnswer, *, is_leaf: bool) -> NoReturn:
    """Reject a revoked certificate."""
    when = "" if answer.revoked_at is None else f" on {format_time(answer.revoked_at)}"
    kind = LeafRevoked if is_leaf else CertificateRejected
    raise kind(
        "revocation.revoked",
        f"{certificate.subject} was revoked{when} ({answer.reason or 'no reason given'}) by the"
        f" {answer.source} of {answer.signer.subject} of {format_time(answer.this_update)}",
        clause=_CLAUSE,
    )


def fail(
    inquiry: Inquiry, *, is_soft: bool, is_stale: bool, can_fetch: bool
) -> tuple[CertificateStatus, list[Finding]]:
    """Reject a certificate without a usable answer, or warn if that is soft."""
    certificate, at, faults = inquiry.certificate, inquiry.at, inquiry.faults
    code = "revocation.stale" if is_stale else "revocation.unknown"
    what = "only answers of another time state" if is_stale else "no answer states"
    reasons = "; ".join(dict.fromkeys(fault.message for fault in faults))
    message = f"{what} whether {certificate.subject} was revoked at {format_time(at)}" + (
        f": {reasons[:400]}" if reasons else ""
    )
    if not is_soft:
        raise CertificateRejected(code, message, clause=_CLAUSE, findings=tuple(faults))
    if can_fetch:
        inquiry.window.narrow(at, shift(at, RETRY_AFTER))
    unknown = CertificateStatus(certificate, State.UNKNOWN)
    return unknown, [Finding(code, Severity.WARNING, message, _CLAUSE), *faults]


def refuse_held(inquiry: Inquiry, answer: RevocationAnswer, *, is_leaf: bool) -> NoReturn:
    """Reject a certificate whose last known state is a hold, under every policy: this is not a lack of answers."""
    raise (LeafRevoked if is_leaf else CertificateRejected)(
        "revocation.stale",
        f"{inquiry.certificate.subject} was on hold by the {answer.source} of {answer.signer.subject} of"
        f" {format_time(answer.this_update)}, and no answer for {format_time(inquiry.at)} lifts the hold",
        clause=_CLAUSE,
        findings=tuple(inquiry.faults),
    )


def invalid_earlier(certificate: EidasCertificate, since: datetime | None, at: datetime) -> list[Finding]:
    """A warning for a certificate that was good, but whose key may have been lost before, `since` its invalidityDate."""
    if since is None or since > at:
        return []
    return [
        Finding(
            "revocation.invalidity-date", Severity.WARNING,
            f"{certificate.subject} was revoked later, but its key is thought lost since"
            f" {format_time(since)}, before {format_time(at)}",
            "RFC 5280 section 5.3.2",
        )
    ]  # fmt: skip
