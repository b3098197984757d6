"""Settings of an inbox of callbacks, and the time window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from tppkit._clock import as_utc, format_time, shift
from tppkit.callbacks.signature import CallbackRejected
from tppkit.callbacks.verify import VerifiedCallback
from tppkit.errors import ConfigurationError
from tppkit.inbox import InboxError
from tppkit.inbox.settings import (
    LEASE,
    LONGEST_SPAN,
    RETENTION,
    RETRIES,
    Retention,
    Retries,
    require_environment,
    require_span,
)
from tppkit.protocol.legacy import Transaction


class NoTime(Enum):
    """The result of `time_of` for a callback to which no time applies."""

    NO_TIME = "no-time"


NO_TIME: Final = NoTime.NO_TIME


def operated_at(callback: VerifiedCallback) -> datetime | NoTime:
    """Return the signed time of a transaction, `NO_TIME` for every other callback.

    Its epoch is an assumption (assumption tran-time-stamp): compare it with real callbacks before you use it in a window.

    Example:
        TimeWindow(operated_at, past=timedelta(days=1))
    """
    return callback.event.operated_at if isinstance(callback.event, Transaction) else NO_TIME


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """How far the time of a callback may be from its receipt.

    Attributes:
        time_of: returns the time of a callback, aware: `operated_at`, or for login GETs a function that returns when the code with
            this `token` was shown. If it returns `NO_TIME`, no time applies and the callback is accepted. If it returns None or
            raises LookupError, the time is unknown and the callback is rejected.
        past: how long before its receipt the time may be.
        future: how long after its receipt the time may be, for clocks that differ.

    Raises:
        ConfigurationError: `inbox.setting`, a span is below zero or above 100 years.

    Example:
        InboxSettings(window=TimeWindow(operated_at, past=timedelta(days=1)))
    """

    time_of: Callable[[VerifiedCallback], datetime | NoTime | None]
    past: timedelta
    future: timedelta = timedelta(minutes=5)

    def __post_init__(self) -> None:
        for name, span in (("past", self.past), ("future", self.future)):
            if not timedelta(0) <= span <= LONGEST_SPAN:
                raise ConfigurationError(
                    "inbox.setting", f"the window's {name} of {span} is not between zero and 100 years"
                )

    def require(self, callback: VerifiedCallback) -> None:
        """Reject a callback outside the window; both ends are inside.

        Raises:
            CallbackRejected: `callback.time-past`, `callback.time-future`, `callback.time-unknown`.
            ConfigurationError: `time.naive`, the result of `time_of` has no time zone; `inbox.setting`, it is not a time.
            InboxError: `inbox.time`, `time_of` failed.
        """
        time = self._time_of(callback)
        if time is NO_TIME:
            return
        time, at = as_utc(time), callback.received_at
        if time < shift(at, -self.past):
            raise CallbackRejected(
                "callback.time-past",
                f"its time is {format_time(time)}, more than {self.past} before {format_time(at)}",
            )
        if time > shift(at, self.future):
            raise CallbackRejected(
                "callback.time-future",
                f"its time is {format_time(time)}, more than {self.future} after {format_time(at)}",
            )

    def _time_of(self, callback: VerifiedCallback) -> datetime | NoTime:
        cause = None
        try:
            time: object = self.time_of(callback)
        except LookupError as e:
            time, cause = None, e
        except (CallbackRejected, ConfigurationError, InboxError):
            raise
        except Exception as e:  # the application's function raises any class
            raise InboxError("inbox.time", f"the window's time_of raised {type(e).__name__}") from e
        if time is None:
            raise CallbackRejected("callback.time-unknown", "the window's time_of does not know its time") from cause
        if not isinstance(time, datetime | NoTime):
            raise ConfigurationError(
                "inbox.setting", f"the window's time_of returned a {type(time).__name__}, not a time, None or NO_TIME"
            )
        return time


@dataclass(frozen=True, slots=True)
class InboxSettings:
    """The settings of an inbox.

    Attributes:
        environment: `live`, `test` or another name, to keep requestids and transaction ids of environments apart.
        window: how far the time of a callback may be from its receipt; None: not checked.
        lease: how long a worker may handle a callback before another worker may claim it.
        retention: how long the inbox keeps its rows.
        retries: when failed callbacks are retried.

    Raises:
        ConfigurationError: `inbox.setting`.

    Example:
        Inbox(receiver, store, settings=InboxSettings(environment="test", retries=Retries(attempts=3)))
    """

    environment: str = "live"
    window: TimeWindow | None = None
    lease: timedelta = LEASE
    retention: Retention = RETENTION
    retries: Retries = RETRIES

    def __post_init__(self) -> None:
        require_environment(self.environment)
        require_span("lease", self.lease)


DEFAULTS = InboxSettings()
