"""Receive callbacks and answer them, whatever the server: who may send, what is stored, and which status the service gets.

A status says one of three things, and nothing of the reason: 200, this is in safe hands; 400, 403, 408, 411 or 413, refused, and the
same again will be refused again; 503, nobody has it yet, send it again. What the service makes of them is not documented
(assumption callback-answers).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from tppkit._clock import Clock, utc_now
from tppkit._encoding import shown
from tppkit.callbacks import (
    AsyncInbox,
    CallbackKind,
    Inbox,
    Outcome,
    Receipt,
    ReceivedCallback,
    VerifiedCallback,
)
from tppkit.callbacks.inbox import Handler, Transaction
from tppkit.callbacks.inbox_async import AsyncHandler, AsyncTransaction
from tppkit.errors import CallbackRejected, ConfigurationError
from tppkit.protocol.legacy import LoginRequest
from tppkit.web.callback_functions import OwnFunctions, require_function, require_functions, require_kind
from tppkit.web.callback_refusing import (
    AGAIN,
    OnRefusal,
    RefusedCallback,
    answer_to,
    log_refused_callback,
    make_answer,
)
from tppkit.web.callback_requests import CallbackPeers, read_target, require_length
from tppkit.web.callback_sink import RefusalSink
from tppkit.web.callback_threads import UnderWay
from tppkit.web.message import Answer
from tppkit.web.sources import Source

_LOG = logging.getLogger("tppkit.web")
Keep = Callable[[Receipt], object]
Login = Callable[[VerifiedCallback], LoginRequest]
AsyncLogin = Callable[[VerifiedCallback], LoginRequest | Awaitable[LoginRequest]]


ACKNOWLEDGED = make_answer(200)


class _Gate:
    """What both gates do before and after the inbox."""

    def __init__(
        self, inbox: Inbox | AsyncInbox, *, login: object, peers: CallbackPeers | None, on_refusal: OnRefusal, now: Clock
    ) -> None:  # fmt: skip
        require_kind("peers", peers, CallbackPeers, type(None))
        require_function("now", now, awaited=False)
        self.receiver = inbox.receiver
        self.now, self._answers_login = now, login is not None
        scanned = [address.url for address in self.receiver.book.addresses if address.kind is CallbackKind.LOGIN]
        if scanned and login is None:
            raise ConfigurationError(
                "callback.no-login",
                f"login GETs come to {shown(scanned[0])}, and the gate has no login= to answer them",
            )
        self._peers, self._sink = peers, RefusalSink(on_refusal)

    def find(self, source: Source) -> str | None:
        """The target, when it is one of the receiver's addresses; every other request is none of ours."""
        target = read_target(source)
        return None if target is None or self.receiver.book.find(target) is None else target

    def require_head(self, source: Source) -> None:
        """Refuse by what is known before a byte of the body is read.

        Raises:
            CallbackRejected: `callback.peer`.
            FormatError: `message.no-length`, `message.too-large`, `message.malformed`.
        """
        if self._peers is not None:
            self._peers.require(source)
        require_length(source, max_bytes=self.receiver.max_body)

    def check(self, receipt: Receipt) -> None:
        """Log what is acknowledged although something is wrong with it (assumption same-version).

        Raises:
            CallbackRejected: `callback.method`, a login GET came to an address of kind `other`, and nothing answers it.
        """
        if receipt.outcome is Outcome.LOGIN and not self._answers_login:
            raise CallbackRejected("callback.method", "a login GET came to a gate without login=")
        if receipt.outcome is Outcome.VERSION_CONFLICT:
            _LOG.warning(
                "callback %s: its record came before with the same ver and other content, so it is acknowledged and not"
                " applied [%s]",
                receipt.callback.request_id, "callback.version-conflict",
            )  # fmt: skip
        elif receipt.outcome is Outcome.UNREADABLE:
            _LOG.warning(
                "callback %s: acknowledged, and kept as failed until it is released or discarded: %s",
                receipt.callback.request_id, receipt.fault,
            )  # fmt: skip

    def refuse(
        self, error: Exception, source: Source, received: ReceivedCallback | None = None, *, own: bool = False,
        aside: bool = False,
    ) -> Answer:  # fmt: skip
        """Tell the log everything and the sender nothing.

        Args:
            error: why.
            source: what the server tells of it.
            received: the request, when its body was read.
            own: a function of the application raised it: whatever it is, it does not speak of the request.
            aside: `on_refusal` is called in a thread of its own, and nothing waits for it.
        """
        tell = self._sink.tell_aside if aside else self._sink.tell
        answer = AGAIN if own else answer_to(error)
        try:
            tell(RefusedCallback(error, answer.status, self.now(), source.address(), received))
        except Exception:  # noqa: BLE001  # the answer stands whatever becomes of the log
            _LOG.exception("a refused callback could not be told")
        return answer

    def end(self) -> None:
        """Wait a second until `on_refusal` has all that is told aside; what is left then is not told, and its number logged."""
        self._sink.end()


class CallbackGate(_Gate):
    """Receives callbacks into an inbox and answers them.

    Args:
        inbox: where they go.
        handler: has their effect before the answer, in the store's transaction (`Inbox.handle`); without one they are stored for
            `Inbox.work` (`Inbox.accept`).
        within: opens a transaction of the application's, gives its connection and commits at its end; the handler then runs in
            that one (`Inbox.handle_within`).
        login: Answers a login GET, also when it is repeated, so it must have no effect of its own. No handler gets login GETs, and
            they are not stored. Required if the receiver has a LOGIN address.
        keep: gets the receipt of everything that is acknowledged, before it is: evidence. It gets repetitions too, because the
            process may have died the first time; where it fails nothing is acknowledged.
        peers: from where callbacks are taken; from everywhere without.
        on_refusal: gets everything about each refusal, under ASGI in a thread of its own; nobody waits for it there.
            `explain_callback` takes long: do it elsewhere.
        now: the clock.

    Raises:
        ConfigurationError: `callback.function`, a function is none, or would not run because it is a coroutine function;
            `callback.no-login`; `web.setting`, inbox or peers are of another kind.
    """

    def __init__(
        self, inbox: Inbox, *, handler: Handler | None = None, within: Transaction | None = None, login: Login | None = None,
        keep: Keep | None = None, peers: CallbackPeers | None = None, on_refusal: OnRefusal = log_refused_callback,
        now: Clock = utc_now,
    ) -> None:  # fmt: skip
        require_kind("inbox", inbox, Inbox)
        super().__init__(inbox, login=login, peers=peers, on_refusal=on_refusal, now=now)
        require_functions(awaited=False, handler=handler, within=within, login=login, keep=keep)
        self._inbox, self._handler, self._within, self._login, self._keep = inbox, handler, within, login, keep
        self._under_way = UnderWay()

    def receive(self, received: ReceivedCallback, source: Source, *, aside: bool = False) -> Answer:
        """Take a request that came to one of the addresses, whole; while it is under way, the same again is answered 503 at once.

        Args:
            received: the request, exactly as it came.
            source: what the server tells of it.
            aside: a refusal is told in a thread of its own, so that who is refused waits for no sink; as under ASGI.
        """
        with self._under_way.begun(received) as new:
            return self._receive(received, source, aside=aside) if new else AGAIN

    def _receive(self, received: ReceivedCallback, source: Source, *, aside: bool) -> Answer:
        own = OwnFunctions()
        try:
            receipt = self._take(received, own)
            self.check(receipt)
            if not receipt.acknowledged:
                return AGAIN
            if self._keep is not None:
                own.call(self._keep, receipt)
            if receipt.outcome is not Outcome.LOGIN or self._login is None:
                return ACKNOWLEDGED
            return make_answer(200, own.call(self._login, receipt.callback).to_wire())
        except Exception as e:  # noqa: BLE001  # the last resort of a server: told to the log, and as 503 without details
            return self.refuse(e, source, received, own=e is own.error, aside=aside)

    def _take(self, received: ReceivedCallback, own: OwnFunctions) -> Receipt:
        handler = self._handler
        if handler is None:
            return self._inbox.accept(received, at=self.now())

        def effect(callback: VerifiedCallback, connection: Any) -> object:
            return own.call(handler, callback, connection)

        if self._within is None:
            return self._inbox.handle(received, effect, at=self.now())
        return self._inbox.handle_within(received, effect, at=self.now(), within=self._within)


class AsyncCallbackGate(_Gate):
    """The same over an `AsyncInbox`: the handler is a coroutine function, `login` and `keep` may be.

    Args:
        inbox: where they go.
        handler: see `CallbackGate`.
        within: see `CallbackGate`; an asynchronous context manager.
        login: see `CallbackGate`.
        keep: see `CallbackGate`.
        peers: see `CallbackGate`.
        on_refusal: see `CallbackGate`; a plain function.
        now: the clock.

    Raises:
        ConfigurationError: `callback.function`, a function is none, or would not run because it is a generator;
            `callback.no-login`; `web.setting`, inbox or peers are of another kind.
    """

    def __init__(
        self, inbox: AsyncInbox, *, handler: AsyncHandler | None = None, within: AsyncTransaction | None = None,
        login: AsyncLogin | None = None, keep: Keep | None = None, peers: CallbackPeers | None = None,
        on_refusal: OnRefusal = log_refused_callback, now: Clock = utc_now,
    ) -> None:  # fmt: skip
        require_kind("inbox", inbox, AsyncInbox)
        super().__init__(inbox, login=login, peers=peers, on_refusal=on_refusal, now=now)
        require_functions(awaited=True, handler=handler, login=login, keep=keep)
        require_functions(awaited=False, within=within)
        self._inbox, self._handler, self._within, self._login, self._keep = inbox, handler, within, login, keep

    async def receive(self, received: ReceivedCallback, source: Source) -> Answer:
        """See `CallbackGate.receive`."""
        own = OwnFunctions()
        try:
            receipt = await self._take(received, own)
            self.check(receipt)
            if not receipt.acknowledged:
                return AGAIN
            if self._keep is not None:
                await own.await_one(self._keep, receipt, optional=True)
            if receipt.outcome is not Outcome.LOGIN or self._login is None:
                return ACKNOWLEDGED
            return make_answer(200, (await own.await_one(self._login, receipt.callback, optional=True)).to_wire())
        except Exception as e:  # noqa: BLE001  # as above
            return self.refuse(e, source, received, own=e is own.error, aside=True)

    async def _take(self, received: ReceivedCallback, own: OwnFunctions) -> Receipt:
        handler = self._handler
        if handler is None:
            return await self._inbox.accept(received, at=self.now())

        async def effect(callback: VerifiedCallback, connection: Any) -> object:
            return await own.await_one(handler, callback, connection)

        if self._within is None:
            return await self._inbox.handle(received, effect, at=self.now())
        return await self._inbox.handle_within(received, effect, at=self.now(), within=self._within)
