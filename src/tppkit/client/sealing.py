"""Sealing what goes to a bank: one X-Request-ID is one request with one signature, from however many threads and tasks it is sent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import sha256
from typing import NamedTuple

from tppkit._clock import as_utc
from tppkit._encoding import shown
from tppkit.client.identity import Identity
from tppkit.client.sealed_requests import SealedRequest, SealedRequests
from tppkit.errors import ConfigurationError, LocalProtocolError
from tppkit.httpsig.components import Origin, shown_origin
from tppkit.httpsig.http_date import format_http_date
from tppkit.httpsig.message import Header, Message
from tppkit.seals import PreparedRequest, Seal, SealProfile, prepare_request

WAIT_S = 30.0
DATE_LIFETIME = timedelta(minutes=5)  # assumption age-of-a-date

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


class _Ready(NamedTuple):
    """A request that lacks only its signature.

    Attributes:
        prepared: the request with its id and Date.
        request: the same, to be known by its id.
        given_date: the Date that the request came with, where the dialect covers it.
        added: the header of the id, if it was not there.
    """

    prepared: PreparedRequest
    request: SealedRequest
    given_date: str
    added: Headers

    def finish(self, signature: bytes) -> Headers:
        """The headers of the seal."""
        prepared = self.prepared
        return prepared.finish(signature).headers[len(prepared.message.headers) :]

    def sealed_as(self, request: SealedRequest) -> Sealed:
        """What is added to this request, where another one like it may have been sealed."""
        seal = request.headers or ()
        return Sealed(self.added, (("Date", request.date), *seal) if request.date and not self.given_date else seal)


class Sealing:
    """Seals requests with the identity's present seal, and knows those that it sealed (`SealedRequests` says how long).

    Args:
        identity: whose seal signs.
        origin: where the requests go.
        now: the present time, aware.
        wait_s: how long a second arrival waits for the first one's signature, in seconds.

    Raises:
        ConfigurationError: `seal.other-origin`, the seal was made for another origin.
    """

    def __init__(
        self, identity: Identity, *, origin: Origin, now: Callable[[], datetime], wait_s: float = WAIT_S
    ) -> None:
        self._identity, self._origin, self._now, self._wait_s = identity, origin, now, wait_s
        if identity.seal is not None:
            self._require_origin(identity.seal)
        self._requests = SealedRequests()

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
        prepared, request = ready.prepared, ready.request
        while (taken := self._requests.take(request, given_date=ready.given_date)) is not request:
            taken.wait(self._wait_s)
            if taken.headers is not None:
                return ready.sealed_as(taken)
        try:
            headers = ready.finish(prepared.seal.sign(prepared.signing_string))
        except BaseException:
            self._requests.give_back(request)
            raise
        self._requests.fill(request, headers)
        return ready.sealed_as(request)

    async def seal_async(self, message: Message, *, give_id: Callable[[str], str]) -> Sealed:
        """The same, awaiting the signer."""
        ready = self._prepare(message, give_id)
        prepared, request = ready.prepared, ready.request
        while (taken := self._requests.take(request, given_date=ready.given_date)) is not request:
            await taken.wait_async(self._wait_s)
            if taken.headers is not None:
                return ready.sealed_as(taken)
        try:
            headers = ready.finish(await prepared.seal.sign_async(prepared.signing_string))
        except BaseException:
            self._requests.give_back(request)
            raise
        self._requests.fill(request, headers)
        return ready.sealed_as(request)

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
        at, covered = as_utc(self._now()), seal.layout.covered
        is_dated = "date" in covered or "date" in seal.layout.if_present
        given = date = ", ".join(message.values("date")) if is_dated else ""
        if not date and "date" in covered:
            date = format_http_date(at)
            message = message.with_headers(("Date", date))
        prepared = prepare_request(message, seal=seal, at=at)
        expires = _expires(seal.profile, at, is_dated=bool(date))
        fingerprint = _fingerprint(prepared)
        request_id = ", ".join(ids).lower()
        request = SealedRequest(request_id, message.method, fingerprint, at=at, expires=expires, date=date)
        return _Ready(prepared, request, given, added)

    def _require_origin(self, seal: Seal) -> None:
        """What a seal covers of the origin is told by the seal, what is called by the client: both are one."""
        if seal.origin is not None and seal.origin != self._origin:
            raise ConfigurationError(
                "seal.other-origin",
                f"the seal is made for {shown_origin(seal.origin)}, its requests go to {shown_origin(self._origin)}",
            )


def _require_id(request_id: str) -> None:
    """White space at the ends is lost on the way (RFC 9110 section 5.5), so such an id would be another one for the bank."""
    if not request_id or request_id != request_id.strip():
        raise LocalProtocolError(
            "seal.request-id-malformed",
            f"the request id {shown(request_id)} is empty, or begins or ends with white space",
        )


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
