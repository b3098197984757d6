"""Whom `tppkit cert check` believes, and what that says of a certificate: the trust options, loaded and asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tppkit._clock import format_time
from tppkit.certificates import Use
from tppkit.cli.certificates import Bundle, tell_unreadable
from tppkit.cli.revocation import make_checker, revocation_object
from tppkit.errors import CertificateRejected, ConfigurationError, Finding, FormatError, Severity
from tppkit.trust import (
    Anchors,
    PathVerifier,
    Purpose,
    QualifiedStatus,
    RevocationChecker,
    RevocationEvidence,
    TrustedLists,
    TrustedPath,
    load_anchors,
    load_revocation,
    load_trusted_lists,
)

_PURPOSES: Mapping[Use, Purpose] = {Use.QWAC: "web", Use.QSEALC: "eseal"}


@dataclass(frozen=True, slots=True)
class Belief:
    """What was proven of a certificate beyond its profile.

    Attributes:
        findings: why it is not believed, and what should be known.
        path: the chain that holds, None when none does or none was asked for.
        status: what the trusted lists say, None when they were not asked.
        is_revocation_known: answers about revocation were given.
    """

    findings: tuple[Finding, ...] = ()
    path: TrustedPath | None = None
    status: QualifiedStatus | None = None
    is_revocation_known: bool = False

    def as_object(self) -> Mapping[str, Any]:
        """The same as JSON; null for what was not asked or not proven."""
        return {
            "chain": self.path and [str(certificate.subject) for certificate in self.path.chain],
            "revocation": revocation_object(self.path, asked=self.is_revocation_known),
            "trusted_list": self.status and _listing_object(self.status),
        }


@dataclass(frozen=True, slots=True)
class TrustOptions:
    """The options about trust, read.

    Attributes:
        anchors: the authorities of --trust; None without it.
        lists: the trusted lists; None without them.
        checker: Checks revocation by the given CRLs and OCSP responses; None without any. All files share it, so that
            the signature of a long list is verified once.
    """

    anchors: Anchors | None
    lists: TrustedLists | None
    checker: RevocationChecker | None

    @property
    def has_anchors(self) -> bool:
        """Whether authorities were given, so that a chain is checked."""
        return self.anchors is not None or self.lists is not None

    def judge(self, bundle: Bundle, *, as_: Use, at: datetime) -> Belief:
        """Ask everything that was given about a certificate, at a time.

        Args:
            bundle: the certificate, and what may stand above it.
            as_: what it is used as.
            at: the time to judge at, aware.
        """
        status, findings = self._ask_lists(bundle, as_, at)
        path: TrustedPath | None = None
        if self.has_anchors:
            passed_over: tuple[Finding, ...] = ()
            try:
                anchors = self.anchors or self._listed_authorities(as_, at)
                passed_over = tuple(f for f in anchors.findings if f.severity is Severity.WARNING)
                # A verifier remembers chains: a shared one would accept a file by the intermediates of another file.
                verifier = PathVerifier(anchors, revocation=self.checker)
                path = verifier.verify(bundle.leaf, at=at, intermediates=bundle.others)
                findings += path.findings
            except CertificateRejected as e:
                findings = _with_refusal((*findings, *e.findings, *passed_over), e)
            except ConfigurationError as e:  # no list grants an authority for this use at the time
                findings = _with_refusal(findings, e)
        return Belief(findings, path, status, self.checker is not None)

    def _listed_authorities(self, as_: Use, at: datetime) -> Anchors:
        lists = self.lists or TrustedLists(())
        return lists.make_anchors(purpose=_PURPOSES[as_], at=at)

    def _ask_lists(self, bundle: Bundle, as_: Use, at: datetime) -> tuple[QualifiedStatus | None, tuple[Finding, ...]]:
        if self.lists is None:
            return None, ()
        status = self.lists.status(bundle.leaf, at=at, intermediates=bundle.others)
        try:
            self.lists.verify_qualified(bundle.leaf, purpose=_PURPOSES[as_], at=at, intermediates=bundle.others)
        except CertificateRejected as e:
            return status, _with_refusal(status.findings, e)
        return status, status.findings


def _with_refusal(
    findings: tuple[Finding, ...], refusal: CertificateRejected | ConfigurationError
) -> tuple[Finding, ...]:
    """The findings with the refusal's own error among them: what it carries may be warnings only."""
    if any(finding.code == refusal.code and finding.severity is Severity.ERROR for finding in findings):
        return findings
    return (*findings, Finding(refusal.code, Severity.ERROR, refusal.message, refusal.clause))


def load_trust(
    trust: Path | None, trusted_lists: Path | None, answers: Iterable[Path], *, now: datetime, as_json: bool
) -> TrustOptions | None:
    """Read what the options name; None when an answer cannot be read, which has been told then.

    Args:
        trust: authorities, a file or folder.
        trusted_lists: a folder of trusted lists.
        answers: CRLs and OCSP responses.
        now: the present, or the time to judge at if that is later; newer answers are refused.
        as_json: tell it as JSON.

    Raises:
        ConfigurationError: `trust.no-anchors`, also for answers without authorities; `trust.unreadable`; and as
            `load_trusted_lists`.
    """
    paths = tuple(answers)
    if paths and trust is None and trusted_lists is None:
        message = "answers about revocation are proven by authorities: give --trust or --trusted-lists too"
        raise ConfigurationError("trust.no-anchors", message)
    evidence = RevocationEvidence()
    for path in paths:
        try:
            evidence += load_revocation([path])
        except FormatError as e:
            tell_unreadable(str(path), e, as_json=as_json)
            return None
    return TrustOptions(
        None if trust is None else load_anchors(trust),
        None if trusted_lists is None else load_trusted_lists(trusted_lists),
        make_checker(evidence if paths else None, now=now),
    )


def _listing_object(status: QualifiedStatus) -> dict[str, Any]:
    listing = status.listing
    return {
        "code": status.code,
        "qualified_for": list(status.qualified_for),
        "with_device": status.with_device,
        "service": listing and listing.instance.name,
        "provider": listing and listing.issuer.provider.name,
        "territory": listing and listing.issuer.trusted_list.territory,
        "status": listing and listing.instance.status,
        "status_since": listing and format_time(listing.instance.since),
    }
