"""What an inbox decides before its store: whether a callback is verified and in time, and what it is the same as.

Three things are told apart. A **key** stands for environment, address and requestid: the service uses a requestid once for an
address, and test and live each count for themselves. A **digest** stands for the signed bytes: a key that comes again with another
digest is no repetition but a conflict. An **order** stands for what the event is about, so that a repetition under another
requestid, or an older version that comes late, has no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256

from tppkit._clock import as_utc, format_time, shift
from tppkit.callbacks.events import parse_event
from tppkit.callbacks.message import ReceivedCallback, signed_bytes
from tppkit.callbacks.stores.entry import Entry, Lifetimes, Order, Outcome
from tppkit.callbacks.verify import CallbackReceiver, VerifiedCallback, verify_callback
from tppkit.errors import CallbackRejected, ConfigurationError, InboxError
from tppkit.protocol.legacy import AccessGranted, Transaction


def operated_at(callback: VerifiedCallback) -> datetime | None:
    """The signed time of a transaction, None for every other callback.

    Its epoch is an assumption (assumption tran-time-stamp): compare it with real callbacks before a window rests on it.
    """
    return callback.event.operated_at if isinstance(callback.event, Transaction) else None


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """How far the time that a callback belongs to may be from the time it is received at.

    Attributes:
        time_of: tells that time, aware, or None where there is none: `operated_at`, or for login GETs a function that knows
            when the code with this `token` was shown.
        past: how far it may lie back.
        future: how far it may lie ahead, for clocks that differ.
    """

    time_of: Callable[[VerifiedCallback], datetime | None]
    past: timedelta
    future: timedelta = timedelta(minutes=5)

    def require(self, callback: VerifiedCallback) -> None:
        """Refuse what is out of the window; both ends are within.

        Raises:
            CallbackRejected: `callback.time-past`, `callback.time-future`.
            ConfigurationError: `time.naive`, the function's time has no time zone.
        """
        told = self.time_of(callback)
        if told is None:
            return
        time, at = as_utc(told), callback.received_at
        if time < shift(at, -self.past):
            raise CallbackRejected(
                "callback.time-past",
                f"it belongs to {format_time(time)}, more than {self.past} before {format_time(at)}",
            )
        if time > shift(at, self.future):
            raise CallbackRejected(
                "callback.time-future",
                f"it belongs to {format_time(time)}, more than {self.future} after {format_time(at)}",
            )


@dataclass(frozen=True, slots=True)
class Retention:
    """How long an inbox remembers.

    Attributes:
        done: callbacks that are done: longer than the service repeats them, which is not documented.
        versions: the last version of each transaction, and each grant. The default is the 13 months within which a payer can
            report a payment (Directive (EU) 2015/2366, article 71).

    Raises:
        ConfigurationError: `inbox.setting`, a span is not above zero.
    """

    done: timedelta = timedelta(days=7)
    versions: timedelta = timedelta(days=400)

    def __post_init__(self) -> None:
        for name in ("done", "versions"):
            _require_span(f"retention of {name}", getattr(self, name))

    def at(self, at: datetime) -> Lifetimes:
        """What may be forgotten at a time."""
        at = as_utc(at)
        return Lifetimes(done=shift(at, -self.done), versions=shift(at, -self.versions))


@dataclass(frozen=True, slots=True)
class Retries:
    """When a failed callback is tried again: after `first`, then each time twice as long, at most `longest`.

    Attributes:
        first: the wait after the first attempt.
        longest: the longest wait.
        attempts: after this many it is only tried again when it is delivered again or released.

    Raises:
        ConfigurationError: `inbox.setting`, a number is not above zero.
    """

    first: timedelta = timedelta(seconds=10)
    longest: timedelta = timedelta(hours=1)
    attempts: int = 10

    def __post_init__(self) -> None:
        _require_span("wait before a retry", self.first)
        _require_span("longest wait before a retry", self.longest)
        if self.attempts < 1:
            raise ConfigurationError("inbox.setting", f"{self.attempts} attempts are not above zero")

    def due_at(self, attempt: int, *, at: datetime) -> datetime | None:
        """When to try again after an attempt (from 1) failed."""
        if attempt >= self.attempts:
            return None
        doublings = min(attempt - 1, 40)  # the longest wait is reached long before
        try:
            return shift(at, min(self.first * 2**doublings, self.longest))
        except OverflowError:
            return shift(at, self.longest)


class Admission:
    """Verifies callbacks and makes entries of them.

    Args:
        receiver: the receiver's addresses and keys.
        environment: `live`, `test`, …: what this receiver's ids belong to. Inboxes of two environments may share a store.
        window: how far a callback's time may be from the present; None: no time is looked at.
    """

    def __init__(self, receiver: CallbackReceiver, *, environment: str, window: TimeWindow | None) -> None:
        self._receiver, self._environment, self._window = receiver, environment, window

    def admit(self, received: ReceivedCallback, *, at: datetime) -> tuple[VerifiedCallback, Entry]:
        """What was proven about a request, and how a store keeps it.

        Raises:
            CallbackRejected: see `verify_callback` and `TimeWindow.require`.
            ConfigurationError: `time.naive`.
        """
        callback = verify_callback(received, at=at, receiver=self._receiver)
        if self._window is not None:
            self._window.require(callback)
        return callback, self._entry(callback)

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
            FormatError: the body is no event any more.
        """
        match = self._receiver.book.find(entry.url.encode().decode("latin-1"))
        if match is None:
            raise InboxError("inbox.address", f"the stored callback {entry.request_id} came to an address that is gone")
        event = parse_event(entry.body, kind=match.address.kind) if entry.method == "POST" else None
        return VerifiedCallback(
            entry.request_id, entry.method, entry.url, entry.body, entry.key_name, event, entry.received_at, match.address,
            match.token, entry.signature,
        )  # fmt: skip

    def _entry(self, callback: VerifiedCallback) -> Entry:
        address, request_id = callback.replay_key
        signed = signed_bytes(request_id, callback.method, callback.url, callback.body)
        return Entry(
            self._digest("key", address, request_id), sha256(signed).digest(), self._environment, callback.key_name, request_id,
            callback.method, callback.url, callback.body, callback.signature, callback.received_at, self._order(callback),
        )  # fmt: skip

    def _order(self, callback: VerifiedCallback) -> Order | None:
        event = callback.event
        if isinstance(event, Transaction):
            return Order(self._digest("transaction", event.id), event.ver)
        if isinstance(event, AccessGranted):
            # Repeated under another requestid it is the same grant. A login is not: a customer can log in twice.
            return Order(self._digest("access", event.token, format_time(event.expires_at)), 0)
        return None

    def _digest(self, *parts: str) -> bytes:
        # No part can hold a zero byte: ids and tokens are printable, and so are URLs.
        return sha256("\0".join((self._environment, *parts)).encode()).digest()


def _require_span(name: str, span: timedelta) -> None:
    if span <= timedelta(0):
        raise ConfigurationError("inbox.setting", f"a {name} of {span} is not above zero")
