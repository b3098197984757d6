"""Whether a certificate chains to a trusted authority at a time.

Candidates are found by names (`candidates`). Each is checked by RFC 5280 section 6 (`chain_rules`), then by `revocation` if there
is a checker. If one candidate fails, another may hold, unless a valid chain proves the end entity itself revoked.
Whether an end entity fits a use is checked by `tppkit.certificates.rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from types import MappingProxyType

from tppkit._cache import Cache
from tppkit._clock import as_utc, format_time
from tppkit.certificates import EidasCertificate, Use
from tppkit.errors import CertificateRejected, ConfigurationError, Finding, LeafRevoked, Severity
from tppkit.trust.anchors import Anchors
from tppkit.trust.path.candidates import find_chains, make_authorities, may_be_key_of
from tppkit.trust.path.chain_rules import RULES, lacking_purposes, require_validity
from tppkit.trust.path.links import Link, read_link
from tppkit.trust.path.strength import check_signatures
from tppkit.trust.path.window import Window
from tppkit.trust.report import REMEMBERED, TrustReport, UseVerifier, check_profile
from tppkit.trust.revocation.checker import RevocationChecker
from tppkit.trust.revocation.outcome import CertificateStatus

MAX_SIGNED_CANDIDATES = 32
MAX_REVOCATION_CHECKS = 4
# A path holds OCSP responses, which the checker may soon replace by those of others, but not long CRLs, which it keeps.
MAX_HELD = 16 * 1024
_NO_FILES: Mapping[str, bytes] = MappingProxyType({})
_SIGNATURES = RULES.index(check_signatures)


@dataclass(frozen=True, slots=True)
class TrustedPath:
    """A valid chain.

    Attributes:
        chain: the certificate first, the anchor last.
        window: the period for which this verdict may be cached; check it each time, as a revocation may end it.
        revocation: the status of each certificate below the anchor, the leaf first; empty without a revocation check.
        findings: warnings about purposes that an authority does not allow; warnings and notices of the revocation check.
        lists: the trusted lists that qualify the certificate, XML by SHA-256; empty without trusted lists.
    """

    chain: tuple[EidasCertificate, ...]
    window: Window = field(compare=False)
    revocation: tuple[CertificateStatus, ...] = ()
    findings: tuple[Finding, ...] = ()
    lists: Mapping[str, bytes] = field(default_factory=lambda: _NO_FILES, compare=False, repr=False)
    _answers: Mapping[str, bytes | None] = field(default_factory=lambda: _NO_FILES, compare=False, repr=False)
    _raw: Callable[[str], bytes | None] = field(default=lambda _: None, compare=False, repr=False)

    @property
    def answers(self) -> Mapping[str, bytes]:
        """The CRLs and OCSP responses that prove `revocation`, DER by SHA-256 (lower-case hexadecimal), to keep as evidence.

        A CRL that the checker has replaced since is missing.
        """
        found = {sha256: self._raw(sha256) if der is None else der for sha256, der in self._answers.items()}
        return {sha256: der for sha256, der in found.items() if der is not None}

    def holds_at(self, at: datetime) -> bool:
        """Whether the verdict may be used for `at` (aware) without a new check."""
        return self.window.holds_at(at)


class PathVerifier(UseVerifier):
    """Checks chains to fixed anchors, and caches the valid ones (at most 512).

        paths = PathVerifier(load_anchors("pki"))
        paths.verify(certificate, at=received_at).chain
        paths.verify_use(qwac, as_=Use.QWAC, at=received_at)

    A verdict is cached for the period in which every certificate of the chain is valid and, with revocation, for which the
    evidence proves it.

    Args:
        anchors: the trusted authorities.
        revocation: checks revocation; None to check none.

    Raises:
        ConfigurationError: `trust.no-anchors`; `trust.unreadable`, names or extensions of every anchor are malformed.
    """

    def __init__(self, anchors: Anchors, *, revocation: RevocationChecker | None = None) -> None:
        super().__init__()
        if not anchors.roots:
            raise ConfigurationError(
                "trust.no-anchors",
                "no certification authority is given as an anchor: give the certificates of the authorities",
            )
        self.anchors = anchors
        self.revocation = revocation
        roots = _readable(anchors.roots)  # a root that cannot be read must not disable the others
        if not roots:
            raise ConfigurationError("trust.unreadable", "the names or extensions of every anchor are malformed")
        self._authorities = make_authorities(roots, _readable(anchors.intermediates))
        self._remembered = Cache[bytes, TrustedPath](REMEMBERED)

    def verify(
        self, certificate: EidasCertificate, *, at: datetime, intermediates: Sequence[EidasCertificate] = ()
    ) -> TrustedPath:
        """Build a chain from `certificate` to an anchor, valid at a time.

        Args:
            certificate: the end entity.
            at: the time to judge at, aware.
            intermediates: further authorities, for example those the peer sent; trusted only through an anchor.

        Raises:
            CertificateRejected: `certificate.not-yet-valid`, `certificate.expired`; `trust.no-path`, no chain leads to an
                anchor; `path.*`, a chain does but is rejected, with the code of the one that passed most; `revocation.*`.
            ConfigurationError: `time.naive`.
        """
        at = as_utc(at)
        known = self._remembered.get(certificate.der)
        if known is not None and known.window.not_before <= at <= known.window.not_after:
            return known
        require_validity(certificate, at)
        path = self._build(certificate, at, intermediates, self.revocation)
        self._remembered.put(certificate.der, path)
        return path

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
        """Find everything against the profile, the chain and the revocation of a certificate, as `trust.check_trust`."""
        report = check_profile(certificate, as_=as_, at=at, edition=edition, essential_only=essential_only)
        at = as_utc(at)
        # The addresses that a rejected certificate names are not contacted.
        is_asked = report.refusal is None or self.revocation is None or not self.revocation.can_fetch
        try:
            require_validity(certificate, at)
            path = self._build(certificate, at, intermediates, self.revocation if is_asked else None)
        except CertificateRejected as e:
            passed_over = tuple(finding for finding in self.anchors.findings if finding.severity is Severity.WARNING)
            return report.add((*e.findings, *passed_over), e)
        return replace(report.add(path.findings), path=path)

    def _build(
        self,
        certificate: EidasCertificate,
        at: datetime,
        intermediates: Sequence[EidasCertificate],
        revocation: RevocationChecker | None,
    ) -> TrustedPath:
        authorities = self._authorities
        if intermediates:
            authorities = authorities.with_more(_readable(intermediates))
        furthest: tuple[int, CertificateRejected | None] = (-1, None)
        signed = asked = 0
        for chain in find_chains(authorities, read_link(certificate), at):
            step = 0
            try:
                for rule in RULES:
                    rule(chain, at)
                    step += 1
                return _ask_revocation(chain, at, revocation)
            except LeafRevoked:
                # The peer may send another certificate of the authority, which hides the list from the next candidate.
                raise
            except CertificateRejected as e:
                # If a key identifier contradicts the candidate, its failure says nothing about the certificate.
                if step > furthest[0] and all(may_be_key_of(issuer, link) for link, issuer in pairwise(chain)):
                    furthest = (step, e)
                signed += step >= _SIGNATURES
                asked += step == len(RULES)
                if signed >= MAX_SIGNED_CANDIDATES or asked >= MAX_REVOCATION_CHECKS:
                    break
        raise furthest[1] or CertificateRejected(
            "trust.no-path",
            f"no chain leads from {certificate.subject} (issued by {certificate.issuer}) to a trusted authority"
            f" at {format_time(at)}",
            clause="RFC 5280 section 6",
        )


def _ask_revocation(chain: Sequence[Link], at: datetime, revocation: RevocationChecker | None) -> TrustedPath:
    certificates = tuple(link.certificate for link in chain)
    begins, ends = max(c.not_before for c in certificates), min(c.not_after for c in certificates)
    if revocation is None:
        return TrustedPath(certificates, Window(begins, ends), findings=tuple(lacking_purposes(chain)))
    proven = revocation.check(certificates, at=at)
    proven.window.narrow(begins, ends)
    findings = (*lacking_purposes(chain), *proven.findings)
    used = {status.answer.sha256 for status in proven.statuses if status.answer is not None}
    raw = {sha256: revocation.raw(sha256) for sha256 in used}
    answers = {sha256: der if der and len(der) <= MAX_HELD else None for sha256, der in raw.items()}
    return TrustedPath(certificates, proven.window, proven.statuses, findings, _answers=answers, _raw=revocation.raw)


def _readable(certificates: Iterable[EidasCertificate]) -> list[Link]:
    """The certificates whose names and extensions can be read, as links."""
    links = []
    for certificate in certificates:
        with suppress(CertificateRejected):
            links.append(read_link(certificate))
    return links
