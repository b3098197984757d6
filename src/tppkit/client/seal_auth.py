"""Seals the requests of an `httpx` or `httpx2` client.

    auth = SealAuth(identity, origin="https://psd2.bank.example")
    with make_client(identity, base_url="https://psd2.bank.example") as client:
        client.post("/psd2/v1/payments/sepa-credit-transfers", json=payment, auth=auth)

A seal is for one origin. A redirect is refused before anything is sent to where it leads: the libraries would send the seal along.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from datetime import UTC, datetime
from email.utils import format_datetime
from hashlib import sha256
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

import httpx

from tppkit._clock import utc_now
from tppkit._encoding import shown
from tppkit.client.http_libraries import AUTHS
from tppkit.client.identity import Identity
from tppkit.errors import ConfigurationError, LocalProtocolError, RemoteProtocolError
from tppkit.httpsig.message import Header, Message
from tppkit.seals import Seal, prepare_request, sign_request, sign_request_async

if TYPE_CHECKING:
    _Auth = httpx.Auth
else:
    _Auth = type("_Auth", AUTHS, {})  # each library asks whether it is one of its own

MAX_REMEMBERED = 1024
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)
_PORTS = {"https": 443, "http": 80}

Origin = tuple[str, str, int | None]


class _Sealed(NamedTuple):
    fingerprint: bytes
    headers: tuple[Header, ...]
    date: str


class SealAuth(_Auth):
    """Seals each request of a client, or of a single call, with the identity's present seal.

    A request without X-Request-ID gets a new one, and one without Date the present time where the dialect covers it. A request
    that is sent again (the same request object, or the same X-Request-ID with the same method, target, body and covered headers)
    carries the same signature as before, byte for byte; the same X-Request-ID with anything else is refused.

    Args:
        identity: whose seal signs; a renewed identity signs with its new seal.
        origin: `https://host[:port]`; a request to anywhere else is refused.
        new_request_id: makes X-Request-IDs.
        now: the present time, aware, for dialects that write the time of signing.

    Raises:
        ConfigurationError: `client.base-url`, `seal.absent`.
    """

    requires_request_body = True

    def __init__(
        self,
        identity: Identity,
        *,
        origin: str,
        new_request_id: Callable[[], UUID] = uuid4,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._identity = identity
        self._origin = _parse_origin(origin)
        self._new_request_id = new_request_id
        self._now = now
        self._sent: OrderedDict[str, _Sealed] = OrderedDict()
        self._lock = Lock()
        _ = self._seal

    def sync_auth_flow(self, request: Any) -> Generator[Any, Any, None]:
        """Seal the request, send it once, and refuse a redirect.

        Raises:
            LocalProtocolError: `seal.origin`, `seal.request-id-reused`, `seal.header-present`; nothing was sent.
            RemoteProtocolError: `answer.redirect`.
            ConfigurationError, TransportError: of the signer; nothing was sent.
        """
        self._require_origin(request.url)
        request.read()
        message, seal, sealed = self._prepare(request)
        if sealed is None:
            sealed = self._keep(message, seal, sign_request(message, seal=seal, at=self._now()))
        request.headers.update(sealed.headers)
        before = request.extensions
        request.extensions = {**before, "trace": _guard(before.get("trace"))}
        try:
            _refuse_redirect((yield request))
        finally:
            request.extensions = before

    async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        """The same without holding up the event loop."""
        self._require_origin(request.url)
        await request.aread()
        message, seal, sealed = self._prepare(request)
        if sealed is None:
            sealed = self._keep(message, seal, await sign_request_async(message, seal=seal, at=self._now()))
        request.headers.update(sealed.headers)
        before = request.extensions
        request.extensions = {**before, "trace": _async_guard(before.get("trace"))}
        try:
            _refuse_redirect((yield request))
        finally:
            request.extensions = before

    @property
    def _seal(self) -> Seal:
        if self._identity.seal is None:
            raise ConfigurationError("seal.absent", "this identity has no seal")
        return self._identity.seal

    def _require_origin(self, url: Any) -> None:
        found = _origin(url)
        if found != self._origin:
            raise LocalProtocolError("seal.origin", f"the seal is for {_text(self._origin)}, not for {_text(found)}")

    def _prepare(self, request: Any) -> tuple[Message, Seal, _Sealed | None]:
        """The request as it goes out, the seal to use, and what sealed it before."""
        seal, headers = self._seal, request.headers
        rid_name = seal.profile.request_id or "X-Request-ID"
        if rid_name not in headers:
            headers[rid_name] = str(self._new_request_id())
        rid = headers[rid_name]
        with self._lock:
            sealed = self._sent.get(rid.lower())
        if "date" in seal.layout.covered and "date" not in headers:
            headers["Date"] = sealed.date if sealed else format_datetime(self._now().astimezone(UTC), usegmt=True)
        ours = () if sealed is None else sealed.headers
        fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers.raw]
        target = request.url.raw_path.decode("ascii")
        message = Message(
            request.method, target, tuple(field for field in fields if field not in ours), request.content
        )
        if sealed is not None and sealed.fingerprint != _fingerprint(message, seal):
            raise LocalProtocolError(
                "seal.request-id-reused", f"{rid_name} {shown(rid)} was sent with another request already"
            )
        return message, seal, sealed

    def _keep(self, message: Message, seal: Seal, signed: Message) -> _Sealed:
        added = signed.headers[len(message.headers) :]
        sealed = _Sealed(_fingerprint(message, seal), added, "".join(message.values("date")))
        rid = ", ".join(message.values(seal.profile.request_id or "X-Request-ID"))
        with self._lock:
            self._sent[rid.lower()] = sealed
            while len(self._sent) > MAX_REMEMBERED:
                self._sent.popitem(last=False)
        return sealed


def _guard(further: Callable[[str, Any], None] | None) -> Callable[[str, Any], None]:
    """What the library tells of its steps, for one sending: a second connection or request can only be a redirect."""
    begun = False

    def trace(event: str, info: Any) -> None:
        nonlocal begun
        begins = event.endswith(".send_request_headers.started")
        if begun and (begins or event == "connection.connect_tcp.started"):
            raise RemoteProtocolError("answer.redirect", "a sealed request was answered with a redirect")
        begun = begun or begins
        if further is not None:
            further(event, info)

    return trace


def _async_guard(further: Callable[[str, Any], Awaitable[None]] | None) -> Callable[[str, Any], Awaitable[None]]:
    guard = _guard(None)

    async def trace(event: str, info: Any) -> None:
        guard(event, info)
        if further is not None:
            await further(event, info)

    return trace


def _parse_origin(text: str) -> Origin:
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, TypeError):
        url = httpx.URL("")
    if url.scheme != "https" or not url.host or url.raw_path not in (b"", b"/") or url.userinfo or url.fragment:
        raise ConfigurationError("client.base-url", "the origin is not https://host[:port]")
    return _origin(url)


def _origin(url: Any) -> Origin:
    return url.scheme, url.host, url.port or _PORTS.get(url.scheme)


def _text(origin: Origin) -> str:
    scheme, host, port = origin
    return f"{scheme}://{shown(host)}:{port}"


def _fingerprint(message: Message, seal: Seal) -> bytes:
    """Of all that is signed, except when, and of the body."""
    signed = prepare_request(message, seal=seal, at=_ANY_TIME).signing_string
    return sha256(sha256(signed).digest() + sha256(message.body).digest()).digest()


def _refuse_redirect(response: Any) -> None:
    if response.has_redirect_location or response.history:
        raise RemoteProtocolError(
            "answer.redirect", f"a sealed request was answered with a redirect ({response.status_code})"
        )
