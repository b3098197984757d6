"""Whether the certificates of a chain were revoked, at a time.

Answers come from what the caller kept, from what was fetched before and is still fresh, and through a function that the caller
passes in. Nothing is fetched for a certificate whose chain does not hold otherwise, as the addresses stand in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from weakref import WeakSet

from tppkit._clock import format_time
from tppkit.certificates import EidasCertificate
from tppkit.errors import CertificateRejected, Finding, Severity, VerificationError
from tppkit.trust.fetching import Fetch
from tppkit.trust.path.window import Window
from tppkit.trust.revocation.answers import CLOCK_SKEW, ON_HOLD, Answer, Proof, prove
from tppkit.trust.revocation.crl import verify_crl
from tppkit.trust.revocation.fetched import MAX_FETCHES, Budget, Fetched, FetchedAnswers
from tppkit.trust.revocation.ocsp import verify_ocsp
from tppkit.trust.revocation.retained import RevocationEvidence
from tppkit.trust.revocation.status import CertificateStatus, State

RETRY = timedelta(minutes=1)
REMEMBER = timedelta(hours=1)
_REMEMBERED_REVOCATIONS = 1024
_CLAUSE = "RFC 5280 section 6.3; RFC 6960"


class RevocationPolicy(StrEnum):
    """What becomes of a chain when nothing usable says whether a certificate of it was revoked."""

    HARD_FAIL = "hard-fail"  # it is refused
    SOFT_FAIL = (
        "soft-fail"  # it holds, with a warning; a certificate that is known to be revoked is refused all the same
    )


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


class RevocationChecker:
    """Judges the revocation of chains; safe to share between threads.

    A verdict may be remembered while the answers behind it are fresh, at most for `remember`, and not beyond the moment at
    which `learn` brings news or a revocation is first seen: then every verdict given is closed.

    Args:
        policy: what to do when nothing usable is known.
        scope: which certificates are judged.
        evidence: answers that were kept.
        fetch: gets answers from the addresses in the certificates; None for never.
        make_nonce: makes 1 to 32 unforeseeable bytes for each OCSP question; None for none.
        require_nonce: whether a fetched response without the nonce is refused; many responders sign theirs in advance.
        now: the present; answers from after it are refused. None where evidence of any time is welcome.
        skew: by how much the clocks of the two sides may differ.
        remember: how long a verdict may be remembered at most.
    """

    def __init__(
        self,
        *,
        policy: RevocationPolicy = RevocationPolicy.HARD_FAIL,
        scope: RevocationScope = RevocationScope.CHAIN,
        evidence: RevocationEvidence | None = None,
        fetch: Fetch | None = None,
        make_nonce: Callable[[], bytes] | None = None,
        require_nonce: bool = False,
        now: Callable[[], datetime] | None = None,
        skew: timedelta = CLOCK_SKEW,
        remember: timedelta = REMEMBER,
    ) -> None:
        self.policy = policy
        self.scope = scope
        self._evidence = evidence or RevocationEvidence()
        self._fetch = fetch
        self._make_nonce = make_nonce
        self._require_nonce = require_nonce
        self._now = now
        self._skew = skew
        self._remember = remember
        self._lock = threading.Lock()
        self._windows: WeakSet[Window] = WeakSet()
        self._fetched = FetchedAnswers()
        self._revoked: set[str] = set()

    def learn(self, evidence: RevocationEvidence) -> None:
        """Take up further answers; every verdict given so far is closed and must be judged again."""
        with self._lock:
            self._evidence += evidence
        self._close_windows()

    def check(self, chain: Sequence[EidasCertificate], *, at: datetime) -> Statuses:
        """Judge a chain that holds otherwise.

        Args:
            chain: the leaf first, the anchor last; the anchor is not judged.
            at: the time to judge at, aware UTC.

        Raises:
            CertificateRejected: `revocation.revoked`; with a hard failure `revocation.stale` (answers are known, but too old,
                or too late, for the time) and `revocation.unknown` (none is usable), with what was wrong with each answer.
        """
        window = Window()
        with self._lock:
            self._windows.add(window)  # before any answer is read, so that news in between closes it
        budget = Budget(MAX_FETCHES)
        count = len(chain) - 1 if self.scope is RevocationScope.CHAIN else 1
        judged = [
            self._judge(certificate, issuer, at, window, budget) for certificate, issuer in pairwise(chain[: count + 1])
        ]
        findings = tuple(finding for _, found in judged for finding in found)
        return Statuses(tuple(status for status, _ in judged), findings, window)

    def _judge(
        self, certificate: EidasCertificate, issuer: EidasCertificate, at: datetime, window: Window, budget: Budget
    ) -> tuple[CertificateStatus, list[Finding]]:
        faults: list[Finding] = []
        is_stale = False
        for fetched, answers in self._answers(certificate, issuer, at, budget, faults):
            proofs = [(answer, prove(answer, certificate, at=at, skew=self._skew)) for answer in answers]
            is_stale = is_stale or any(proof is Proof.STALE for _, proof in proofs)
            best = _most_telling(proofs)
            if fetched is not None:
                self._note(fetched, at, is_of_use=best is not None)
            if best is not None:
                answer, proof = best
                status = self._conclude(certificate, answer, proof, at, window)
                return status, [*answer.findings, *_invalid_earlier(certificate, answer, at)]
        return self._fail(certificate, at, window, faults, is_stale)

    def _conclude(
        self, certificate: EidasCertificate, answer: Answer, proof: Proof, at: datetime, window: Window
    ) -> CertificateStatus:
        status = CertificateStatus(
            certificate, State.REVOKED if proof is Proof.REVOKED else State.GOOD, answer.source, answer.sha256,
            answer.this_update, answer.next_update, answer.produced_at, answer.signer, answer.revoked_at, answer.reason,
        )  # fmt: skip
        if proof is Proof.REVOKED:
            self._note_revocation(certificate)
            when = "" if answer.revoked_at is None else f" on {format_time(answer.revoked_at)}"
            raise CertificateRejected(
                "revocation.revoked",
                f"{certificate.subject} was revoked{when} ({answer.reason or 'no reason given'}), as"
                f" {answer.signer.subject} says by {answer.source} of {format_time(answer.this_update)}",
                clause=_CLAUSE,
            )
        until = min(answer.fresh_until, at + self._remember)
        if answer.revoked_at is not None:
            until = min(until, answer.revoked_at - timedelta(microseconds=1))
        window.narrow(certificate.not_before, max(until, at))
        return status

    def _fail(
        self, certificate: EidasCertificate, at: datetime, window: Window, faults: list[Finding], stale: bool
    ) -> tuple[CertificateStatus, list[Finding]]:
        code = "revocation.stale" if stale else "revocation.unknown"
        what = "only answers of another time say" if stale else "nothing says"
        reasons = "; ".join(dict.fromkeys(fault.message for fault in faults))
        message = f"{what} whether {certificate.subject} was revoked at {format_time(at)}" + (
            f": {reasons[:400]}" if reasons else ""
        )
        if self.policy is RevocationPolicy.HARD_FAIL:
            raise CertificateRejected(code, message, clause=_CLAUSE, findings=tuple(faults))
        window.narrow(at, at + RETRY)
        unknown = CertificateStatus(certificate, State.UNKNOWN)
        return unknown, [Finding(code, Severity.WARNING, message, _CLAUSE), *faults]

    def _answers(
        self,
        certificate: EidasCertificate,
        issuer: EidasCertificate,
        at: datetime,
        budget: Budget,
        faults: list[Finding],
    ) -> Iterator[tuple[Fetched | None, list[Answer]]]:
        """First what is known, then answer by answer what can be fetched; what is refused is noted in `faults`."""
        with self._lock:
            evidence = self._evidence + self._fetched.evidence
        yield None, self._read(evidence, certificate, issuer, faults)
        if self._fetch is None:
            return
        for fetched in self._fetched.ask(self._fetch, certificate, issuer, at, budget, self._nonce(), faults):
            yield fetched, self._read(fetched.evidence, certificate, issuer, faults, fetched.nonce)

    def _note(self, fetched: Fetched, at: datetime, *, is_of_use: bool) -> None:
        if is_of_use:
            self._fetched.keep(fetched)
        else:
            self._fetched.forget(fetched.question, at)

    def _nonce(self) -> bytes | None:
        return self._make_nonce() if self._make_nonce is not None else None

    def _read(
        self,
        evidence: RevocationEvidence,
        certificate: EidasCertificate,
        issuer: EidasCertificate,
        faults: list[Finding],
        nonce: bytes | None = None,
    ) -> list[Answer]:
        answers = []
        for response in evidence.ocsp:
            with _noting(faults, silent="ocsp.other-certificate"):
                answer = verify_ocsp(
                    response, certificate=certificate, issuer=issuer, nonce=nonce, require_nonce=self._require_nonce
                )
                answers.append(self._not_from_the_future(answer))
        for crl in evidence.crls:
            with _noting(faults, silent="crl.other-issuer"):
                answers.append(self._not_from_the_future(verify_crl(crl, certificate=certificate, issuer=issuer)))
        return answers

    def _not_from_the_future(self, answer: Answer) -> Answer:
        latest = max(answer.this_update, answer.produced_at or answer.this_update)
        if self._now is not None and latest > self._now() + self._skew:
            raise VerificationError(
                "revocation.future", f"the answer is dated {format_time(latest)}, after the present"
            )
        return answer

    def _note_revocation(self, certificate: EidasCertificate) -> None:
        # Once for each certificate: whoever shows a revoked one again and again must not make others be judged anew.
        with self._lock:
            is_news = certificate.sha256 not in self._revoked
            if len(self._revoked) >= _REMEMBERED_REVOCATIONS:
                self._revoked.clear()
            self._revoked.add(certificate.sha256)
        if is_news:
            self._close_windows()

    def _close_windows(self) -> None:
        with self._lock:
            for window in self._windows:
                window.close()
            self._windows.clear()


def _most_telling(proofs: list[tuple[Answer, Proof]]) -> tuple[Answer, Proof] | None:
    """A revocation is final whichever answer knows of it, but for a hold, where the latest answer decides."""
    telling = [(answer, proof) for answer, proof in proofs if proof in (Proof.GOOD, Proof.REVOKED)]
    final = [one for one in telling if one[1] is Proof.REVOKED and one[0].reason != ON_HOLD]
    return max(final or telling, key=lambda one: one[0].this_update, default=None)


def _invalid_earlier(certificate: EidasCertificate, answer: Answer, at: datetime) -> list[Finding]:
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


@contextmanager
def _noting(faults: list[Finding], *, silent: str) -> Iterator[None]:
    """Note why an answer is of no use; one that is about others is no fault."""
    try:
        yield
    except VerificationError as e:
        if e.code != silent:
            faults.append(Finding(e.code, Severity.WARNING, e.message, e.clause))
