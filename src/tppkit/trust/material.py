"""Trust material: authorities, trusted lists and answers about revocation, and what they prove of a certificate together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType

from tppkit._cache import Cache
from tppkit._clock import as_utc
from tppkit._files import FilePath
from tppkit.certificates import EidasCertificate, Use, check_certificate
from tppkit.errors import CertificateRejected, ConfigurationError, Finding, Severity
from tppkit.trust.anchors import Anchors, load_anchors, load_public_keys
from tppkit.trust.path.verifier import PathVerifier, TrustedPath
from tppkit.trust.revocation.checker import RevocationChecker
from tppkit.trust.revocation.outcome import RevocationPolicy
from tppkit.trust.revocation.retained import RevocationEvidence
from tppkit.trust.trusted_list.folder import load_trusted_lists
from tppkit.trust.trusted_list.lists import QualifiedStatus, TrustedLists
from tppkit.trust.trusted_list.qualified_status import Purpose

PURPOSES: Mapping[Use, Purpose] = MappingProxyType({Use.QWAC: "web", Use.QSEALC: "eseal"})
_REMEMBERED = 512
_NO_ANSWERS = RevocationEvidence()


@dataclass(frozen=True, slots=True)
class TrustReport:
    """What was found about a certificate.

    Attributes:
        findings: about its profile; then why it is not trusted, and what should be known.
        path: the chain that holds; None if none does or no authorities were given.
        status: what the trusted lists state; None without lists.
    """

    findings: tuple[Finding, ...] = ()
    path: TrustedPath | None = None
    status: QualifiedStatus | None = None


class TrustMaterial:
    """What certificates are trusted by. With trusted lists, a certificate must also be qualified for its use.

        material = load_trust(trust="pki", trusted_lists="lists", now=utc_now())
        policy = SealPolicy(material)
        check_trust(certificate, as_=Use.QSEALC, at=received_at, material=material).findings

    Args:
        anchors: the authorities; None for those that the lists grant for the use at the time.
        lists: the trusted lists; None to check no qualification.
        revocation: checks revocation; None to check none.
        answers: the answers by which `revocation` checks, for `with_answers`.
        keys: SHA-256 of public keys (SubjectPublicKeyInfo in DER), hexadecimal, that sign without certificates, as callbacks are.
    """

    def __init__(
        self,
        anchors: Anchors | None = None,
        *,
        lists: TrustedLists | None = None,
        revocation: RevocationChecker | None = None,
        answers: RevocationEvidence = _NO_ANSWERS,
        keys: frozenset[str] = frozenset(),
    ) -> None:
        self.keys = keys
        self.anchors = anchors
        self.lists = lists
        self.revocation = revocation
        self._answers = answers
        self._verifiers = Cache[tuple[str, ...], PathVerifier](_REMEMBERED)
        self._qualified = Cache[tuple[bytes, Use], tuple[TrustedPath, TrustedPath]](_REMEMBERED)

    @property
    def has_anchors(self) -> bool:
        """Whether there are authorities, so that a chain can be checked."""
        return self.anchors is not None or self.lists is not None

    def anchors_for(self, use: Use, at: datetime) -> Anchors:
        """The authorities that a certificate of this use must chain to.

        Raises:
            ConfigurationError: `trust.no-anchors`, no authorities were given, or no list grants one at the time.
        """
        if self.anchors is not None:
            return self.anchors
        if self.lists is None:
            raise ConfigurationError("trust.no-anchors", "no authorities were given: give anchors or trusted lists")
        return self.lists.make_anchors(purpose=PURPOSES[use], at=at)

    def verify_use(
        self, certificate: EidasCertificate, *, as_: Use, at: datetime, intermediates: Sequence[EidasCertificate] = ()
    ) -> TrustedPath:
        """Check that a certificate fits its use, chains to an authority and, with trusted lists, is qualified, at a time.

        Args:
            certificate: the end entity.
            as_: what it is used as.
            at: the time to judge at, aware.
            intermediates: further authorities, trusted only through an anchor.

        Raises:
            CertificateRejected: as `PathVerifier.verify_use` and `TrustedLists.verify_qualified`; `trust.no-anchors`, no list
                grants an authority for this use at the time.
            ConfigurationError: `time.naive`.
        """
        at = as_utc(at)
        try:
            anchors = self.anchors_for(as_, at)
        except ConfigurationError as e:  # a fact about the time, not a wrong setting
            raise CertificateRejected(e.code, e.message, clause=e.clause) from e
        path = self._verifier(anchors).verify_use(certificate, as_=as_, at=at, intermediates=intermediates)
        if self.lists is None:
            return path
        known = self._qualified.get((certificate.der, as_))
        if known is not None and known[0] is path:
            return known[1]
        return self._qualify(self.lists, certificate, as_, at, (*anchors.intermediates, *intermediates), path)

    def with_answers(self, answers: RevocationEvidence, *, now: datetime | None) -> TrustMaterial:
        """Return this material with further answers about revocation, which must prove each end entity good.

        Args:
            answers: the CRLs and OCSP responses.
            now: the present, or the time to judge at if that is later; answers dated after it prove nothing good. None accepts
                those of any time.
        """
        every = self._answers + answers
        checker = RevocationChecker(
            policy=RevocationPolicy.HARD_FAIL_LEAF,
            evidence=every,
            now=None if now is None else lambda: now,
            remember=timedelta.max,  # no news comes while the files are the same
        )
        return TrustMaterial(self.anchors, lists=self.lists, revocation=checker, answers=every, keys=self.keys)

    def _verifier(self, anchors: Anchors) -> PathVerifier:
        roots = tuple(root.sha256 for root in anchors.roots)
        verifier = self._verifiers.get(roots)
        if verifier is None:
            verifier = PathVerifier(anchors, revocation=self.revocation)
            self._verifiers.put(roots, verifier)
        return verifier

    def _qualify(
        self,
        lists: TrustedLists,
        certificate: EidasCertificate,
        use: Use,
        at: datetime,
        intermediates: Sequence[EidasCertificate],
        path: TrustedPath,
    ) -> TrustedPath:
        status = lists.verify_qualified(certificate, purpose=PURPOSES[use], at=at, intermediates=intermediates)
        # The verifier remembers the path for its window, so the window must end where the lists may answer otherwise.
        is_direct = status.listing is not None and status.listing.issuer.direct
        path.window.narrow(*(lists.steady_around(at) if is_direct else (at, at)))
        used = (lists.list_of_lists, None if status.listing is None else status.listing.issuer.trusted_list)
        qualified = replace(path, lists=MappingProxyType({one.sha256: one.xml for one in used if one is not None}))
        self._qualified.put((certificate.der, use), (path, qualified))
        return qualified


def check_trust(
    certificate: EidasCertificate,
    *,
    as_: Use,
    at: datetime,
    material: TrustMaterial,
    intermediates: Sequence[EidasCertificate] = (),
    edition: str | None = None,
) -> TrustReport:
    """Find everything against a certificate at a time: profile, qualified status, chain and revocation; never raises on content.

        report = check_trust(qwac, as_=Use.QWAC, at=received_at, material=load_trust(trust="pki", now=utc_now()))
        [(finding.severity, finding.code) for finding in report.findings]

    `TrustMaterial.verify_use` decides the same, but stops at the first failure, remembers what holds, and passes over rules of the
    profile for which no relying party rejects a certificate. Here nothing is remembered between calls: one certificate is not trusted
    by the intermediates of another.

    Args:
        certificate: the end entity.
        as_: what it is used as.
        at: the time to judge at, aware.
        material: the authorities, lists and answers.
        intermediates: further authorities, trusted only through an anchor.
        edition: as for `certificates.check_certificate`.

    Raises:
        ConfigurationError: `time.naive`, `rules.edition`.
    """
    profile = check_certificate(certificate, as_=as_, at=at, edition=edition)
    report = _ask_material(certificate, as_, as_utc(at), material, intermediates)
    known = {(finding.code, finding.severity) for finding in profile}
    more = tuple(finding for finding in report.findings if (finding.code, finding.severity) not in known)
    return replace(report, findings=profile + more)


def _ask_material(
    certificate: EidasCertificate,
    as_: Use,
    at: datetime,
    material: TrustMaterial,
    intermediates: Sequence[EidasCertificate],
) -> TrustReport:
    known = () if material.anchors is None else material.anchors.intermediates
    status, findings = _ask_lists(certificate, as_, at, material.lists, (*known, *intermediates))
    if not material.has_anchors:
        return TrustReport(findings, None, status)
    try:
        anchors = material.anchors_for(as_, at)
    except ConfigurationError as e:
        return TrustReport(_with_refusal(findings, e), None, status)
    try:
        path = PathVerifier(anchors, revocation=material.revocation).verify(
            certificate, at=at, intermediates=intermediates
        )
    except (CertificateRejected, ConfigurationError) as e:
        passed_over = tuple(finding for finding in anchors.findings if finding.severity is Severity.WARNING)
        own = e.findings if isinstance(e, CertificateRejected) else ()
        return TrustReport(_with_refusal((*findings, *own, *passed_over), e), None, status)
    return TrustReport((*findings, *path.findings), path, status)


def _ask_lists(
    certificate: EidasCertificate,
    use: Use,
    at: datetime,
    lists: TrustedLists | None,
    intermediates: Sequence[EidasCertificate],
) -> tuple[QualifiedStatus | None, tuple[Finding, ...]]:
    if lists is None:
        return None, ()
    status = lists.status(certificate, at=at, intermediates=intermediates)
    try:
        status.require_purpose(PURPOSES[use])
    except CertificateRejected as e:
        return status, _with_refusal(status.findings, e)
    return status, status.findings


def _with_refusal(
    findings: tuple[Finding, ...], refusal: CertificateRejected | ConfigurationError
) -> tuple[Finding, ...]:
    """The findings with the refusal's own error among them: those that it carries may all be warnings."""
    if any(finding.code == refusal.code and finding.severity is Severity.ERROR for finding in findings):
        return findings
    return (*findings, Finding(refusal.code, Severity.ERROR, refusal.message, refusal.clause))


def load_trust(
    *,
    trust: FilePath | None = None,
    trusted_lists: FilePath | None = None,
    answers: RevocationEvidence | None = None,
    now: datetime,
) -> TrustMaterial:
    """Read trust material from files.

        material = load_trust(trust="pki", answers=load_revocation(["issuing.crl"]), now=utc_now())
        policy = SealPolicy(material)

    With answers, the end entity must be proven good; an authority above it without a usable answer gives a warning.

    Args:
        trust: authorities, a file or folder, as for `load_anchors`; in it also public keys in PEM (.pem, .pub), for callbacks.
        trusted_lists: a folder of trusted lists, as for `load_trusted_lists`.
        answers: CRLs and OCSP responses; None to check no revocation.
        now: the present, or the time to judge at if that is later; answers dated after it prove nothing good.

    Raises:
        ConfigurationError: `trust.no-anchors`, also for answers without authorities; `trust.unreadable`; and as
            `load_trusted_lists`.
        FormatError, VerificationError: as `load_trusted_lists`.
    """
    if answers is not None and trust is None and trusted_lists is None:
        message = "answers about revocation are proven by authorities: give --trust or --trusted-lists too"
        raise ConfigurationError("trust.no-anchors", message)
    anchors = None if trust is None else load_anchors(trust)
    lists = None if trusted_lists is None else load_trusted_lists(trusted_lists)
    material = TrustMaterial(anchors, lists=lists, keys=frozenset() if trust is None else load_public_keys(trust))
    return material if answers is None else material.with_answers(answers, now=now)
