"""Receive callbacks and answer them, for ASGI and WSGI alike: which senders are accepted, what is stored, and the status of the answer.

gate = CallbackGate(Inbox(receiver, store), handler=handle)
answer = gate.receive(received, source)

A status has one of three meanings, and no reason is sent. 200: the callback is stored or handled. 400, 403, 408, 411 and 413: it is
rejected, and need not be repeated; a repetition can succeed after 408, and after 400 if the body was not whole. 503: it was not
received, and should be sent again.
The document does not state how the service reacts to them (assumption callback-answers).
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any

from tppkit._clock import Clock, utc_now
from tppkit._encoding import shown
from tppkit._handlers import awaited, own_cancellation, require_finished
from tppkit.callbacks import (
    AsyncInbox,
    CallbackKind,
    CallbackRejected,
    Inbox,
    Outcome,
    Receipt,
    Unhandled,
    VerifiedCallback,
    handler_by_kind,
)
from tppkit.callbacks.handlers import EventHandler
from tppkit.callbacks.inbox import Count, Handler, manager_of
from tppkit.callbacks.inbox import Transaction as OpenTransaction
from tppkit.callbacks.inbox_async import AsyncHandler, AsyncTransaction
from tppkit.errors import ConfigurationError
from tppkit.message import Message
from tppkit.protocol.legacy import AccessGranted, LoginConfirmed, LoginRequest, Transaction
from tppkit.web.callback_refusals import (
    ACKNOWLEDGED,
    AGAIN,
    LOG,
    OnRefusal,
    RequestGate,
    log_refused_callback,
    make_answer,
    require_run,
)
from tppkit.web.callback_requests import CallbackPeers
from tppkit.web.sources import Answer, Source

Keep = Callable[[Receipt], object]
Login = Callable[[VerifiedCallback], LoginRequest]
AsyncLogin = Callable[[VerifiedCallback], LoginRequest | Awaitable[LoginRequest]]


class _Gate(RequestGate):
    """The common part of both gates."""

    _awaited = False  # whether functions of the application may be coroutine functions

    def __init__(
        self, inbox: Inbox | AsyncInbox, handlers: Mapping[str, Any], *, login: Any, keep: Any, **settings: Any
    ) -> None:
        super().__init__(inbox.receiver, **settings)
        require_run(awaited=self._awaited, login=login, keep=keep, **handlers)
        self._login, self._keep = login, keep
        scanned = [address.url for address in self.receiver.book.addresses if address.kind is CallbackKind.LOGIN]
        if scanned and login is None:
            raise ConfigurationError(
                "callback.no-login",
                f"{shown(scanned[0])} receives login GETs, but the gate has no login= to answer them",
            )
        given = {name: one for name, one in handlers.items() if one is not None}
        self._handler: Any = handler_by_kind(self.receiver, **given) if given else None

    def check(self, receipt: Receipt) -> None:
        """Log a callback that is acknowledged although it has a fault (assumption same-version).

        Raises:
            CallbackRejected: `callback.method`, a login GET came to an address of kind `other`, and the gate has no `login`.
        """
        if receipt.outcome is Unhandled.LOGIN and self._login is None:
            raise CallbackRejected("callback.method", "a login GET came to a gate without login=")
        if receipt.outcome is Outcome.VERSION_CONFLICT:
            LOG.warning(
                "callback %s: acknowledged but not applied, because its record was received before with the same ver and other"
                " content [%s]",
                receipt.callback.request_id, "callback.version-conflict",
            )  # fmt: skip
        elif receipt.outcome is Unhandled.UNREADABLE:
            LOG.warning(
                "callback %s: acknowledged, and kept as failed until it is released or discarded: %s",
                receipt.callback.request_id, receipt.fault,
            )  # fmt: skip

    def answer(self, receipt: Receipt, body: bytes) -> Answer:
        """Count a receipt, and return the answer."""
        self.count(receipt.outcome.value, receipt.fault.code if receipt.fault else "")
        if not receipt.acknowledged:
            return AGAIN
        return make_answer(200, body) if body else ACKNOWLEDGED


class CallbackGate(_Gate):
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
            inbox, handlers, login=login, keep=keep, peers=peers, on_refusal=on_refusal, count=count, now=now
        )
        self._inbox, self._within = inbox, within

    def receive(self, received: Message, source: Source) -> Answer:
        """Receive a request to one of the addresses, and return the answer.

        Args:
            received: the request, exactly as received.
            source: the request as the server passes it.
        """
        raised: list[Exception] = []
        try:
            receipt = self._take(received, raised)
            self.check(receipt)
            body = b""
            with _application(raised):
                if self._keep is not None and receipt.acknowledged:
                    require_finished(self._keep(receipt))
                if receipt.outcome is Unhandled.LOGIN and self._login is not None:
                    body = self._login(receipt.callback).to_wire()
        except Exception as e:  # noqa: BLE001  # the last resort of a server: logged, and answered with 503 without details
            return self.refuse(e, source, received, again=e in raised)
        return self.answer(receipt, body)

    def _take(self, received: Message, raised: list[Exception]) -> Receipt:
        handler = self._handler
        if handler is None:
            return self._inbox.accept(received, at=self.now())

        def effect(callback: VerifiedCallback, connection: Any) -> object:
            with _application(raised):
                return handler(callback, connection)

        if (within := self._within) is None:
            return self._inbox.handle(received, effect, at=self.now())

        @contextmanager
        def transaction() -> Iterator[Any]:
            with _application(raised), manager_of(within, AbstractContextManager) as connection:
                yield connection

        return self._inbox.handle_within(received, effect, at=self.now(), within=transaction)


class AsyncCallbackGate(_Gate):
    """Receives callbacks into an `AsyncInbox`. Arguments and errors are those of `CallbackGate`, with these differences.

    The handlers are coroutine functions; `login` and `keep` may be. `within` returns an asynchronous context manager. `on_refusal` and
    `count` are plain functions, always called on the event loop.

    Example:
        app = CallbackMiddleware(app, gate=AsyncCallbackGate(AsyncInbox(receiver, store), on_payment=paid, on_access=granted))
    """

    _awaited = True

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
            inbox, handlers, login=login, keep=keep, peers=peers, on_refusal=on_refusal, count=count, now=now
        )
        self._inbox, self._within = inbox, within

    async def receive(self, received: Message, source: Source) -> Answer:
        """See `CallbackGate.receive`."""
        raised: list[Exception] = []
        try:
            receipt = await self._take(received, raised)
            self.check(receipt)
            body = b""
            with _application(raised):
                if self._keep is not None and receipt.acknowledged:
                    require_finished(await _result(self._keep(receipt)))
                if receipt.outcome is Unhandled.LOGIN and self._login is not None:
                    body = (await _result(self._login(receipt.callback))).to_wire()
        except Exception as e:  # noqa: BLE001  # the last resort of a server: logged, and answered with 503 without details
            return self.refuse(e, source, received, again=e in raised)
        return self.answer(receipt, body)

    async def _take(self, received: Message, raised: list[Exception]) -> Receipt:
        handler = self._handler
        if handler is None:
            return await self._inbox.accept(received, at=self.now())

        async def effect(callback: VerifiedCallback, connection: Any) -> object:
            with _application(raised):
                return await awaited("a handler", handler, callback, connection)

        if (within := self._within) is None:
            return await self._inbox.handle(received, effect, at=self.now())

        @asynccontextmanager
        async def transaction() -> AsyncIterator[Any]:
            with _application(raised):
                async with manager_of(within, AbstractAsyncContextManager) as connection:
                    yield connection

        return await self._inbox.handle_within(received, effect, at=self.now(), within=transaction)


@contextmanager
def _application(raised: list[Exception]) -> Iterator[None]:
    """Collect the exceptions of a function of the application, for which the request is not at fault.

    Only for an invalid login code (`LoginCodes.answer`), the request is at fault.
    """
    try:
        with own_cancellation("a function of the application"):
            yield
    except Exception as e:  # the application raises any class; raised again
        if not isinstance(e, CallbackRejected) or e.code != "callback.login-code":
            raised.append(e)
        raise


async def _result(given: Any) -> Any:
    return await given if inspect.isawaitable(given) else given
