"""What the stores in SQL databases share: each operation is one transaction, and the handler's writes are part of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, suppress
from datetime import datetime
from typing import Any, Protocol, TypeVar

from tppkit.callbacks.stores.driving import EffectFailed, drive, drive_async, have_effect, have_effect_async
from tppkit.callbacks.stores.entry import Entry, Failure, Lifetimes, Outcome, Promise, Taken
from tppkit.callbacks.stores.programs import Mark, Program, Programs, Rows, Step
from tppkit.callbacks.stores.statements import Statement, Statements
from tppkit.callbacks.stores.store import AsyncEffect, Effect, Retry
from tppkit.errors import ConfigurationError, InboxError

T = TypeVar("T")

# Released after the handler, it shows that the transaction is the one that was begun and can still be committed: PostgreSQL answers
# COMMIT with a silent rollback after any error, and nothing else tells a COMMIT or ROLLBACK that the handler sent as text.
_GUARD = Statement("SAVEPOINT tppkit_effect", {})
_UNGUARD = Statement("RELEASE SAVEPOINT tppkit_effect", {})
_ABORTED = "25P02"
_ENDED = ("25P01", "3B001")


class Session(Protocol):
    """A connection within a transaction.

    Attributes:
        connection: what a handler gets.
    """

    connection: Any

    def execute(self, statement: Statement) -> Rows:
        """The rows of a statement."""

    def mark(self, mark: Mark) -> None:
        """Set, undo or keep the one savepoint."""

    def before_effect(self) -> None:
        """Remember the transaction."""

    def after_effect(self) -> None:
        """Send what the handler left unsent, and see that the transaction is the same.

        Raises:
            ConfigurationError: `inbox.handler-committed`.
        """


class AsyncSession(Protocol):
    """The same, awaited."""

    connection: Any

    async def execute(self, statement: Statement) -> Rows:
        """The rows of a statement."""

    async def mark(self, mark: Mark) -> None:
        """Set, undo or keep the one savepoint."""

    def before_effect(self) -> None:
        """Remember the transaction."""

    async def after_effect(self) -> None:
        """See `Session.after_effect`."""


class SqlStore(ABC):
    """A store whose promise is exactly-once: claim, version, effect and done mark commit together."""

    promise = Promise.EXACTLY_ONCE

    def __init__(self, statements: Statements) -> None:
        self._programs = Programs(statements)

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Session]:
        """A transaction of its own: committed at the end, undone when the body fails."""

    @abstractmethod
    def _within(self, connection: Any) -> Session:
        """The caller's transaction."""

    def create_tables(self) -> None:
        """Create the tables that are absent.

        Raises:
            ConfigurationError: `inbox.schema`, tables of another version are there.
            InboxError: `inbox.unavailable`.
        """
        self._drive(self._programs.create_tables())

    def once(self, entry: Entry, *, at: datetime, within: Any) -> Outcome:
        """Mark an entry done in the caller's transaction: APPLIED says that the caller shall have its effect now.

        Nothing is committed or rolled back here; what the caller rolls back was never received.
        """
        session = self._within(within)
        return drive(self._programs.once(entry, at=at), lambda step: perform(step, session, None))

    def run_within(self, entry: Entry, effect: Effect, *, at: datetime, within: Any) -> Outcome:
        """Mark an entry done and have its effect, in the caller's transaction; what is raised is for the caller to roll back."""
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
        failure = self._programs.record_failure(entry, at=at, reason=failed.reason, retry=retry)
        with suppress(InboxError):  # the handler's own error says more
            self._drive(failure)
        raise failed.error

    def run_all(
        self, entries: Sequence[Entry], effect: Effect, *, at: datetime, until: datetime, retry: Retry
    ) -> list[Outcome]:
        """See `Store.run_all`; one transaction for all, a savepoint for each."""
        return self._drive(self._programs.run_all(entries, at=at, retry=retry), effect)

    def take(self, *, at: datetime, until: datetime, limit: int) -> list[Taken]:
        """See `Store.take`."""
        return self._drive(self._programs.take(at=at, until=until, limit=limit))

    def resume(self, taken: Sequence[Taken], effect: Effect, *, at: datetime, retry: Retry) -> list[Outcome]:
        """See `Store.resume`; one transaction for all, a savepoint for each."""
        return self._drive(self._programs.resume(taken, at=at, retry=retry), effect)

    def failed(self, *, limit: int) -> list[Failure]:
        """See `Store.failed`."""
        return self._drive(self._programs.failed(limit=limit))

    def release(self, key: bytes, *, at: datetime) -> bool:
        """See `Store.release`."""
        return self._drive(self._programs.release(key, at=at))

    def purge(self, lifetimes: Lifetimes, *, limit: int) -> int:
        """See `Store.purge`."""
        return self._drive(self._programs.purge(lifetimes, limit=limit))

    def _drive(self, program: Program[T], effect: Effect | None = None) -> T:
        with self._transaction() as session:
            return drive(program, lambda step: perform(step, session, effect))


class AsyncSqlStore(ABC):
    """The same, awaited."""

    promise = Promise.EXACTLY_ONCE

    def __init__(self, statements: Statements) -> None:
        self._programs = Programs(statements)

    @abstractmethod
    def _transaction(self) -> AbstractAsyncContextManager[AsyncSession]:
        """A transaction of its own: committed at the end, undone when the body fails."""

    @abstractmethod
    async def _within(self, connection: Any) -> AsyncSession:
        """The caller's transaction."""

    async def create_tables(self) -> None:
        """See `SqlStore.create_tables`."""
        await self._drive(self._programs.create_tables())

    async def once(self, entry: Entry, *, at: datetime, within: Any) -> Outcome:
        """See `SqlStore.once`."""
        session = await self._within(within)
        return await drive_async(self._programs.once(entry, at=at), lambda step: perform_async(step, session, None))

    async def run_within(self, entry: Entry, effect: AsyncEffect, *, at: datetime, within: Any) -> Outcome:
        """See `SqlStore.run_within`."""
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
        failure = self._programs.record_failure(entry, at=at, reason=failed.reason, retry=retry)
        with suppress(InboxError):  # the handler's own error says more
            await self._drive(failure)
        raise failed.error

    async def run_all(
        self, entries: Sequence[Entry], effect: AsyncEffect, *, at: datetime, until: datetime, retry: Retry
    ) -> list[Outcome]:
        """See `Store.run_all`; one transaction for all, a savepoint for each."""
        return await self._drive(self._programs.run_all(entries, at=at, retry=retry), effect)

    async def take(self, *, at: datetime, until: datetime, limit: int) -> list[Taken]:
        """See `Store.take`."""
        return await self._drive(self._programs.take(at=at, until=until, limit=limit))

    async def resume(self, taken: Sequence[Taken], effect: AsyncEffect, *, at: datetime, retry: Retry) -> list[Outcome]:
        """See `Store.resume`; one transaction for all, a savepoint for each."""
        return await self._drive(self._programs.resume(taken, at=at, retry=retry), effect)

    async def failed(self, *, limit: int) -> list[Failure]:
        """See `Store.failed`."""
        return await self._drive(self._programs.failed(limit=limit))

    async def release(self, key: bytes, *, at: datetime) -> bool:
        """See `Store.release`."""
        return await self._drive(self._programs.release(key, at=at))

    async def purge(self, lifetimes: Lifetimes, *, limit: int) -> int:
        """See `Store.purge`."""
        return await self._drive(self._programs.purge(lifetimes, limit=limit))

    async def _drive(self, program: Program[T], effect: AsyncEffect | None = None) -> T:
        async with self._transaction() as session:
            return await drive_async(program, lambda step: perform_async(step, session, effect))


def perform(step: Step, session: Session, effect: Effect | None) -> Rows | None:
    """Do one step of a program."""
    if isinstance(step, Statement):
        return session.execute(step)
    if isinstance(step, Mark):
        session.mark(step)
    elif effect is not None:
        session.before_effect()
        session.execute(_GUARD)
        try:
            have_effect(effect, step, session.connection)
            session.after_effect()
            with _blaming_the_handler():
                session.execute(_UNGUARD)
        except Exception as e:
            raise EffectFailed(e) from e
    return None


async def perform_async(step: Step, session: AsyncSession, effect: AsyncEffect | None) -> Rows | None:
    """Do one step of a program."""
    if isinstance(step, Statement):
        return await session.execute(step)
    if isinstance(step, Mark):
        await session.mark(step)
    elif effect is not None:
        session.before_effect()
        await session.execute(_GUARD)
        try:
            await have_effect_async(effect, step, session.connection)
            await session.after_effect()
            with _blaming_the_handler():
                await session.execute(_UNGUARD)
        except Exception as e:
            raise EffectFailed(e) from e
    return None


@contextmanager
def _blaming_the_handler() -> Iterator[None]:
    """Tell what the database says of the handler's transaction from what fails by itself."""
    try:
        yield
    except InboxError as e:
        cause = getattr(e.__cause__, "orig", e.__cause__)  # SQLAlchemy wraps the driver's
        state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
        if state == _ABORTED:
            raise ConfigurationError(
                "inbox.handler-aborted",
                "the handler went on after a statement of its own had failed: nothing would be committed",
            ) from e
        # SQLite has no code of its own for it.
        if state in _ENDED or "no such savepoint" in str(cause):
            raise transaction_ended() from e
        raise


def transaction_ended() -> ConfigurationError:
    """The handler committed or rolled back."""
    return ConfigurationError(
        "inbox.handler-committed",
        "the handler ended the inbox's transaction: commit(), rollback() and executescript() do that",
    )


def no_transaction() -> ConfigurationError:
    """The caller's connection commits each statement by itself."""
    return ConfigurationError(
        "inbox.no-transaction",
        "the connection commits each statement by itself, so the mark would be committed before the effect",
    )
