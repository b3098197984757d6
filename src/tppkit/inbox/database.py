"""The transactions of an inbox: its own, those of callers, and the savepoints in which handlers run."""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from inspect import iscoroutinefunction
from types import SimpleNamespace
from typing import Any
from weakref import ReferenceType

from tppkit._extras import needs_extra
from tppkit._files import is_private_sqlite_file, require_wait
from tppkit._locals import without_locals
from tppkit.errors import ConfigurationError, TppkitError
from tppkit.inbox.entries import InboxError

with needs_extra("sqlalchemy"):
    from sqlalchemy import (
        Connection,
        Engine,
        MetaData,
        RootTransaction,
        make_url,
        text,
    )
    from sqlalchemy.exc import DBAPIError, IntegrityError, ResourceClosedError, SQLAlchemyError

    from tppkit.sql.engine import close_at_fork, create_tables, make_engine, use_wal
    from tppkit.sql.statement import Statement
    from tppkit.sql.transaction import BEGUN, FAILURES, transaction_fault

_SAVEPOINT, _ROLLBACK_TO, _RELEASE = (
    Statement(text(f"{verb} tppkit_inbox")) for verb in ("SAVEPOINT", "ROLLBACK TO SAVEPOINT", "RELEASE SAVEPOINT")
)
_BEGIN = Statement(text("BEGIN IMMEDIATE"))  # SQLite only
# PostgreSQL: limit how long this transaction waits for a lock, unless the application has set a limit.
_LIMIT_WAIT = Statement(
    text("SELECT set_config('lock_timeout', :wait, true) WHERE current_setting('lock_timeout') = '0'")
)
_UNLIMIT_WAIT = Statement(text("SELECT set_config('lock_timeout', '0', true)"))
_LIMITED = "tppkit_limited"

_ENDED, _ABORTED = ("25P01", "3B001"), "25P02"
# Classes of PostgreSQL's errors that do not come from a constraint: connections, states of the transaction, conflicts with others,
# resources, limits, operators and the system (its manual, appendix A). SQLite has no codes.
_OWN_FAULTS = ("", "08", "25", "40", "53", "54", "55", "57", "58", "XX")
_CLOSED_TEXTS = ("Cannot operate on a closed database", "the connection is closed")  # the drivers have no code for this

# Without the value, which may have a password.
_NO_ADDRESS = (
    "SQLAlchemy cannot use the address of the inbox's database: give for example sqlite:///inbox.sqlite or"
    " postgresql+psycopg://host/name, or an engine of your own"
)
# What a SQLSTATE means, or a part of an error's text without one: SQLite's, and libpq's if a connection fails.
_MEANINGS = {
    "greenlet_spawn": "call this by `await connection.run_sync(...)`",
    "QueuePool limit": "no connection became free: too many threads wait, or a handler hangs",
    "42P01|no such table": "call create_tables() first, or correct the address or the prefix",
    "failed: (Connection refused|No such file)": "no server listens at this port or socket",
    r"(resolve|translate) host|\[Errno -[2-5]\]": "the host name cannot be resolved",
    "authentication failed|no pg_hba.conf entry": "the server rejects the user, the password, this host or the encryption",
    "no password supplied": "the server asks for a password",
    '(database|role) ".*" does not exist': "the database or the user does not exist",
    r"port \d+ failed: .*(does not support SSL|certificate)": "TLS cannot be used as the address requires",
}

_connected = without_locals(Engine.connect)  # the frames of drivers have the password


class EffectFailed(Exception):
    """A handler failed; distinguishes its errors from those of the database.

    Attributes:
        error: what the handler raised.
        may_be_done: the handler may have committed the done flag of its entry.
    """

    def __init__(self, error: Exception, *, may_be_done: bool = False) -> None:
        super().__init__(error)
        self.error, self.may_be_done = error, may_be_done


def reason_of(error: Exception) -> str:
    """Return the class and code of an error, without its message, which may contain confidential data."""
    name = type(error).__qualname__[:100]
    return f"{name} [{error.code}]" if isinstance(error, TppkitError) else name


@contextmanager
def effect(db: Connection | None = None) -> Iterator[None]:
    """Raise errors of the application's code as EffectFailed.

    Args:
        db: the connection, in a transaction of the inbox. The code may wait for locks for any time.
    """
    if db is not None and db.info.pop(_LIMITED, None):
        _UNLIMIT_WAIT.run_one(db, {})
    try:
        yield
    except Exception as e:
        raise EffectFailed(e) from e


def _driver_connection(connection: Any, dialect: Any) -> Any:
    """Return a driver's connection with the attributes that a `Statement` uses."""

    def cursor() -> Any:
        made = connection.cursor()
        # The connection's rows may be dictionaries.
        made.row_factory = None if dialect.name == "sqlite" else lambda _: tuple
        return made

    db = SimpleNamespace(dialect=dialect, cursor=cursor, in_transaction=lambda: True, get_execution_options=dict)
    db.connection = db
    return db


def _engine_of(database: Any, wait_s: float) -> Engine:
    """Make an engine for an address, or return the given one."""
    if not isinstance(database, Engine | str):
        raise ConfigurationError(
            "inbox.setting",
            f"an object of class {type(database).__name__} is neither an address nor an engine. In place of an AsyncEngine, give"
            " its address: AsyncInbox runs the store in threads",
        )
    try:
        url = make_url(database) if isinstance(database, str) else database.url
        dialect = url.get_backend_name()
        if dialect not in ("sqlite", "postgresql"):
            raise ConfigurationError(
                "inbox.dialect", f"the inbox has no SQL for {dialect}; it knows sqlite, postgresql"
            )
        if isinstance(database, Engine):
            return database
        options: dict[str, Any] = {}
        if dialect == "sqlite":
            if not is_private_sqlite_file(url.database):
                raise ConfigurationError(
                    "inbox.sqlite",
                    "a database in memory is lost with its process, and one named by a URI is not private: give a path",
                )
            options = {"pool_size": 1, "max_overflow": 0}
        # A handler may take any time.
        return make_engine(url, code="inbox.setting", wait_s=wait_s, limits_statements=False, **options)
    except (SQLAlchemyError, ValueError) as e:  # ValueError: the port
        raise ConfigurationError("inbox.setting", _NO_ADDRESS) from e
    except OSError as e:
        raise InboxError("inbox.unavailable", f"the inbox's file cannot be created: {e.strerror}") from e


class _Turns:
    """A lock that threads get in the order in which they ask for it, so that none waits while others come again and again."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._lock, self._process = threading.RLock(), os.getpid()
        self._queue = deque[ReferenceType[threading.Event]]()  # the first has its turn

    @contextmanager
    def take(self, wait_s: float) -> Iterator[None]:
        """Run the body in this thread's turn.

        Raises:
            InboxError: `inbox.unavailable`, the turn did not come within `wait_s` seconds.
        """
        if self._process != os.getpid():  # the threads of the parent that had or awaited a turn are not in this process
            self._begin()
        turn = threading.Event()
        place = ReferenceType(
            turn, self._end
        )  # an interrupt may come anywhere: the turn ends at the latest with this frame
        with self._lock:
            self._queue.append(place)
            if self._queue[0] is place:
                turn.set()
        try:
            if not turn.wait(wait_s):
                message = f"no connection became free in {wait_s:g} seconds: too many threads or tasks wait; does a handler hang?"
                raise InboxError("inbox.unavailable", message)
            yield
        finally:
            self._end(place)
            del place  # before `turn`, which then has nobody to call

    def _end(self, place: ReferenceType[threading.Event]) -> None:
        with self._lock:
            if place in self._queue:
                self._queue.remove(place)
            if self._queue and (first := self._queue[0]()) is not None:
                first.set()


class Database:
    """Transactions on an engine, and on connections of callers.

    Args:
        database: a SQLAlchemy address, or an engine.
        wait_s: for an address: seconds to wait, half of them for other threads, half for other processes or the server.

    Attributes:
        engine: the engine. For the address of a SQLite file it has one connection, so that threads wait for each other in the pool and
            not for the file's lock.

    Raises:
        ConfigurationError: `inbox.setting`, `inbox.sqlite`, `inbox.dialect`, `extra.missing`.
        InboxError: `inbox.unavailable`.
    """

    def __init__(self, database: Any, *, wait_s: float) -> None:
        half_s = require_wait(wait_s, code="inbox.setting") / 2
        engine = _engine_of(database, half_s)
        self._wal_wait_s = half_s if isinstance(database, str) else None  # with an engine, the application decides
        self.is_sqlite = engine.dialect.name == "sqlite"
        self._turns = _Turns() if self.is_sqlite and isinstance(database, str) else None  # for its one connection
        self._turn_wait_s = half_s
        # In READ COMMITTED, a conflicting transaction waits; at stricter levels it would be aborted.
        self.engine = engine if self.is_sqlite else engine.execution_options(isolation_level="READ COMMITTED")
        close_at_fork(self.engine)
        # SQLAlchemy does not convert the errors of setting the isolation level. A text with surrogates is a UnicodeEncodeError.
        # FAILURES has those of sqlite3 too: a caller may pass a connection of another database.
        self._errors = (*FAILURES, engine.dialect.loaded_dbapi.Error, OSError, UnicodeEncodeError)

    @contextmanager
    def typed_errors(self) -> Iterator[None]:
        """Raise failures of the database in the body as `inbox.unavailable`, without values and addresses.

        Raises:
            InboxError: `inbox.unavailable`.
        """
        try:
            yield
        except self._errors as e:
            raise InboxError("inbox.unavailable", f"the inbox's database fails: {_described(e)}") from e

    @without_locals
    def create_tables(self, metadata: MetaData) -> None:
        """Create the tables that are absent; and switch the SQLite file of an address to WAL mode.

        Raises:
            ConfigurationError: `inbox.schema`.
            InboxError: `inbox.unavailable`.
        """
        with self.typed_errors():
            if self._wal_wait_s is not None:
                use_wal(self.engine, wait_s=self._wal_wait_s)
            name = create_tables(self.engine, metadata)
        if name is not None:
            raise ConfigurationError(
                "inbox.schema", f"the table {name} has other columns: give the inbox another prefix"
            )

    @contextmanager
    def transaction(self, *, wait: str = "1s", guarded: bool = False, reads: bool = False) -> Iterator[Connection]:
        """Run the body in a new transaction, which is committed at the end, or rolled back if the body raises.

        Args:
            wait: how long PostgreSQL waits for a lock, because a handler that hangs may hold it; until `effect`.
            guarded: whether the body runs a handler, see `Savepoint`.
            reads: whether the body only reads; SQLite then needs no lock, which a handler that hangs may hold.

        Raises:
            InboxError: `inbox.unavailable`.
            EffectFailed: see `Savepoint`; or a deferred constraint or trigger fails at the commit.
        """
        turn = nullcontext() if self._turns is None else self._turns.take(self._turn_wait_s)
        with self.typed_errors(), turn:
            db = _connected(self.engine)
            pooled = db.connection
            try:
                root = db.begin()
                if not self.is_sqlite:
                    db.info[_LIMITED] = _LIMIT_WAIT.first(db, {"wait": wait})
                elif not reads and not pooled.driver_connection.in_transaction:  # type: ignore[union-attr]  # the connection is open
                    # sqlite3 begins none before a savepoint, and one that begins with a read could fail at its first write.
                    _BEGIN.run_one(db, {})
                    db.execution_options(**{BEGUN: True})
                with Savepoint(db) if guarded else nullcontext():
                    yield db
                self._commit(db, root)
            except BaseException:
                with suppress(Exception):
                    # SQLAlchemy may consider the transaction ended although it is open for SQLite.
                    (pooled if self.is_sqlite else db).rollback()
                if guarded and not self.is_sqlite:
                    # What a thread or task that the handler left running still sends must not get into the next transaction.
                    with suppress(Exception):
                        db.invalidate()
                raise
            finally:
                try:
                    with suppress(Exception):  # a failure to close must not hide the error that caused it
                        db.close()
                finally:
                    # An interrupt, or a task that the handler left running, kept it from being returned to the pool.
                    if (kept := pooled.dbapi_connection) is not None:
                        pooled.detach()
                        with suppress(Exception):
                            kept.close()

    def _commit(self, db: Connection, root: RootTransaction) -> None:
        try:
            root.commit()  # unlike that of the connection, it fails if the transaction was ended meanwhile
        except DBAPIError as e:
            with suppress(Exception):  # SQLite's transaction is still open, but SQLAlchemy considers it ended
                db.connection.rollback()
            if isinstance(e, IntegrityError) or _state_of(e)[:2] not in _OWN_FAULTS:
                raise EffectFailed(e) from e
            raise

    @contextmanager
    def of_caller(self, within: Any) -> Iterator[Any]:
        """Yield the connection to execute statements in the transaction of a caller.

        Args:
            within: a connection or session of SQLAlchemy, or a connection of `sqlite3` or `psycopg`.

        Raises:
            ConfigurationError: `inbox.no-transaction`, it is something else, would commit the next statement by itself, or is in psycopg's
                pipeline mode.
            InboxError: `inbox.unavailable`.
        """
        with self.typed_errors():
            if hasattr(within, "get_bind"):  # a session
                within = within.connection()
            is_core = isinstance(within, Connection)
            driver = within.connection.driver_connection if is_core else within
            commit = getattr(driver, "commit", None)
            # The statements of a driver's connection for asyncio would never be awaited.
            is_plain = is_core or (callable(commit) and not iscoroutinefunction(commit))
            if not is_plain or not hasattr(driver, "in_transaction" if self.is_sqlite else "cursor"):
                message = f"a {type(within).__name__} is not a connection of the inbox's kind of database"
                raise ConfigurationError("inbox.no-transaction", message)
            if fault := transaction_fault(driver, is_sqlite=self.is_sqlite, db=within if is_core else None):
                message = f"the done flag could be committed before the effect: {fault}"
                raise ConfigurationError("inbox.no-transaction", message)
            if getattr(getattr(driver, "info", None), "pipeline_status", 0):
                message = "the connection is in psycopg's pipeline mode, which returns no rows before its end"
                raise ConfigurationError("inbox.no-transaction", message)
            yield within if is_core else _driver_connection(driver, self.engine.dialect)

    def begin_effect(self, within: Any) -> Savepoint:
        """Begin the savepoint of a handler in the transaction of a caller.

        Raises:
            ConfigurationError, InboxError: see `of_caller`.
        """
        with self.of_caller(within) as db:
            savepoint = Savepoint(db)
            savepoint.__enter__()
        return savepoint

    def end_effect(self, savepoint: Savepoint, error: BaseException | None) -> None:
        """End the savepoint of a handler, which may have raised an error.

        Raises:
            ConfigurationError: see `Savepoint`.
            InboxError: `inbox.unavailable`.
        """
        failed = EffectFailed(error) if isinstance(error, Exception) else error
        try:
            with self.typed_errors():
                savepoint.__exit__(type(failed), failed, None)
            return
        except EffectFailed as e:
            found = e.error
        raise found


class Savepoint:
    """A context manager that rolls back its body's statements if the body raises.

    If the savepoint can be released, the transaction is the one that was begun, and can still be committed: PostgreSQL answers COMMIT
    with a silent rollback after an error, and a handler may send COMMIT as text.

    Args:
        db: the connection.

    Attributes:
        is_lost: it could not be begun, released or rolled back, so the transaction must not be committed.

    Raises:
        EffectFailed: `inbox.handler-committed` or `inbox.handler-aborted`, a handler ended or aborted the transaction.
    """

    def __init__(self, db: Any) -> None:
        self._db, self.is_lost = db, True

    def __enter__(self) -> None:
        _SAVEPOINT.run_one(self._db, {})
        self.is_lost = False

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.is_lost = True
        try:
            if error is not None:
                _ROLLBACK_TO.run_one(self._db, {})
            _RELEASE.run_one(self._db, {})
            self.is_lost = False
        except Exception as e:  # after an interrupt, SQLAlchemy raises any class
            if error is not None and not isinstance(error, EffectFailed):
                return  # it is raised, and more important
            if (fault := _fault(e)) is not None:
                fault.error.__cause__ = error.error if error else e
                raise fault from None
            if error is None:
                raise


def _fault(error: Exception) -> EffectFailed | None:
    """Return the failure of a handler that ended or aborted the transaction; None if the database failed by itself."""
    state, cause = _state_of(error), str(getattr(error, "orig", ""))
    is_ended = state in _ENDED or "no such savepoint" in cause or isinstance(error, ResourceClosedError)
    if is_ended or any(known in cause for known in _CLOSED_TEXTS):  # closed by the handler, or lost
        message = "the handler ended the inbox's transaction: commit(), rollback(), close() and executescript() do that"
        return EffectFailed(ConfigurationError("inbox.handler-committed", message), may_be_done=is_ended)
    if state == _ABORTED:
        message = "the handler went on after a failed statement, so nothing would be committed: raise the error, or use a savepoint"
        return EffectFailed(ConfigurationError("inbox.handler-aborted", message))
    return None


def _described(error: Exception) -> str:
    """Return the class and the cause of the database's error, without values and addresses."""
    cause, state = getattr(error, "orig", None) or error, _state_of(error)
    # Messages of other drivers may contain values.
    shown = str(cause) if type(cause).__module__ == "sqlite3" else state
    text = state or str(cause).partition("\n")[0]  # psycopg appends the failures of other addresses
    meaning = next((meaning for known, meaning in _MEANINGS.items() if re.search(known, text)), "")
    return ": ".join(filter(None, (f"{type(cause).__name__} {shown}".strip(), meaning)))


def _state_of(error: BaseException) -> str:
    """Return the SQLSTATE of a driver's error, or of SQLAlchemy's with the driver's; SQLite's errors have none."""
    cause = getattr(error, "orig", error)
    return str(getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None) or "")
