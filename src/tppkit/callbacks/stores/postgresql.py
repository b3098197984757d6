"""The inbox in PostgreSQL, by psycopg: any number of hosts, and the application's own transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from tppkit._extras import missing_extra
from tppkit.callbacks.stores.programs import Mark
from tppkit.callbacks.stores.rows import Rows
from tppkit.callbacks.stores.sessions import no_transaction, transaction_ended, transaction_open
from tppkit.callbacks.stores.sql import AsyncSqlStore, SqlStore
from tppkit.callbacks.stores.statements import READ_COMMITTED, Dialect, Statement, Statements
from tppkit.errors import InboxError

try:
    import psycopg
    from psycopg.rows import tuple_row
except ImportError as e:
    raise missing_extra("postgres", e) from e

Connection: TypeAlias = psycopg.Connection[Any]
AsyncConnection: TypeAlias = psycopg.AsyncConnection[Any]


@dataclass(slots=True)
class _Session:
    connection: Connection

    def execute(self, statement: Statement) -> Rows:
        try:
            # The caller's connection may make dictionaries, and cursors that take other parameters: the inbox has its own kind.
            with psycopg.Cursor(self.connection, row_factory=tuple_row) as cursor:
                cursor.execute(statement.sql.encode(), statement.values or None)
                return cursor.fetchall() if cursor.description else ()
        except psycopg.Error as e:
            raise _unavailable(e) from e

    def mark(self, mark: Mark) -> None:
        _require_open(self.connection)
        self.execute(Statement(mark.value, {}))


@dataclass(slots=True)
class _AsyncSession:
    connection: AsyncConnection

    async def execute(self, statement: Statement) -> Rows:
        try:
            async with psycopg.AsyncCursor(self.connection, row_factory=tuple_row) as cursor:
                await cursor.execute(statement.sql.encode(), statement.values or None)
                return await cursor.fetchall() if cursor.description else ()
        except psycopg.Error as e:
            raise _unavailable(e) from e

    async def mark(self, mark: Mark) -> None:
        _require_open(self.connection)
        await self.execute(Statement(mark.value, {}))


class PostgresqlStore(SqlStore):
    """A store in PostgreSQL.

    Handlers get the `psycopg.Connection`; `once` takes the caller's. The store's own transactions are READ COMMITTED, whatever
    the connection's level; the caller's keep theirs.

    Args:
        connect: gives a connection as a context manager: `ConnectionPool.connection`, or `lambda: psycopg.connect(url)`.
        prefix: of the tables' names.

    Raises:
        ConfigurationError: `inbox.prefix`; `extra.missing` when the module is imported; later `inbox.transaction-open`.
    """

    def __init__(
        self, connect: Callable[[], AbstractContextManager[Connection]], *, prefix: str = "tppkit_inbox_"
    ) -> None:
        super().__init__(Statements(Dialect.POSTGRESQL, prefix=prefix, pyformat=True))
        self._connect = connect

    @contextmanager
    def _transaction(self) -> Iterator[_Session]:
        with _told(), self._connect() as connection:
            _require_idle(connection)
            with connection.transaction():
                session = _Session(connection)
                session.execute(Statement(READ_COMMITTED, {}))
                yield session

    def _within(self, connection: Any) -> _Session:
        _require_transaction(connection)
        return _Session(connection)


class AsyncPostgresqlStore(AsyncSqlStore):
    """The same with `psycopg.AsyncConnection`.

    Args:
        connect: gives a connection as an async context manager: `AsyncConnectionPool.connection`, or a function of one's own.
        prefix: of the tables' names.
    """

    def __init__(
        self, connect: Callable[[], AbstractAsyncContextManager[AsyncConnection]], *, prefix: str = "tppkit_inbox_"
    ) -> None:
        super().__init__(Statements(Dialect.POSTGRESQL, prefix=prefix, pyformat=True))
        self._connect = connect

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[_AsyncSession]:
        with _told():
            async with self._connect() as connection:
                _require_idle(connection)
                async with connection.transaction():
                    session = _AsyncSession(connection)
                    await session.execute(Statement(READ_COMMITTED, {}))
                    yield session

    async def _within(self, connection: Any) -> _AsyncSession:
        _require_transaction(connection)
        return _AsyncSession(connection)


def _require_transaction(connection: Connection | AsyncConnection) -> None:
    # Without autocommit the first statement begins one.
    if connection.autocommit and connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE:
        raise no_transaction()


def _require_open(connection: Connection | AsyncConnection) -> None:
    # What the server or the network closed is broken; else the handler did it.
    if connection.closed and not connection.broken:
        raise transaction_ended()


def _require_idle(connection: Connection | AsyncConnection) -> None:
    # Within another transaction psycopg's is only a savepoint: what is acknowledged would be committed later, or never.
    if connection.info.transaction_status is not psycopg.pq.TransactionStatus.IDLE:
        raise transaction_open()


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as e:
        raise _unavailable(e) from e


def _unavailable(error: psycopg.Error) -> InboxError:
    return InboxError(
        "inbox.unavailable", f"the inbox's PostgreSQL fails: {type(error).__name__}, SQLSTATE {error.sqlstate}"
    )
