"""Answers about revocation, fetched from the addresses in certificates, within limits, and cached."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from tppkit._cache import Cache
from tppkit.errors import Finding, FormatError, Severity, TransportError
from tppkit.trust.fetching import Fetch, is_web_address
from tppkit.trust.revocation.ocsp_response import MAX_OCSP_BYTES, make_ocsp_request, parse_ocsp_response
from tppkit.trust.revocation.outcome import RETRY_AFTER, Inquiry
from tppkit.trust.revocation.retained import RevocationEvidence
from tppkit.trust.revocation.revocation_list import MAX_CRL_BYTES, parse_crl

_K = TypeVar("_K")
_V = TypeVar("_V")

MAX_FETCHES = 8
MAX_ADDRESSES = 2
FETCH_TIMEOUT_S = 5.0
_REMEMBERED_RESPONSES = 256
_REMEMBERED_CRLS = 16
_REMEMBERED_FAILURES = 256


_MAY_FETCH = ContextVar("tppkit_may_fetch", default=True)


class FetchNeeded(Exception):
    """A call by `without_fetching` cannot be decided without a fetch."""


def without_fetching(call: Callable[[_K], _V], argument: _K) -> _V:
    """Call a function whose checks must not fetch, because they run on an event loop.

    Raises:
        FetchNeeded: a check would have to fetch.
    """
    before = _MAY_FETCH.set(False)
    try:
        return call(argument)
    finally:
        _MAY_FETCH.reset(before)


@dataclass(frozen=True, slots=True)
class Fetched:
    """One fetched answer.

    Attributes:
        question: the address, and for OCSP the certificate.
        evidence: the answer.
        nonce: the nonce of the request, or None.
    """

    question: tuple[str, str]
    evidence: RevocationEvidence
    nonce: bytes | None = None


@dataclass(slots=True)
class FetchedAnswers:
    """Fetches answers, and caches the latest 256 OCSP responses and 16 CRLs that are of use.

    Threads that ask a question while another one fetches its answer wait for that one and share it. For a minute (of the times
    that are judged), an address that timed out is not asked, and a question without a usable answer is not repeated, so that a
    peer cannot cause a fetch with every request.

    Attributes:
        fetch: gets the bytes of an address; None to fetch nothing.
        make_nonce: makes the nonce of a request; None for no nonce.
    """

    fetch: Fetch | None
    make_nonce: Callable[[], bytes] | None
    _responses: Cache[tuple[str, str], Fetched] = field(default_factory=lambda: Cache(_REMEMBERED_RESPONSES))
    _crls: Cache[tuple[str, str], Fetched] = field(default_factory=lambda: Cache(_REMEMBERED_CRLS))
    _failed: Cache[tuple[str, str], datetime] = field(default_factory=lambda: Cache(_REMEMBERED_FAILURES))
    _under_way: dict[tuple[str, str], Future[Fetched | Finding]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def kept(self) -> tuple[Fetched, ...]:
        """All cached answers."""
        return (*self._crls.values(), *self._responses.values())

    def ask(self, inquiry: Inquiry) -> Iterator[Fetched]:
        """Fetch one answer after the other, OCSP before CRL, while the caller asks for more and fetches are left.

        Failures are added to the faults of the inquiry.
        """
        fetch, certificate = self.fetch, inquiry.certificate
        if fetch is None:
            return
        nonce = None if self.make_nonce is None else self.make_nonce()
        body = make_ocsp_request(certificate, issuer=inquiry.issuer, nonce=nonce)

        def ask_responder(url: str) -> RevocationEvidence:
            data = fetch(
                url,
                max_bytes=MAX_OCSP_BYTES,
                timeout=FETCH_TIMEOUT_S,
                body=body,
                content_type="application/ocsp-request",
            )
            return RevocationEvidence(ocsp=(parse_ocsp_response(data),))

        def get_list(url: str) -> RevocationEvidence:
            return RevocationEvidence(crls=(parse_crl(fetch(url, max_bytes=MAX_CRL_BYTES, timeout=FETCH_TIMEOUT_S)),))

        facts = certificate.extensions
        questions = [
            *(
                ((url, certificate.sha256), ask_responder, nonce)
                for url in _some(() if inquiry.lists_only else facts.ocsp_urls)
            ),
            *(((url, ""), get_list, None) for url in _some(facts.crl_urls)),
        ]
        for question, get, sent in questions:
            url = question[0]
            if self._has_failed(url, inquiry) or next(inquiry.fetches, None) is None:
                inquiry.faults.append(
                    Finding("fetch.skipped", Severity.NOTICE, f"{url[:200]} is not asked (again) now")
                )
                continue
            if not _MAY_FETCH.get():
                raise FetchNeeded
            with self._shared(question, get, sent) as answer:
                if isinstance(answer, Fetched):
                    yield answer
                else:
                    # A responder that fails for one certificate may answer for others; one that hangs would make each caller wait.
                    self.forget((url, "") if answer.code == "fetch.timeout" else question, inquiry.at)
                    inquiry.faults.append(answer)

    @contextmanager
    def _shared(
        self, question: tuple[str, str], get: Callable[[str], RevocationEvidence], nonce: bytes | None
    ) -> Iterator[Fetched | Finding]:
        """Fetch an answer, or take that of the thread that fetches it; a fault if that fails.

        It is shared until the thread that fetched it has judged it, and cached it if it is of use.
        """
        url = question[0]
        answer: Fetched | Finding = Finding("fetch.failed", Severity.WARNING, f"{url[:200]}: the fetch was interrupted")
        with self._lock:
            under_way = self._under_way.get(question)
            if under_way is None:
                mine = self._under_way[question] = Future[Fetched | Finding]()
        if under_way is not None:
            try:
                answer = under_way.result(2 * FETCH_TIMEOUT_S)
            except TimeoutError:
                answer = Finding("fetch.timeout", Severity.WARNING, f"{url[:200]}: another thread's fetch hangs")
            yield answer
            return
        try:
            try:
                answer = Fetched(question, get(url), nonce)
            except (TransportError, FormatError) as e:
                answer = Finding(e.code, Severity.WARNING, f"{url[:200]}: {e.message}")
            finally:
                mine.set_result(answer)  # not an exception, whose traceback would keep what was read
            yield answer
        finally:
            with self._lock:
                del self._under_way[question]

    def keep(self, fetched: Fetched) -> None:
        """Cache an answer of use; a list only if no later one of its address is cached."""
        if not fetched.evidence.crls:
            self._responses.put(fetched.question, fetched)
            return
        known = self._crls.get(fetched.question)
        if known is None or known.evidence.crls[0].this_update <= fetched.evidence.crls[0].this_update:
            self._crls.put(fetched.question, fetched)

    def forget(self, question: tuple[str, str], at: datetime) -> None:
        """Record that an address, for a certificate or for all ("") of them, had no usable answer at this time."""
        self._failed.put(question, at)

    def _has_failed(self, url: str, inquiry: Inquiry) -> bool:
        asked = [self._failed.get((url, about)) for about in ("", inquiry.certificate.sha256)]
        return any(when is not None and abs(inquiry.at - when) < RETRY_AFTER for when in asked)


def _some(urls: tuple[str, ...]) -> list[str]:
    return [url for url in urls if is_web_address(url)][:MAX_ADDRESSES]
