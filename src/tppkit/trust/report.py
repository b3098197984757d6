"""What is found about a certificate for a use, and what is remembered of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from tppkit._cache import Cache
from tppkit._clock import as_utc
from tppkit.certificates import EidasCertificate, Use, check_certificate
from tppkit.certificates.rules import first_error
from tppkit.errors import CertificateRejected, Finding, Severity

if TYPE_CHECKING:
    from tppkit.trust.path.verifier import TrustedPath
    from tppkit.trust.trusted_list.lists import QualifiedStatus

REMEMBERED = 512


@dataclass(frozen=True, slots=True)
class TrustReport:
    """What was found about a certificate.

        report = check_trust(certificate, as_=Use.QSEALC, at=received_at, material=material)
        path = report.require()

    Attributes:
        findings: about its profile, then about its chain and revocation, then about its qualified status.
        path: the chain that holds; None if none does or no authorities were given.
        status: what the trusted lists state; None without lists.
        refusal: why it is not trusted, the first of the errors; None without errors.
    """

    findings: tuple[Finding, ...] = ()
    path: TrustedPath | None = None
    status: QualifiedStatus | None = None
    refusal: CertificateRejected | None = field(default=None, compare=False)

    def add(self, findings: tuple[Finding, ...], refusal: CertificateRejected | None = None) -> TrustReport:
        """Return this report with what a further check found, and its refusal; what was found before is not repeated."""
        known = {(finding.code, finding.severity) for finding in self.findings}
        if refusal is not None and (refusal.code, Severity.ERROR) not in {(f.code, f.severity) for f in findings}:
            findings += (Finding(refusal.code, Severity.ERROR, refusal.message, refusal.clause),)
        more = tuple(finding for finding in findings if (finding.code, finding.severity) not in known)
        return replace(self, findings=self.findings + more, refusal=self.refusal or refusal)

    def require(self) -> TrustedPath:
        """Return the chain, if there are no errors.

        Raises:
            CertificateRejected: the first error, with all findings; `trust.no-anchors`, no authorities were given.
        """
        if self.refusal is not None:
            first = self.refusal
            raise type(first)(first.code, first.message, clause=first.clause, findings=self.findings) from first
        if self.path is None:
            message = "no authorities were given: give anchors or trusted lists"
            raise CertificateRejected("trust.no-anchors", message, findings=self.findings)
        return self.path


def check_profile(
    certificate: EidasCertificate, *, as_: Use, at: datetime, edition: str | None, essential_only: bool
) -> TrustReport:
    """Report what `check_certificate` finds; the arguments and errors are its own."""
    findings = check_certificate(certificate, as_=as_, at=at, edition=edition, essential_only=essential_only)
    error = first_error(findings)
    if error is None:
        return TrustReport(findings)
    message = f"the {as_} certificate of {certificate.subject}: {error.message}"
    return TrustReport(findings, refusal=CertificateRejected(error.code, message, clause=error.clause))


class UseVerifier(ABC):
    """Verifies certificates for a use by `check_use`, and remembers the trusted ones (at most 512) while that holds."""

    def __init__(self) -> None:
        self._trusted: Cache[tuple[bytes, Use], TrustedPath] = Cache(REMEMBERED)

    @abstractmethod
    def check_use(
        self,
        certificate: EidasCertificate,
        *,
        as_: Use,
        at: datetime,
        intermediates: Sequence[EidasCertificate] = (),
        edition: str | None = None,
        essential_only: bool = False,
    ) -> TrustReport:
        """Find everything against a certificate, as `trust.check_trust`."""

    def verify_use(
        self, certificate: EidasCertificate, *, as_: Use, at: datetime, intermediates: Sequence[EidasCertificate] = ()
    ) -> TrustedPath:
        """Require that nothing speaks against a certificate for which a relying party rejects it.

        Args:
            certificate: the end entity.
            as_: what it is used as.
            at: the time to judge at, aware.
            intermediates: further authorities, for example those the peer sent; trusted only through an anchor.

        Raises:
            CertificateRejected: the first error of the profile (`certificates.rules`), the chain (as `PathVerifier.verify`) and the
                trusted lists (as `TrustedLists.verify_qualified`), with all findings; `trust.no-anchors`, no authorities were given,
                or no list grants one for this use at the time.
            ConfigurationError: `time.naive`; `trust.unreadable`, names or extensions of every anchor are malformed.
        """
        at = as_utc(at)
        key = certificate.der, as_
        known = self._trusted.get(key)
        if known is not None and known.window.not_before <= at <= known.window.not_after:
            return known
        path = self.check_use(certificate, as_=as_, at=at, intermediates=intermediates, essential_only=True).require()
        self._trusted.put(key, path)
        return path
