"""A service that signs callbacks, a receiver that believes it, and every store with a table for effects."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import redis
from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import create_engine, text
from sqlalchemy.orm import sessionmaker

from tppkit.callbacks import (
    CallbackAddress,
    CallbackKey,
    CallbackKind,
    CallbackReceiver,
    ReceivedCallback,
    VerifiedCallback,
    sign_callback,
)
from tppkit.callbacks.stores import Store
from tppkit.callbacks.stores.memory import MemoryStore
from tppkit.callbacks.stores.postgresql import PostgresqlStore
from tppkit.callbacks.stores.redis import RedisStore
from tppkit.callbacks.stores.sqlalchemy import SqlalchemyStore
from tppkit.callbacks.stores.sqlite import SqliteStore
from tppkit.protocol.legacy import Transaction

AT = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
SERVICE = ec.derive_private_key(4711, ec.SECP256R1())
UUID = "0123456789abcdefghij"
_NUMBERS = count()

ADDRESSES = (
    CallbackAddress("https://tpp.example/cb/", CallbackKind.ACCESS),
    CallbackAddress("https://tpp.example/cb/{token}", CallbackKind.PAYMENT),
    CallbackAddress("https://tpp.example/login/ž/{token}", CallbackKind.LOGIN),
)


def receiver() -> CallbackReceiver:
    return CallbackReceiver(ADDRESSES, keys=[CallbackKey("live-2026", SERVICE.public_key())])


def received(request_id: str, path: str, body: bytes = b"", *, method: str = "POST") -> ReceivedCallback:
    headers = sign_callback(SERVICE, request_id=request_id, method=method, url=f"https://tpp.example{path}", body=body)
    return ReceivedCallback(method, path.encode().decode("latin-1"), headers, body)


def outcome(request_id: str, *, record: str = "t1", ver: int = 1, tlc: str = "posted", at: int = 0) -> ReceivedCallback:
    """A payment's outcome, <TRAN>."""
    body = f'{{"id":"{record}","ver":{ver},"timeStamp":{at},"tlc":"{tlc}","acc":"LT121000011101001000","amount":["EUR-12.50"]}}'
    return received(request_id, f"/cb/{UUID}", body.encode())


def grant(request_id: str, *, token: str = "a" * 20) -> ReceivedCallback:
    return received(request_id, "/cb/", f'{{"token":"{token}","exp":"2026-12-01 00:00:00"}}'.encode())


def login(request_id: str, *, token: str = UUID) -> ReceivedCallback:
    """A confirmed login, which has no version."""
    return received(request_id, f"/login/ž/{token}", b'{"id":7}')


def scan(request_id: str, *, token: str = UUID) -> ReceivedCallback:
    """A login GET."""
    return received(request_id, f"/login/ž/{token}", method="GET")


@dataclass
class Case:
    """One store, how a handler writes an effect with it, and what was written."""

    store: Store
    write: Callable[[Any, str], object]
    effects: Callable[[], list[str]]

    def handler(self, callback: VerifiedCallback, connection: Any) -> None:
        event = callback.event
        self.write(
            connection, f"{event.id} {event.ver}" if isinstance(event, Transaction) else f"{callback.request_id} -"
        )


def memory_case() -> Case:
    effects: list[str] = []
    return Case(MemoryStore(), lambda _, line: effects.append(line), lambda: list(effects))


def sqlite_case(path: Path) -> Case:
    store = SqliteStore(path)
    store.create_tables()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS effects (line TEXT)")

    def effects() -> list[str]:
        with closing(sqlite3.connect(path)) as connection:
            return [line for (line,) in connection.execute("SELECT line FROM effects ORDER BY rowid")]

    return Case(store, lambda connection, line: connection.execute("INSERT INTO effects VALUES (?)", (line,)), effects)


def new_prefix(kind: str) -> str:
    """For tables or keys that no other test of this process has."""
    return f"{kind}{next(_NUMBERS)}_"


def postgresql_case(url: str, prefix: str) -> Case:
    store = PostgresqlStore(lambda: psycopg.connect(url), prefix=prefix)
    store.create_tables()
    make_effects(url, prefix)
    insert = f"INSERT INTO {prefix}effects (line) VALUES (%s)"
    return Case(store, lambda connection, line: connection.execute(insert, (line,)), lambda: read_effects(url, prefix))


def make_effects(url: str, prefix: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(f"CREATE TABLE IF NOT EXISTS {prefix}effects (id SERIAL, line TEXT)")


def read_effects(url: str, prefix: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [line for (line,) in connection.execute(f"SELECT line FROM {prefix}effects ORDER BY id")]


@contextmanager
def sqlalchemy_case(url: str, prefix: str) -> Iterator[Case]:
    engine = create_engine(url, hide_parameters=True)
    make_session = sessionmaker(engine)
    store = SqlalchemyStore(make_session, prefix=prefix)
    store.create_tables()
    key = "SERIAL" if engine.dialect.name == "postgresql" else "INTEGER PRIMARY KEY"
    with make_session() as session, session.begin():
        session.execute(text(f"CREATE TABLE IF NOT EXISTS {prefix}effects (id {key}, line TEXT)"))
    insert = text(f"INSERT INTO {prefix}effects (line) VALUES (:line)")

    def effects() -> list[str]:
        with make_session() as session:
            return [row.line for row in session.execute(text(f"SELECT line FROM {prefix}effects ORDER BY id"))]

    yield Case(store, lambda session, line: session.execute(insert, {"line": line}), effects)
    engine.dispose()


@contextmanager
def redis_case(url: str, prefix: str) -> Iterator[Case]:
    with redis.Redis.from_url(url) as client:
        name = f"{prefix}effects"
        yield Case(
            RedisStore(client, prefix=prefix),
            lambda _, line: client.rpush(name, line),
            lambda: [line.decode() for line in client.lrange(name, 0, -1)],
        )


def located(name: str, folder: Path, server_url: Callable[[str], str]) -> str:
    """Where the named store is: a path or an address."""
    match name:
        case "postgresql":
            return server_url("postgresql_url")
        case "sqlalchemy-postgresql":
            return server_url("postgresql_url").replace("postgresql:", "postgresql+psycopg:")
        case "sqlalchemy-sqlite":
            return f"sqlite:///{folder}/inbox.sqlite"
        case "redis":
            return server_url("redis_url")
    return str(folder / "inbox.sqlite")


STORES = ("memory", "sqlite", "postgresql", "sqlalchemy-sqlite", "sqlalchemy-postgresql", "redis")


@contextmanager
def open_case(name: str, location: str, prefix: str) -> Iterator[Case]:
    """The named store, with what is there already."""
    match name:
        case "memory":
            yield memory_case()
        case "sqlite":
            yield (case := sqlite_case(Path(location)))
            case.store.close()  # type: ignore[attr-defined]
        case "postgresql":
            yield postgresql_case(location, prefix)
        case "sqlalchemy-sqlite" | "sqlalchemy-postgresql":
            with sqlalchemy_case(location, prefix) as case:
                yield case
        case "redis":
            with redis_case(location, prefix) as case:
                yield case
