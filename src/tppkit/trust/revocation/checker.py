"""Whether the certificates of a chain were revoked, at a time.

Answers are those that the caller kept, those that were fetched before and are still fresh, and those of the caller's `fetch`.
Nothing is fetched for a certificate whose chain does not hold otherwise, as the addresses come from the certificate.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from weakref import WeakSet

from tppkit._cache import Cache
from tppkit._clock import format_time, shift
from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError, Finding, Severity, VerificationError
from tppkit.trust.fetching import Fetch
from tppkit.trust.path.window import Window
from tppkit.trust.revocation import outcome
from tppkit.trust.revocation.answers import CLOCK_SKEW, Proof, RevocationAnswer, RevocationSource, State, Verdict, weigh
from tppkit.trust.revocation.crl import verify_crl
from tppkit.trust.revocation.fetched import MAX_FETCHES, Fetched, FetchedAnswers
from tppkit.trust.revocation.ocsp import verify_ocsp
from tppkit.trust.revocation.ocsp_response import OcspResponse
from tppkit.trust.revocation.outcome import CertificateStatus, Inquiry, RevocationPolicy, RevocationScope, Statuses
from tppkit.trust.revocation.retained import RevocationEvidence
from tppkit.trust.revocation.revocation_list import Crl

REMEMBER = timedelta(hours=1)
_REMEMBERED = 1024  # signatures of lists, and revocations
# Reasons why a sound answer does not apply: reported only if no other answer does.
_NO_FAULTS = frozenset({"crl.scope", "fetch.skipped"})
_RESPONDERS = "RFC 6960 section 4.2.2.2.1"


class RevocationChecker:
    """Checks the revocation of chains; safe to share between threads.

        checker = RevocationChecker(evidence=load_revocation(["issuing.crl"]))
        paths = PathVerifier(anchors, revocation=checker)
        checker.replace(load_revocation(["issuing.crl"]))

    A verdict may be cached while its answers are fresh, at most for `remember`. When `replace` brings news, or a revocation is
    first seen, every verdict given so far is closed.

    Args:
        policy: what to do without a usable answer.
        scope: which certificates are checked.
        evidence: answers that were kept.
        fetch: gets answers from the addresses in the certificates; None to fetch nothing.
        make_nonce: makes 1 to 128 unpredictable bytes for each OCSP request, better 32 or more; None for no nonce.
        require_nonce: rejects a fetched response without the nonce; many responders sign theirs in advance.
        require_responder_status: rejects a response if no CRL proves that its responder was not revoked; otherwise this gives a
            notice.
        max_age: how long after its thisUpdate an answer is fresh at most; None for as long as it states.
        now: the present; later answers prove nothing good. None accepts evidence of any time.
        remember: how long a verdict may be cached at most.

    Attributes:
        can_fetch: whether addresses in the certificates may be contacted.

    Raises:
        ConfigurationError: `revocation.no-nonce`, a nonce is required and none is made.
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
        require_responder_status: bool = False,
        max_age: timedelta | None = None,
        now: Callable[[], datetime] | None = None,
        remember: timedelta = REMEMBER,
    ) -> None:
        if require_nonce and make_nonce is None:
            raise ConfigurationError(
                "revocation.no-nonce", "a nonce is required of responders, but none is made for them"
            )
        self.policy = policy
        self.scope = scope
        self._evidence = evidence or RevocationEvidence()
        self._require_nonce = require_nonce
        self._require_responder_status = require_responder_status
        self._max_age = max_age
        self._now = now
        self._remember = remember
        self._lock = threading.Lock()
        self._windows: WeakSet[Window] = WeakSet()
        self.can_fetch = fetch is not None
        self._fetched = FetchedAnswers(fetch, make_nonce)
        self._signed = Cache[tuple[str, str], bool](_REMEMBERED)
        self._revoked = Cache[tuple[str, str | None, datetime | None], bool](_REMEMBERED)

    def replace(self, evidence: RevocationEvidence) -> None:
        """Replace all kept answers; every verdict given so far is closed and must be checked again.

        Lists are indexed first, so with long ones call it in a thread beside an event loop.
        """
        for crl in evidence.crls:
            crl.index()
        with self._lock:
            self._evidence = evidence
        self._close_windows()

    def raw(self, sha256: str) -> bytes | None:
        """Return the DER of an answer that it has kept or cached, to store it as evidence; None if it has none with this hash.

        Args:
            sha256: of the DER, lower-case hexadecimal; see `RevocationAnswer.sha256`.
        """
        known = (self._evidence, *(fetched.evidence for fetched in self._fetched.kept))
        for some in known:
            answers: tuple[Crl | OcspResponse, ...] = (*some.crls, *some.ocsp)
            for answer in answers:
                if answer.sha256 == sha256:
                    return answer.der
        return None

    def check(self, chain: Sequence[EidasCertificate], *, at: datetime) -> Statuses:
        """Check a chain that holds otherwise.

        Args:
            chain: the leaf first, the anchor last; the anchor is not checked.
            at: the time to judge at, aware UTC.

        Raises:
            CertificateRejected: `revocation.revoked` and, for a hold that nothing lifts, `revocation.stale`, both of the leaf as
                `LeafRevoked`; with a hard failure `revocation.stale` (all answers are too old or too late for the time) and
                `revocation.unknown` (no answer is usable), with the fault of each answer.
        """
        window = Window()
        with self._lock:
            self._windows.add(window)  # before any answer is read, so that news in between closes it
        fetches = iter(range(MAX_FETCHES))
        count = len(chain) - 1 if self.scope is RevocationScope.CHAIN else 1
        judged = [
            self._judge(Inquiry(certificate, issuer, at, window, fetches, above=tuple(chain[place + 2 :])), place)
            for place, (certificate, issuer) in enumerate(pairwise(chain[: count + 1]))
        ]
        findings = tuple(finding for _, found in judged for finding in found)
        return Statuses(tuple(status for status, _ in judged), findings, window)

    def _is_soft(self, place: int) -> bool:
        """Whether the certificate at a place of its chain passes without a usable answer."""
        is_of_leaf = self.policy is RevocationPolicy.HARD_FAIL_LEAF
        return self.policy is RevocationPolicy.SOFT_FAIL or (is_of_leaf and place > 0)

    def _judge(self, inquiry: Inquiry, place: int) -> tuple[CertificateStatus, list[Finding]]:
        verdict, noted = self._decide(inquiry)
        inquiry.window.narrow(verdict.begins, min(verdict.ends, shift(inquiry.at, self._remember)))
        if verdict.answer is None:
            return outcome.fail(
                inquiry, is_soft=self._is_soft(place), is_stale=verdict.proof is Proof.STALE, can_fetch=self.can_fetch
            )
        if not verdict.is_proven:
            outcome.refuse_held(inquiry, verdict.answer, is_leaf=place == 0)
        if verdict.proof is Proof.REVOKED:
            self._note_revocation(inquiry.certificate, verdict.answer)
            outcome.refuse_revoked(inquiry.certificate, verdict.answer, is_leaf=place == 0)
        status = CertificateStatus(inquiry.certificate, State.GOOD, verdict.answer)
        invalid = outcome.invalid_earlier(inquiry.certificate, verdict.invalid_since, inquiry.at)
        faults = [fault for fault in dict.fromkeys(inquiry.faults) if fault.code not in _NO_FAULTS]
        return status, [*verdict.answer.findings, *noted, *invalid, *faults]

    def _decide(self, inquiry: Inquiry) -> tuple[Verdict, list[Finding]]:
        """What the answers prove, asked one after the other until one decides, and findings about the responder."""
        known: list[RevocationAnswer] = []
        for fetched, answers in self._answers(inquiry):
            known += answers
            verdict, noted = self._weigh(inquiry, known)
            if fetched is not None:
                if verdict.is_proven or any(self._may_settle_others(answer, inquiry.at) for answer in answers):
                    self._fetched.keep(fetched)
                if not verdict.is_proven:
                    self._fetched.forget((fetched.question[0], inquiry.certificate.sha256), inquiry.at)
            if verdict.is_proven:
                break
        return verdict, noted

    def _weigh(self, inquiry: Inquiry, known: list[RevocationAnswer]) -> tuple[Verdict, list[Finding]]:
        """What the answers prove; those whose responder is not trusted can only revoke."""
        while True:
            verdict = weigh(known, inquiry.certificate, at=inquiry.at, max_age=self._max_age)
            answer = verdict.answer
            # A revocation or hold counts in any case: without it, a revoked certificate could become good.
            if answer is None or verdict.proof is not Proof.GOOD or not answer.signer_may_be_revoked:
                return verdict, []
            try:
                return verdict, self._check_responder(inquiry, answer)
            except VerificationError as e:
                fault = Finding(e.code, Severity.WARNING, e.message, e.clause)
                inquiry.faults.append(fault)
                known[known.index(answer)] = replace(answer, only_revokes=fault)

    def _check_responder(self, inquiry: Inquiry, answer: RevocationAnswer) -> list[Finding]:
        """Ask the CRLs of the authority about a responder that it certified."""
        when = max(inquiry.at, answer.produced_at or inquiry.at)
        about = Inquiry(
            answer.signer, inquiry.issuer, when, inquiry.window, inquiry.fetches, above=inquiry.above, lists_only=True
        )
        verdict, _ = self._decide(about)
        inquiry.window.narrow(min(verdict.begins, inquiry.at), verdict.ends)
        if verdict.answer is not None and verdict.proof is not Proof.GOOD:
            raise VerificationError(
                "ocsp.responder-revoked", f"the OCSP responder {answer.signer.subject} was revoked itself",
                clause=_RESPONDERS,
            )  # fmt: skip
        if verdict.proof is Proof.GOOD:
            return []
        message = f"nothing says whether the OCSP responder {answer.signer.subject} was revoked itself"
        if self._require_responder_status:
            raise VerificationError("ocsp.responder-unchecked", message, clause=_RESPONDERS)
        return [Finding("ocsp.responder-unchecked", Severity.NOTICE, message, _RESPONDERS)]

    def _answers(self, inquiry: Inquiry) -> Iterator[tuple[Fetched | None, list[RevocationAnswer]]]:
        """The known answers first, then each one that can be fetched; faults are added to the inquiry."""
        known = Fetched(("", ""), self._evidence), *self._fetched.kept
        yield None, [answer for one in known for answer in self._read(one, inquiry)]
        for fetched in self._fetched.ask(inquiry):
            yield fetched, self._read(fetched, inquiry)

    def _may_settle_others(self, answer: RevocationAnswer, at: datetime) -> bool:
        """Whether this is of a list that is authentic, complete and fresh."""
        return (
            answer.source is RevocationSource.CRL
            and answer.only_revokes is None
            and not answer.is_stale_at(at, self._max_age)
        )

    def _read(self, fetched: Fetched, inquiry: Inquiry) -> list[RevocationAnswer]:
        certificate, issuer, nonce, answers = inquiry.certificate, inquiry.issuer, fetched.nonce, []
        for response in () if inquiry.lists_only else fetched.evidence.ocsp:
            with _noting(inquiry.faults, silent="ocsp.other-certificate"):
                answer = verify_ocsp(
                    response, certificate=certificate, issuer=issuer, nonce=nonce, require_nonce=self._require_nonce
                )
                answers.append(self._noted(answer, inquiry.faults))
        for crl in fetched.evidence.crls:
            with _noting(inquiry.faults, silent="crl.other-issuer"):
                answer = verify_crl(
                    crl, certificate=certificate, issuer=issuer, above=inquiry.above, signed=self._signed
                )
                answers.append(self._noted(answer, inquiry.faults))
        return answers

    def _noted(self, answer: RevocationAnswer, faults: list[Finding]) -> RevocationAnswer:
        """The answer, which can only revoke if it is dated after the present; that fault is added."""
        latest = max(answer.this_update, answer.produced_at or answer.this_update)
        if self._now is not None and latest > shift(self._now(), CLOCK_SKEW):
            message = f"the answer is dated {format_time(latest)}, after the present"
            answer = replace(answer, only_revokes=Finding("revocation.future", Severity.WARNING, message))
        if answer.only_revokes is not None:
            faults.append(answer.only_revokes)
        return answer

    def _note_revocation(self, certificate: EidasCertificate, answer: RevocationAnswer) -> None:
        # Once for each revocation: a peer that repeats a revoked certificate must not cause new checks of all others.
        revocation = (certificate.sha256, answer.reason, answer.revoked_at)
        with self._lock:
            is_news = revocation not in self._revoked
            self._revoked.put(revocation, True)
        if is_news:
            self._close_windows()

    def _close_windows(self) -> None:
        with self._lock:
            for window in self._windows:
                window.close()
            self._windows.clear()


@contextmanager
def _noting(faults: list[Finding], *, silent: str) -> Iterator[None]:
    """Add the fault of an unusable answer, unless it is only about other certificates."""
    try:
        yield
    except VerificationError as e:
        if e.code != silent:
            faults.append(Finding(e.code, Severity.WARNING, e.message, e.clause))
