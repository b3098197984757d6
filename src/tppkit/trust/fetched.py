"""Answers about revocation from the addresses that stand in certificates, within limits, remembered while there is room."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar
from urllib.parse import urlsplit

from tppkit.certificates import EidasCertificate
from tppkit.errors import Finding, FormatError, Severity, TransportError
from tppkit.trust.crl import MAX_CRL_BYTES, Crl, parse_crl
from tppkit.trust.fetching import Fetch
from tppkit.trust.ocsp import MAX_OCSP_BYTES, OcspResponse, make_ocsp_request, parse_ocsp_response
from tppkit.trust.retained import RevocationEvidence

_K = TypeVar("_K")
_V = TypeVar("_V")

MAX_FETCHES = 8
MAX_ADDRESSES = 2
MAX_ADDRESS_LENGTH = 2048
FETCH_TIMEOUT_S = 5.0
RETRY_AFTER = timedelta(minutes=1)
_REMEMBERED_RESPONSES = 256
_REMEMBERED_CRLS = 16
_REMEMBERED_FAILURES = 256


@dataclass(slots=True)
class Budget:
    """How many fetches are left for one chain."""

    left: int

    def take(self) -> bool:
        """Whether there was one."""
        self.left -= 1
        return self.left >= 0


@dataclass(frozen=True, slots=True)
class Fetched:
    """One fetched answer.

    Attributes:
        evidence: the answer.
        nonce: what was sent with the question, None where none was.
    """

    evidence: RevocationEvidence
    nonce: bytes | None = None


@dataclass(slots=True)
class FetchedAnswers:
    """Fetches, and remembers at most 256 OCSP responses and 16 CRLs, the latest.

    An address that failed is left alone for a minute (of the times that are judged), so that nobody can make this side knock
    on it with every request.
    """

    _responses: OrderedDict[bytes, OcspResponse] = field(default_factory=OrderedDict)
    _crls: OrderedDict[str, Crl] = field(default_factory=OrderedDict)
    _failed: OrderedDict[str, datetime] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def evidence(self) -> RevocationEvidence:
        """Everything remembered."""
        with self._lock:
            return RevocationEvidence(tuple(self._crls.values()), tuple(self._responses.values()))

    def ask(
        self,
        fetch: Fetch,
        certificate: EidasCertificate,
        issuer: EidasCertificate,
        at: datetime,
        budget: Budget,
        nonce: bytes | None,
        faults: list[Finding],
    ) -> Iterator[Fetched]:
        """Fetch one answer after the other, OCSP before CRL, as long as the caller wants more and the budget lasts.

        What fails is noted in `faults`.
        """
        question = make_ocsp_request(certificate, issuer=issuer, nonce=nonce)

        def ask_responder(url: str) -> Fetched:
            data = fetch(
                url,
                max_bytes=MAX_OCSP_BYTES,
                timeout=FETCH_TIMEOUT_S,
                body=question,
                content_type="application/ocsp-request",
            )
            response = parse_ocsp_response(data)
            self._remember(self._responses, certificate.der, response, _REMEMBERED_RESPONSES)
            return Fetched(RevocationEvidence(ocsp=(response,)), nonce)

        def get_list(url: str) -> Fetched:
            crl = parse_crl(fetch(url, max_bytes=MAX_CRL_BYTES, timeout=FETCH_TIMEOUT_S))
            self._remember(self._crls, url, crl, _REMEMBERED_CRLS)
            return Fetched(RevocationEvidence(crls=(crl,)))

        facts = certificate.extensions
        yield from self._try_each(facts.ocsp_urls, ask_responder, at, budget, faults)
        yield from self._try_each(facts.crl_urls, get_list, at, budget, faults)

    def _try_each(
        self,
        urls: tuple[str, ...],
        get: Callable[[str], Fetched],
        at: datetime,
        budget: Budget,
        faults: list[Finding],
    ) -> Iterator[Fetched]:
        for url in [url for url in urls if is_fetchable(url)][:MAX_ADDRESSES]:
            if self._has_failed(url, at) or not budget.take():
                faults.append(Finding("fetch.skipped", Severity.NOTICE, f"{url[:200]} is not asked (again) now"))
                continue
            try:
                fetched = get(url)
            except (TransportError, FormatError) as e:
                self._remember(self._failed, url, at, _REMEMBERED_FAILURES)
                faults.append(Finding(e.code, Severity.WARNING, f"{url[:200]}: {e.message}"))
            else:
                yield fetched

    def _has_failed(self, url: str, at: datetime) -> bool:
        with self._lock:
            failed = self._failed.get(url)
        return failed is not None and abs(at - failed) < RETRY_AFTER

    def _remember(self, memory: OrderedDict[_K, _V], key: _K, value: _V, limit: int) -> None:
        with self._lock:
            memory[key] = value
            memory.move_to_end(key)
            if len(memory) > limit:
                memory.popitem(last=False)


def is_fetchable(url: str) -> bool:
    """Whether an address of a certificate is one that may be asked: http or https, with a host, and nothing strange in it."""
    if len(url) > MAX_ADDRESS_LENGTH or not url.isascii() or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        return False
