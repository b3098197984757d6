"""Trust material: authorities, trusted lists and answers about revocation, and what they prove of a certificate together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from os import PathLike
from threading import Lock
from types import MappingProxyType
from weakref import WeakSet

from tppkit._cache import Cache
from tppkit._clock import Clock, as_utc, utc_now
from tppkit._files import FilePath, as_path
from tppkit.certificates import EidasCertificate, Use
from tppkit.errors import CertificateRejected, ConfigurationError
from tppkit.trust.anchors import Anchors
from tppkit.trust.material_files import NO_ANSWERS, MaterialFiles, MaterialTimes, Pacing, TrustParts, require_renewal
from tppkit.trust.path.verifier import PathVerifier
from tppkit.trust.path.window import Window
from tppkit.trust.report import REMEMBERED, TrustReport, UseVerifier, check_profile
from tppkit.trust.revocation.checker import RevocationChecker
from tppkit.trust.revocation.outcome import RevocationPolicy
from tppkit.trust.revocation.retained import RevocationEvidence
from tppkit.trust.trusted_list.lists import QualifiedStatus, TrustedLists
from tppkit.trust.trusted_list.qualified_status import Purpose

PURPOSES: Mapping[Use, Purpose] = MappingProxyType({Use.QWAC: "web", Use.QSEALC: "eseal"})


class _State:
    """What a reload replaces in one step: the parts, and what verifies by them.

    Args:
        parts: what certificates are trusted by.
        revocation: checks revocation; None to check none.
    """

    def __init__(self, parts: TrustParts, revocation: RevocationChecker | None) -> None:
        self.parts = parts
        self.revocation = revocation
        self._verifiers = Cache[tuple[str, ...], PathVerifier](REMEMBERED)

    def anchors_for(self, use: Use, at: datetime) -> Anchors:
        anchors, lists = self.parts.anchors, self.parts.lists
        if anchors is not None:
            return anchors
        if lists is None:
            raise ConfigurationError("trust.no-anchors", "no authorities were given: give anchors or trusted lists")
        return lists.make_anchors(purpose=PURPOSES[use], at=at)

    def verifier(self, anchors: Anchors) -> PathVerifier:
        roots = tuple(root.sha256 for root in anchors.roots)
        verifier = self._verifiers.get(roots)
        if verifier is None:
            verifier = PathVerifier(anchors, revocation=self.revocation)
            self._verifiers.put(roots, verifier)
        return verifier


class TrustMaterial(UseVerifier):
    """What certificates are trusted by. With trusted lists, a certificate must also be qualified for its use.

        material = load_trust(trust="pki", trusted_lists="lists")
        policy = SealPolicy(material)
        check_trust(certificate, as_=Use.QSEALC, at=received_at, material=material).findings

    Made by `load_trust`, it can be read again: see `reload`.

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
        answers: RevocationEvidence = NO_ANSWERS,
        keys: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__()
        self._state = _State(TrustParts(anchors, lists, answers, keys), revocation)
        self._files: MaterialFiles | None = None
        self._times: MaterialTimes | None = None
        self._now: Clock = utc_now
        self._windows = WeakSet[Window]()
        self._lock = Lock()

    @property
    def anchors(self) -> Anchors | None:
        """The authorities; None for those that the lists grant for the use at the time."""
        return self._state.parts.anchors

    @property
    def lists(self) -> TrustedLists | None:
        """The trusted lists; None if no qualification is checked."""
        return self._state.parts.lists

    @property
    def revocation(self) -> RevocationChecker | None:
        """Checks revocation; None if none is checked."""
        return self._state.revocation

    @property
    def keys(self) -> frozenset[str]:
        """SHA-256 of public keys that sign without certificates."""
        return self._state.parts.keys

    @property
    def has_anchors(self) -> bool:
        """Whether there are authorities, so that a chain can be checked."""
        return self.anchors is not None or self.lists is not None

    def anchors_for(self, use: Use, at: datetime) -> Anchors:
        """The authorities that a certificate of this use must chain to.

        Raises:
            ConfigurationError: `trust.no-anchors`, no authorities were given, or no list grants one at the time.
        """
        return self._state.anchors_for(use, at)

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
        at, state = as_utc(at), self._state
        lists = state.parts.lists
        try:
            anchors = state.anchors_for(as_, at)
        except ConfigurationError as e:  # with lists a fact about the time, not a wrong setting
            report = check_profile(certificate, as_=as_, at=at, edition=edition, essential_only=essential_only)
            if lists is not None:
                report = report.add((), CertificateRejected(e.code, e.message, clause=e.clause))
        else:
            report = state.verifier(anchors).check_use(
                certificate, as_=as_, at=at, intermediates=intermediates, edition=edition, essential_only=essential_only
            )
        if lists is not None:
            known = () if state.parts.anchors is None else state.parts.anchors.intermediates
            status = lists.status(certificate, at=at, intermediates=(*known, *intermediates))
            report = replace(report, status=status)
            try:
                status.require_purpose(PURPOSES[as_])
            except CertificateRejected as e:
                report = report.add(status.findings, e)
            else:
                report = _qualify(report.add(status.findings), lists, status)
        if report.path is not None:
            self._watch(report.path.window, state)
        return report

    def with_answers(self, answers: RevocationEvidence, *, now: datetime | None) -> TrustMaterial:
        """Return this material with further answers about revocation, which must prove each end entity good.

        Args:
            answers: the CRLs and OCSP responses.
            now: the present, or the time to judge at if that is later; answers dated after it prove nothing good. None accepts
                those of any time.
        """
        parts = self._state.parts
        every = (parts.answers or NO_ANSWERS) + answers
        checker = _make_checker(every, None if now is None else lambda: now)
        return TrustMaterial(parts.anchors, lists=parts.lists, revocation=checker, answers=every, keys=parts.keys)

    @property
    def has_changed(self) -> bool:
        """Whether its files changed since they were read, by their identities, sizes and times."""
        return self._files is not None and self._files.times() != self._times

    def reload(self, *, at: datetime | None = None) -> bool:
        """Read the files again, check them completely, and use them from the next request on.

            material = load_trust(trust="anchors", answers=["crls"])
            changed = await asyncio.to_thread(material.reload)

        All is replaced in one step, and every remembered verdict ends, also in the policies that use this material. After an error
        all stays as it was. No request waits for a reload, which rests often so that it leaves the interpreter to them: big lists take
        seconds. A `Reloader` calls it when files change.

        Args:
            at: the present time, aware; None for that of the clock of `load_trust`.

        Returns:
            Whether anything changed.

        Raises:
            ConfigurationError: `trust.no-source`, it was not made by `load_trust`; `trust.changing`; `trust.unreadable`, also for
                one file of authorities that could be read before; `trust.no-anchors`, also if none is valid now; see `load_trust`.
            FormatError: see `load_trust`.
            VerificationError: `trusted-list.*`, a list would be lost, or replaced by an older or expired one; `crl.rollback`,
                `crl.signature`, `crl.missing`, `revocation.stale`, `revocation.future`, the same for a CRL.
        """
        if self._files is None:
            raise ConfigurationError("trust.no-source", "this material was not read from files: use load_trust")
        at = as_utc(self._now() if at is None else at)
        while True:
            before, known = self._state, self._times
            parts, times = self._files.read(before.parts, known, pace=Pacing())
            require_renewal(parts, before.parts, at=at)
            is_same = parts.content == before.parts.content
            state = before if is_same else _State(parts, before.revocation)
            with self._lock:
                if self._times is not known:  # read by another thread, perhaps newer files
                    continue
                if not is_same and state.revocation is not None and parts.answers is not None:
                    # One checker for all states: verdicts in caches refer to it, and would keep the answers of each state.
                    state.revocation.replace(parts.answers)
                self._state = state
                if not is_same:
                    self._forget()
                self._times = times  # last: who reads `has_changed` without the lock may rely on what the files contain
            return not is_same

    def _watch(self, window: Window, state: _State) -> None:
        """End a verdict with the state that it was made by."""
        with self._lock:
            if state is self._state:
                self._windows.add(window)
                return
        window.close()

    def _forget(self) -> None:
        for window in self._windows:
            window.close()
        self._windows.clear()
        self._trusted.clear()


def _make_checker(answers: RevocationEvidence, now: Clock | None) -> RevocationChecker:
    return RevocationChecker(
        policy=RevocationPolicy.HARD_FAIL_LEAF,
        evidence=answers,
        now=now,
        remember=timedelta.max,  # no news comes while the files are the same
    )


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

        report = check_trust(qwac, as_=Use.QWAC, at=received_at, material=load_trust(trust="pki"))
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
    answers: RevocationEvidence | FilePath | Iterable[FilePath] | None = None,
    now: Clock | datetime = utc_now,
) -> TrustMaterial:
    """Read trust material from files, which `TrustMaterial.reload` and a `Reloader` read again.

        material = load_trust(trust="pki", answers=["crls", "leaf.ors"])
        with Reloader(material, every=60):
            serve(SealGate(PSD2, qwacs=QwacPolicy(material), seals=SealPolicy(material)))

    With answers, the end entity must be proven good; an authority above it without a usable answer gives a warning.

    Args:
        trust: authorities, a file or folder, as for `load_anchors`; in it also public keys in PEM (.pem, .pub), for callbacks.
        trusted_lists: a folder of trusted lists, as for `load_trusted_lists`.
        answers: files with CRLs and OCSP responses, and folders, of which files that end in .crl, .ocsp or .ors are read; or what
            `load_revocation` returned, which is not read again; None to check no revocation.
        now: the clock; or a time that stays the present, or the time to judge at if that is later. Answers dated after it prove
            nothing good.

    Raises:
        ConfigurationError: `trust.no-anchors`, also without authorities and lists; `trust.no-answers`; `trust.unreadable`;
            `trust.changing`; `time.naive`; `file.path`; and as `load_trusted_lists`.
        FormatError: as `load_revocation` and `load_trusted_lists`.
        VerificationError: as `load_trusted_lists`.
    """
    if trust is None and trusted_lists is None:
        message = "no authorities, by which answers about revocation are proven too: give --trust or --trusted-lists"
        raise ConfigurationError("trust.no-anchors", message)
    clock: Clock = (lambda: now) if isinstance(now, datetime) else now
    as_utc(clock())
    if isinstance(answers, str | PathLike):
        answers = (answers,)
    files = MaterialFiles(
        None if trust is None else as_path(trust),
        None if trusted_lists is None else as_path(trusted_lists),
        answers if answers is None or isinstance(answers, RevocationEvidence) else tuple(map(as_path, answers)),
    )
    parts, times = files.read()
    checker = None if parts.answers is None else _make_checker(parts.answers, clock)
    material = TrustMaterial()
    material._now, material._state = clock, _State(parts, checker)
    material._files, material._times = files, times
    return material
