"""Receive callbacks of the legacy interface.

gate = CallbackGate(Inbox(receiver, store), handler=handle)
answer = gate.receive(received, source)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any
from urllib.parse import quote, urlsplit

from tppkit._clock import Clock, utc_now
from tppkit._encoding import shown
from tppkit._handlers import awaited, require_finished, require_run
from tppkit.callbacks import (
    AsyncInbox,
    CallbackKind,
    CallbackReceiver,
    CallbackRejected,
    Inbox,
    Receipt,
    Unhandled,
    VerifiedCallback,
    handler_by_kind,
)
from tppkit.callbacks.addresses import AddressBook
from tppkit.callbacks.inbox import AsyncHandler, AsyncTransaction, EventHandler, Handler, OpenTransaction, manager_of
from tppkit.errors import ConfigurationError, FormatError
from tppkit.inbox import Outcome
from tppkit.message import Message
from tppkit.metrics import Count
from tppkit.protocol.legacy import AccessGranted, LoginConfirmed, LoginRequest, Transaction
from tppkit.web.receiving.gate import (
    ACKNOWLEDGED,
    AGAIN,
    AwaitingGate,
    BlockingGate,
    OnRefusal,
    ReceivingGate,
    RequestGate,
    Taken,
    application,
    log_refused_callback,
    make_answer,
)
from tppkit.web.receiving.peers import CallbackPeers
from tppkit.web.sources import Source

Keep = Callable[[Receipt], object]
Login = Callable[[VerifiedCallback], LoginRequest]
AsyncLogin = Callable[[VerifiedCallback], LoginRequest | Awaitable[LoginRequest]]
# Letters of a path that most clients do not percent-encode.
_PATH_LETTERS = "/~!$&'()*+,;=:@"


class _CallbackGate(ReceivingGate):
    """The common part of both gates."""

    def __init__(
        self, inbox: Any, handlers: Mapping[str, Any], *, awaited: bool, within: Any, login: Any, keep: Any, **settings: Any
    ) -> None:  # fmt: skip
        super().__init__(
            inbox.receiver.max_body, interface="legacy", show=partial(_shown_target, inbox.receiver.book), **settings
        )
        require_run(awaited=awaited, login=login, keep=keep, **handlers)
        self._book = inbox.receiver.book
        scanned = [address.url for address in self._book.addresses if address.kind is CallbackKind.LOGIN]
        if scanned and login is None:
            raise ConfigurationError(
                "callback.no-login",
                f"{shown(scanned[0])} receives login GETs, but the gate has no login= to answer them",
            )
        given = {name: one for name, one in handlers.items() if one is not None}
        self._handler: Any = handler_by_kind(inbox.receiver, **given) if given else None
        self._inbox, self._within, self._login, self._keep = inbox, within, login, keep

    def find(self, source: Source) -> str | None:
        """Return the target of a request to one of the receiver's addresses; None for any other request."""
        target = read_target(source)
        return None if target is None or self._book.find(target) is None else target

    def _take(self, received: Message, raised: list[Exception]) -> Generator[Any, Any, Taken]:
        receipt: Receipt = (
            yield self._handle(received, raised) if self._handler else self._inbox.accept(received, at=self.now())
        )
        outcome, callback, fault = receipt
        warning: tuple[str, str] | None = None
        if outcome is Unhandled.LOGIN and self._login is None:
            raise CallbackRejected("callback.method", "a login GET came to a gate without login=")
        if outcome is Outcome.VERSION_CONFLICT:  # assumption same-version
            warning = (
                "callback.version-conflict",
                f"callback {callback.request_id}: acknowledged but not applied, because its record was received before with the same"
                " ver and other content [callback.version-conflict]",
            )
        elif outcome is Unhandled.UNREADABLE and fault:
            text = "acknowledged, and kept as failed until it is released or discarded"
            warning = fault.code, f"callback {callback.request_id}: {text}: {fault}"
        answer = ACKNOWLEDGED if receipt.acknowledged else AGAIN
        with application(raised):
            if self._keep is not None and receipt.acknowledged:
                require_finished((yield self._keep(receipt)))
            if outcome is Unhandled.LOGIN:
                request: LoginRequest = yield self._login(callback)
                answer = make_answer(200, request.to_wire())
        return Taken(outcome.value, answer, fault.code if fault else "", warning)

    @abstractmethod
    def _handle(self, received: Message, raised: list[Exception]) -> Any:
        """Handle a callback in a transaction of the store or of the application, and return its receipt, to be awaited on asyncio."""


class CallbackGate(_CallbackGate, BlockingGate):
    """Receives callbacks into an inbox and answers them.

    Args:
        inbox: stores the callbacks.
        on_access: called once for each grant before the answer, in the store's transaction (`Inbox.handle`), with the event, the
            callback and the connection. Without any handler, callbacks are stored for `Inbox.work` (`Inbox.accept`).
        on_payment: for outcomes of payment requests.
        on_login: for confirmed logins.
        handler: called with the callback and the connection, for every kind without a handler of its own.
        within: opens a transaction of the application, returns its connection and commits at its end. The handler then runs in
            that transaction (`Inbox.handle_within`).
        login: builds the answer to a login GET. It is called for repetitions too, so it must have no effect of its own. Login GETs
            are not stored and reach no handler. Required if the receiver has a LOGIN address.
        keep: called with the receipt of each callback before it is acknowledged, to keep it as evidence. It is called for repetitions
            too, because the process may have died the first time. If it raises, the callback is not acknowledged.
        peers: the networks from which callbacks are accepted; without it, all.
        on_refusal: called with each refusal; the default logs it. An exception that it raises is logged and does not change the
            answer. Under ASGI it may be called on the event loop, so it must not block: use `logging.handlers.QueueHandler` for slow
            logs, and call `explain_callback` elsewhere.
        count: called with outcome and code of each answered request, for metrics: the outcome of the receipt and an empty code,
            `refused` with the code of the error, or `failed` with the code for an answer 503. Neither contains data of the request. It
            is called on the event loop and in threads.
        now: the clock.

    Raises:
        ConfigurationError: `callback.function`, a function would not run because it is a coroutine function or a generator;
            `callback.no-login`; `callback.no-handler`, an address has a kind without a handler, although others have one.

    Example:
        app = CallbackMiddleware(app, gate=CallbackGate(Inbox(receiver, store), on_payment=paid, on_access=granted))
    """

    def __init__(
        self, inbox: Inbox, *, on_access: EventHandler[AccessGranted, object] | None = None,
        on_payment: EventHandler[Transaction, object] | None = None, on_login: EventHandler[LoginConfirmed, object] | None = None,
        handler: Handler | None = None, within: OpenTransaction | None = None, login: Login | None = None, keep: Keep | None = None,
        peers: CallbackPeers | None = None, on_refusal: OnRefusal = log_refused_callback, count: Count | None = None,
        now: Clock = utc_now,
    ) -> None:  # fmt: skip
        handlers = {"on_access": on_access, "on_payment": on_payment, "on_login": on_login, "handler": handler}
        super().__init__(
            inbox, handlers, awaited=False, within=within, login=login, keep=keep, peers=peers, on_refusal=on_refusal, count=count,
            now=now,
        )  # fmt: skip

    def _handle(self, received: Message, raised: list[Exception]) -> Receipt:
        handler, within = self._handler, self._within

        def effect(callback: VerifiedCallback, connection: Any) -> object:
            with application(raised):
                return handler(callback, connection)

        @contextmanager
        def transaction() -> Iterator[Any]:
            with application(raised), manager_of(within, AbstractContextManager) as connection:
                yield connection

        inbox: Inbox = self._inbox
        if within is None:
            return inbox.handle(received, effect, at=self.now())
        return inbox.handle_within(received, effect, at=self.now(), within=transaction)


class AsyncCallbackGate(_CallbackGate, AwaitingGate):
    """Receives callbacks into an `AsyncInbox`. Arguments and errors are those of `CallbackGate`, with these differences.

    The handlers are coroutine functions; `login` and `keep` may be. `within` returns an asynchronous context manager. `on_refusal` and
    `count` are plain functions, always called on the event loop.

    Example:
        app = CallbackMiddleware(app, gate=AsyncCallbackGate(AsyncInbox(receiver, store), on_payment=paid, on_access=granted))
    """

    def __init__(
        self, inbox: AsyncInbox, *, on_access: EventHandler[AccessGranted, Awaitable[object]] | None = None,
        on_payment: EventHandler[Transaction, Awaitable[object]] | None = None,
        on_login: EventHandler[LoginConfirmed, Awaitable[object]] | None = None, handler: AsyncHandler | None = None,
        within: AsyncTransaction | None = None, login: AsyncLogin | None = None, keep: Keep | None = None,
        peers: CallbackPeers | None = None, on_refusal: OnRefusal = log_refused_callback, count: Count | None = None,
        now: Clock = utc_now,
    ) -> None:  # fmt: skip
        handlers = {"on_access": on_access, "on_payment": on_payment, "on_login": on_login, "handler": handler}
        super().__init__(
            inbox, handlers, awaited=True, within=within, login=login, keep=keep, peers=peers, on_refusal=on_refusal, count=count,
            now=now,
        )  # fmt: skip

    async def _handle(self, received: Message, raised: list[Exception]) -> Receipt:
        handler, within = self._handler, self._within

        async def effect(callback: VerifiedCallback, connection: Any) -> object:
            with application(raised):
                return await awaited("a handler", handler, callback, connection)

        @asynccontextmanager
        async def transaction() -> AsyncIterator[Any]:
            with application(raised):
                async with manager_of(within, AbstractAsyncContextManager) as connection:
                    yield connection

        inbox: AsyncInbox = self._inbox
        if within is None:
            return await inbox.handle(received, effect, at=self.now())
        return await inbox.handle_within(received, effect, at=self.now(), within=transaction)


def route_gate(receiver: CallbackReceiver, **settings: Any) -> RequestGate:
    """Return the gate of a route of the application; the settings are those of `RequestGate`."""
    return RequestGate(receiver.max_body, interface="legacy", show=partial(_shown_target, receiver.book), **settings)


def _shown_target(book: AddressBook, source: Source) -> str:
    """Return the path of a request as its address is configured; of another request, without its last segment, which may be a token."""
    target = read_target(source) or "/"
    match = book.find(target)
    return urlsplit(match.address.url).path if match else target.partition("?")[0].rpartition("/")[0] + "/***"


def read_target(source: Source) -> str | None:
    """The target on the wire, or one that is rebuilt from the decoded path; None if it is not a path.

    Some servers (granian and wsgiref under WSGI) give only the decoded path. For callbacks, and only for them, that is enough: the
    address of a request is found by the decoded path, and its URL is tried as it is configured.
    """
    try:
        return source.raw_target().decode("latin-1")
    except FormatError as e:
        if e.code != "message.no-raw-path":
            return None
    path, query = source.decoded_target()
    return quote(path, safe=_PATH_LETTERS) + (f"?{query}" if query else "")
