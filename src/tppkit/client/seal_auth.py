"""Seals the requests of an `httpx` or `httpx2` client.

    auth = SealAuth(identity, origin="https://psd2.bank.example")
    with make_client(identity, base_url="https://psd2.bank.example") as client:
        client.post("/psd2/v1/payments/sepa-credit-transfers", json=payment, auth=auth)

A seal is for one origin. A redirect is rejected before a request is sent to its target, because the libraries would send the seal.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import httpx

from tppkit._clock import utc_now
from tppkit.client.connections import AUTHS
from tppkit.client.credentials import SealCredentials
from tppkit.client.identity import Identity
from tppkit.errors import ConfigurationError, FormatError, LocalProtocolError, RemoteProtocolError
from tppkit.httpsig.components import Origin, parse_origin, shown_origin
from tppkit.httpsig.message import Message

if TYPE_CHECKING:
    _Auth = httpx.Auth
else:
    _Auth = type("_Auth", AUTHS, {})  # each library requires its own class


_SEAL = "tppkit.seal"  # the extension of a sent request with the headers that sealing added
_id_lock = Lock()


class SealAuth(_Auth):
    """Seals each request of a client, or of a single call, with the identity's current seal.

    A request without X-Request-ID gets a new one. If the dialect covers Date, a request without Date gets the present time. A repeated
    request has the same signature, byte for byte, until it expires. Repeated means the same request object, or the same X-Request-ID
    with the same method, target, body and covered headers. The same X-Request-ID with other contents is rejected. `SealCredentials`
    states how long requests are remembered; after that, a repeated request gets a new seal with the same id.

    The library sends a copy (`response.request`), so several threads and tasks may send one request object at once. Only a new id is
    written into the caller's request object, so that its copies and pickles have the same id.

    Args:
        identity: the identity with the seal; after a renewal, the new seal is used.
        origin: `https://host[:port]`; a request to another origin is rejected.
        new_request_id: makes X-Request-IDs.
        now: the present time, aware.

    Raises:
        ConfigurationError: `client.base-url`, `seal.absent`, `seal.other-origin`.
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
        if identity.seal is None:
            raise ConfigurationError("seal.absent", "this identity has no seal")
        self._origin = _parse_origin(origin)
        self._new_request_id = new_request_id
        self._credentials = SealCredentials(identity, origin=self._origin, now=now)

    def sync_auth_flow(self, request: Any) -> Generator[Any, Any, None]:
        """Seal the request, send it once, and reject a redirect.

        Raises:
            LocalProtocolError: `seal.origin`, `client.target`, and those of `SealCredentials.seal`; nothing was sent.
            RemoteProtocolError: `answer.redirect`.
            ConfigurationError, TransportError: from the signer; nothing was sent.
        """
        self._require_origin(request)
        request.read()
        message = _unsealed(request)
        sealed = self._credentials.seal(message, give_id=lambda header: self._id_of(request, header))
        sent = _sealed_copy(request, message, sealed)
        extensions = sent.extensions
        sent.extensions = {**extensions, "trace": _guard(sent, extensions.get("trace"))}
        try:
            _refuse_redirect((yield sent))
        finally:
            sent.extensions = extensions

    async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        """See `sync_auth_flow`; does not block the event loop."""
        self._require_origin(request)
        await request.aread()
        message = _unsealed(request)
        sealed = await self._credentials.seal_async(message, give_id=lambda header: self._id_of(request, header))
        sent = _sealed_copy(request, message, sealed)
        extensions = sent.extensions
        sent.extensions = {**extensions, "trace": _async_guard(sent, extensions.get("trace"))}
        try:
            _refuse_redirect((yield sent))
        finally:
            sent.extensions = extensions

    def _id_of(self, request: Any, header: str) -> str:
        """Return a new id for a request, and write it into the request; concurrent callers get the id of the first."""
        new = str(self._new_request_id())
        with _id_lock:
            written: str = request.headers.setdefault(header, new)
        return written

    def _require_origin(self, request: Any) -> None:
        """Check that the address and each Host header (from the library or the caller) are of the origin."""
        url, authorities = request.url, [request.url.netloc.decode("ascii"), *request.headers.get_list("host")]
        for authority in authorities:
            try:
                found = parse_origin(f"{url.scheme}://{authority}")
            except FormatError:
                found = Origin(url.scheme, authority)
            if found != self._origin:
                raise LocalProtocolError(
                    "seal.origin", f"the seal is for {shown_origin(self._origin)}, not for {shown_origin(found)}"
                )


def _unsealed(request: Any) -> Message:
    """Return the request without the headers that an earlier sending added; its id is still in the request object."""
    message, before = Message.from_httpx(request), request.extensions.get(_SEAL, ())
    return message._replace(headers=tuple([field for field in message.headers if field not in before]))


def _sealed_copy(request: Any, message: Message, sealed: Message) -> Any:
    """Return the request to send: of the same library, with its own headers and extensions."""
    fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in sealed.headers]
    extensions = {**request.extensions, _SEAL: sealed.headers[len(message.headers) :]}
    kind = type(request)
    stream = kind(request.method, request.url, content=request.content).stream  # an unpickled request has no stream
    copy = kind(request.method, request.url, headers=fields, stream=stream, extensions=extensions)
    copy.read()  # from memory
    return copy


class _Sending:
    """Checks the library's trace events of one sending: it may start only the sealed request, and nothing after a redirect.

    It may also start a tunnel through a proxy to the request's host.
    """

    def __init__(self, request: Any) -> None:
        url = request.url
        self._sealed = (request.method.encode("ascii"), url.raw_scheme, url.raw_host, url.port, url.raw_path)
        self._tunnel = (b"CONNECT", b"%b:%d" % (url.raw_host, url.port or 443))
        self._redirected = False

    def follow(self, event: str, info: Any) -> None:
        """Check an event.

        Raises:
            RemoteProtocolError: `answer.redirect`.
            LocalProtocolError: `client.target`.
        """
        if event.endswith(".receive_response_headers.complete"):
            status = next(value for value in info["return_value"] if isinstance(value, int))
            self._redirected = 300 <= status < 400
            return
        begins = event.endswith(".send_request_headers.started")
        if self._redirected and (begins or event == "connection.connect_tcp.started"):
            raise RemoteProtocolError("answer.redirect", "a sealed request was answered with a redirect")
        if begins and not self._is_ours(info["request"]):
            raise LocalProtocolError("client.target", "the HTTP library would send another request than the sealed one")

    def _is_ours(self, request: Any) -> bool:
        url = request.url
        begun = (request.method, url.scheme, url.host, url.port, url.target)
        return begun == self._sealed or (request.method, url.target) == self._tunnel


def _guard(request: Any, further: Callable[[str, Any], None] | None) -> Callable[[str, Any], None]:
    sending = _Sending(request)

    def trace(event: str, info: Any) -> None:
        sending.follow(event, info)
        if further is not None:
            further(event, info)

    return trace


def _async_guard(
    request: Any, further: Callable[[str, Any], Awaitable[None]] | None
) -> Callable[[str, Any], Awaitable[None]]:
    sending = _Sending(request)

    async def trace(event: str, info: Any) -> None:
        sending.follow(event, info)
        if further is not None:
            await further(event, info)

    return trace


def _parse_origin(text: str) -> Origin:
    try:
        origin = parse_origin(text.removesuffix("/"))
    except FormatError as e:
        raise ConfigurationError("client.base-url", f"the origin: {e.message}") from e
    if origin.scheme != "https":
        raise ConfigurationError("client.base-url", "the origin is not https://host[:port]")
    return origin


def _refuse_redirect(response: Any) -> None:
    if response.has_redirect_location or response.history:
        raise RemoteProtocolError(
            "answer.redirect", f"a sealed request was answered with a redirect ({response.status_code})"
        )
