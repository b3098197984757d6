"""What becomes of a certificate by what was proven of it: a status, a refusal, or a warning, as the policy has it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NoReturn

from tppkit._clock import format_time, shift
from tppkit.certificates import EidasCertificate
from tppkit.errors import CertificateRejected, Finding, Severity
from tppkit.trust.path.window import Window
from tppkit.trust.revocation.answers import Answer
from tppkit.trust.revocation.fetched import RETRY_AFTER, Budget
from tppkit.trust.revocation.status import CertificateStatus, State

_CLAUSE = "RFC 5280 section 6.3; RFC 6960"


class RevocationPolicy(StrEnum):
    """What becomes of a chain when nothing usable says whether a certificate of it was revoked."""

    HARD_FAIL = "hard-fail"  # it is refused
    HARD_FAIL_LEAF = "hard-fail-leaf"  # the end entity as under HARD_FAIL, the authorities above it as under SOFT_FAIL
    SOFT_FAIL = "soft-fail"  # it holds, with a warning; what is known to be revoked, or was last heard of as on hold, is refused


class RevocationScope(StrEnum):
    """Which certificates of a chain are judged."""

    CHAIN = "chain"  # every one below the anchor
    LEAF = "leaf"  # the end entity only


@dataclass(frozen=True, slots=True)
class Statuses:
    """What was proven of a chain.

    Attributes:
        statuses: one for each certificate that was judged, the leaf first.
        findings: what let something pass, and what should be known of the answers.
        window: the moments for which this may be remembered.
    """

    statuses: tuple[CertificateStatus, ...]
    findings: tuple[Finding, ...]
    window: Window


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What is asked about one certificate, and what was wrong with answers; `above` are the authorities above the issuer."""

    certificate: EidasCertificate
    issuer: EidasCertificate
    at: datetime
    window: Window
    budget: Budget
    above: tuple[EidasCertificate, ...] = ()
    lists_only: bool = False
    faults: list[Finding] = field(default_factory=list)


def refuse_revoked(certificate: EidasCertificate, answer: Answer) -> NoReturn:
    """Refuse what an answer says was revoked."""
    when = "" if answer.revoked_at is None else f" on {format_time(answer.revoked_at)}"
    raise CertificateRejected(
        "revocation.revoked",
        f"{certificate.subject} was revoked{when} ({answer.reason or 'no reason given'}), as"
        f" {answer.signer.subject} says by {answer.source} of {format_time(answer.this_update)}",
        clause=_CLAUSE,
    )


def fail(inquiry: Inquiry, *, is_soft: bool, is_stale: bool) -> tuple[CertificateStatus, list[Finding]]:
    """Refuse, or let pass with a warning where that is soft, what nothing usable is known of."""
    certificate, at, faults = inquiry.certificate, inquiry.at, inquiry.faults
    code = "revocation.stale" if is_stale else "revocation.unknown"
    what = "only answers of another time say" if is_stale else "nothing says"
    reasons = "; ".join(dict.fromkeys(fault.message for fault in faults))
    message = f"{what} whether {certificate.subject} was revoked at {format_time(at)}" + (
        f": {reasons[:400]}" if reasons else ""
    )
    if not is_soft:
        raise CertificateRejected(code, message, clause=_CLAUSE, findings=tuple(faults))
    inquiry.window.narrow(at, shift(at, RETRY_AFTER))
    unknown = CertificateStatus(certificate, State.UNKNOWN)
    return unknown, [Finding(code, Severity.WARNING, message, _CLAUSE), *faults]


def refuse_held(inquiry: Inquiry, answer: Answer) -> NoReturn:
    """Refuse what was last heard of as on hold.

    Whatever the policy: a soft failure lets pass what nobody spoke against, and here somebody did.
    """
    raise CertificateRejected(
        "revocation.stale",
        f"{inquiry.certificate.subject} was on hold when last heard of, as {answer.signer.subject} says by {answer.source} of"
        f" {format_time(answer.this_update)}, and no answer for {format_time(inquiry.at)} says that the hold was lifted",
        clause=_CLAUSE,
        findings=tuple(inquiry.faults),
    )


def status_of(certificate: EidasCertificate, answer: Answer) -> CertificateStatus:
    """The status of a certificate that is good."""
    return CertificateStatus(
        certificate, State.GOOD, answer.source, answer.sha256, answer.this_update, answer.next_update,
        answer.produced_at, answer.signer, answer.revoked_at, answer.reason,
    )  # fmt: skip


def invalid_earlier(certificate: EidasCertificate, answer: Answer, at: datetime) -> list[Finding]:
    """What should be known of a certificate that was good, and whose key is thought to have been lost before."""
    if answer.invalid_since is None or answer.invalid_since > at:
        return []
    return [
        Finding(
            "revocation.invalidity-date", Severity.WARNING,
            f"{certificate.subject} was revoked later, but its key is thought lost since"
            f" {format_time(answer.invalid_since)}, before {format_time(at)}",
            "RFC 5280 section 5.3.2",
        )
    ]  # fmt: skip
