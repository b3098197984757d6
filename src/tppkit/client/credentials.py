"""What proves to a server who calls: a seal, an API key or HTTP Basic. The connection's certificate is the `Identity`'s.

One X-Request-ID is one request with one seal, from however many threads and tasks it is sent. An id is taken before anything is
signed, with a fingerprint of its request. A second caller with the same request waits and gets the same bytes; one with another
request is refused.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime, timedelta
from hashlib import sha256
from threading import Lock
from typing import Any, NamedTuple

from pydantic import SecretStr

from tppkit._clock import utc_now
from tppkit._encoding import encode_base64, shown
from tppkit.client.identity import Identity
from tppkit.errors import ConfigurationError, LocalProtocolError
from tppkit.httpsig.components import Origin, shown_origin
from tppkit.httpsig.http_date import format_http_date
from tppkit.httpsig.message import Header, Message
from tppkit.protocol.endpoint import Auth, Endpoint
from tppkit.seals import PreparedRequest, Seal, SealProfile, prepare_request

WAIT_S = 30.0
DATE_LIFETIME = timedelta(minutes=5)  # assumption age-of-a-date
WINDOW = timedelta(hours=1)
MAX_CHANGING = 100_000
MAX_READING = 1024

_READING = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})  # RFC 9110 section 9.2.1
_KEY = re.compile(r"[!-9;-~]+")

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


class _Taken:
    """A request whose id is taken. Tens of thousands of them are kept, so it holds no more than it needs.

    Attributes:
        fingerprint: of the request.
        at: the time of signing.
        expires: when its signature does not count any more; None where it always does.
        date: the Date that is covered, or nothing.
        headers: that seal it, the Date aside; None before it is signed, and when that failed.
        before: the same request with an expired signature, until there is another one.
        signed: done when it is signed or that failed; None while no caller waits for it.
    """

    __slots__ = ("at", "before", "date", "expires", "fingerprint", "headers", "signed")

    def __init__(self, fingerprint: bytes, *, at: datetime, expires: datetime | None, date: str) -> None:
        self.fingerprint, self.at, self.expires, self.date = fingerprint, at, expires, date
        self.headers: Headers | None = None
        self.before: _Taken | None = None
        self.signed: Future[None] | None = None


_Memory = OrderedDict[str, _Taken]


class _Ready(NamedTuple):
    """A request that lacks only its signature.

    Attributes:
        prepared: the request with its id and Date.
        request_id: in lower case.
        request: the same, to be known by its id.
        memory: where it is to be known.
        given_date: the Date that the request came with, where the dialect covers it.
        added: the header of the id, if it was not there.
    """

    prepared: PreparedRequest
    request_id: str
    request: _Taken
    memory: _Memory
    given_date: str
    added: Headers

    def sealed_as(self, request: _Taken) -> Sealed:
        """What is added to this request, where another one like it may have been sealed."""
        seal = request.headers or ()
        return Sealed(self.added, (("Date", request.date), *seal) if request.date and not self.given_date else seal)


class SealCredentials:
    """Seals requests with the identity's present seal, and the same request under the same X-Request-ID with the same bytes.

    Requests that change something are known for an hour, the last 100,000 of them; the last 1,024 that only read apart from them.

    Args:
        identity: whose seal signs.
        origin: where the requests go.
        now: the present time, aware.
        wait_s: how long a second arrival waits for the first one's signature, in seconds.

    Raises:
        ConfigurationError: `seal.other-origin`, the seal was made for another origin.
    """

    def __init__(
        self, identity: Identity, *, origin: Origin, now: Callable[[], datetime] = utc_now, wait_s: float = WAIT_S
    ) -> None:
        self._identity, self._origin, self._now, self._wait_s = identity, origin, now, wait_s
        if identity.seal is not None:
            self._require_origin(identity.seal)
        self._reading: _Memory = OrderedDict()
        self._changing: _Memory = OrderedDict()
        self._lock = Lock()

    def authorize(self, row: Endpoint[Any, Any], message: Message) -> Message:
        """The message, sealed if its row asks for `Auth.SEAL`. Raises as `seal`."""
        if row.auth is not Auth.SEAL:
            return message
        return message.with_headers(*self.seal(message, give_id=_id_of(message)).headers)

    async def authorize_async(self, row: Endpoint[Any, Any], message: Message) -> Message:
        """As `authorize`, awaiting the signer."""
        if row.auth is not Auth.SEAL:
            return message
        return message.with_headers(*(await self.seal_async(message, give_id=_id_of(message))).headers)

    def seal(self, message: Message, *, give_id: Callable[[str], str]) -> Sealed:
        """Seal a request: its id and Date where it has none, digest, signature and certificate.

        Args:
            message: the request, without a seal.
            give_id: gives the id of a request without one, for the name of its header.

        Returns:
            Headers to add. Of a request that was sealed before, the same ones, until its signature has expired.

        Raises:
            LocalProtocolError: `seal.absent`, `seal.request-id-malformed`, `seal.request-id-reused`, `seal.request-id-in-use`,
                `seal.header-present`.
            SignatureRejected: `signature.header-absent`.
            FormatError: as `prepare_request`.
            ConfigurationError: `seal.other-origin`, of a renewed seal; as `Seal.sign`, and as `PreparedRequest.finish`.
            TransportError: of the signer.
        """
        ready = self._prepare(message, give_id)
        while (known := self._take(ready)) is not ready.request:
            if (signed := known.signed) is not None:
                with self._limited(ready):
                    signed.result(self._wait_s)
            if known.headers is not None:
                return ready.sealed_as(known)
        with self._signing(ready) as prepared:
            ready.request.headers = _finish(prepared, prepared.seal.sign(prepared.signing_string))
        return ready.sealed_as(ready.request)

    async def seal_async(self, message: Message, *, give_id: Callable[[str], str]) -> Sealed:
        """As `seal`, awaiting the signer."""
        ready = self._prepare(message, give_id)
        while (known := self._take(ready)) is not ready.request:
            if (signed := known.signed) is not None:
                with self._limited(ready):
                    async with asyncio.timeout(self._wait_s):
                        await asyncio.wrap_future(signed)
            if known.headers is not None:
                return ready.sealed_as(known)
        with self._signing(ready) as prepared:
            ready.request.headers = _finish(prepared, await prepared.seal.sign_async(prepared.signing_string))
        return ready.sealed_as(ready.request)

    def _prepare(self, message: Message, give_id: Callable[[str], str]) -> _Ready:
        seal = self._identity.seal
        if seal is None:
            raise LocalProtocolError(
                "seal.absent", f"{message.method} {shown(message.target)} must be sealed, and this identity has no seal"
            )
        self._require_origin(seal)
        name = seal.profile.request_id or "x-request-id"  # of this seal: the identity may have another one by now
        ids = message.values(name)
        added: Headers = ()
        if not ids:
            header = "X-Request-ID" if name == "x-request-id" else name
            ids = (give_id(header),)
            added = ((header, ids[0]),)
            message = message.with_headers(*added)
        for request_id in ids:
            _require_id(request_id)
        at, covered = self._now(), seal.layout.covered
        is_dated = "date" in covered or "date" in seal.layout.if_present
        given = date = ", ".join(message.values("date")) if is_dated else ""
        if not date and "date" in covered:
            date = format_http_date(at)
            message = message.with_headers(("Date", date))
        prepared = prepare_request(message, seal=seal, at=at)
        expires = _expires(seal.profile, at, is_dated=bool(date))
        request = _Taken(_fingerprint(prepared), at=at, expires=expires, date=date)
        memory = self._reading if message.method in _READING else self._changing
        return _Ready(prepared, ", ".join(ids).lower(), request, memory, given, added)

    def _take(self, ready: _Ready) -> _Taken:
        """Take the id of a request for it.

        Returns:
            The request itself, which the caller has to sign; or the same one of before, to wait for.

        Raises:
            LocalProtocolError: `seal.request-id-reused`.
        """
        request, request_id, memory = ready.request, ready.request_id, ready.memory
        with self._lock:
            known = self._changing.get(request_id) or self._reading.get(request_id)
            if known is not None:
                has_expired = known.expires is not None and request.at > known.expires
                other_date = ready.given_date and ready.given_date != known.date and not has_expired
                if known.fingerprint != request.fingerprint or other_date:
                    raise LocalProtocolError(
                        "seal.request-id-reused",
                        f"the request id {shown(request_id)} was given to another request already",
                    )
                if not has_expired:
                    if known.headers is None and known.signed is None:
                        known.signed = Future()
                        known.signed.set_running_or_notify_cancel()  # a task that gives up waiting cancels it for none
                    return known
            request.before = known
            memory.pop(request_id, None)  # the order is that of the times
            memory[request_id] = request
            self._forget(request.at)
        return request

    @contextmanager
    def _signing(self, ready: _Ready) -> Iterator[PreparedRequest]:
        """Afterwards, let waiting callers go; without a signature, leave the id to the request of before, or free it."""
        request, request_id, memory = ready.request, ready.request_id, ready.memory
        try:
            yield ready.prepared
        finally:
            with self._lock:
                if request.headers is None and memory.get(request_id) is request:
                    if request.before is None:
                        del memory[request_id]
                    else:
                        memory[request_id] = request.before
                signed, request.signed, request.before = request.signed, None, None
            if signed is not None:
                signed.set_result(None)

    @contextmanager
    def _limited(self, ready: _Ready) -> Iterator[None]:
        try:
            yield
        except TimeoutError as e:
            raise LocalProtocolError(
                "seal.request-id-in-use",
                f"the request with the id {shown(ready.request_id)} is still being signed after {self._wait_s:g} seconds",
            ) from e

    def _forget(self, at: datetime) -> None:
        while len(self._reading) > MAX_READING:
            self._reading.popitem(last=False)
        oldest = next(iter(self._changing.values()), None)
        while oldest is not None and (oldest.at < at - WINDOW or len(self._changing) > MAX_CHANGING):
            self._changing.popitem(last=False)
            oldest = next(iter(self._changing.values()), None)

    def _require_origin(self, seal: Seal) -> None:
        """Check that the origin that the seal is made for is the one that the client calls."""
        if seal.origin is not None and seal.origin != self._origin:
            raise ConfigurationError(
                "seal.other-origin",
                f"the seal is made for {shown_origin(seal.origin)}, its requests go to {shown_origin(self._origin)}",
            )


def _id_of(message: Message) -> Callable[[str], str]:
    # A dialect whose seal covers another header for the id gets the same id there.
    return lambda _: message.values("x-request-id")[0]


def _require_id(request_id: str) -> None:
    """White space at the ends is lost on the way (RFC 9110 section 5.5), so such an id would be another one for the bank."""
    if not request_id or request_id != request_id.strip():
        raise LocalProtocolError(
            "seal.request-id-malformed",
            f"the request id {shown(request_id)} is empty, or begins or ends with white space",
        )


def _finish(prepared: PreparedRequest, signature: bytes) -> Headers:
    """The headers of the seal."""
    return prepared.finish(signature).headers[len(prepared.message.headers) :]


def _expires(profile: SealProfile, at: datetime, *, is_dated: bool) -> datetime | None:
    """When a signature of this time does not count any more: by the first of the limits that apply to it."""
    limits = (profile.expires_after, profile.max_age, DATE_LIFETIME if is_dated else None)
    lifetimes = [lifetime for lifetime in limits if lifetime is not None]
    return at.replace(microsecond=0) + min(lifetimes) if lifetimes else None  # times are written in whole seconds


def _fingerprint(prepared: PreparedRequest) -> bytes:
    """Of what the request is: method, target, every field that is covered, and its digest; but not of its times."""
    message, layout = prepared.message, prepared.seal.layout
    covered = {*layout.covered, *layout.if_present} - {"date"}
    lower = [(name.lower(), value) for name, value in message.headers]
    fields = sorted([(name, value) for name, value in lower if name in covered or name.startswith(layout.prefixes)])
    # A digest of no body may be that of another one, `{}`.
    what = (message.method, message.target, fields, prepared.digest, bool(message.body))
    return sha256(repr(what).encode("utf-8", "surrogatepass")).digest()


class ApiKeyCredentials:
    """Sends a key alone in the Authorization header of rows with `Auth.API_KEY`.

    Args:
        key: the key; its representation is hidden.

    Raises:
        ConfigurationError: `credentials.malformed`.

    Example:
        Calls(LEGACY, base_url, credentials=ApiKeyCredentials(SecretStr(os.environ["API_KEY"])))
    """

    _auth = Auth.API_KEY

    def __init__(self, key: SecretStr | str) -> None:
        text = key.get_secret_value() if isinstance(key, SecretStr) else key
        if not _KEY.fullmatch(text):
            raise ConfigurationError(
                "credentials.malformed", "the key is not printable ASCII without spaces and colons"
            )
        self._key = SecretStr(text)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._key!r})"

    def masked(self, text: str) -> str:
        """The text with asterisks in place of the key, also as the header has it."""
        key = self._key.get_secret_value()
        return text.replace(self._proof(key).removeprefix("Basic "), "***").replace(key, "***")

    def __reduce__(self) -> Any:
        raise TypeError("a key is not pickled or copied")

    def authorize(self, row: Endpoint[Any, Any], message: Message) -> Message:
        """The message with the key."""
        if row.auth is not self._auth:
            return message
        return message.with_headers(("Authorization", self._proof(self._key.get_secret_value())))

    async def authorize_async(self, row: Endpoint[Any, Any], message: Message) -> Message:
        """The message with the key."""
        return self.authorize(row, message)

    def _proof(self, key: str) -> str:
        return key


class BasicCredentials(ApiKeyCredentials):
    """Sends a key as the user name of HTTP Basic, with an empty password, in rows with `Auth.BASIC`.

    Arguments and errors are those of `ApiKeyCredentials`. Source: RFC 7617 section 2.

    Example:
        Calls(GATEWAY, base_url, credentials=BasicCredentials(SecretStr(os.environ["API_KEY"])))
    """

    _auth = Auth.BASIC

    def _proof(self, key: str) -> str:
        return f"Basic {encode_base64(f'{key}:'.encode())}"
