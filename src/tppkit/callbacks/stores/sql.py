"""What the stores in SQL databases share: each operation is one transaction, and the handler's writes are part of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
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
_COMMITTED = "inbox.handler-committed"
_ABORTED = "25P02"
_ENDED = ("25P01", "3B001")
_RAISED = "P0001"  # by a trigger


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

    def require_same(self) -> None:
        """See that the transaction is the one that was remembered.

        Raises:
            ConfigurationError: `inbox.handler-committed`.
        """

    def flush(self) -> None:
        """Send what the handler left unsent."""


class AsyncSession(Protocol):
    """The same, awaited."""

    connection: Any

    async def execute(self, statement: Statement) -> Rows:
        """The rows of a statement."""

    async def mark(self, mark: Mark) -> None:
        """Set, undo or keep the one savepoint."""

    def before_effect(self) -> None:
        """Remember the transaction."""

    def require_same(self) -> None:
        """See `Session.require_same`."""

    async def flush(self) -> None:
        """Send what the handler left unsent."""


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
        with _of_the_stores_kind(within):
            session = self._within(within)
        return drive(self._programs.once(entry, at=at), lambda step: perform(step, session, None))

    def run_within(self, entry: Entry, effect: Effect, *, at: datetime, within: Any) -> Outcome:
        """Mark an entry done and have its effect, in the caller's transaction; what is raised is for the caller to roll back."""
        with _of_the_stores_kind(within):
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
        """See `Store.run_all`; one transaction for all, a savepoint for each. When its commit fails by a handler, one for each."""
        try:
            return self._drive(self._programs.run_all(entries, at=at, retry=retry), effect)
        except EffectFailed as e:
            failed = e
        if len(entries) == 1:
            return self._drive(self._programs.run_all(entries, at=at, retry=retry), _raising(failed.error))
        return [self.run_all([entry], effect, at=at, until=until, retry=retry)[0] for entry in entries]

    def take(self, *, at: datetime, until: datetime, limit: int) -> list[Taken]:
        """See `Store.take`."""
        return self._drive(self._programs.take(at=at, until=until, limit=limit))

    def resume(self, taken: Sequence[Taken], effect: Effect, *, at: datetime, retry: Retry) -> list[Outcome]:
        """See `Store.resume`; as by `run_all`."""
        try:
            return self._drive(self._programs.resume(taken, at=at, retry=retry), effect)
        except EffectFailed as e:
            failed = e
        if len(taken) == 1:
            return self._drive(self._programs.resume(taken, at=at, retry=retry), _raising(failed.error))
        return [self.resume([one], effect, at=at, retry=retry)[0] for one in taken]

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
        with _failing_at_commit(effect), self._transaction() as session:
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
        with _of_the_stores_kind(within):
            session = await self._within(within)
        return await drive_async(self._programs.once(entry, at=at), lambda step: perform_async(step, session, None))

    async def run_within(self, entry: Entry, effect: AsyncEffect, *, at: datetime, within: Any) -> Outcome:
        """See `SqlStore.run_within`."""
        with _of_the_stores_kind(within):
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
        """See `SqlStore.run_all`."""
        try:
            return await self._drive(self._programs.run_all(entries, at=at, retry=retry), effect)
        except EffectFailed as e:
            failed = e
        if len(entries) == 1:
            return await self._drive(self._programs.run_all(entries, at=at, retry=retry), _raising(failed.error))
        return [(await self.run_all([entry], effect, at=at, until=until, retry=retry))[0] for entry in entries]

    async def take(self, *, at: datetime, until: datetime, limit: int) -> list[Taken]:
        """See `Store.take`."""
        return await self._drive(self._programs.take(at=at, until=until, limit=limit))

    async def resume(self, taken: Sequence[Taken], effect: AsyncEffect, *, at: datetime, retry: Retry) -> list[Outcome]:
        """See `SqlStore.resume`."""
        try:
            return await self._drive(self._programs.resume(taken, at=at, retry=retry), effect)
        except EffectFailed as e:
            failed = e
        if len(taken) == 1:
            return await self._drive(self._programs.resume(taken, at=at, retry=retry), _raising(failed.error))
        return [(await self.resume([one], effect, at=at, retry=retry))[0] for one in taken]

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
        with _failing_at_commit(effect):
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
            session.require_same()
            session.flush()
            with _blaming_the_handler():
                session.execute(_UNGUARD)
        except Exception as e:
            raise EffectFailed(_ended(session) or e) from e
    return None


def _ended(session: Session) -> ConfigurationError | None:
    """That a handler which raised had ended the transaction, so that nothing of it could be undone."""
    with _looking_for_the_end() as found:
        session.require_same()
        with _blaming_the_handler():
            session.execute(_UNGUARD)
    return found.error


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
            session.require_same()
            await session.flush()
            with _blaming_the_handler():
                await session.execute(_UNGUARD)
        except Exception as e:
            raise EffectFailed(await _ended_async(session) or e) from e
    return None


async def _ended_async(session: AsyncSession) -> ConfigurationError | None:
    with _looking_for_the_end() as found:
        session.require_same()
        with _blaming_the_handler():
            await session.execute(_UNGUARD)
    return found.error


@dataclass(slots=True)
class _End:
    error: ConfigurationError | None = None


@contextmanager
def _looking_for_the_end() -> Iterator[_End]:
    found = _End()
    try:
        yield found
    except ConfigurationError as e:
        found.error = e if e.code == _COMMITTED else None
    except Exception:  # noqa: BLE001, S110  # a transaction that only failed; the handler's own error says more
        pass


@contextmanager
def _blaming_the_handler() -> Iterator[None]:
    """Tell what the database says of the handler's transaction from what fails by itself."""
    try:
        yield
    except InboxError as e:
        cause, state = _cause_and_state(e)
        if state == _ABORTED:
            raise ConfigurationError(
                "inbox.handler-aborted",
                "the handler went on after a statement of its own had failed: nothing would be committed",
            ) from e
        # SQLite has no code of its own for it.
        if state in _ENDED or "no such savepoint" in str(cause):
            raise transaction_ended() from e
        raise


def _cause_and_state(error: InboxError) -> tuple[BaseException | None, str]:
    """The driver's error and its SQLSTATE, empty where it has none."""
    cause = getattr(error.__cause__, "orig", error.__cause__)  # SQLAlchemy wraps the driver's
    return cause, getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None) or ""


@contextmanager
def _failing_at_commit(effect: object) -> Iterator[None]:
    """Tell a constraint that a handler's writes break at the commit, where it is deferred, from a store that fails.

    Raises:
        EffectFailed: by the driver's error, or SQLAlchemy's.
    """
    try:
        yield
    except InboxError as e:
        cause, state = _cause_and_state(e)
        # Every driver names it so (PEP 249).
        broken = state == _RAISED or any(kind.__name__ == "IntegrityError" for kind in type(cause).__mro__)
        if effect is not None and broken and isinstance(e.__cause__, Exception):
            raise EffectFailed(e.__cause__) from e
        raise


def _raising(error: Exception) -> Callable[[Entry, Any], Any]:
    """An effect that only fails."""

    def effect(entry: Entry, connection: Any) -> Any:
        raise error

    return effect


def transaction_ended() -> ConfigurationError:
    """The handler committed or rolled back."""
    return ConfigurationError(
        _COMMITTED,
        "the handler ended the inbox's transaction: commit(), rollback(), executescript() and SQLite's OR ROLLBACK do that",
    )


def no_transaction() -> ConfigurationError:
    """The caller's connection commits each statement by itself."""
    return ConfigurationError(
        "inbox.no-transaction",
        "the connection commits each statement by itself, so the mark would be committed before the effect",
    )


@contextmanager
def _of_the_stores_kind(connection: object) -> Iterator[None]:
    """Tell a connection of another driver, or none at all, by what it does not have."""
    try:
        yield
    except AttributeError as e:
        raise ConfigurationError(
            "inbox.no-transaction", f"a {type(connection).__name__} is no connection or session of the store's kind"
        ) from e


def transaction_open() -> ConfigurationError:
    """What the store does would be committed by somebody else, later or never."""
    return ConfigurationError(
        "inbox.transaction-open", "the store was given a connection that somebody else has a transaction on"
    )
