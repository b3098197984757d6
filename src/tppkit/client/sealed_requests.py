"""The requests that were sealed, by their ids: one X-Request-ID is one request with one signature.

An id is taken before anything is signed, together with a fingerprint of the request. Who comes second with the same request
waits and gets the same bytes; who comes with another one is refused.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from concurrent.futures import Future
from datetime import datetime, timedelta
from threading import Lock

from tppkit._encoding import shown
from tppkit.errors import LocalProtocolError
from tppkit.httpsig.message import Header

WINDOW = timedelta(hours=1)
MAX_CHANGING = 100_000
MAX_READING = 1024

_READING = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})  # RFC 9110 section 9.2.1


class SealedRequest:
    """A request whose id is taken. Tens of thousands of them are kept, so it holds no more than it needs.

    Attributes:
        request_id: in lower case.
        fingerprint: of the request.
        is_reading: it changes nothing.
        at: the time of signing.
        expires: when its signature does not count any more; None where it always does.
        date: the Date that is covered, or nothing.
        headers: that seal it, the Date aside; None before it is signed, and when that failed.
    """

    __slots__ = ("_signed", "at", "before", "date", "expires", "fingerprint", "headers", "is_reading", "request_id")

    def __init__(
        self, request_id: str, method: str, fingerprint: bytes, *, at: datetime, expires: datetime | None, date: str
    ) -> None:
        self.request_id, self.is_reading, self.fingerprint = request_id, method in _READING, fingerprint
        self.at, self.expires, self.date = at, expires, date
        self.headers: tuple[Header, ...] | None = None
        self.before: SealedRequest | None = (
            None  # the same request with an expired signature, until there is another one
        )
        self._signed: Future[None] | None = None

    def expect(self) -> None:
        """Make it possible to wait; who holds the lock of the requests may."""
        if self.headers is None and self._signed is None:
            self._signed = Future()
            self._signed.set_running_or_notify_cancel()  # so that a task that gives up waiting does not cancel it for all

    def let_go(self) -> None:
        """Let go who waits: it is signed now, or nobody signs it."""
        signed, self._signed, self.before = self._signed, None, None
        if signed is not None:
            signed.set_result(None)

    def wait(self, wait_s: float) -> None:
        """Wait until somebody lets go.

        Raises:
            LocalProtocolError: `seal.request-id-in-use`.
        """
        signed = self._signed
        if signed is not None:
            try:
                signed.result(wait_s)
            except TimeoutError as e:
                raise self._in_use(wait_s) from e

    async def wait_async(self, wait_s: float) -> None:
        """The same without holding up the event loop."""
        signed = self._signed
        if signed is not None:
            try:
                async with asyncio.timeout(wait_s):
                    await asyncio.wrap_future(signed)
            except TimeoutError as e:
                raise self._in_use(wait_s) from e

    def _in_use(self, wait_s: float) -> LocalProtocolError:
        return LocalProtocolError(
            "seal.request-id-in-use",
            f"the request with the id {shown(self.request_id)} is still being signed after {wait_s:g} seconds",
        )


class SealedRequests:
    """Requests that change something are known for an hour, the last 100,000 of them; the last 1,024 that only read apart from them."""

    def __init__(self) -> None:
        self._reading: OrderedDict[str, SealedRequest] = OrderedDict()
        self._changing: OrderedDict[str, SealedRequest] = OrderedDict()
        self._lock = Lock()

    def take(self, request: SealedRequest, *, given_date: str) -> SealedRequest:
        """Take the id of a request.

        Args:
            request: without headers.
            given_date: the Date that it came with, where the dialect covers it.

        Returns:
            The same one, which the caller has to `fill` or `give_back`; or one of before, to wait for.

        Raises:
            LocalProtocolError: `seal.request-id-reused`.
        """
        request_id = request.request_id
        with self._lock:
            known = self._changing.get(request_id) or self._reading.get(request_id)
            if known is not None:
                has_expired = known.expires is not None and request.at > known.expires
                other_date = given_date and given_date != known.date and not has_expired
                if known.fingerprint != request.fingerprint or other_date:
                    raise LocalProtocolError(
                        "seal.request-id-reused",
                        f"the request id {shown(request_id)} was given to another request already",
                    )
                if not has_expired:
                    known.expect()
                    return known
            request.before = known
            memory = self._memory(request)
            memory.pop(request_id, None)  # the order is that of the times
            memory[request_id] = request
            self._forget(request.at)
        return request

    def fill(self, request: SealedRequest, headers: tuple[Header, ...]) -> None:
        """Note what seals a request that was taken."""
        with self._lock:
            request.headers = headers
        request.let_go()

    def give_back(self, request: SealedRequest) -> None:
        """Free the id of a request that could not be signed, or leave it to the same request with an expired signature."""
        memory = self._memory(request)
        with self._lock:
            if memory.get(request.request_id) is request:
                if request.before is None:
                    del memory[request.request_id]
                else:
                    memory[request.request_id] = request.before
        request.let_go()

    def _memory(self, request: SealedRequest) -> OrderedDict[str, SealedRequest]:
        return self._reading if request.is_reading else self._changing

    def _forget(self, at: datetime) -> None:
        while len(self._reading) > MAX_READING:
            self._reading.popitem(last=False)
        oldest = next(iter(self._changing.values()), None)
        while oldest is not None and (oldest.at < at - WINDOW or len(self._changing) > MAX_CHANGING):
            self._changing.popitem(last=False)
            oldest = next(iter(self._changing.values()), None)
