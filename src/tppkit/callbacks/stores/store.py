"""What every store does: remember callbacks, let one worker at a time have each, and have its effect once.

How firmly, its `promise` says.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from tppkit.callbacks.stores.entry import Entry, Failure, Lifetimes, Outcome, Promise, Taken

# The store's connection or session is the second argument; None where there is no transaction to share.
Effect = Callable[[Entry, Any], object]
AsyncEffect = Callable[[Entry, Any], Awaitable[object]]
# After the n-th failed attempt: when to try again, or None for never. After the 0th, which was none: always a time.
Retry = Callable[[int], datetime | None]


LEASE_ENDED = "lease-ended"


def is_spent(taken: Taken, retry: Retry) -> bool:
    """Whether an entry's last attempt ended without a word: then its handler is not called again."""
    return taken.lapsed and retry(taken.attempt - 1) is None


class Store(Protocol):
    """A store. Every time is passed in; every method raises InboxError (`inbox.unavailable`) when the store fails."""

    promise: Promise

    def add(self, entries: Sequence[Entry]) -> list[Outcome]:
        """Store entries to be handled later: STORED, REPEATED or CONFLICT for each.

        When it returns, they are as durable as the store ever makes them.
        """

    def run(self, entry: Entry, effect: Effect, *, at: datetime, until: datetime, retry: Retry) -> Outcome:
        """Have the effect of an entry now, once: APPLIED, REPEATED, STALE, VERSION_CONFLICT, BUSY or CONFLICT.

        When the effect raises, the failure is kept and the exception goes on.

        Args:
            entry: the callback.
            effect: called with the entry and the connection.
            at: now.
            until: the end of the lease, where the store needs one.
            retry: when to try a failed entry again.
        """

    def run_all(
        self, entries: Sequence[Entry], effect: Effect, *, at: datetime, until: datetime, retry: Retry
    ) -> list[Outcome]:
        """Have the effects of several entries: as `run` for each, and FAILED where the effect raised; fewer as by `resume`.

        Raises:
            ConfigurationError: `inbox.handler-committed`, as by `resume`.
        """

    def take(self, *, at: datetime, until: datetime, limit: int) -> list[Taken]:
        """Claim at most `limit` entries that are due, until a time; alone what was claimed before (`Taken.lapsed`)."""

    def resume(self, taken: Sequence[Taken], effect: Effect, *, at: datetime, retry: Retry) -> list[Outcome]:
        """Have the effects of claimed entries.

        For each: APPLIED, STALE, VERSION_CONFLICT, FAILED, or BUSY when somebody overtook the claim, or holds the record. Fewer
        where the store failed behind those that are committed.

        Raises:
            ConfigurationError: `inbox.handler-committed`, an effect ended the transaction that it shares with the others.
        """

    def failed(self, *, limit: int, after: Failure | None = None) -> list[Failure]:
        """Failed entries, oldest first, by when they were received and then by key; those behind `after`, where one is given.

        What `after` stands for may be failed no more.
        """

    def release(self, key: bytes, *, at: datetime) -> bool:
        """Let a failed entry be taken again; false when there is no such."""

    def discard(self, failure: Failure, *, at: datetime) -> bool:
        """Mark a failed entry done, without effect; false when it is failed no more, or has been tried again since."""

    def discard_failed(self, *, before: datetime, at: datetime, limit: int) -> int:
        """Discard what is tried again by nobody and was received before a time, in a bounded batch; says how many.

        What somebody has just then is left.
        """

    def purge(self, lifetimes: Lifetimes, *, limit: int) -> int:
        """Forget what is older, in a bounded batch; says how many rows.

        Nothing that waits or failed is forgotten, nor what somebody has just then.
        """


class AsyncStore(Protocol):
    """The same, awaited."""

    promise: Promise

    async def add(self, entries: Sequence[Entry]) -> list[Outcome]:
        """See `Store.add`."""

    async def run(self, entry: Entry, effect: AsyncEffect, *, at: datetime, until: datetime, retry: Retry) -> Outcome:
        """See `Store.run`."""

    async def run_all(
        self, entries: Sequence[Entry], effect: AsyncEffect, *, at: datetime, until: datetime, retry: Retry
    ) -> list[Outcome]:
        """See `Store.run_all`."""

    async def take(self, *, at: datetime, until: datetime, limit: int) -> list[Taken]:
        """See `Store.take`."""

    async def resume(self, taken: Sequence[Taken], effect: AsyncEffect, *, at: datetime, retry: Retry) -> list[Outcome]:
        """See `Store.resume`."""

    async def failed(self, *, limit: int, after: Failure | None = None) -> list[Failure]:
        """See `Store.failed`."""

    async def release(self, key: bytes, *, at: datetime) -> bool:
        """See `Store.release`."""

    async def discard(self, failure: Failure, *, at: datetime) -> bool:
        """See `Store.discard`."""

    async def discard_failed(self, *, before: datetime, at: datetime, limit: int) -> int:
        """See `Store.discard_failed`."""

    async def purge(self, lifetimes: Lifetimes, *, limit: int) -> int:
        """See `Store.purge`."""


@runtime_checkable
class Renewing(Protocol):
    """A store where an effect is no part of a transaction, so that a lease must not run out during it."""

    def renew(self, taken: Sequence[Taken], *, until: datetime) -> None:
        """Hold what is still claimed as it was taken until a time, and keep its order."""


@runtime_checkable
class AsyncRenewing(Protocol):
    """The same, awaited."""

    async def renew(self, taken: Sequence[Taken], *, until: datetime) -> None:
        """See `Renewing.renew`."""
