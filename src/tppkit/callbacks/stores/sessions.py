"""A transaction of a database, a handler's effect within it, and whose fault it is when either fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from tppkit.callbacks.stores.driving import (
    EffectFailed,
    TransactionEnded,
    cause_and_state,
    have_effect,
    have_effect_async,
)
from tppkit.callbacks.stores.entry import Entry
from tppkit.callbacks.stores.programs import Mark, Step
from tppkit.callbacks.stores.rows import Rows
from tppkit.callbacks.stores.statements import Statement
from tppkit.callbacks.stores.store import AsyncEffect, Effect
from tppkit.errors import ConfigurationError, InboxError

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
        """Set, undo or keep the one savepoint.

        Raises:
            ConfigurationError: `inbox.handler-committed`, the transaction is another than when it was set.
        """


class AsyncSession(Protocol):
    """The same, awaited."""

    connection: Any

    async def execute(self, statement: Statement) -> Rows:
        """The rows of a statement."""

    async def mark(self, mark: Mark) -> None:
        """Set, undo or keep the one savepoint."""


# A savepoint that can be kept after the handler shows that the transaction is the one that was begun and can still be committed:
# PostgreSQL answers COMMIT with a silent rollback after any error, and nothing else tells a COMMIT or ROLLBACK that the handler sent
# as text.
def perform(step: Step, session: Session, effect: Effect | None) -> Rows | None:
    """Do one step of a program; an effect and what it did to the savepoint are one step.

    Raises:
        EffectFailed: by an effect; TransactionEnded when it ended the transaction as well.
    """
    if isinstance(step, Statement):
        return session.execute(step)
    if isinstance(step, Mark):
        session.mark(step)
    elif effect is not None:
        try:
            have_effect(effect, step, session.connection)
            session.mark(Mark.KEEP)
        except Exception as e:
            raise _failure(step, e, _undo(session)) from e
    return None


def _undo(session: Session) -> ConfigurationError | None:
    """Undo what a handler did before it failed; says when it had ended the transaction, so that nothing could be undone."""
    try:
        session.mark(Mark.UNDO)
    except Exception as e:  # noqa: BLE001  # a transaction that only failed; the handler's own error says more
        return _handlers_fault(e)
    return None


async def perform_async(step: Step, session: AsyncSession, effect: AsyncEffect | None) -> Rows | None:
    """See `perform`."""
    if isinstance(step, Statement):
        return await session.execute(step)
    if isinstance(step, Mark):
        await session.mark(step)
    elif effect is not None:
        try:
            await have_effect_async(effect, step, session.connection)
            await session.mark(Mark.KEEP)
        except Exception as e:
            raise _failure(step, e, await _undo_async(session)) from e
    return None


async def _undo_async(session: AsyncSession) -> ConfigurationError | None:
    try:
        await session.mark(Mark.UNDO)
    except Exception as e:  # noqa: BLE001  # as above
        return _handlers_fault(e)
    return None


def _failure(entry: Entry, error: Exception, ended: ConfigurationError | None) -> EffectFailed:
    """What an effect that failed is told as, its own error being at least the cause."""
    fault = ended or _handlers_fault(error)
    if fault is None:
        return EffectFailed(error)
    if fault is not error:
        fault.__cause__ = error
    return TransactionEnded(fault, entry) if fault.code == _COMMITTED else EffectFailed(fault)


def _handlers_fault(error: Exception) -> ConfigurationError | None:
    """What a handler did to the transaction, as far as an error tells it from a database that fails by itself."""
    if isinstance(error, ConfigurationError):
        return error if error.code == _COMMITTED else None
    if not isinstance(error, InboxError):
        return None
    cause, state = cause_and_state(error)
    # SQLite has no code of its own for it.
    if state in _ENDED or "no such savepoint" in str(cause):
        return transaction_ended()
    return transaction_aborted() if state == _ABORTED else None


@contextmanager
def failing_at_commit(effect: object) -> Iterator[None]:
    """Tell a constraint that a handler's writes break at the commit, where it is deferred, from a store that fails.

    Raises:
        EffectFailed: by the driver's error, or SQLAlchemy's.
    """
    try:
        yield
    except InboxError as e:
        cause, state = cause_and_state(e)
        # Every driver names it so (PEP 249).
        broken = state == _RAISED or any(kind.__name__ == "IntegrityError" for kind in type(cause).__mro__)
        if effect is not None and broken and isinstance(e.__cause__, Exception):
            raise EffectFailed(e.__cause__) from e
        raise


def raising(error: Exception) -> Callable[[Entry, Any], Any]:
    """An effect that only fails."""

    def effect(entry: Entry, connection: Any) -> Any:
        raise error

    return effect


def transaction_ended() -> ConfigurationError:
    """The handler committed or rolled back."""
    return ConfigurationError(
        _COMMITTED,
        "the handler ended the inbox's transaction: commit(), rollback(), close(), `with connection:`, executescript() and SQLite's OR"
        " ROLLBACK do that",
    )


def transaction_aborted() -> ConfigurationError:
    """The handler hid an error that the transaction does not survive."""
    return ConfigurationError(
        "inbox.handler-aborted",
        "the handler went on after a statement of its own had failed: nothing would be committed",
    )


def no_transaction() -> ConfigurationError:
    """The caller's connection commits each statement by itself."""
    return ConfigurationError(
        "inbox.no-transaction",
        "the connection commits each statement by itself, so the mark would be committed before the effect",
    )


@contextmanager
def of_the_stores_kind(connection: object) -> Iterator[None]:
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
