"""One request to an interface and its answer, as the sandbox observed them, for those who judge or show requests."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from io import BytesIO
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tppkit._clock import Clock
from tppkit._text import printable
from tppkit.errors import TppkitError
from tppkit.message import Header
from tppkit.protocol.refusals import Refusals
from tppkit.sandbox.connection import is_lost
from tppkit.sandbox.request_log import without_secrets
from tppkit.web.sources import RAW_TARGET

_LOGGER = logging.getLogger("tppkit.sandbox.host")

EXCHANGE = "tppkit.exchange"  # a scope extension: the `Exchange` of the request
MAX_KEPT_BYTES = 64 * 1024
_REST_S = 0.1  # what a refused client has for the body, which nothing but observers needs


@dataclass(slots=True, kw_only=True, repr=False)
class Exchange:
    """A request and its answer. Nothing in it is masked, so show its parts only after `without_secrets`.

    Attributes:
        host: the name of the listener, for example `psd2` or `legacy_live`.
        at: when the request came, by the virtual clock.
        started_s: the same by the real monotonic clock, in seconds.
        duration_s: seconds until the answer was complete.
        method: the method of the request.
        target: path and query as sent; bytes as Latin-1.
        headers: the header fields of the request; bytes as Latin-1.
        certificate: the client certificate of the connection as PEM, or None.
        body: the first 64 KiB of its body.
        body_size: the size of what was read of the body, in bytes.
        is_whole: whether all of the body was read. A refusal of the head waits for it only a moment.
        status: the status of the answer; 500 if the application ended without one.
        answer_headers: the header fields of the answer.
        answer_body: the first 64 KiB of its body.
        code: the code of the error in the answer, or empty.
        text: its text, printable and without secrets, or empty.
        row: the name of the endpoint's row, or None if no row was found.
        parameters: the parameters of its path.
        caller: the id of the authenticated caller, or None.
        error: why the request was refused, or None.
        fault: the name of a requested fault that changed the answer, or None.
        is_lost: the client was no longer connected when its answer was complete.
        sent_certificates: the number of certificates that the client sent.
        path_length: the number of certificates from its own to the root, or None if they were not verified.
        unknown_fields: the names of fields of the body that the document does not name.
        unknown_query: the names of query parameters that the endpoint does not name.
        broken_rules: the names of the rules of the report that it broke, as far as its own observation showed.
    """

    host: str
    at: datetime
    started_s: float
    duration_s: float = 0.0
    method: str
    target: str
    headers: tuple[Header, ...]
    certificate: str | None = None
    body: bytes = b""
    body_size: int = 0
    is_whole: bool = False
    status: int = 500
    answer_headers: tuple[Header, ...] = ()
    answer_body: bytes = b""
    code: str = ""
    text: str = ""
    row: str | None = None
    parameters: Mapping[str, str] | None = None
    caller: str | None = None
    error: Exception | None = None
    fault: str | None = None
    is_lost: bool = False
    sent_certificates: int = 0
    path_length: int | None = None
    unknown_fields: tuple[str, ...] = ()
    unknown_query: tuple[str, ...] = ()
    broken_rules: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.host!r}, {self.method!r}, {self.status})"  # the rest has keys, tokens and card data

    @property
    def error_code(self) -> str:
        """The code of this package for the refusal; empty without one."""
        return self.error.code if isinstance(self.error, TppkitError) else ""

    def header(self, name: str) -> str | None:
        """Return the first value of a header of the request; the name in lower case."""
        return next((value for found, value in self.headers if found.lower() == name), None)


Observer = Callable[[Exchange], object]


def exchange_of(extensions: Mapping[str, Any]) -> Exchange | None:
    """Return the exchange to which a request's extensions belong; None if nobody observes."""
    return extensions.get(EXCHANGE)


class Observed:
    """Publishes each request just before the last part of its answer is sent.

    Args:
        app: the ASGI application that answers; it finds the `Exchange` by `exchange_of` and adds what it knows.
        host: the name of its listener.
        refusals: reads the error bodies of the application.
        observers: called with each exchange, in order; an error of one does not change the answer.
        now: the virtual clock.
        monotonic: real seconds.
    """

    def __init__(
        self, app: ASGIApp, *, host: str, refusals: Refusals, observers: Sequence[Observer], now: Clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._app, self._host, self._refusals, self._observers = app, host, refusals, observers
        self._now, self._monotonic = now, monotonic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        extensions = scope.get("extensions") or {}
        sent = (extensions.get("tls") or {}).get("client_cert_chain") or ()
        exchange = Exchange(
            host=self._host, at=self._now(), started_s=self._monotonic(), method=scope["method"],
            target=extensions[RAW_TARGET]["target"].decode("latin-1"), headers=_fields(scope["headers"]),
            certificate=next(iter(sent), None), sent_certificates=len(sent),
        )  # fmt: skip
        is_published = is_read = False
        body, answer_body = BytesIO(), BytesIO()  # a report of an error shows local variables, but not their content

        def publish() -> None:
            nonlocal is_published
            if is_published:
                return
            is_published = True
            exchange.body, exchange.answer_body = body.getvalue(), answer_body.getvalue()
            if exchange.status >= 400:
                exchange.code, exchange.text = self._error(exchange.answer_body)
            exchange.duration_s = self._monotonic() - exchange.started_s
            exchange.is_lost = is_lost(extensions)
            for observer in self._observers:
                try:
                    observer(exchange)
                except Exception:  # logged; who only observes must not change an answer
                    _LOGGER.exception("  a request could not be observed")

        async def watched_receive() -> Message:
            nonlocal is_read
            event = await receive()
            chunk = event.get("body", b"")
            exchange.body_size += len(chunk)
            body.write(chunk[: MAX_KEPT_BYTES - body.tell()])
            is_read = event["type"] != "http.request" or not event.get("more_body", False)
            exchange.is_whole = event["type"] == "http.request" and is_read
            return event

        async def read_rest() -> None:
            nonlocal is_read
            with suppress(TimeoutError):
                async with asyncio.timeout(_REST_S):
                    while not is_read and exchange.body_size <= MAX_KEPT_BYTES:
                        await watched_receive()
            is_read = True

        async def watched_send(event: Message) -> None:
            if event["type"] == "http.response.start":
                if exchange.error is not None and exchange.header("expect") is None:
                    await read_rest()
                exchange.status, exchange.answer_headers = event["status"], _fields(event.get("headers", ()))
            elif event["type"] == "http.response.body":
                answer_body.write(event.get("body", b"")[: MAX_KEPT_BYTES - answer_body.tell()])
                if not event.get("more_body", False):
                    publish()
            await send(event)

        try:
            await self._app({**scope, "extensions": {**extensions, EXCHANGE: exchange}}, watched_receive, watched_send)
        finally:
            publish()

    def _error(self, body: bytes) -> tuple[str, str]:
        code, text = self._refusals.read(body)
        is_plain = code is not None and code.isascii() and code.isprintable()
        return code if code is not None and is_plain else "", without_secrets(printable(text or ""))


def _fields(raw: Iterable[tuple[bytes, bytes]]) -> tuple[Header, ...]:
    return tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in raw])
