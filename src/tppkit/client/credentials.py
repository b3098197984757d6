"""Credentials of a request: a seal, an API key or HTTP Basic. The certificate of the connection is the `Identity`'s.

An X-Request-ID identifies one request with one seal, even if several threads and tasks send it. Before signing, the id is reserved
with a fingerprint of its request. A second caller with the same request waits and gets the same bytes; one with another request is
rejected.
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
from tppkit._locals import without_locals
from tppkit.client.identity import Identity
from tppkit.errors import ConfigurationError, LocalProtocolError
from tppkit.httpsig.components import Origin, shown_origin
from tppkit.httpsig.http_date import format_http_date
from tppkit.httpsig.message import Header, Message
from tppkit.protocol.endpoint import Auth, Endpoint
from tppkit.protocol.secret import Secret
from tppkit.seals import PreparedRequest, Seal, SealProfile, prepare_request

WAIT_S = 30.0
DATE_LIFETIME = timedelta(minutes=5)  # assumption age-of-a-date
WINDOW = timedelta(hours=1)
MAX_CHANGING = 100_000
MAX_READING = 1024

_READING = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})  # RFC 9110 section 9.2.1
_USER = re.compile(r"[!-9;-~]+")
_KEY = re.compile(r"[!-~]+(?: [!-~]+)?")

Headers = tuple[Header, ...]


class _Taken:
    """A request whose id is reserved. Tens of thousands of them are kept, so it is small.

    Attributes:
        fingerprint: the fingerprint of the request.
        at: the time of signing.
        expires: when its signature expires; None: never.
        date: the covered Date, or empty.
        headers: the headers of the seal except the Date; None before signing, and if signing failed.
        before: the same request with an expired signature, until there is a new signature.
        signed: done when signing succeeded or failed; None while no caller waits for it.
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
        message: the request with its id, and with the caller's Date if it has one.
        prepared: the same, with a Date if the dialect covers it.
        request_id: the id in lower case.
        request: the reservation of the id.
        memory: the reservations to add it to.
        given_date: the Date of the original request, if the dialect covers it.
    """

    message: Message
    prepared: PreparedRequest
    request_id: str
    request: _Taken
    memory: _Memory
    given_date: str

    def sealed_as(self, request: _Taken) -> Message:
        """Return this request with the seal of a reservation with the same fingerprint."""
        date = (("Date", request.date),) if request.date and not self.given_date else ()
        return self.message.with_headers(*date, *(request.headers or ()))


class SealCredentials:
    """Seals requests with the identity's current seal. The same request with the same X-Request-ID gets the same bytes.

    The last 100,000 requests that change data are remembered for an hour, and separately the last 1,024 that only read.

    Args:
        identity: the identity with the seal.
        origin: the origin that requests are sent to.
        now: the present time, aware.
        wait_s: how long a second caller waits for the first one's signature, in seconds.

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
        """Return the message, sealed if its row requires `Auth.SEAL`. Raises the errors of `seal`."""
        if row.auth is not Auth.SEAL:
            return message
        return self.seal(message, give_id=_id_of(message))

    async def authorize_async(self, row: Endpoint[Any, Any], message: Message) -> Message:
        """See `authorize`; awaits the signer."""
        if row.auth is not Auth.SEAL:
            return message
        return await self.seal_async(message, give_id=_id_of(message))

    def seal(self, message: Message, *, give_id: Callable[[str], str]) -> Message:
        """Seal a request: add digest, signature and certificate, and an id and a Date if they are absent.

        Args:
            message: the request, without a seal.
            give_id: returns the id for a request without one; called with the name of its header.

        Returns:
            The message with these headers at the end. A request that was sealed before gets the same ones until its signature has
            expired.

        Raises:
            LocalProtocolError: `seal.absent`, `seal.request-id-malformed`, `seal.request-id-reused`, `seal.request-id-in-use`,
                `seal.header-present`.
            SignatureRejected: `signature.header-absent`.
            FormatError: see `prepare_request`.
            ConfigurationError: `seal.other-origin`, for a renewed seal; see `Seal.sign` and `PreparedRequest.finish`.
            TransportError: from the signer.
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

    async def seal_async(self, message: Message, *, give_id: Callable[[str], str]) -> Message:
        """See `seal`; awaits the signer."""
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
        if not ids:
            header = "X-Request-ID" if name == "x-request-id" else name
            ids = (give_id(header),)
            message = message.with_headers((header, ids[0]))
        for request_id in ids:
            _require_id(request_id)
        at, covered = self._now(), seal.layout.covered
        is_dated = "date" in covered or "date" in seal.layout.if_present
        given = date = ", ".join(message.values("date")) if is_dated else ""
        if not date and "date" in covered:
            date = format_http_date(at)
        dated = message.with_headers(("Date", date)) if date and not given else message
        prepared = prepare_request(dated, seal=seal, at=at)
        expires = _expires(seal.profile, at, is_dated=bool(date))
        request = _Taken(_fingerprint(prepared), at=at, expires=expires, date=date)
        memory = self._reading if message.method in _READING else self._changing
        return _Ready(message, prepared, ", ".join(ids).lower(), request, memory, given)

    def _take(self, ready: _Ready) -> _Taken:
        """Reserve the id of a request.

        Returns:
            The new reservation, which the caller must sign; or an earlier one with the same fingerprint, to wait for.

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
                        f"another request already has the request id {shown(request_id)}",
                    )
                if not has_expired:
                    if known.headers is None and known.signed is None:
                        known.signed = Future()
                        known.signed.set_running_or_notify_cancel()  # so that a cancelled waiter does not cancel it for others
                    return known
            request.before = known
            memory.pop(request_id, None)  # keeps the order by time
            memory[request_id] = request
            self._forget(request.at)
        return request

    @contextmanager
    def _signing(self, ready: _Ready) -> Iterator[PreparedRequest]:
        """Release waiting callers at the end. Without a signature, restore the earlier reservation of the id, or free the id."""
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
        """Check that the seal is for the origin of the client."""
        if seal.origin is not None and seal.origin != self._origin:
            raise ConfigurationError(
                "seal.other-origin",
                f"the seal is for {shown_origin(seal.origin)}, but its requests are sent to {shown_origin(self._origin)}",
            )


def _id_of(message: Message) -> Callable[[str], str]:
    # The header of a dialect with another name for the id gets the same id.
    return lambda _: message.values("x-request-id")[0]


def _require_id(request_id: str) -> None:
    """Reject leading and trailing white space: it is lost in transport (RFC 9110 section 5.5), so the bank would see another id."""
    if not request_id or request_id != request_id.strip():
        raise LocalProtocolError(
            "seal.request-id-malformed",
            f"the request id {shown(request_id)} is empty, or begins or ends with white space",
        )


def _finish(prepared: PreparedRequest, signature: bytes) -> Headers:
    """Return the headers of the seal."""
    return prepared.finish(signature).headers[len(prepared.message.headers) :]


def _expires(profile: SealProfile, at: datetime, *, is_dated: bool) -> datetime | None:
    """Return when a signature expires: the earliest of the limits that apply to it, or None."""
    limits = (profile.expires_after, profile.max_age, DATE_LIFETIME if is_dated else None)
    lifetimes = [lifetime for lifetime in limits if lifetime is not None]
    return at.replace(microsecond=0) + min(lifetimes) if lifetimes else None  # signatures have whole seconds


def _fingerprint(prepared: PreparedRequest) -> bytes:
    """Hash what identifies a request: method, target, covered fields and digest, without its times."""
    message, layout = prepared.message, prepared.seal.layout
    covered = {*layout.covered, *layout.if_present} - {"date"}
    lower = [(name.lower(), value) for name, value in message.headers]
    fields = sorted([(name, value) for name, value in lower if name in covered or name.startswith(layout.prefixes)])
    # An empty body may have the digest of `{}`.
    what = (message.method, message.target, fields, prepared.digest, bool(message.body))
    return sha256(repr(what).encode("utf-8", "surrogatepass")).digest()


class ApiKeyCredentials:
    """Sends an API key as the whole Authorization header of rows with `Auth.API_KEY`.

    Args:
        key: the key, which is hidden in `repr`; with a scheme in front of it where the service wants one (assumption api-key-form).

    Raises:
        ConfigurationError: `credentials.malformed`.

    Example:
        Calls(LEGACY, base_url, credentials=ApiKeyCredentials(SecretStr(os.environ["API_KEY"])))
    """

    _auth = Auth.API_KEY
    _form, _form_text = _KEY, "printable ASCII, with one space at most: behind its scheme"

    @without_locals
    def __init__(self, key: SecretStr | str) -> None:
        self._key = Secret(key.get_secret_value() if isinstance(key, SecretStr) else key)
        if not self._form.fullmatch(self._key.get_secret_value()):
            raise ConfigurationError("credentials.malformed", f"the key must be {self._form_text}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._key!r})"

    def masked(self, text: str) -> str:
        """Replace the key, also in the form of the header and without its scheme, by asterisks."""
        key = self._key.get_secret_value()
        return text.replace(self._proof(key).removeprefix("Basic "), "***").replace(key.rpartition(" ")[2], "***")

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
    _form, _form_text = _USER, "printable ASCII without spaces and colons"

    def _proof(self, key: str) -> str:
        return f"Basic {encode_base64(f'{key}:'.encode())}"
