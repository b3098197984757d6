"""What an inbox decides before its store: whether a callback is verified and in time, and what it is the same as.

Three things are told apart. A **key** stands for environment, address and requestid: the service uses a requestid once for an
address, and test and live each count for themselves. A **digest** stands for the signed bytes: a key that comes again with another
digest is no repetition but a conflict. An **order** stands for what the event is about, so that a repetition under another
requestid, or an older version that comes late, has no effect; and for what it says, so that two contents of one version are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from inspect import iscoroutinefunction
from json import JSONEncoder
from typing import Any, NamedTuple

from tppkit._clock import format_time, shift
from tppkit.callbacks.inbox_settings import InboxSettings, TimeWindow
from tppkit.callbacks.message import ReceivedCallback, signed_bytes
from tppkit.callbacks.stores.entry import Entry, Order, Outcome, Promise, Taken
from tppkit.callbacks.stores.store import AsyncStore, Retry, Store
from tppkit.callbacks.verify import CallbackReceiver, VerifiedCallback, read_event, verify_signature
from tppkit.errors import CallbackRejected, ConfigurationError, InboxError
from tppkit.protocol.legacy import AccessGranted, Transaction

MAX_BATCH = 1000
Clock = Callable[[], float]  # monotonic seconds
# Names sorted at every depth.
_canonical = JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False).encode


class Admitted(NamedTuple):
    """A callback whose signature is verified.

    Attributes:
        callback: what was proven about it.
        entry: how a store keeps it.
        fault: why its body cannot be read, or None.
    """

    callback: VerifiedCallback
    entry: Entry
    fault: CallbackRejected | None


class Receipt(NamedTuple):
    """What became of a received callback.

    Attributes:
        outcome: STORED, APPLIED, REPEATED, STALE, VERSION_CONFLICT, BUSY, LOGIN, UNREADABLE; from `handle_all` also FAILED.
        callback: what was proven about it.
        fault: why it is UNREADABLE, else None.
    """

    outcome: Outcome
    callback: VerifiedCallback
    fault: CallbackRejected | None = None

    @property
    def acknowledged(self) -> bool:
        """Whether to answer 200; else answer 503, so that the service repeats it: nobody has had its effect yet."""
        return self.outcome not in (Outcome.BUSY, Outcome.FAILED)


class Worked(NamedTuple):
    """What a worker did with a stored callback.

    Attributes:
        entry: the callback as it was stored.
        outcome: APPLIED, STALE, VERSION_CONFLICT, FAILED, or BUSY where another has it since its lease ended, or holds it
            or its record in PostgreSQL.
    """

    entry: Entry
    outcome: Outcome


class Admission:
    """Verifies callbacks and makes entries of them.

    Args:
        receiver: the receiver's addresses and keys.
        environment: `live`, `test`, …: what this receiver's ids belong to. Inboxes of two environments may share a store.
        window: how far a callback's time may be from the present; None: no time is looked at.
    """

    def __init__(self, receiver: CallbackReceiver, *, environment: str, window: TimeWindow | None) -> None:
        self._receiver, self._environment, self._window = receiver, environment, window

    def admit(self, received: ReceivedCallback, *, at: datetime) -> Admitted:
        """Verify a request. The time window is not applied to an unreadable callback: its event is unknown, and it has no effect.

        Raises:
            CallbackRejected: see `verify_signature` and `TimeWindow.require`.
            InboxError: see `TimeWindow.require`.
            ConfigurationError: `time.naive`; see `TimeWindow.require`.
        """
        callback = verify_signature(received, at=at, receiver=self._receiver)
        fault: CallbackRejected | None = None
        try:
            callback = read_event(callback)
        except CallbackRejected as e:
            fault = _unreadable(e)
        if self._window is not None and fault is None:
            self._window.require(callback)
        return Admitted(callback, self._entry(callback), fault)

    def require_same(self, outcome: Outcome, entry: Entry) -> Outcome:
        """The outcome, unless the entry's key was used for something else.

        Raises:
            CallbackRejected: `callback.request-id-reused`.
        """
        if outcome is Outcome.CONFLICT:
            raise CallbackRejected(
                "callback.request-id-reused",
                f"the requestid {entry.request_id} came before to the same address with other signed bytes",
            )
        return outcome

    def restore(self, entry: Entry) -> VerifiedCallback:
        """The callback that a store kept.

        Raises:
            InboxError: `inbox.address`, the receiver's addresses no longer have its URL.
            CallbackRejected: `callback.unreadable`, the body is not what belongs to the address; `callback.method`, it is a login GET,
                which an earlier version stored.
        """
        if entry.method == "GET":
            raise CallbackRejected(
                "callback.method", f"the stored request {entry.request_id} is a login GET: discard it"
            )
        match = self._receiver.book.find(entry.url.encode().decode("latin-1"))
        if match is None:
            raise InboxError("inbox.address", f"the stored callback {entry.request_id} came to an address that is gone")
        callback = VerifiedCallback(
            entry.request_id, entry.method, entry.url, entry.body, entry.key_name, None, entry.received_at, match.address,
            match.token, entry.signature,
        )  # fmt: skip
        try:
            return read_event(callback)
        except CallbackRejected as e:
            raise _unreadable(e) from e

    def with_order(self, taken: Taken) -> Taken:
        """Add the order to an entry that could not be read when it was received, so that a newer version stays in effect."""
        if taken.entry.order is not None:
            return taken
        try:
            order = self._order(self.restore(taken.entry))
        except (CallbackRejected, InboxError):
            return taken
        return taken._replace(entry=taken.entry._replace(order=order))

    def _entry(self, callback: VerifiedCallback) -> Entry:
        address, request_id = callback.replay_key
        signed = signed_bytes(request_id, callback.method, callback.url, callback.body)
        return Entry(
            self._digest("key", address, request_id), sha256(signed).digest(), self._environment, callback.key_name, request_id,
            callback.method, callback.url, callback.body, callback.signature, callback.received_at, self._order(callback),
        )  # fmt: skip

    def _order(self, callback: VerifiedCallback) -> Order | None:
        event = callback.event
        if isinstance(event, Transaction):  # assumption same-version
            return Order(self._digest("transaction", event.id), event.ver, _content(event))
        if isinstance(event, AccessGranted):
            # Repeated under another requestid it is the same grant. A login is not: a customer can log in twice.
            return Order(self._digest("access", event.token, format_time(event.expires_at)), 0)
        return None

    def _digest(self, *parts: str) -> bytes:
        # No part can hold a zero byte: ids and tokens are printable, and so are URLs.
        return sha256("\0".join((self._environment, *parts)).encode()).digest()


def _unreadable(error: CallbackRejected) -> CallbackRejected:
    message = f"the signed body is not what belongs to the address: {error.message} [{error.code}]"
    return CallbackRejected("callback.unreadable", message, clause=error.clause)


def _content(record: Transaction) -> bytes:
    # Of what was read, not of the body: spaces, the order of names and zeros behind an amount make no other record.
    # An amount has at most 21 digits, so nothing is rounded; zero added has no sign.
    amounts, fees = (
        [(one.currency, str((one.value + 0).normalize())) for one in some] for some in (record.amounts, record.fees)
    )
    said = (
        record.time_stamp, record.tlc, record.acc, amounts, fees, record.name, record.street, record.city, record.country,
        record.msg, record.time, record.tcc, _canonical(dict(record.unknown)) if record.unknown else "",
    )  # fmt: skip
    return sha256(repr(said).encode()).digest()


def admit_all(
    admission: Admission, received: Sequence[ReceivedCallback], *, at: datetime
) -> list[Admitted | CallbackRejected]:
    """What was proven about each request, or why it is refused.

    Raises:
        ConfigurationError: `inbox.setting`, too many at once; `time.naive`.
    """
    if len(received) > MAX_BATCH:
        raise ConfigurationError("inbox.setting", f"a batch of {len(received)} is more than {MAX_BATCH}")
    admitted: list[Admitted | CallbackRejected] = []
    for one in received:
        try:
            admitted.append(admission.admit(one, at=at))
        except CallbackRejected as e:
            admitted.append(e)
    return admitted


def receipts_of(
    admission: Admission, admitted: Sequence[Admitted | Receipt | CallbackRejected], outcomes: Iterable[Outcome]
) -> list[Receipt | CallbackRejected]:
    """Receipts for what was admitted; receipts and rejections stay where they are. BUSY is what the store did not reach."""
    left = iter(outcomes)
    receipts: list[Receipt | CallbackRejected] = []
    for one in admitted:
        if not isinstance(one, Admitted):
            receipts.append(one)
            continue
        try:
            receipts.append(Receipt(admission.require_same(next(left, Outcome.BUSY), one.entry), one.callback))
        except CallbackRejected as e:
            receipts.append(e)
    return receipts


def retry_after(settings: InboxSettings, at: datetime) -> Retry:
    """When to try again after an attempt at `at` failed."""
    return lambda attempt: settings.retries.due_at(attempt, at=at)


def handled_at_once(store: Store | AsyncStore) -> int:
    """How many callbacks to hand to the store at once: one, where claim, effect and done mark are steps of their own.

    There nothing undoes the effect of a worker that was overtaken, so leases must not run out while others are handled.
    """
    return MAX_BATCH if store.promise is Promise.EXACTLY_ONCE else 1


class Leases:
    """The leases of one call: the first begins at `at`, each further one as much later as the clock says.

    Args:
        span: how long each holds.
        at: when the call began, aware UTC.
        clock: monotonic seconds.
    """

    def __init__(self, span: timedelta, at: datetime, clock: Clock) -> None:
        self._first, self._span_s, self._clock = shift(at, span), span.total_seconds(), clock
        self._began, self._last_s = clock(), -1.0

    def end(self) -> datetime:
        """The end of a lease that begins now."""
        self._last_s = 0.0 if self._last_s < 0 else self._clock() - self._began
        return shift(self._first, timedelta(seconds=self._last_s))

    def is_used(self) -> bool:
        """Whether more than a tenth of the last lease has passed."""
        return self._clock() - self._began - self._last_s > self._span_s / 10


def require_store(store: object, *, awaited: bool) -> None:
    """Refuse what an inbox cannot use as its store.

    Args:
        store: what it was given.
        awaited: the inbox awaits it.

    Raises:
        ConfigurationError: `inbox.setting`.
    """
    add = getattr(store, "add", None)
    if not callable(add) or iscoroutinefunction(add) is not awaited:
        wanted = "AsyncInbox needs a store that is awaited" if awaited else "Inbox needs a store that is not awaited"
        raise ConfigurationError("inbox.setting", f"{wanted}, and a {type(store).__name__} is none")


def transactional(store: Store | AsyncStore) -> Any:
    """The store, when it has `once` and `run_within`.

    Raises:
        ConfigurationError: `inbox.no-transaction`.
    """
    if not hasattr(store, "run_within"):
        raise ConfigurationError(
            "inbox.no-transaction", f"{type(store).__name__} has no transaction that a caller's writes could be part of"
        )
    return store


def bounded(limit: int) -> int:
    """The limit, when it is one.

    Raises:
        ConfigurationError: `inbox.setting`.
    """
    if not 1 <= limit <= MAX_BATCH:
        raise ConfigurationError("inbox.setting", f"a limit of {limit} is not 1 to {MAX_BATCH}")
    return limit
