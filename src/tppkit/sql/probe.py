"""Whether a database can be reached and written, without a trace in it."""

from __future__ import annotations

import secrets
from contextlib import closing
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import SQLAlchemyError

from tppkit._files import is_private_sqlite_file
from tppkit.errors import ConfigurationError, TransportError
from tppkit.sql.engine import make_engine

_CODE = "database.address"


def require_writable(address: str, *, wait_s: float) -> str:
    """Write to a database, and undo it.

    In PostgreSQL it is a temporary table, because programs need no right to create others. A temporary table of SQLite is not in the
    file, so there it is a table in a transaction that is rolled back.

    Args:
        address: as for `make_engine`.
        wait_s: how long to wait for the connection, and for a lock or an answer, each in seconds.

    Returns:
        The database without its password, for messages.

    Raises:
        TransportError: `database.unreachable`, `database.unwritable`.
        ConfigurationError: `database.address`, `extra.missing`. No message contains the address or its password.
    """
    try:
        url = make_url(address)
        is_sqlite = url.get_backend_name() == "sqlite"
        if is_sqlite:
            _require_file(url.database)
        engine = make_engine(url, code=_CODE, wait_s=wait_s)
    except (SQLAlchemyError, ValueError) as e:  # ValueError: the port
        message = "the address cannot be read: give for example sqlite:///tpp.sqlite or postgresql+psycopg://host/name"
        raise ConfigurationError(_CODE, message) from e
    except OSError as e:
        raise TransportError("database.unreachable", f"{url.database}: {e.strerror}") from e
    name = f"tppkit_probe_{secrets.token_hex(8)}"
    shown = url.database if is_sqlite else f"{url.database or 'the database'} on {url.host or 'this machine'}"
    code = "database.unreachable"
    try:
        with closing(engine.raw_connection()) as connection:
            code = "database.unwritable"
            cursor = connection.cursor()
            if is_sqlite:
                cursor.execute("BEGIN IMMEDIATE")
            cursor.execute(f"CREATE {'' if is_sqlite else 'TEMPORARY '}TABLE {name} (n INTEGER)")
            cursor.execute(f"INSERT INTO {name} VALUES (1)")  # noqa: S608  # a name of our own
            connection.rollback()
    except Exception as e:  # each driver has its own classes
        grant = ": grant its user the right TEMPORARY on the database" if _is_forbidden(e) else ""
        raise TransportError(code, f"{shown}: {_reason(e, url.password)}{grant}") from e
    finally:
        engine.dispose()
    return str(shown)


def _require_file(database: str | None) -> None:
    if not is_private_sqlite_file(database):
        message = "of SQLite only files can be checked: give the path of its file, as in sqlite:///tpp.sqlite"
        raise ConfigurationError(_CODE, message)
    if not Path(str(database)).is_file():  # SQLite would make the file of a mistyped name
        wrong = f"{database} is not a regular file" if Path(str(database)).exists() else f"there is no file {database}"
        raise TransportError("database.unreachable", wrong)


def _is_forbidden(error: Exception) -> bool:
    """Whether the role lacks a right (`insufficient_privilege` of PostgreSQL), in psycopg or psycopg2."""
    return "42501" in (getattr(error, "sqlstate", None), getattr(error, "pgcode", None))


def _reason(error: Exception, password: object) -> str:
    cause = getattr(error, "orig", None) or error
    text = " ".join(str(cause).split())[:300] or type(cause).__name__
    return text.replace(str(password), "***") if password else text
