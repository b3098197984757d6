"""The transactions of an inbox: its own, those of callers, and the savepoint in which a handler runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tppkit._extras import missing_extra
from tppkit.errors import ConfigurationError, InboxError, TppkitError, code_of

try:
    from sqlalchemy import Connection, Engine, MetaData, inspect
    from sqlalchemy.exc import DBAPIError, IntegrityError, ResourceClosedError, SQLAlchemyError

    from tppkit.inbox.engine import close_at_fork
    from tppkit.inbox.statements import BEGIN, LIMIT_WAIT, RELEASE, ROLLBACK_TO, SAVEPOINT, UNLIMIT_WAIT
except ImportError as e:
    raise missing_extra("sqlalchemy", e) from e

_ENDED, _ABORTED, _RAISED = ("25P01", "3B001"), "25P02", "P0001"
# Messages of drivers that have no code for this error.
_ENDED_TEXTS = ("no such savepoint", "Cannot operate on a closed database", "the connection is closed")
_LOCKED = ("55P03", "40P01")  # lock_not_available; deadlock_detected: the other transaction continues


class EffectFailed(Exception):
    """A handler failed; distinguishes its errors from those of the database.

    Attributes:
        error: what the handler raised.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error

    @property
    def reason(self) -> str:
        """The class and code of the error, without its message, which may contain confidential data."""
        name = type(self.error).__qualname__[:100]
        return f"{name} [{self.code}]" if isinstance(self.error, TppkitError) else name

    @property
    def code(self) -> str:
        """The code of the error, or its class."""
        return code_of(self.error)


class DriverConnection:
    """A connection of `sqlite3` or `psycopg`, such as Django's, with the methods that a `Statement` calls.

    Args:
        connection: the driver's connection, in a transaction or one that begins it with the next statement.
        dialect: SQLAlchemy's dialect for this driver.
    """

    def __init__(self, connection: Any, dialect: Any) -> None:
        self._connection, self.connection, self.dialect = connection, self, dialect

    def get_execution_options(self) -> dict[str, Any]:
        """Return no options."""
        return {}

    def in_transaction(self) -> bool:
        """Return True: the transaction is the caller's."""
        return True

    def cursor(self) -> Any:
        """Make a cursor whose rows are tuples; the connection's may be dictionaries."""
        cursor = self._connection.cursor()
        cursor.row_factory = None if self.dialect.name == "sqlite" else lambda _: tuple
        return cursor


class Database:
    """Transactions on an engine, and on connections of callers.

    Args:
        engine: of SQLite or PostgreSQL; one for asyncio gives its `sync_engine`.
    """

    def __init__(self, engine: Engine) -> None:
        self.is_sqlite = engine.dialect.name == "sqlite"
        # In READ COMMITTED, a conflicting transaction waits; at stricter levels it would be aborted.
        self.engine = engine if self.is_sqlite else engine.execution_options(isolation_level="READ COMMITTED")
        close_at_fork(self.engine)

    def create_tables(self, metadata: MetaData) -> None:
        """Create the tables that are absent.

        Raises:
            ConfigurationError: `inbox.schema`.
            InboxError: `inbox.unavailable`.
        """
        with unavailable():
            for table in metadata.sorted_tables:
                try:
                    table.create(self.engine, checkfirst=True)
                except SQLAlchemyError:  # another process may have made it at the same time
                    if not inspect(self.engine).has_table(table.name):
                        raise
            with self.engine.connect() as db:
                for table in metadata.sorted_tables:
                    found = {column["name"] for column in inspect(db).get_columns(table.name)}
                    if not {column.name for column in table.columns} <= found:
                        raise ConfigurationError(
                            "inbox.schema", f"the table {table.name} has other columns: give the inbox another prefix"
                        )

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Run the body in a new transaction, which is committed at the end, or rolled back if the body raises.

        Raises:
            InboxError: `inbox.unavailable`.
            EffectFailed: the commit violates a deferred constraint.
        """
        with unavailable(), self._connected() as db:
            db.begin()
            if self.is_sqlite and not _driver_of(db).in_transaction:
                # sqlite3 begins no transaction before a savepoint, and one that begins with a read could fail at its first write.
                BEGIN.first(db, {})
            yield db
            try:
                db.commit()
            except DBAPIError as e:
                with suppress(Exception):  # SQLite's transaction is still open, but SQLAlchemy considers it ended
                    db.connection.rollback()
                if isinstance(e, IntegrityError) or _state_of(e) == _RAISED:
                    raise EffectFailed(e) from e
                raise

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        db = self.engine.connect()
        pooled = db.connection
        try:
            yield db
        finally:
            try:
                with suppress(Exception):  # a failure to close must not hide the error that caused it
                    db.close()
            finally:
                if pooled.is_valid:  # an interrupt kept it from being returned to the pool
                    pooled.invalidate()

    @contextmanager
    def hurried(self, db: Connection, wait: str) -> Iterator[None]:
        """Limit how long the statements of the body wait for locks, because a handler that hangs may hold one.

        Args:
            db: the connection, in a transaction of the inbox.
            wait: the limit in PostgreSQL's notation. SQLite ignores it, and uses the timeout of the connection.
        """
        is_limited = not self.is_sqlite and LIMIT_WAIT.first(db, {"wait": wait})
        yield
        if is_limited:
            UNLIMIT_WAIT.first(db, {})

    @contextmanager
    def of_caller(self, within: Any) -> Iterator[Any]:
        """Yield the connection to execute statements in the transaction of a caller.

        Args:
            within: a connection or session of SQLAlchemy, also one for asyncio, or a connection of `sqlite3` or `psycopg`.

        Raises:
            ConfigurationError: `inbox.no-transaction`, it is something else, or commits each statement by itself.
            InboxError: `inbox.unavailable`.
        """
        for name in ("sync_connection", "sync_session"):
            within = getattr(within, name, within)
        with unavailable():
            if not isinstance(within, Connection) and callable(getattr(within, "connection", None)):
                within = within.connection()  # a session
            is_core = isinstance(within, Connection)
            try:
                _require_transaction(_driver_of(within) if is_core else within, is_sqlite=self.is_sqlite)
            except AttributeError as e:
                raise ConfigurationError(
                    "inbox.no-transaction",
                    f"a {type(within).__name__} is not a connection of the inbox's kind of database",
                ) from e
            except self.engine.dialect.loaded_dbapi.Error as e:
                raise DBAPIError(None, None, e) from e
            yield within if is_core else DriverConnection(within, self.engine.dialect)


def have_effect(db: Any, effect: Callable[[], object]) -> None:
    """Run a handler within a savepoint.

    If the savepoint can be released afterwards, the transaction is the one that was begun, and can still be committed: PostgreSQL
    answers COMMIT with a silent rollback after an error, and a handler may send COMMIT as text.

    Raises:
        EffectFailed: the handler failed; its error is `inbox.handler-committed` or `inbox.handler-aborted` if it ended or aborted the
            transaction.
    """
    SAVEPOINT.first(db, {})
    error: Exception | None = None
    try:
        effect()
    except Exception as e:  # noqa: BLE001  # kept as the failure of the entry, and raised
        error = e
    try:
        (RELEASE if error is None else ROLLBACK_TO).first(db, {})
    except SQLAlchemyError as e:
        if (fault := _fault(e)) is not None:
            fault.__cause__ = error or e
            error = fault
        elif error is None:
            raise
    if error is not None:
        raise EffectFailed(error) from error


def _fault(error: SQLAlchemyError) -> ConfigurationError | None:
    """Return the error for a handler that ended or aborted the transaction; None if the database failed by itself."""
    state, cause = _state_of(error), str(getattr(error, "orig", ""))
    if isinstance(error, ResourceClosedError) or state in _ENDED or any(text in cause for text in _ENDED_TEXTS):
        return ConfigurationError(
            "inbox.handler-committed",
            "the handler ended the inbox's transaction: commit(), rollback(), close() and executescript() do that",
        )
    if state == _ABORTED:
        return ConfigurationError(
            "inbox.handler-aborted",
            "the handler went on after a failed statement, so nothing would be committed: raise the error, or use a savepoint",
        )
    return None


@contextmanager
def unavailable() -> Iterator[None]:
    """Raise failures of the database as `inbox.unavailable`.

    Raises:
        InboxError: `inbox.unavailable`, without values and addresses.
    """
    try:
        yield
    except (SQLAlchemyError, OSError) as e:
        cause = getattr(e, "orig", None) or e
        # Messages of other drivers may contain values.
        text = str(cause) if type(cause).__module__ == "sqlite3" else _state_of(e)
        raise InboxError(
            "inbox.unavailable", f"the inbox's database fails: {type(cause).__name__} {text}".strip()
        ) from e


def is_held(error: InboxError) -> bool:
    """Whether the database failed only because another transaction holds a lock."""
    return _state_of(error.__cause__) in _LOCKED


def _state_of(error: BaseException | None) -> str:
    cause = getattr(error, "orig", None)
    return str(getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None) or "")


def _driver_of(db: Connection) -> Any:
    return db.connection.driver_connection


def _require_transaction(driver: Any, *, is_sqlite: bool) -> None:
    """Check that a driver's connection does not commit each statement by itself.

    Raises:
        ConfigurationError: `inbox.no-transaction`.
        AttributeError: it is not such a connection.
    """
    if is_sqlite:
        mode = getattr(driver, "autocommit", -1)  # from Python 3.12 on; -1: isolation_level decides
        commits = not driver.in_transaction and ((mode == -1 and driver.isolation_level is None) or mode is True)
    else:
        status = getattr(getattr(driver, "info", None), "transaction_status", 0)
        commits = bool(getattr(driver, "autocommit", False)) and status == 0
        driver.cursor  # noqa: B018  # raises AttributeError
    if commits:
        raise ConfigurationError(
            "inbox.no-transaction",
            "the connection commits each statement by itself, so the done flag would be committed before the effect",
        )
