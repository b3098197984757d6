"""What the stores in SQL databases share: each operation is one transaction, and the handler's writes are part of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from datetime import datetime
from typing import Any, TypeVar

from tppkit.callbacks.stores import batches
from tppkit.callbacks.stores.batches import Note, Transaction
from tppkit.callbacks.stores.driving import EffectFailed, drive, drive_async
from tppkit.callbacks.stores.entry import Entry, Failure, Lifetimes, Outcome, Promise, Taken
from tppkit.callbacks.stores.programs import Program, Programs
from tppkit.callbacks.stores.sessions import (
    AsyncSession,
    Session,
    failing_at_commit,
    of_the_stores_kind,
    perform,
    perform_async,
)
from tppkit.callbacks.stores.statements import Statements
from tppkit.callbacks.stores.store import AsyncEffect, Effect, Retry
from tppkit.errors import InboxError

T = TypeVar("T")


class SqlStore(ABC):
    """A store whose promise is exactly-once: claim, version, effect and done mark commit together."""

    promise = Promise.EXACTLY_ONCE

    def __init__(self, statements: Statements) -> None:
        self._programs = Programs(statements)

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Session]:
        """A transaction of its own: committed at the end, undone when the body fails."""

    def _unshared(self) -> AbstractContextManager[Session]:
        """The same, and no other operation shares its commit."""
        return self._transaction()

    def _reading(self) -> AbstractContextManager[Session]:
        """A transaction that only reads, and waits for nobody who writes."""
        return self._transaction()

    @abstractmethod
    def _within(self, connection: Any) -> Session:
        """The caller's transaction."""

    def create_tables(self) -> None:
        """Create the tables that are absent; where they are there and up to date, nothing is written.

        Raises:
            ConfigurationError: `inbox.schema`, tables of another version are there.
            InboxError: `inbox.unavailable`; in PostgreSQL also when tables are to be changed that are in use, after one second.
        """
        with self._reading() as session:
            up_to_date = drive(self._programs.has_tables(), lambda step: perform(step, session, None))
        if not up_to_date:
            self._drive(self._programs.create_tables())

    def once(self, entry: Entry, *, at: datetime, within: Any) -> Outcome:
        """Mark an entry done in the caller's transaction: APPLIED says that the caller shall have its effect now.

        Nothing is committed or rolled back here; what the caller rolls back was never received.
        """
        with of_the_stores_kind(within):
            session = self._within(within)
        return drive(self._programs.once(entry, at=at), lambda step: perform(step, session, None))

    def run_within(self, entry: Entry, effect: Effect, *, at: datetime, within: Any) -> Outcome:
        """Mark an entry done and have its effect, in the caller's transaction; what is raised is for the caller to roll back."""
        with of_the_stores_kind(within):
            session = self._within(within)
        try:
            return drive(self._programs.run(entry, at=at), lambda step: perform(step, session, effect))
        except EffectFailed as e:
            error = e.error
        raise error

    def add(self, entries: Sequence[Entry]) -> list[Outcome]:
        """See `Store.add`."""
        return self._drive(self._programs.add(entries))

    def run(self, entry: Entry, effect: Effect, *, at: datetime, until: datetime, retry: Retry) -> Outcome:
        """See `Store.run`; the transaction is the claim, so there is no lease."""
        try:
            return self._drive(self._programs.run(entry, at=at), effect)
        except EffectFailed as e:
            failed = e
        self._note(self._programs.record_failure(entry, at=at, reason=failed.reason, retry=retry))
        raise failed.error

    def run_all(
        self, entries: Sequence[Entry], effect: Effect, *, at: datetime, until: datetime, retry: Retry
    ) -> list[Outcome]:
        """See `Store.run_all`."""
        return drive(batches.run_all(self._programs, entries, effect, at=at, retry=retry), self._transact)

    def take(self, *, at: datetime, until: datetime, limit: int) -> list[Taken]:
        """See `Store.take`."""
        return self._drive(self._programs.take(at=at, until=until, limit=limit))

    def resume(self, taken: Sequence[Taken], effect: Effect, *, at: datetime, retry: Retry) -> list[Outcome]:
        """See `Store.resume`."""
        return drive(batches.resume(self._programs, taken, effect, at=at, retry=retry), self._transact)

    def failed(self, *, limit: int, after: Failure | None = None) -> list[Failure]:
        """See `Store.failed`."""
        return self._drive(self._programs.failed(limit=limit, after=after))

    def release(self, key: bytes, *, at: datetime) -> bool:
        """See `Store.release`."""
        return self._drive(self._programs.release(key, at=at))

    def discard(self, failure: Failure, *, at: datetime) -> bool:
        """See `Store.discard`."""
        return self._drive(self._programs.discard(failure, at=at))

    def discard_failed(self, *, before: datetime, at: datetime, limit: int) -> int:
        """See `Store.discard_failed`."""
        return self._drive(self._programs.discard_failed(before=before, at=at, limit=limit))

    def purge(self, lifetimes: Lifetimes, *, limit: int) -> int:
        """See `Store.purge`."""
        return self._drive(self._programs.purge(lifetimes, limit=limit))

    def _transact(self, step: Transaction | Note) -> Any:
        if isinstance(step, Note):
            return self._note(step.program)
        return self._drive(step.program, step.effect, shared=step.shared)

    def _note(self, program: Program[bool]) -> bool:
        with suppress(InboxError):  # what failed before says more
            return self._drive(program)
        return False

    def _drive(self, program: Program[T], effect: Effect | None = None, *, shared: bool = True) -> T:
        with failing_at_commit(effect), self._transaction() if shared else self._unshared() as session:
            return drive(program, lambda step: perform(step, session, effect))


class AsyncSqlStore(ABC):
    """The same, awaited."""

    promise = Promise.EXACTLY_ONCE

    def __init__(self, statements: Statements) -> None:
        self._programs = Programs(statements)

    @abstractmethod
    def _transaction(self) -> AbstractAsyncContextManager[AsyncSession]:
        """A transaction of its own: committed at the end, undone when the body fails."""

    def _reading(self) -> AbstractAsyncContextManager[AsyncSession]:
        """A transaction that only reads, and waits for nobody who writes."""
        return self._transaction()

    @abstractmethod
    async def _within(self, connection: Any) -> AsyncSession:
        """The caller's transaction."""

    async def create_tables(self) -> None:
        """See `SqlStore.create_tables`."""
        async with self._reading() as session:
            up_to_date = await drive_async(self._programs.has_tables(), lambda step: perform_async(step, session, None))
        if not up_to_date:
            await self._drive(self._programs.create_tables())

    async def once(self, entry: Entry, *, at: datetime, within: Any) -> Outcome:
        """See `SqlStore.once`."""
        with of_the_stores_kind(within):
            session = await self._within(within)
        return await drive_async(self._programs.once(entry, at=at), lambda step: perform_async(step, session, None))

    async def run_within(self, entry: Entry, effect: AsyncEffect, *, at: datetime, within: Any) -> Outcome:
        """See `SqlStore.run_within`."""
        with of_the_stores_kind(within):
            session = await self._within(within)
        try:
            return await drive_async(
                self._programs.run(entry, at=at), lambda step: perform_async(step, session, effect)
            )
        except EffectFailed as e:
            error = e.error
        raise error

    async def add(self, entries: Sequence[Entry]) -> list[Outcome]:
        """See `Store.add`."""
        return await self._drive(self._programs.add(entries))

    async def run(self, entry: Entry, effect: AsyncEffect, *, at: datetime, until: datetime, retry: Retry) -> Outcome:
        """See `Store.run`; the transaction is the claim, so there is no lease."""
        try:
            return await self._drive(self._programs.run(entry, at=at), effect)
        except EffectFailed as e:
            failed = e
        await self._note(self._programs.record_failure(entry, at=at, reason=failed.reason, retry=retry))
        raise failed.error

    async def run_all(
        self, entries: Sequence[Entry], effect: AsyncEffect, *, at: datetime, until: datetime, retry: Retry
    ) -> list[Outcome]:
        """See `Store.run_all`."""
        return await drive_async(batches.run_all(self._programs, entries, effect, at=at, retry=retry), self._transact)

    async def take(self, *, at: datetime, until: datetime, limit: int) -> list[Taken]:
        """See `Store.take`."""
        return await self._drive(self._programs.take(at=at, until=until, limit=limit))

    async def resume(self, taken: Sequence[Taken], effect: AsyncEffect, *, at: datetime, retry: Retry) -> list[Outcome]:
        """See `Store.resume`."""
        return await drive_async(batches.resume(self._programs, taken, effect, at=at, retry=retry), self._transact)

    async def failed(self, *, limit: int, after: Failure | None = None) -> list[Failure]:
        """See `Store.failed`."""
        return await self._drive(self._programs.failed(limit=limit, after=after))

    async def release(self, key: bytes, *, at: datetime) -> bool:
        """See `Store.release`."""
        return await self._drive(self._programs.release(key, at=at))

    async def discard(self, failure: Failure, *, at: datetime) -> bool:
        """See `Store.discard`."""
        return await self._drive(self._programs.discard(failure, at=at))

    async def discard_failed(self, *, before: datetime, at: datetime, limit: int) -> int:
        """See `Store.discard_failed`."""
        return await self._drive(self._programs.discard_failed(before=before, at=at, limit=limit))

    async def purge(self, lifetimes: Lifetimes, *, limit: int) -> int:
        """See `Store.purge`."""
        return await self._drive(self._programs.purge(lifetimes, limit=limit))

    async def _transact(self, step: Transaction | Note) -> Any:
        if isinstance(step, Note):
            return await self._note(step.program)
        return await self._drive(step.program, step.effect)

    async def _note(self, program: Program[bool]) -> bool:
        with suppress(InboxError):  # what failed before says more
            return await self._drive(program)
        return False

    async def _drive(self, program: Program[T], effect: AsyncEffect | None = None) -> T:
        with failing_at_commit(effect):
            async with self._transaction() as session:
                return await drive_async(program, lambda step: perform_async(step, session, effect))
