"""Trust material: authorities, trusted lists and answers about revocation, and what they prove of a certificate together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType

from tppkit._cache import Cache
from tppkit._clock import as_utc
from tppkit._files import FilePath
from tppkit.certificates import EidasCertificate, Use
from tppkit.errors import CertificateRejected, ConfigurationError
from tppkit.trust.anchors import Anchors, load_anchors, load_public_keys
from tppkit.trust.path.verifier import PathVerifier
from tppkit.trust.report import REMEMBERED, TrustReport, UseVerifier, check_profile
from tppkit.trust.revocation.checker import RevocationChecker
from tppkit.trust.revocation.outcome import RevocationPolicy
from tppkit.trust.revocation.retained import RevocationEvidence
from tppkit.trust.trusted_list.folder import load_trusted_lists
from tppkit.trust.trusted_list.lists import QualifiedStatus, TrustedLists
from tppkit.trust.trusted_list.qualified_status import Purpose

PURPOSES: Mapping[Use, Purpose] = MappingProxyType({Use.QWAC: "web", Use.QSEALC: "eseal"})
_NO_ANSWERS = RevocationEvidence()


class TrustMaterial(UseVerifier):
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
        super().__init__()
        self.keys = keys
        self.anchors = anchors
        self.lists = lists
        self.revocation = revocation
        self._answers = answers
        self._verifiers = Cache[tuple[str, ...], PathVerifier](REMEMBERED)

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
        """Find everything against a certificate, as `check_trust`."""
        at = as_utc(at)
        try:
            anchors = self.anchors_for(as_, at)
        except ConfigurationError as e:  # with lists a fact about the time, not a wrong setting
            report = check_profile(certificate, as_=as_, at=at, edition=edition, essential_only=essential_only)
            if self.has_anchors:
                report = report.add((), CertificateRejected(e.code, e.message, clause=e.clause))
        else:
            report = self._verifier(anchors).check_use(
                certificate, as_=as_, at=at, intermediates=intermediates, edition=edition, essential_only=essential_only
            )
        if self.lists is None:
            return report
        known = () if self.anchors is None else self.anchors.intermediates
        status = self.lists.status(certificate, at=at, intermediates=(*known, *intermediates))
        report = replace(report, status=status)
        try:
            status.require_purpose(PURPOSES[as_])
        except CertificateRejected as e:
            return report.add(status.findings, e)
        return _qualify(report.add(status.findings), self.lists, status)

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


def _qualify(report: TrustReport, lists: TrustedLists, status: QualifiedStatus) -> TrustReport:
    """Return the report with the lists that qualify the certificate, and a window that ends where they may answer otherwise."""
    path = report.path
    if path is None:
        return report
    is_direct = status.listing is not None and status.listing.issuer.direct
    path.window.narrow(*(lists.steady_around(status.at) if is_direct else (status.at, status.at)))
    used = (lists.list_of_lists, None if status.listing is None else status.listing.issuer.trusted_list)
    files = MappingProxyType({one.sha256: one.xml for one in used if one is not None})
    return replace(report, path=replace(path, lists=files))


def check_trust(
    certificate: EidasCertificate,
    *,
    as_: Use,
    at: datetime,
    material: UseVerifier,
    intermediates: Sequence[EidasCertificate] = (),
    edition: str | None = None,
    essential_only: bool = False,
) -> TrustReport:
    """Find everything against a certificate at a time: profile, chain, revocation and qualified status; never raises on content.

        report = check_trust(qwac, as_=Use.QWAC, at=received_at, material=load_trust(trust="pki", now=utc_now()))
        [(finding.severity, finding.code) for finding in report.findings]

    Nothing is remembered between calls: one certificate is not trusted by the intermediates of another. `verify_use` of the material
    raises the first error of the report for the essential rules, or else returns the path, and remembers it. No address in a
    certificate is contacted if its profile or its chain fails.

    Args:
        certificate: the end entity.
        as_: what it is used as.
        at: the time to judge at, aware.
        material: the authorities, lists and answers: a `TrustMaterial`, or a `PathVerifier` for no lists.
        intermediates: further authorities, trusted only through an anchor.
        edition: as for `certificates.check_certificate`.
        essential_only: of the profile, only the rules for which a relying party rejects a certificate.

    Raises:
        ConfigurationError: `time.naive`, `rules.edition`; `trust.unreadable`, names or extensions of every anchor are malformed.
    """
    return material.check_use(
        certificate, as_=as_, at=at, intermediates=intermediates, edition=edition, essential_only=essential_only
    )


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
