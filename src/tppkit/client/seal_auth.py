"""Seals the requests of an `httpx` or `httpx2` client.

A seal is for one origin. Clients of `make_client` follow no redirect, because the libraries would send the seal to its target.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from datetime import datetime
from threading import Lock
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import httpx

from tppkit._clock import utc_now
from tppkit.client.connections import AUTHS
from tppkit.client.credentials import KeepSent, SealCredentials
from tppkit.client.identity import Identity
from tppkit.errors import ConfigurationError, FormatError, LocalProtocolError, RemoteProtocolError
from tppkit.httpsig.components import Origin, parse_origin, shown_origin
from tppkit.message import Message

if TYPE_CHECKING:
    _Auth = httpx.Auth
else:
    _Auth = type("_Auth", AUTHS, {})  # each library requires its own class


_SEAL = "tppkit.seal"  # the extension of a sent request with the headers that sealing added
_id_lock = Lock()


class SealAuth(_Auth):
    """Seals each request of a client, or of a single call, with the identity's current seal.

    A request without X-Request-ID gets a new one. If the dialect covers Date, a request without Date gets the present time. A repeated
    request gets a new seal with the same id. Repeated means the same request object, or the same X-Request-ID with the same method,
    target, body and covered headers. The same X-Request-ID with other contents is rejected. `SealCredentials` states how many ids are
    remembered.

    The library sends a copy (`response.request`), so several threads and tasks may send one request object at once. Only a new id is
    written into the caller's request object, so that its copies and pickles have the same id.

    Args:
        identity: the identity with the seal; after a renewal, the new seal is used.
        origin: `https://host[:port]`; a request to another origin is rejected.
        new_request_id: makes X-Request-IDs.
        now: the present time, aware.
        keep: called with each sealed request before it is sent, to keep it as evidence. If it raises, the request is not sent.

    Raises:
        ConfigurationError: `client.base-url`, `seal.absent`, `seal.other-origin`.

    Example:
        auth = SealAuth(identity, origin="https://psd2.bank.example")
        with make_client(identity, base_url="https://psd2.bank.example", auth=auth) as client:
            client.post("/psd2/v1/payments/sepa-credit-transfers", json=payment)
    """

    requires_request_body = True

    def __init__(
        self,
        identity: Identity,
        *,
        origin: str,
        new_request_id: Callable[[], UUID] = uuid4,
        now: Callable[[], datetime] = utc_now,
        keep: KeepSent | None = None,
    ) -> None:
        if identity.seal is None:
            raise ConfigurationError("seal.absent", "this identity has no seal")
        self._origin = _parse_origin(origin)
        self._new_request_id = new_request_id
        self._credentials = SealCredentials(identity, origin=self._origin, now=now, keep=keep)

    def sync_auth_flow(self, request: Any) -> Generator[Any, Any, None]:
        """Seal the request, send it once, and reject a redirect.

        Raises:
            LocalProtocolError: `seal.origin`, `client.target`, and those of `SealCredentials.seal`; nothing was sent.
            RemoteProtocolError: `answer.redirect`.
            ConfigurationError, TransportError: from the signer; nothing was sent.
        """
        self._require_origin(request)
        _require_target(request)
        request.read()
        message = _unsealed(request)
        sealed = self._credentials.seal(message, give_id=lambda header: self._id_of(request, header))
        _refuse_redirect((yield _sealed_copy(request, message, sealed)))

    async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        """See `sync_auth_flow`; does not block the event loop."""
        self._require_origin(request)
        _require_target(request)
        await request.aread()
        message = _unsealed(request)
        sealed = await self._credentials.seal_async(message, give_id=lambda header: self._id_of(request, header))
        _refuse_redirect((yield _sealed_copy(request, message, sealed)))

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


def _require_target(request: Any) -> None:
    """Check that no extension replaces the target, which is sealed as the address has it."""
    if request.extensions.get("target", request.url.raw_path) != request.url.raw_path:
        raise LocalProtocolError("client.target", "the HTTP library would send another target than the sealed one")


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
