"""Settings of an inbox: retention, retries, limits, and how a worker handles entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from tppkit._clock import shift
from tppkit._handlers import require_run
from tppkit.errors import ConfigurationError
from tppkit.inbox.entries import Entry
from tppkit.metrics import Count

LEASE = timedelta(minutes=1)
LONGEST_SPAN = timedelta(days=36525)  # keeps sums within the range of datetime
MAX_BATCH = 1000


def require_environment(name: str) -> None:
    """Check the name of an environment, which is a part of the source of its entries.

    Raises:
        ConfigurationError: `inbox.setting`.
    """
    if not name or not name.isprintable() or len(name) > 64:
        raise ConfigurationError("inbox.setting", "an environment is 1 to 64 printable characters")


def require_span(name: str, span: timedelta) -> None:
    """Check that a span is above zero, and at most 100 years.

    Raises:
        ConfigurationError: `inbox.setting`.
    """
    if not timedelta(0) < span <= LONGEST_SPAN:
        raise ConfigurationError("inbox.setting", f"a {name} of {span} is not above zero and at most 100 years")


def require_limit(limit: int) -> int:
    """Return a limit that is 1 to 1,000.

    Raises:
        ConfigurationError: `inbox.setting`.
    """
    if not 1 <= limit <= MAX_BATCH:
        raise ConfigurationError("inbox.setting", f"a limit of {limit} is not 1 to {MAX_BATCH}")
    return limit


@dataclass(frozen=True, slots=True)
class Retention:
    """The retention of an inbox's rows.

    Attributes:
        done: retention of done entries; choose a longer time than the sender repeats deliveries.
        versions: retention of the last version of each record; it is kept longer while an entry of the record is not done. The default
            is the 13 months within which a payer can report a payment (Directive (EU) 2015/2366, article 71).
        failed: retention of failed entries without a due time, from their receipt. None: they stay until they are released or discarded.

    Raises:
        ConfigurationError: `inbox.setting`, a span is not above zero or above 100 years, or versions are kept shorter than entries.

    Example:
        InboxSettings(retention=Retention(failed=timedelta(days=90)))
    """

    done: timedelta = timedelta(days=7)
    versions: timedelta = timedelta(days=400)
    failed: timedelta | None = None

    def __post_init__(self) -> None:
        for name in ("done", "versions", "failed"):
            if (span := getattr(self, name)) is not None:
                require_span(f"retention of {name}", span)
        if self.versions < self.done:
            raise ConfigurationError(
                "inbox.setting",
                f"versions are kept for {self.versions}, which is shorter than for their entries: {self.done}",
            )


@dataclass(frozen=True, slots=True)
class Retries:
    """The retries of failed entries: after `first`, then each time twice as long, at most `longest`.

    Attributes:
        first: the wait after the first attempt.
        longest: the longest wait.
        attempts: after this many, an entry is tried again only if it is released or delivered again.

    Raises:
        ConfigurationError: `inbox.setting`, a number is not above zero, or a wait is above 100 years.

    Example:
        InboxSettings(retries=Retries(first=timedelta(minutes=1), attempts=5))
    """

    first: timedelta = timedelta(seconds=10)
    longest: timedelta = timedelta(hours=1)
    attempts: int = 10

    def __post_init__(self) -> None:
        require_span("wait before a retry", self.first)
        require_span("longest wait before a retry", self.longest)
        if self.attempts < 1:
            raise ConfigurationError("inbox.setting", f"{self.attempts} attempts are not above zero")

    def due_at(self, attempt: int, *, at: datetime) -> datetime | None:
        """Return when to retry after the failed attempt with this number (from 1); 0 counts as 1. None: no retry."""
        return None if attempt >= self.attempts else shift(at, self._wait(attempt))

    def outlast(self, span: timedelta) -> bool:
        """Whether an entry that always fails is still tried at the end of a span."""
        return any(waited >= span for waited in accumulate(map(self._wait, range(1, self.attempts))))

    def _wait(self, attempt: int) -> timedelta:
        times = 1 << min(max(attempt - 1, 0), 40)  # the longest wait is reached much earlier
        return self.first * times if self.first < self.longest / times else self.longest


RETENTION, RETRIES = Retention(), Retries()


@dataclass(frozen=True, slots=True)
class Worker:
    """How the due entries of a source are handled; `tppkit inbox work --handler` takes one too.

    Attributes:
        source: Source of the entries.
        handler: called with the entry and SQLAlchemy's connection.
        lease: how long a worker may take for an entry before another one may claim it.
        retries: when a failed entry is tried again.
        prepare: called with the entry and the time before the transaction. Returns the entry to handle, or None to end it without
            effect (DROPPED). Its exceptions are failures of the handler.
        count: called with outcome and code of each handled entry, and the seconds that it took. What it raises is logged (`tppkit.inbox`).

    Raises:
        ConfigurationError: `callback.function`, `count` is a coroutine function.

    Example:
        store.work(Worker("webhook:test", lambda entry, db: db.execute(INSERT, {"id": entry.key})), at=utc_now())
    """

    source: str
    handler: Callable[[Entry, Any], object]
    lease: timedelta = LEASE
    retries: Retries = RETRIES
    prepare: Callable[[Entry, datetime], Entry | None] | None = None
    count: Count | None = None

    def __post_init__(self) -> None:
        require_run(awaited=False, count=self.count)
