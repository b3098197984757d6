"""The inbox in the database behind an SQLAlchemy session, PostgreSQL or SQLite."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tppkit._extras import missing_extra
from tppkit.callbacks.stores.programs import Mark
from tppkit.callbacks.stores.rows import Rows
from tppkit.callbacks.stores.sessions import no_transaction, transaction_aborted, transaction_ended, transaction_open
from tppkit.callbacks.stores.sql import AsyncSqlStore, SqlStore
from tppkit.callbacks.stores.sqlite import require_transaction
from tppkit.callbacks.stores.statements import READ_COMMITTED, Dialect, Statement, Statements
from tppkit.errors import ConfigurationError, InboxError

try:
    from sqlalchemy import Connection, Engine, NestedTransaction, RootTransaction, TextClause, event, text
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.orm import Session, SessionTransaction
except ImportError as e:
    raise missing_extra("sqlalchemy", e) from e

if TYPE_CHECKING:  # needs greenlet at run time, which only async sessions do
    from sqlalchemy.ext.asyncio import AsyncSession, AsyncSessionTransaction

_OWN = "tppkit.inbox.connection"  # where a session keeps the connection that is given back when its transaction ends
_clause: Callable[[str], TextClause] = lru_cache(maxsize=256)(text)


@dataclass(frozen=True, slots=True)
class _Point:
    """Where a savepoint was set: the transactions of a session, and those of its connection, which a handler can end too."""

    session: Session
    connection: Connection
    root: SessionTransaction | None
    own_root: RootTransaction | None
    own_nested: NestedTransaction | None

    @classmethod
    def of(cls, connection: Connection, session: Session) -> _Point:
        own = connection.get_transaction(), connection.get_nested_transaction()
        return cls(session, connection, session.get_transaction(), *own)

    def require(self, mark: Mark, nested: SessionTransaction | None) -> None:
        """Refuse to go on where the handler ended one of them, or to keep what cannot be committed."""
        if self.session.get_transaction() is not self.root or self.connection.get_transaction() is not self.own_root:
            raise transaction_ended()
        # A flush that failed leaves the session's innermost transaction open and unusable, and only the session knows.
        if mark is Mark.KEEP and not self.session.is_active:
            raise transaction_aborted()
        if nested is not None and self._is_ended(nested):
            raise transaction_ended()

    def _is_ended(self, nested: SessionTransaction) -> bool:
        """Whether the savepoint around the handler is, by commit() or rollback() of its own."""
        if not nested.is_active:  # where a flush that failed undid it, which is as good, the session has it still
            return self.session.get_nested_transaction() is not nested
        return self.own_nested is not None and not self.own_nested.is_active


@dataclass(slots=True)
class _Session:
    connection: Session
    point: _Point | None = None
    nested: SessionTransaction | None = None

    def execute(self, statement: Statement) -> Rows:
        with _told():
            # Not Session.execute: that would flush what the caller has not finished.
            result = self.connection.connection().execute(_clause(statement.sql), statement.values)
            return result.fetchall() if result.returns_rows else ()

    def mark(self, mark: Mark) -> None:
        # The session has to know: it takes back the state of its objects as well.
        if mark is Mark.SET:
            self.nested = self.connection.begin_nested()
            self.point = _Point.of(self.connection.connection(), self.connection)
            return
        if self.point is not None:
            self.point.require(mark, self.nested)
        if mark is Mark.UNDO:
            # Asked once: by the next mark a lost connection may have ended the savepoint, and not the handler.
            self.point = None
        if mark is Mark.KEEP:
            self.connection.flush()  # what a handler left unsent; that it cannot be written is the handler's own failure
        if self.nested is not None:
            with _told():
                self.nested.commit() if mark is Mark.KEEP else self.nested.rollback()
            self.nested = None


@dataclass(slots=True)
class _AsyncSession:
    connection: AsyncSession
    point: _Point | None = None
    nested: AsyncSessionTransaction | None = None

    async def execute(self, statement: Statement) -> Rows:
        with _told():
            connection = await self.connection.connection()
            result = await connection.execute(_clause(statement.sql), statement.values)
            return result.fetchall() if result.returns_rows else ()

    async def mark(self, mark: Mark) -> None:
        if mark is Mark.SET:
            self.nested = await self.connection.begin_nested()
            own = await self.connection.connection()
            self.point = await own.run_sync(_Point.of, self.connection.sync_session)
            return
        if self.point is not None:
            self.point.require(mark, self.nested.sync_transaction if self.nested else None)
        if mark is Mark.UNDO:
            self.point = None  # as above
        if mark is Mark.KEEP:
            await self.connection.flush()  # as above
        if self.nested is not None:
            with _told():
                await (self.nested.commit() if mark is Mark.KEEP else self.nested.rollback())
            self.nested = None


class SqlalchemyStore(SqlStore):
    """A store behind SQLAlchemy sessions.

    Handlers get the `Session` and must not commit; `once` takes the caller's. The store's own transactions in PostgreSQL are READ
    COMMITTED, whatever the engine's level, AUTOCOMMIT included, unless a listener of the session sets another (`after_begin`); the
    caller's keep theirs.

    Args:
        make_session: a `sessionmaker`, or what else makes a `Session`. Give its engine `hide_parameters=True`, or errors of
            SQLAlchemy name the bodies of callbacks.
        prefix: of the tables' names.

    Raises:
        ConfigurationError: `inbox.prefix`, `inbox.dialect`; `extra.missing` when the module is imported; later
            `inbox.no-transaction`, the caller's session has the isolation level AUTOCOMMIT, or its engine; `inbox.transaction-open`,
            the session is bound to a connection with a transaction.
    """

    def __init__(self, make_session: Callable[[], Session], *, prefix: str = "tppkit_inbox_") -> None:
        with make_session() as session:
            dialect = _dialect(session.get_bind().dialect.name)
        super().__init__(Statements(dialect, prefix=prefix))
        self._make_session = make_session

    @contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[_Session]:
        with _told(), self._make_session() as session, session.begin():
            _begin(session, begin)
            yield _Session(session)

    def _reading(self) -> AbstractContextManager[_Session]:
        return self._transaction("BEGIN")

    def _within(self, connection: Any) -> _Session:
        with _told():
            _require_transaction(connection.connection())
        return _Session(connection)


class AsyncSqlalchemyStore(AsyncSqlStore):
    """The same with `AsyncSession`.

    Args:
        make_session: an `async_sessionmaker`, or what else makes an `AsyncSession`.
        prefix: of the tables' names.
    """

    def __init__(self, make_session: Callable[[], AsyncSession], *, prefix: str = "tppkit_inbox_") -> None:
        super().__init__(Statements(_dialect(make_session().get_bind().dialect.name), prefix=prefix))
        self._make_session = make_session

    @asynccontextmanager
    async def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> AsyncIterator[_AsyncSession]:
        with _told():
            async with self._make_session() as session, session.begin():
                await session.run_sync(_begin, begin)
                yield _AsyncSession(session)

    def _reading(self) -> AbstractAsyncContextManager[_AsyncSession]:
        return self._transaction("BEGIN")

    async def _within(self, connection: Any) -> _AsyncSession:
        with _told():
            await (await connection.connection()).run_sync(_require_transaction)
        return _AsyncSession(connection)


def _dialect(name: str) -> Dialect:
    try:
        return Dialect(name)
    except ValueError as e:
        raise ConfigurationError(
            "inbox.dialect", f"the inbox has no SQL for {name}; it knows {', '.join(Dialect)}"
        ) from e


def _begin(session: Session, begin: str) -> None:
    """Begin the store's own transaction.

    Raises:
        ConfigurationError: `inbox.transaction-open`, `inbox.no-transaction`.
    """
    bind = session.get_bind()
    # A session joins the transaction that its connection has, and commits nothing.
    if isinstance(bind, Connection) and bind.in_transaction():
        raise transaction_open()
    if bind.dialect.name == Dialect.POSTGRESQL:
        connection = _begin_read_committed(session, bind)
    else:
        connection = session.connection()
        # Python's driver for SQLite begins no transaction before a savepoint, so each savepoint would be a transaction of its own.
        # And one that begins by reading could fail where it comes to write.
        driver: Any = connection.connection.driver_connection
        if not driver.in_transaction:
            connection.exec_driver_sql(begin)
    _require_transaction(connection)


def _begin_read_committed(session: Session, bind: Engine | Connection) -> Connection:
    # PostgreSQL takes the statement only before every query, and an application's sessions may send one when they begin, for
    # row-level security: so the connection sends it, which begins first. The option `isolation_level` would change more than the
    # transaction: SQLAlchemy then leaves the connection at the server's level, and not at the one that the application gave it.
    connection = bind if isinstance(bind, Connection) else _check_out(session, bind)
    event.listen(connection, "begin", _set_read_committed)
    try:
        return session.connection(bind_arguments={"bind": connection})
    finally:
        event.remove(connection, "begin", _set_read_committed)
        if connection is bind:
            _end_beginning(connection)


def _end_beginning(connection: Connection) -> None:
    """Leave the application's connection as it was where no transaction came of it, by an error or a cancellation in the event."""
    # SQLAlchemy takes such a one for still beginning, so it begins nothing by itself: what the application commits from then on
    # would be lost, and what it rolls back committed by whoever commits next. Another beginning ends that, even one that fails.
    if not connection.in_transaction():
        with suppress(Exception):
            connection.begin().rollback()


def _set_read_committed(connection: Connection) -> None:
    connection.exec_driver_sql(READ_COMMITTED)


def _check_out(session: Session, engine: Engine) -> Connection:
    """A connection of the engine's pool, which has it back when the session's transaction ends, as if the session had taken it."""
    connection = session.info[_OWN] = engine.connect()
    event.listen(session, "after_transaction_end", _give_back)
    # Here no statement helps, and SQLAlchemy knows the level to go back to.
    return connection.execution_options(isolation_level="READ COMMITTED") if _autocommits(connection) else connection


def _give_back(session: Session, transaction: SessionTransaction) -> None:
    if transaction.parent is None and _OWN in session.info:
        session.info.pop(_OWN).close()


def _autocommits(connection: Connection) -> bool:
    # asyncpg's own connection knows no autocommit, what SQLAlchemy puts around it does.
    return bool(getattr(connection.connection.dbapi_connection, "autocommit", False))


def _require_transaction(connection: Connection) -> None:
    if connection.dialect.name == Dialect.SQLITE:
        driver: Any = connection.connection.driver_connection
        require_transaction(driver)
    elif _autocommits(connection):
        raise no_transaction()


@contextmanager
def _told() -> Iterator[None]:
    """Tell a database that fails; what a handler raises is wrapped (`EffectFailed`) before it comes here."""
    try:
        yield
    except Exception as e:
        if isinstance(e, SQLAlchemyError | OSError) or _is_asyncpgs(e):
            raise InboxError("inbox.unavailable", f"the inbox's database fails: {type(e).__name__}") from e
        raise


def _is_asyncpgs(error: Exception) -> bool:
    # SQLAlchemy passes on what asyncpg raises while it connects: its own errors (before SQLAlchemy 2.1), OSError and TimeoutError.
    return type(error).__module__.partition(".")[0] == "asyncpg"
