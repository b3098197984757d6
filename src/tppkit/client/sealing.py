"""Sealing what goes to a bank: one X-Request-ID is one request with one signature, from however many threads and tasks it is sent.

The id is taken before anything is signed, together with a fingerprint of the request. Who comes second with the same request
waits and gets the same bytes; who comes with another one is refused.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime, timedelta
from hashlib import sha256
from threading import Lock
from typing import NamedTuple
from uuid import UUID

from tppkit._clock import as_utc
from tppkit._encoding import shown
from tppkit.client.identity import Identity
from tppkit.errors import ConfigurationError, LocalProtocolError
from tppkit.httpsig.components import Origin, shown_origin
from tppkit.httpsig.http_date import format_http_date
from tppkit.httpsig.message import Header, Message
from tppkit.seals import PreparedRequest, Seal, SealProfile, prepare_request

WINDOW = timedelta(hours=1)
MAX_CHANGING = 100_000
MAX_READING = 1024
WAIT_S = 30.0
DATE_LIFETIME = timedelta(minutes=5)  # assumption age-of-a-date

_READING = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})  # RFC 9110 section 9.2.1

Headers = tuple[Header, ...]


class Sealed(NamedTuple):
    """What sealing adds to a request.

    Attributes:
        request_id: the header of the id, under the dialect's name; nothing where the request had one.
        seal: the Date where the dialect covers one and the request had none, digest, signature and certificate.
    """

    request_id: Headers
    seal: Headers

    @property
    def headers(self) -> Headers:
        """Everything, in order."""
        return self.request_id + self.seal


class _Place:
    """An id that is taken.

    Attributes:
        fingerprint: of the request.
        seal: that signs it.
        at: the time of signing.
        date: the Date that is covered, or nothing.
        is_date_given: the Date is the caller's, not one that sealing added.
        before: an expired signature of the same request.
        done: the headers that seal it, the Date aside; None when signing failed.
    """

    def __init__(self, fingerprint: bytes, *, ready: _Ready, before: _Place | None) -> None:
        self.fingerprint, self.seal, self.at, self.before = fingerprint, ready.prepared.seal, ready.at, before
        self.date, self.is_date_given = ready.date, bool(ready.given_date)
        self.done: Future[Headers | None] = Future()
        self.done.set_running_or_notify_cancel()  # so that a task that gives up waiting does not cancel it for all

    def headers(self) -> Headers:
        """What it added to the request, or what was added before where it has not come so far."""
        if self.done.done():
            return self.dated(self.done.result() or (), has_date=self.is_date_given)
        return () if self.before is None else self.before.headers()

    def dated(self, sealed: Headers, *, has_date: bool) -> Headers:
        """The headers that seal it, for a request that has the Date or lacks it."""
        return sealed if has_date or not self.date else (("Date", self.date), *sealed)

    def has_expired(self, at: datetime) -> bool:
        lifetime = _lifetime(self.seal.profile)
        return lifetime is not None and at > self.at + lifetime


class _Ready(NamedTuple):
    """A request that lacks only its signature.

    Attributes:
        request_id: in lower case.
        prepared: the request with its id and Date, without what an earlier sealing wrote.
        at: the time of signing.
        given_date: the Date that the request came with, where the dialect covers it.
        date: the Date that is covered.
        added: the header of the id, if it was not there.
    """

    request_id: str
    prepared: PreparedRequest
    at: datetime
    given_date: str
    date: str
    added: Headers

    def sealed(self, place: _Place, sealed: Headers) -> Sealed:
        """What is added to this request, whose place another one like it may have filled."""
        return Sealed(self.added, place.dated(sealed, has_date=bool(self.given_date)))


class Sealing:
    """Seals requests with the identity's present seal, and knows those that it sealed.

    Requests that change something are known for an hour, the last 100,000 of them; the last 1,024 that only read are known apart
    from them.

    Args:
        identity: whose seal signs.
        origin: where the requests go.
        new_request_id: makes X-Request-IDs.
        now: the present time, aware.
        wait_s: how long a second arrival waits for the first one's signature, in seconds.

    Raises:
        ConfigurationError: `seal.other-origin`, the seal was made for another origin.
    """

    def __init__(
        self,
        identity: Identity,
        *,
        origin: Origin,
        new_request_id: Callable[[], UUID],
        now: Callable[[], datetime],
        wait_s: float = WAIT_S,
    ) -> None:
        self._identity, self._new_request_id, self._now, self._wait_s = identity, new_request_id, now, wait_s
        self._origin = origin
        if identity.seal is not None:
            self._require_origin(identity.seal)
        self._reading: OrderedDict[str, _Place] = OrderedDict()
        self._changing: OrderedDict[str, _Place] = OrderedDict()
        self._lock = Lock()

    def seal(self, message: Message, *, request_id: str | None = None, before: Headers = ()) -> Sealed:
        """Seal a request: its id and Date where it has none, digest, signature and certificate.

        Args:
            message: the request; of one that was sent before, also with the headers that it got then.
            request_id: for a request without one; a new one by default.
            before: what sealing added to this request, the id aside, for one that is not known any more, or to another `Sealing`.

        Returns:
            Headers to set in place of those of `before`. Of a request that was sealed before, the same ones, until its
            signature has expired.

        Raises:
            LocalProtocolError: `seal.absent`, `seal.request-id-reused`, `seal.request-id-in-use`, `seal.header-present`.
            SignatureRejected: `signature.header-absent`.
            FormatError: as `prepare_request`.
            ConfigurationError: `seal.other-origin`, of a renewed seal; and of the signer.
            TransportError: of the signer.
        """
        ready = self._prepare(message, request_id, before)
        seal = ready.prepared.seal
        while True:
            place, is_new = self._take(ready)
            if is_new:
                with self._given_back_on_failure(ready, place):
                    signature = seal.signer.sign(ready.prepared.signing_string)
                    return ready.sealed(place, _keep(place, ready, signature))
            sealed = self._wait(ready, place)
            if sealed is not None:
                return ready.sealed(place, sealed)

    async def seal_async(self, message: Message, *, request_id: str | None = None, before: Headers = ()) -> Sealed:
        """The same, awaiting the signer."""
        ready = self._prepare(message, request_id, before)
        seal = ready.prepared.seal
        while True:
            place, is_new = self._take(ready)
            if is_new:
                with self._given_back_on_failure(ready, place):
                    signature = await seal.signer.sign_async(ready.prepared.signing_string)
                    return ready.sealed(place, _keep(place, ready, signature))
            sealed = await self._wait_async(ready, place)
            if sealed is not None:
                return ready.sealed(place, sealed)

    def _prepare(self, message: Message, request_id: str | None, before: Headers) -> _Ready:
        seal = self._identity.seal
        if seal is None:
            raise LocalProtocolError(
                "seal.absent", f"{message.method} {shown(message.target)} must be sealed, and this identity has no seal"
            )
        self._require_origin(seal)
        name = seal.profile.request_id or "x-request-id"  # of this seal: the identity may have another one by now
        rid = ", ".join(message.values(name))
        added: Headers = ()
        if not rid:
            rid = request_id or str(self._new_request_id())
            added = (("X-Request-ID" if name == "x-request-id" else name, rid),)
        with self._lock:
            known = self._find(rid.lower())
        ours = before if known is None else (*before, *known.headers())
        fields = tuple([field for field in message.headers if field not in ours]) if ours else message.headers
        message, at = message._replace(headers=fields + added), as_utc(self._now())
        layout = seal.layout
        is_covered = "date" in layout.covered or "date" in layout.if_present
        given = date = ", ".join(message.values("date")) if is_covered else ""
        if not date and "date" in layout.covered:
            date = format_http_date(at)
            message = message.with_headers(("Date", date))
        return _Ready(rid.lower(), prepare_request(message, seal=seal, at=at), at, given, date, added)

    def _require_origin(self, seal: Seal) -> None:
        """What a seal covers of the origin is told by the seal, what is called by the client: both are one."""
        if seal.origin is not None and seal.origin != self._origin:
            raise ConfigurationError(
                "seal.other-origin",
                f"the seal is made for {shown_origin(seal.origin)}, its requests go to {shown_origin(self._origin)}",
            )

    def _find(self, request_id: str) -> _Place | None:
        return self._changing.get(request_id) or self._reading.get(request_id)

    def _take(self, ready: _Ready) -> tuple[_Place, bool]:
        """The place of this id, and whether it is a new one, which the caller has to fill."""
        fingerprint = _fingerprint(ready.prepared)
        with self._lock:
            known = self._find(ready.request_id)
            if known is not None:
                expired = known.has_expired(ready.at)
                other_date = ready.given_date and ready.given_date != known.date and not expired
                if known.fingerprint != fingerprint or other_date:
                    raise LocalProtocolError(
                        "seal.request-id-reused",
                        f"the request id {shown(ready.request_id)} was given to another request already",
                    )
                if not expired:
                    return known, False
            place = _Place(fingerprint, ready=ready, before=known)
            memory = self._memory(ready)
            memory.pop(ready.request_id, None)  # the order is that of the times
            memory[ready.request_id] = place
            self._forget(ready.at)
        return place, True

    def _memory(self, ready: _Ready) -> OrderedDict[str, _Place]:
        return self._reading if ready.prepared.message.method in _READING else self._changing

    def _forget(self, at: datetime) -> None:
        while len(self._reading) > MAX_READING:
            self._reading.popitem(last=False)
        oldest = next(iter(self._changing.values()), None)
        while oldest is not None and (oldest.at < at - WINDOW or len(self._changing) > MAX_CHANGING):
            self._changing.popitem(last=False)
            oldest = next(iter(self._changing.values()), None)

    @contextmanager
    def _given_back_on_failure(self, ready: _Ready, place: _Place) -> Iterator[None]:
        try:
            yield
        except BaseException:
            memory = self._memory(ready)
            with self._lock:
                if memory.get(ready.request_id) is place:
                    if place.before is None:
                        del memory[ready.request_id]
                    else:
                        memory[ready.request_id] = place.before
            place.done.set_result(None)
            raise

    def _wait(self, ready: _Ready, place: _Place) -> Headers | None:
        try:
            return place.done.result(self._wait_s)
        except TimeoutError as e:
            raise self._in_use(ready) from e

    async def _wait_async(self, ready: _Ready, place: _Place) -> Headers | None:
        if place.done.done():
            return place.done.result()
        try:
            async with asyncio.timeout(self._wait_s):
                return await asyncio.wrap_future(place.done)
        except TimeoutError as e:
            raise self._in_use(ready) from e

    def _in_use(self, ready: _Ready) -> LocalProtocolError:
        return LocalProtocolError(
            "seal.request-id-in-use",
            f"the request with the id {shown(ready.request_id)} is still being signed after {self._wait_s:g} seconds",
        )


def _keep(place: _Place, ready: _Ready, signature: bytes) -> Headers:
    prepared = ready.prepared
    sealed = prepared.finish(signature).headers[len(prepared.message.headers) :]
    place.before = None
    place.done.set_result(sealed)
    return sealed


def _lifetime(profile: SealProfile) -> timedelta | None:
    """How long a signature counts, where that ends."""
    lifetime = profile.expires_after or profile.max_age
    return lifetime or (DATE_LIFETIME if any(name.lower() == "date" for name in profile.covered) else None)


def _fingerprint(prepared: PreparedRequest) -> bytes:
    """Of what the request is: method, target, every field that is covered, and its digest; but not of its times."""
    message, layout = prepared.message, prepared.seal.layout
    covered = {*layout.covered, *layout.if_present} - {"date"}
    lower = [(name.lower(), value) for name, value in message.headers]
    fields = sorted([(name, value) for name, value in lower if name in covered or name.startswith(layout.prefixes)])
    # A digest of no body may be that of another one, `{}`.
    what = (message.method, message.target, fields, prepared.digest, bool(message.body))
    return sha256(repr(what).encode("utf-8", "surrogatepass")).digest()
