"""An interface's host: routes by the rows, authenticates, and answers each request in one transaction.

1. Find the row by method, path and query. If that fails, authenticate the caller before the error is raised.
2. Authenticate the caller, as the row demands.
3. Check that the caller has the row's role.
4. Receive the body, bounded, and verify digest and seal.
5. In one transaction: claim the request id, check a covered Date of a new request, run the handler, store its answer, and add the
   evidence to the outbox. A handler that does not write runs on a snapshot; then `Answer.before` runs in a separate transaction.
6. After the commit, sign the answer if the bank does so, and send it.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Connection

from tppkit._clock import to_microseconds
from tppkit._encoding import decode_base64, encode_base64
from tppkit._text import printable
from tppkit.errors import ConfigurationError, FormatError, LocalProtocolError, TppkitError
from tppkit.message import Answer, Header, Message
from tppkit.protocol.adapted import filled
from tppkit.protocol.endpoint import Auth, Interface, Route, is_streamed
from tppkit.protocol.refusals import Refusal
from tppkit.protocol.wire import require_media_type, safe_name, unknown_fields_of
from tppkit.sandbox.cell import Handler, HostCall, Services, StreamHandler
from tppkit.sandbox.exchange import Exchange, exchange_of
from tppkit.sandbox.request_log import without_secrets
from tppkit.sandbox.signed_answers import SignAnswer
from tppkit.sandbox.stream import Send, Stream
from tppkit.web.caller import Authenticator, Caller, Pending
from tppkit.web.replay import Bounds, Verdict
from tppkit.web.sources import AsgiSource, Receive, Source, receive_chunk

RETRY_AFTER_S = 1
_MAX_NAMES = 5
# Errors of the sandbox that a developer can fix. Unlike a real bank, it reports their reason.
_EXPLAINED = frozenset({"pki.unusable", "database.unavailable", "archive.unusable"})

_ACCOUNT_INFORMATION = "PSP_AI"  # what is sealed in this role makes a consent, not a payment
_LOGGER = logging.getLogger("tppkit.sandbox.host")


class _Sent(NamedTuple):
    """An answer, ready to be sent."""

    status: int
    headers: tuple[Header, ...]
    body: bytes
    stream: Stream | None = None  # sent in place of the body
    before: Callable[[Connection], None] | None = None  # runs in a transaction before the answer is sent
    due_at: datetime | None = None  # of the next event of the changed object
    delivers: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """An interface as an ASGI application.

    Attributes:
        interface: the endpoints and errors.
        handlers: one for each row.
        authenticators: one for each kind of `Auth` that the rows have.
        services: the services of the bank.
        settings: the settings of this bank for the interface.
        request_id: the header of the request's id, if it differs from the interface's.
        sign: signs each answer, also refusals and repeated answers; None leaves them unsigned.

    Raises:
        ConfigurationError: `host.handlers`, a row has no handler or authenticator; `endpoint.streamed`, a handler of the wrong kind.
    """

    interface: Interface
    handlers: Sequence[Handler[Any, Any] | StreamHandler[Any, Any]]
    authenticators: Mapping[Auth, Authenticator]
    services: Services
    settings: Any = None
    request_id: str | None = None
    sign: SignAnswer | None = None
    _by_row: Mapping[str, Handler[Any, Any] | StreamHandler[Any, Any]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        by_row = {handler.row.name: handler for handler in self.handlers}
        missing = [row.name for row in self.interface.endpoints if row.name not in by_row]
        kinds = {row.auth for row in self.interface.endpoints} | {self.interface.default_auth}
        missing += sorted(kinds - self.authenticators.keys())
        # Roles are in QWACs, so only an authenticator of QWACs checks them.
        missing += [row.name for row in self.interface.endpoints if row.role and row.auth not in (Auth.QWAC, Auth.SEAL)]
        if missing:
            raise ConfigurationError("host.handlers", f"the {self.interface.name} host lacks {', '.join(missing)}")
        for handler in self.handlers:
            _require_kind(handler)
            once = handler.row.once
            if once is None:
                continue
            if once.window not in self.services.requests:
                raise ConfigurationError(
                    "host.handlers", f"no table of request ids has the window of {handler.row.name}"
                )
            if once.header != self.interface.request_id:
                raise ConfigurationError(
                    "host.handlers", f"{handler.row.name} has its id in another header than others"
                )
        object.__setattr__(self, "_by_row", by_row)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        source = AsgiSource(scope)
        try:
            sent = await self._answer(source, receive)
        except Exception as e:  # noqa: BLE001  # logged, and answered with status 500 without details
            sent = self._refuse(source, e)
        if self.sign is not None:
            sent = self._signed(sent, source, self.sign)  # 6
        headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in sent.headers]
        if sent.stream is None and sent.status != 204:  # RFC 9110 section 8.6
            headers.append((b"content-length", str(len(sent.body)).encode()))
        with suppress(OSError):  # the client has disconnected
            await send({"type": "http.response.start", "status": sent.status, "headers": headers})
            if sent.stream is not None:
                await sent.stream.send(receive, send)
            else:
                await send({"type": "http.response.body", "body": sent.body})

    def _signed(self, sent: _Sent, source: Source, sign: SignAnswer) -> _Sent:
        """Return the answer with its signature, over the request as received. Without one, nothing but a refusal is sent."""
        try:
            request = source.head()
            body = b"" if request.method == "HEAD" else sent.body
            return sent._replace(headers=sign(Answer(sent.status, sent.headers, body), request).headers)
        except TppkitError as e:  # what it would cover of the request is malformed
            _LOGGER.warning("  the answer is not signed: %s", without_secrets(printable(str(e))))
            return sent if sent.status >= 400 else self._refuse(source, TppkitError("host.failed", ""))

    async def _answer(self, source: Source, receive: Receive) -> _Sent:
        head, route, exchange = source.head(), None, exchange_of(source.extensions)
        try:
            route = self.interface.find(head.method, head.target)  # 1
        except TppkitError:
            row = self.interface.row_of(head.method, head.target)
            auth = self.interface.default_auth if row is None else row.auth
            self.authenticators[auth].open(source, row)
            raise
        if exchange is not None:
            exchange.row, exchange.parameters = route.row.name, route.parameters
            if "?" in head.target:
                exchange.unknown_query = route.row.unknown_query(head.target)
        resets = self.services.gate.resets
        pending = self.authenticators[route.row.auth].open(source, route.row)  # 2, 3
        caller, message = await _receive(pending, receive, head)  # 4
        if exchange is not None:
            exchange.caller = caller.id
            exchange.path_length = len(caller.qwac_chain) or None
        request = _Request(route, caller, message, self._id(source), exchange)
        async with self.services.gate:
            if self.services.gate.resets != resets:
                self.authenticators[route.row.auth].open(source, route.row)  # the caller may be gone
            self.services.evidence.require_working(caller)
            await self.services.events.catch_up()
            try:
                return await self._run(request)  # 5
            except TppkitError as e:
                await self._keep_refusal(request, e)
                raise

    async def _run(self, request: _Request) -> _Sent:
        services, handler = self.services, self._by_row[request.route.row.name]
        if isinstance(handler, StreamHandler):
            return await self._open_stream(request, handler)
        if not handler.writes:
            read = services.database.read if handler.long else services.database.read_soon
            sent = await read(lambda db: self._job(db, request, handler))
            if sent.before is not None:
                await services.database.write(sent.before)
            return sent

        def then(sent: _Sent) -> None:
            if request.caller.seal is not None:
                services.evidence.committed()
            if sent.due_at is not None or sent.delivers:
                services.events.schedule(sent.due_at, delivers=sent.delivers)

        return await services.database.write(lambda db: self._job(db, request, handler), then=then)

    async def _open_stream(self, request: _Request, handler: StreamHandler[Any, Any]) -> _Sent:
        row, at = request.route.row, self.services.now()
        chunks = self.services.database.stream(lambda db: row.rows.chunks(handler.rows(self._call(db, request, at))))
        stream = await Stream.open(chunks, deadline_s=handler.deadline_s)
        return self._with_echo(_Sent(row.success, _headers(row.rows.media_type), b"", stream), request.id)

    def _job(self, db: Connection, request: _Request, handler: Handler[Any, Any]) -> _Sent:
        row, services, at = request.route.row, self.services, self.services.now()
        claim, keep = None, partial(services.evidence.keep, is_consent=row.role == _ACCOUNT_INFORMATION)
        if row.once is not None:
            requests, key = services.requests[row.once.window], request.key
            claim = requests.claim(db, key, request.digest, _bounds(at, row.once.window))
        date_fault = None if request.caller.seal is None else request.caller.seal.date_fault
        if date_fault is not None and (claim is None or claim.answer is None):  # assumption covered-date
            raise date_fault
        if claim is not None and row.once is not None:
            if claim.verdict is Verdict.OTHER:
                raise LocalProtocolError("request-id.reuse", f"another request has used this {row.once.text}")
            if claim.answer is not None:
                subject, kept, sealed = _read_kept(claim.answer)
                repeated = True if date_fault is not None or sealed == _sealed(request.caller) else None
                keep(db, request.caller, status=kept.status, code=None, subject=subject, repeated=repeated)
                return self._with_echo(kept, request.id)
            if claim.verdict is not Verdict.FIRST:
                raise LocalProtocolError("request-id.in-progress", "the first request with this id has no answer yet")
        answer = handler.answer(self._call(db, request, at))
        if handler.writes and answer.before is not None:
            raise ConfigurationError("host.handlers", f"{row.name} writes, so its answer has no `before`")
        body = row.write_answer(answer.value, answer.facts)
        headers = (*_headers(row.whole.media_type if body else None), *answer.headers)
        if row.answer_headers:
            headers += tuple((name, text) for name, one in row.answer_headers if (text := filled(one, answer.facts)))
        sent = _Sent(row.success, headers, body, None, answer.before, answer.due_at, answer.delivers)
        if claim is not None and row.once is not None:
            kept_bytes = _write_kept(answer.subject, sent, _sealed(request.caller))
            requests.settle(db, key, claim.attempt, kept_bytes)
            requests.sweep(db, forget=_bounds(at, row.once.window).forget)
        repeated = None if claim is None else False
        keep(db, request.caller, status=sent.status, code=None, subject=answer.subject, repeated=repeated)
        return self._with_echo(sent, request.id)

    def _call(self, db: Connection, request: _Request, at: datetime) -> HostCall[Any]:
        route, message = request.route, request.message
        for wanted in route.row.headers:
            if not message.single(wanted.name.lower()):
                raise FormatError("header.required", f"this bank requires the header {wanted.name}")
        if route.row.request.media_type is not None:
            require_media_type(message.single("content-type"), route.row.request.media_type)
            if message.single("content-encoding"):
                raise FormatError("message.content-encoding", "the body has a Content-Encoding")
        body = route.row.request.read(message.body, tolerant=False)
        known = route.row.further_fields
        found = [(model, name) for model, name in unknown_fields_of(body) if name not in known]
        unknown = sorted({safe_name(name) for _, name in found})
        if unknown:
            _LOGGER.warning("  unknown fields: %s", without_secrets(", ".join(unknown[:_MAX_NAMES])))
        if request.exchange is not None:
            request.exchange.unknown_fields = tuple([name for model, name in found if not model.is_open])
        return HostCall(
            request.caller.id,
            at,
            route.parameters,
            route.query,
            message,
            body,
            db,
            self.settings,
            self.services.new_id,
            request.caller.name,
            self.interface,
        )

    async def _keep_refusal(self, request: _Request, error: TppkitError) -> None:
        refusal = self.interface.refusals.refusal_for(error)
        seal = request.caller.seal
        if seal is None or seal.date_fault is not None or refusal.status >= 500:  # an old Date fails the audit
            return
        keep = self.services.evidence.keep
        await self.services.database.write(
            lambda db: keep(db, request.caller, status=refusal.status, code=refusal.code, subject=None),
            then=self.services.evidence.committed,
        )

    def _refuse(self, source: Source, error: Exception) -> _Sent:
        refusal = self._refusal(error)
        refusal = replace(refusal, text=without_secrets(refusal.text))  # a path may contain a card number
        exchange = exchange_of(source.extensions)
        if exchange is not None:
            exchange.error = error
        failed = refusal.status >= 500 and getattr(error, "code", None) not in _EXPLAINED
        _LOGGER.log(
            logging.ERROR if failed else logging.WARNING, "  %s", without_secrets(printable(str(error))),
            exc_info=error if failed else None,
        )  # fmt: skip
        headers = list(_headers("application/json"))
        if refusal.status == 405:  # RFC 9110 section 15.5.6
            path = source.raw_target().partition(b"?")[0].decode("latin-1")
            headers.append(("Allow", ", ".join(self.interface.methods(path))))
        if refusal.status == 401 and Auth.BASIC in self.authenticators:  # RFC 9110 section 11.6.1
            headers.append(("WWW-Authenticate", f'Basic realm="{self.interface.name}"'))
        retry_after_s = RETRY_AFTER_S if refusal.status == 503 else getattr(error, "retry_after_s", None)
        if retry_after_s is not None:
            headers.append(("Retry-After", str(retry_after_s)))
        sent = _Sent(refusal.status, tuple(headers), self.interface.refusals.write(refusal))
        return self._with_echo(sent, self._id(source))

    def _refusal(self, error: Exception) -> Refusal:
        if not isinstance(error, TppkitError):
            return self.interface.refusals.refusal_for(TppkitError("host.failed", ""))
        if error.code in _EXPLAINED:
            return Refusal(503, "SERVICE_UNAVAILABLE", f"{error.message} ({error.code})")
        return self.interface.refusals.refusal_for(error)

    def _id(self, source: Source) -> str | None:
        """Return the id of a request; None if it is absent or invalid."""
        name = self.request_id or self.interface.request_id
        values = () if name is None else source.header_values(name)
        with suppress(FormatError):
            return self.interface.parse_request_id(values[0]) if len(values) == 1 else None
        return None

    def _with_echo(self, sent: _Sent, request_id: str | None) -> _Sent:
        name = self.request_id or self.interface.request_id
        if name is None or request_id is None:
            return sent
        shown = "X-Request-ID" if name == "x-request-id" else name
        return sent._replace(headers=(*sent.headers, (shown, request_id)))


@dataclass(frozen=True, slots=True)
class _Request:
    """An authenticated request."""

    route: Route
    caller: Caller
    message: Message
    id: str | None
    exchange: Exchange | None

    @property
    def key(self) -> bytes:
        """32 bytes that identify the caller and the request id."""
        if self.id is None:
            raise FormatError("request-id.missing", "the request has no valid X-Request-ID")
        owner = self.caller.id.encode()
        both = hashlib.sha256(owner + b"\0" + self.id.lower().encode())
        return hashlib.sha256(owner).digest()[:8] + both.digest()[:24]

    @property
    def digest(self) -> bytes:
        """32 bytes that identify method, target and body."""
        message = self.message
        parts = (message.method.encode(), message.target.encode("latin-1"), message.body)
        return hashlib.sha256(b"\0".join(parts)).digest()


async def _receive(pending: Pending, receive: Receive, head: Message) -> tuple[Caller, Message]:
    more = True
    while more:
        chunk, more = await receive_chunk(receive)
        pending.update(chunk)
    caller, body = pending.finish()
    return caller, head._replace(body=body)


def _bounds(at: datetime, window: timedelta | None) -> Bounds:
    forget = -1 if window is None else to_microseconds(at - window)
    return Bounds(to_microseconds(at), forget, free=0)  # no claim is left without an answer, so none is taken over


def _headers(media_type: str | None) -> tuple[Header, ...]:
    fields = () if media_type is None else (("Content-Type", media_type),)
    return (*fields, ("Cache-Control", "no-store"))


def _require_kind(handler: Handler[Any, Any] | StreamHandler[Any, Any]) -> None:
    row, streams = handler.row, isinstance(handler, StreamHandler)
    if isinstance(handler, Handler) and not handler.writes and (row.once is not None or row.auth is Auth.SEAL):
        raise ConfigurationError("host.handlers", f"{row.name} keeps an id or evidence, so its handler writes")
    # A streamed answer is not kept, so it can neither be repeated nor be evidence of a sealed request.
    if streams != is_streamed(row.answer) or (streams and (row.once is not None or row.auth is Auth.SEAL)):
        raise ConfigurationError("endpoint.streamed", f"{row.name} cannot be answered by a {type(handler).__name__}")


def _sealed(caller: Caller) -> str | None:
    """Return the hash of the signing string; None without a seal."""
    return None if caller.seal is None else hashlib.sha256(caller.seal.signing_string).hexdigest()


def _write_kept(subject: str | None, sent: _Sent, sealed: str | None) -> bytes:
    return json.dumps([subject, sent.status, sent.headers, encode_base64(sent.body), sealed]).encode()


def _read_kept(kept: bytes) -> tuple[str | None, _Sent, str | None]:
    subject, status, headers, body, sealed = json.loads(kept)
    fields = tuple((name, value) for name, value in headers)
    return subject, _Sent(status, fields, decode_base64(body, what="a kept answer")), sealed
