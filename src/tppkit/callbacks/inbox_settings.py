"""What an inbox goes by: time, leases, retention and retries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from tppkit._clock import as_utc, format_time, shift
from tppkit.callbacks.stores.entry import Lifetimes
from tppkit.callbacks.verify import VerifiedCallback
from tppkit.errors import CallbackRejected, ConfigurationError, InboxError, TppkitError
from tppkit.protocol.legacy import Transaction

LONGEST_SPAN = timedelta(days=36525)  # of a window; far from where the calendar ends
DEFAULT_LEASE = timedelta(minutes=1)


def _require_span(name: str, span: timedelta) -> None:
    if span <= timedelta(0):
        raise ConfigurationError("inbox.setting", f"a {name} of {span} is not above zero")


class NoTime(Enum):
    """What stands in the place of a time for a callback that belongs to none."""

    NO_TIME = "no-time"


NO_TIME: Final = NoTime.NO_TIME


def operated_at(callback: VerifiedCallback) -> datetime | NoTime:
    """The signed time of a transaction, `NO_TIME` for every other callback.

    Its epoch is an assumption (assumption tran-time-stamp): compare it with real callbacks before a window rests on it.
    """
    return callback.event.operated_at if isinstance(callback.event, Transaction) else NO_TIME


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """How far the time that a callback belongs to may be from the time it is received at.

    Attributes:
        time_of: tells that time, aware: `operated_at`, or for login GETs a function that knows when the code with this `token` was
            shown. It gives `NO_TIME` for a callback to which no time applies, which then is within the window; and None, or raises
            LookupError, where a time applies that it does not know (a code never shown, or forgotten), which is refused.
        past: how far it may lie back.
        future: how far it may lie ahead, for clocks that differ.

    Raises:
        ConfigurationError: `inbox.setting`, a span is below zero or above 100 years.
    """

    time_of: Callable[[VerifiedCallback], datetime | NoTime | None]
    past: timedelta
    future: timedelta = timedelta(minutes=5)

    def __post_init__(self) -> None:
        for name, span in (("past", self.past), ("future", self.future)):
            if not timedelta(0) <= span <= LONGEST_SPAN:
                raise ConfigurationError(
                    "inbox.setting", f"a window whose {name} is {span} is below zero, or above 100 years"
                )

    def require(self, callback: VerifiedCallback) -> None:
        """Refuse what is out of the window; both ends are within.

        Raises:
            CallbackRejected: `callback.time-past`, `callback.time-future`, `callback.time-unknown`.
            ConfigurationError: `time.naive`, the function's time has no time zone; `inbox.setting`, it gave no time at all.
            InboxError: `inbox.time`, the function failed.
        """
        told = self._ask(callback)
        if told is NO_TIME:
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

    def _ask(self, callback: VerifiedCallback) -> datetime | NoTime:
        cause = None
        try:
            told: object = self.time_of(callback)
        except LookupError as e:
            told, cause = None, e
        except TppkitError:
            raise
        except Exception as e:
            raise InboxError("inbox.time", f"the window's time_of raised {type(e).__name__}") from e
        if told is None:
            raise CallbackRejected(
                "callback.time-unknown", "the window's time_of does not know the time that it belongs to"
            ) from cause
        if not isinstance(told, datetime | NoTime):
            raise ConfigurationError(
                "inbox.setting", f"the window's time_of gave a {type(told).__name__}, not a time, None or NO_TIME"
            )
        return told


@dataclass(frozen=True, slots=True)
class Retention:
    """How long an inbox remembers.

    Attributes:
        done: callbacks that are done: longer than the service repeats them, which is not documented.
        versions: the last version of each transaction, and each grant. The default is the 13 months within which a payer can
            report a payment (Directive (EU) 2015/2366, article 71).
        failed: callbacks that failed and are not tried again by themselves, from when they were received: then a purge discards
            them, as `Inbox.discard` does. None: they stay until somebody releases or discards them.

    Raises:
        ConfigurationError: `inbox.setting`, a span is not above zero, or versions are forgotten before callbacks.
    """

    done: timedelta = timedelta(days=7)
    versions: timedelta = timedelta(days=400)
    failed: timedelta | None = None

    def __post_init__(self) -> None:
        for name in ("done", "versions", "failed"):
            if (span := getattr(self, name)) is not None:
                _require_span(f"retention of {name}", span)
        if self.versions < self.done:
            raise ConfigurationError(
                "inbox.setting",
                f"versions are kept {self.versions}, shorter than the callbacks they put in order: {self.done}",
            )

    def at(self, at: datetime) -> Lifetimes:
        """What may be forgotten at a time."""
        at = as_utc(at)
        return Lifetimes(done=shift(at, -self.done), versions=shift(at, -self.versions))

    def failed_before(self, at: datetime) -> datetime | None:
        """Received before which a failed callback may be discarded at a time; None: never."""
        return None if self.failed is None else shift(as_utc(at), -self.failed)


@dataclass(frozen=True, slots=True)
class Retries:
    """When a failed callback is tried again: after `first`, then each time twice as long, at most `longest`.

    Attributes:
        first: the wait after the first attempt.
        longest: the longest wait.
        attempts: after this many it is only tried again when it is released, or delivered again to `handle`; `accept` acknowledges
            the repetition of a failed callback and leaves it as it is.

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
        """When to try again after an attempt (from 1) failed; after what was none (0), once the first wait is over."""
        if attempt >= self.attempts:
            return None
        doublings = min(max(attempt - 1, 0), 40)  # the longest wait is reached long before
        try:
            return shift(at, min(self.first * 2**doublings, self.longest))
        except OverflowError:
            return shift(at, self.longest)


@dataclass(frozen=True, slots=True)
class InboxSettings:
    """What an inbox goes by.

    Attributes:
        environment: `live`, `test`, …: what the receiver's requestids and transaction ids belong to.
        window: how far the time that a callback belongs to may be from the present; None: no time is looked at.
        lease: how long a worker may take for what it has claimed, before another may claim it.
        retention: how long the inbox remembers.
        retries: when failed callbacks are tried again.

    Raises:
        ConfigurationError: `inbox.setting`.
    """

    environment: str = "live"
    window: TimeWindow | None = None
    lease: timedelta = DEFAULT_LEASE
    retention: Retention = Retention()
    retries: Retries = Retries()

    def __post_init__(self) -> None:
        if not self.environment or not self.environment.isprintable() or len(self.environment) > 64:
            raise ConfigurationError("inbox.setting", "an environment is 1 to 64 printable characters")
        _require_span("lease", self.lease)


DEFAULTS = InboxSettings()
