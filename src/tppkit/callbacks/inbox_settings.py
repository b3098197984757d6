"""The settings of an inbox, and its time window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from tppkit._clock import as_utc, format_time, shift
from tppkit.callbacks.verify import VerifiedCallback
from tppkit.errors import CallbackRejected, ConfigurationError, InboxError, TppkitError
from tppkit.inbox.settings import LEASE, RETENTION, RETRIES, Retention, Retries, require_span
from tppkit.protocol.legacy import Transaction

LONGEST_SPAN = timedelta(days=36525)  # of a window; far from where the calendar ends


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
        except Exception as e:  # the application's function raises any class
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
class InboxSettings:
    """The settings of an inbox.

    Attributes:
        environment: `live`, `test` or another name: what the receiver's requestids and transaction ids belong to.
        window: how far the time of a callback may be from the present; None: not checked.
        lease: how long a worker may take for a callback before another one may claim it.
        retention: how long the inbox remembers.
        retries: when failed callbacks are tried again.

    Raises:
        ConfigurationError: `inbox.setting`.
    """

    environment: str = "live"
    window: TimeWindow | None = None
    lease: timedelta = LEASE
    retention: Retention = RETENTION
    retries: Retries = RETRIES

    def __post_init__(self) -> None:
        if not self.environment or not self.environment.isprintable() or len(self.environment) > 64:
            raise ConfigurationError("inbox.setting", "an environment is 1 to 64 printable characters")
        require_span("lease", self.lease)


DEFAULTS = InboxSettings()
