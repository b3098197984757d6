"""Credentials of a request: a seal, an API key or HTTP Basic. The certificate of the connection is the `Identity`'s.

An X-Request-ID identifies one request. A repeated request is sealed again; another request with the same id is rejected, so that
two payments never share an id. For that, the fingerprint of each sealed request is remembered, but not its seal.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from threading import Lock
from typing import Any, NamedTuple

from pydantic import SecretStr

from tppkit._cache import Cache
from tppkit._clock import as_utc, utc_now
from tppkit._encoding import encode_base64, shown
from tppkit._handlers import require_finished
from tppkit._locals import without_locals
from tppkit.client.identity import Identity
from tppkit.errors import ConfigurationError, LocalProtocolError
from tppkit.httpsig.components import Origin, shown_origin
from tppkit.httpsig.http_date import format_http_date
from tppkit.message import Message
from tppkit.protocol.endpoint import Auth, Endpoint
from tppkit.protocol.secret import Secret
from tppkit.seals import PreparedRequest, Seal, SentRequest, prepare_request

MAX_CHANGING = 100_000
MAX_READING = 1024

KeepSent = Callable[[SentRequest], object]
"""Keeps a sealed request as evidence; for asyncio it may be a coroutine function."""
_READING = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})  # RFC 9110 section 9.2.1
_USER = re.compile(r"[!-9;-~]+")
_KEY = re.compile(r"[!-~]+(?: [!-~]+)?")


class _Ready(NamedTuple):
    """A request that lacks only its signature.

    Attributes:
        prepared: the request with its id, and with a Date if the dialect covers it.
        request_id: the id in lower case.
        fingerprint: the fingerprint of the request.
        at: the time of signing, aware UTC.
    """

    prepared: PreparedRequest
    request_id: str
    fingerprint: bytes
    at: datetime


class SealCredentials:
    """Seals requests with the identity's current seal. The same X-Request-ID is sealed again for the same request only.

    The ids of the last 100,000 requests that change data are remembered, and separately those of the last 1,024 that only read.

    Args:
        identity: the identity with the seal.
        origin: the origin that requests are sent to.
        now: the present time, aware.
        keep: called with each sealed request before it is sent, to keep it as evidence. If it raises, the request is not sent.

    Raises:
        ConfigurationError: `seal.other-origin`, the seal was made for another origin.
    """

    def __init__(
        self,
        identity: Identity,
        *,
        origin: Origin,
        now: Callable[[], datetime] = utc_now,
        keep: KeepSent | None = None,
    ) -> None:
        self._identity, self._origin, self._now, self._keep = identity, origin, now, keep
        if identity.seal is not None:
            self._require_origin(identity.seal)
        self._reading = Cache[str, bytes](MAX_READING)
        self._changing = Cache[str, bytes](MAX_CHANGING)
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
            The message with these headers at the end.

        Raises:
            LocalProtocolError: `seal.absent`, `seal.request-id-malformed`, `seal.request-id-reused`, `seal.header-present`.
            SignatureRejected: `signature.header-absent`.
            FormatError: see `prepare_request`.
            ConfigurationError: `seal.other-origin`, for a renewed seal; see `Seal.sign` and `PreparedRequest.finish`.
            TransportError: from the signer.
        """
        ready = self._prepare(message, give_id)
        sent = self._finish(ready, ready.prepared.seal.sign(ready.prepared.signing_string))
        if self._keep is not None:
            require_finished(self._keep(sent))
        return sent.message

    async def seal_async(self, message: Message, *, give_id: Callable[[str], str]) -> Message:
        """See `seal`; awaits the signer, and `keep` if it is a coroutine function."""
        ready = self._prepare(message, give_id)
        sent = self._finish(ready, await ready.prepared.seal.sign_async(ready.prepared.signing_string))
        if self._keep is not None:
            kept = self._keep(sent)
            require_finished(await kept if inspect.isawaitable(kept) else kept)
        return sent.message

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
        at = self._now()
        if "date" in seal.profile.covered_names and not any(message.values("date")):
            message = message.with_headers(("Date", format_http_date(at)))
        prepared = prepare_request(message, seal=seal, at=at)
        ready = _Ready(prepared, ", ".join(ids).lower(), _fingerprint(prepared), as_utc(at))
        with self._lock:
            self._require_same(ready)
        return ready

    def _finish(self, ready: _Ready, signature: bytes) -> SentRequest:
        """Return the sealed request, and remember its id.

        The id is checked again, because another request with it may have been sealed meanwhile. An id whose signature fails stays free.
        """
        sealed = ready.prepared.finish(signature)
        memory = self._reading if sealed.method in _READING else self._changing
        with self._lock:
            self._require_same(ready)
            memory.put(ready.request_id, ready.fingerprint)
        return SentRequest(sealed, ready.prepared, (self._identity.qwac, *self._identity.chain), ready.at)

    def _require_same(self, ready: _Ready) -> None:
        """Check that no other request has the id; the caller holds the lock."""
        known = self._changing.get(ready.request_id) or self._reading.get(ready.request_id)
        if known not in (None, ready.fingerprint):
            raise LocalProtocolError(
                "seal.request-id-reused", f"another request already has the request id {shown(ready.request_id)}"
            )

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


def _fingerprint(prepared: PreparedRequest) -> bytes:
    """Hash what identifies a request: method, target, covered fields and digest, without its times."""
    message, profile = prepared.message, prepared.seal.profile
    covered = {*profile.covered_names, *profile.if_present} - {"date"}
    lower = [(name.lower(), value) for name, value in message.headers]
    fields = sorted([(name, value) for name, value in lower if name in covered or name.startswith(profile.prefixes)])
    # An empty body may have the digest of `{}`, and some dialects hash a part of the body or nothing.
    body = bool(message.body) if profile.hashes_whole_body else message.body
    what = (message.method, message.target, fields, prepared.digest, body)
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
        text: object = key.get_secret_value() if isinstance(key, SecretStr) else key
        if not isinstance(text, str) or not self._form.fullmatch(text):
            raise ConfigurationError("credentials.malformed", f"the key must be {self._form_text}")
        self._key = Secret(text)

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
