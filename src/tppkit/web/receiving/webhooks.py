"""Receive webhooks of the payment gateway: store the order's id, answer, fetch the order, and handle each state of it once.

gate = WebhookGate(WebhookInbox(store, client.order), path=path)
app = CallbackMiddleware(app, gate=gate)

A webhook has no status, id or signature, so it is only a hint that an order may have changed. An entry of the inbox means that the
order must be fetched. Each fetched state of an order takes effect once, and never after a newer state. An order that is not final is
fetched again after a pause, because webhooks can be delayed or lost. Source: gateway document, section 6.1.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tppkit._clock import Clock, as_utc, shift, to_microseconds, utc_now
from tppkit.errors import ConfigurationError, RemoteProtocolError, RequestRefused, TransportError
from tppkit.inbox import Entry, Outcome, Retries, Version, Worked, Worker
from tppkit.inbox.settings import require_environment, require_span
from tppkit.inbox.tasks import Tasks
from tppkit.message import Message
from tppkit.metrics import Count
from tppkit.protocol.gateway import Order
from tppkit.protocol.gateway.states import ORDER, TRANSACTION
from tppkit.protocol.gateway.values import read_timestamp
from tppkit.protocol.gateway.webhooks import StatusChanged
from tppkit.web.receiving.gate import AwaitingGate, BlockingGate, OnRefusal, ReceivingGate, Taken, log_refused_callback
from tppkit.web.receiving.peers import CallbackPeers
from tppkit.web.sources import Source

if TYPE_CHECKING:
    from tppkit.inbox.store import InboxStore

Fetch = Callable[[str], Order]
AsyncFetch = Callable[[str], Awaitable[Order]]
Handler = Callable[[Order, Any], object]  # the second argument is SQLAlchemy's connection
AsyncHandler = Callable[[Order, Any], Awaitable[object]]

MAX_BODY = 4096
_NEWS, _KNOWN = b"", b"known"  # contents: an order that is only known from a webhook; an order that exists
_NOT_FOUND = 404
_UNGUESSABLE = re.compile(r"/(?:[A-Za-z0-9._~-]+/)*[A-Za-z0-9_-]{22,}")
_STEP_BITS, _TIME_BITS = 11, 52
_RETRIES = Retries(longest=timedelta(minutes=10), attempts=1000)  # a week


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """The settings of an inbox of webhooks.

    Attributes:
        environment: `live`, `test` or another name: the environment of the project.
        lease: how long a worker may take for an order, the fetch included, before another worker may claim it.
        retries: when an order is tried again after the gateway or the handler failed; for longer than `unknown_for`.
        first_pause: how soon an order that is not final is fetched again. The pause grows to half of the order's age.
        longest_pause: the longest pause.
        max_waiting: how many orders may wait that are only known from webhooks. Further webhooks are answered with 503.
        unknown_for: how long an order that is only known from a webhook may be unknown to the gateway before it is dropped.
        give_up_after: for how long after its last webhook or `watch` an order that is not final is fetched.

    Raises:
        ConfigurationError: `inbox.setting`.

    Example:
        WebhookInbox(store, client.order, settings=WebhookSettings(environment="test"))
    """

    environment: str = "live"
    lease: timedelta = timedelta(minutes=3)
    retries: Retries = _RETRIES
    first_pause: timedelta = timedelta(minutes=1)
    longest_pause: timedelta = timedelta(hours=1)
    max_waiting: int = 10_000
    unknown_for: timedelta = timedelta(minutes=10)
    give_up_after: timedelta = timedelta(days=30)

    def __post_init__(self) -> None:
        require_environment(self.environment)
        for name in ("lease", "first_pause", "longest_pause", "unknown_for", "give_up_after"):
            require_span(name, getattr(self, name))
        if self.first_pause > self.longest_pause:
            raise ConfigurationError("inbox.setting", f"a first_pause of {self.first_pause} is above the longest")
        if not self.retries.outlast(self.unknown_for):
            raise ConfigurationError(
                "inbox.setting", f"the retries end before unknown_for, which is {self.unknown_for}"
            )
        if self.max_waiting < 1:
            raise ConfigurationError("inbox.setting", f"{self.max_waiting} waiting orders are not above zero")


_DEFAULTS = WebhookSettings()


class WebhookInbox:
    """Receives webhooks into a store, for threads.

    Every method raises InboxError (`inbox.unavailable`) if the store fails: then answer 503.

    Args:
        store: an `InboxStore`, or for tests a `MemoryStore`.
        fetch: fetches an order by its id: `GatewayClient.order`. It is called outside of transactions.
        settings: pauses, retries and others.

    Attributes:
        source: Source of the entries.

    Example:
        inbox = WebhookInbox(store, client.order)
        inbox.accept(body, at=utc_now())
        inbox.work(lambda order, connection: ..., at=utc_now())
    """

    def __init__(self, store: InboxStore, fetch: Fetch, *, settings: WebhookSettings = _DEFAULTS) -> None:
        self.store, self._fetch, self._settings = store, fetch, settings
        self.source = f"webhook:{settings.environment}"

    def accept(self, body: bytes, *, at: datetime) -> Outcome:
        """Store a webhook for `work`: STORED, or REPEATED if its order waits already.

        Args:
            body: the body of the request.
            at: now, aware.

        Raises:
            FormatError: `json.*`, `model.invalid`: it is not a webhook.
            InboxError: `inbox.full`, `inbox.unavailable`.
        """
        order_id = StatusChanged.from_wire(body, max_bytes=MAX_BODY).order_id
        return self.store.renew(self._entry(order_id, _NEWS, at), most=self._settings.max_waiting)

    def watch(self, order_id: str, *, at: datetime, within: Any) -> None:
        """Fetch an order regularly until it is final, even without a webhook.

        Args:
            order_id: id of a created order.
            at: now, aware.
            within: the transaction that stores the order: a connection or session of SQLAlchemy, or a connection of `sqlite3` or
                `psycopg`.

        Raises:
            ConfigurationError: `inbox.no-transaction`.
            InboxError: `inbox.unavailable`.
        """
        due_at = shift(as_utc(at), self._settings.first_pause)
        self.store.renew(self._entry(order_id, _KNOWN, at), due_at=due_at, within=within)

    def work(self, handler: Handler, *, at: datetime, limit: int = 100) -> list[Worked]:
        """Fetch the due orders, and handle each state once, in its own transaction.

        An order that the project does not have is DROPPED; a state that was handled before is STALE. If the gateway or the handler
        fails, the order is retried later. An order that is given up is handled one last time, and is FAILED with `order.not-final`.

        Args:
            handler: called with the fetched order and SQLAlchemy's connection.
            at: now, aware.
            limit: how many at most, up to 1,000.

        Raises:
            InboxError: `inbox.unavailable`, before any order was handled.
            ConfigurationError: `time.naive`, `inbox.setting`.
        """
        return self.store.work(self.worker(handler), at=at, limit=limit)

    def worker(self, handler: Handler, *, count: Count | None = None) -> Worker:
        """Wrap a handler of orders as a handler of entries, for `tppkit inbox work --handler`.

        Args:
            handler: called with the order and SQLAlchemy's connection.
            count: called with outcome and code of each handled entry, and the seconds that it took.
        """
        return Worker(
            self.source, lambda entry, db: handler(entry.prepared, db), lease=self._settings.lease, retries=self._settings.retries,
            prepare=self._prepare, count=count,
        )  # fmt: skip

    def _prepare(self, entry: Entry, at: datetime) -> Entry | None:
        """Fetch the order of an entry; None if the project has had no such order for a while.

        Raises:
            RequestRefused, TransportError, RemoteProtocolError, FormatError: as `GatewayClient.order`.
            RemoteProtocolError: `model.invalid`, another order was fetched.
        """
        waited = at - entry.received_at
        try:
            order = self._fetch(entry.key)
        except RequestRefused as e:  # the gateway may read from a copy that does not have a new order yet
            if e.status == _NOT_FOUND and entry.content == _NEWS and waited >= self._settings.unknown_for:
                return None
            raise
        if order.id.lower() != entry.key:
            raise RemoteProtocolError("model.invalid", "the answer has the id of another order")
        ready = entry._replace(content=_KNOWN, version=_version(order), prepared=order)
        if order.status in ORDER.final:
            return ready
        if waited >= self._settings.give_up_after:
            return ready._replace(fault=TransportError("order.not-final", "the order is fetched no longer"))
        return ready._replace(again_at=shift(at, self._pause(order, entry, at)))

    def _pause(self, order: Order, entry: Entry, at: datetime) -> timedelta:
        age = at - (_time(order.created) or entry.received_at)
        return min(max(self._settings.first_pause, age / 2), self._settings.longest_pause)

    def _entry(self, order_id: str, content: bytes, at: datetime) -> Entry:
        key = order_id.lower()
        return Entry(self.source, key, sha256(key.encode()).digest(), key, content, as_utc(at))


class AsyncWebhookInbox(Tasks):
    """Receives webhooks into a store, without blocking the event loop; see `AsyncInbox` for the connections that handlers get.

    Args:
        store: an `InboxStore`.
        fetch: `AsyncGatewayClient.order`.
        settings: see `WebhookInbox`.

    Attributes:
        inbox: the synchronous inbox; pass its other methods to `run`.

    Raises:
        ConfigurationError: `extra.missing`.

    Example:
        inbox = AsyncWebhookInbox(store, client.order)
        await inbox.work(handler, at=utc_now())
    """

    def __init__(self, store: InboxStore, fetch: AsyncFetch, *, settings: WebhookSettings = _DEFAULTS) -> None:
        super().__init__(store)
        self.inbox = WebhookInbox(self.store, self.awaiting("fetch", fetch), settings=settings)

    async def accept(self, body: bytes, *, at: datetime) -> Outcome:
        """Store a webhook; see `WebhookInbox.accept`."""
        return await self.run(self.inbox.accept, body, at=at)

    async def watch(self, order_id: str, *, at: datetime, within: Any) -> None:
        """Fetch an order regularly until it is final; see `WebhookInbox.watch`."""
        await self.within(within, lambda db: self.inbox.watch(order_id, at=at, within=db))

    async def work(self, handler: AsyncHandler, *, at: datetime, limit: int = 100) -> list[Worked]:
        """Fetch the orders that are due, and handle each state once; see `WebhookInbox.work`."""
        return await self.run(self.inbox.work, self.effect(handler), at=at, limit=limit)


OneInbox = TypeVar("OneInbox", bound=WebhookInbox | AsyncWebhookInbox)


def make_webhook_path(prefix: str = "/webhooks/") -> str:
    """Make an unguessable path. Store it as a secret: it is part of webhook_url, and the only proof of the sender.

    Example:
        gate = WebhookGate(inbox, path=make_webhook_path())  # in practice the stored one
    """
    return prefix + secrets.token_urlsafe(24)


class _WebhookGate(ReceivingGate, Generic[OneInbox]):
    """The common part of both gates."""

    def __init__(
        self, inbox: OneInbox, *, path: str, peers: CallbackPeers | None = None, on_refusal: OnRefusal = log_refused_callback,
        count: Count | None = None, now: Clock = utc_now,
    ) -> None:  # fmt: skip
        shown = path.rpartition("/")[0] + "/***"
        super().__init__(
            MAX_BODY,
            interface="gateway",
            show=lambda _: shown,
            peers=peers,
            on_refusal=on_refusal,
            count=count,
            now=now,
        )
        if not _UNGUESSABLE.fullmatch(path):  # not shown: it is a secret
            raise ConfigurationError(
                "webhook.path",
                "the path does not end with 22 or more random letters and digits: take one from make_webhook_path()",
            )
        self._inbox, self._path = inbox, path.encode()

    def find(self, source: Source) -> str | None:
        """Return the path, if the request is a POST to it; None for any other request."""
        path, _ = source.decoded_target()
        return self._path.decode() if compare_digest(path, self._path) and source.method == "POST" else None

    def _take(self, received: Message, _: list[Exception]) -> Generator[Any, Any, Taken]:
        outcome: Outcome = yield self._inbox.accept(received.body, at=self.now())
        return Taken(outcome.value)


class WebhookGate(_WebhookGate[WebhookInbox], BlockingGate):
    """Stores webhooks in an inbox and answers them, for `CallbackMiddleware` and `WsgiCallbackMiddleware`.

    Args:
        inbox: stores the webhooks.
        path: the path as this server sees it; see `make_webhook_path`. It is compared in constant time.
        peers: the networks from which webhooks are accepted; without it, all.
        on_refusal: see `CallbackGate`.
        count: called with `stored` or `repeated`, or with `refused` or `failed` and the code of the error. See `CallbackGate`.
        now: the clock.

    Raises:
        ConfigurationError: `webhook.path`, `callback.function`.

    Example:
        app = CallbackMiddleware(app, gate=WebhookGate(WebhookInbox(store, client.order), path=path))
    """


class AsyncWebhookGate(_WebhookGate[AsyncWebhookInbox], AwaitingGate):
    """Stores webhooks in an `AsyncWebhookInbox`. Arguments and errors are those of `WebhookGate`.

    Example:
        app = CallbackMiddleware(app, gate=AsyncWebhookGate(AsyncWebhookInbox(store, client.order), path=path))
    """


def _time(text: str | None) -> datetime | None:
    try:
        return read_timestamp(text) if text else None
    except ValueError:
        return None


def _version(order: Order) -> Version:
    """Return the version of a fetched state of an order (assumption webhook-states).

    A later `modified` is newer. If they are equal, the state with more steps is newer, because steps are only added.
    """
    modified = _time(order.modified)
    lists = order.related_orders, order.refund_orders, order.chargeback_orders, order.reversal_orders
    linked = tuple(sorted({id_.lower() for ids in lists for id_ in ids or ()}))
    time = min(max(to_microseconds(modified), 0), 2**_TIME_BITS - 1) if modified else 0
    moves = (order.status != ORDER.initial) + (order.status in ORDER.final)
    attempts = [(one.id, one.status, one.is_capturable) for one in order.transactions]
    steps = moves + len(linked) + sum(1 + (status != TRANSACTION.initial) for _, status, _ in attempts)
    facts = repr(
        (str(order.status), order.amount, order.refunded_amount, linked, [tuple(map(str, one)) for one in attempts])
    )
    number = time << _STEP_BITS | min(steps, 2**_STEP_BITS - 1)
    return Version(order.id.lower(), number, sha256(facts.encode()).digest())
