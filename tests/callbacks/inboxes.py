"""A service that signs callbacks, a receiver that accepts them, and each kind of store with a table for effects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import Column, Integer, MetaData, String, Table, insert, select

from tppkit.callbacks import (
    CallbackAddress,
    CallbackKey,
    CallbackKind,
    CallbackReceiver,
    Inbox,
    InboxSettings,
    VerifiedCallback,
    sign_callback,
)
from tppkit.inbox.store import InboxStore, MemoryStore
from tppkit.message import Message
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
EFFECTS = Table("effects", MetaData(), Column("id", Integer, primary_key=True), Column("line", String))


def receiver() -> CallbackReceiver:
    return CallbackReceiver(ADDRESSES, keys=[CallbackKey("live-2026", SERVICE.public_key())])


def received(request_id: str, path: str, body: bytes = b"", *, method: str = "POST") -> Message:
    headers = sign_callback(SERVICE, request_id=request_id, method=method, url=f"https://tpp.example{path}", body=body)
    return Message(method, path.encode().decode("latin-1"), headers, body)


def outcome(request_id: str, *, record: str = "t1", ver: int = 1, tlc: str = "posted", at: int = 0) -> Message:
    """A payment's outcome, <TRAN>."""
    body = f'{{"id":"{record}","ver":{ver},"timeStamp":{at},"tlc":"{tlc}","acc":"LT121000011101001000","amount":["EUR-12.50"]}}'
    return received(request_id, f"/cb/{UUID}", body.encode())


def grant(request_id: str, *, token: str = "a" * 20) -> Message:
    return received(request_id, "/cb/", f'{{"token":"{token}","exp":"2026-12-01 00:00:00"}}'.encode())


def login(request_id: str, *, token: str = UUID) -> Message:
    """A confirmed login, which has no version."""
    return received(request_id, f"/login/ž/{token}", b'{"id":7}')


def scan(request_id: str, *, token: str = UUID) -> Message:
    """A login GET."""
    return received(request_id, f"/login/ž/{token}", method="GET")


@dataclass
class Case:
    """A store, how a handler writes an effect with it, and what was written."""

    store: InboxStore
    write: Callable[[Any, str], object]
    effects: Callable[[], list[str]]

    def inbox(self, settings: InboxSettings | None = None) -> Inbox:
        return Inbox(receiver(), self.store, settings=settings or InboxSettings())

    def handler(self, callback: VerifiedCallback, connection: Any) -> None:
        event = callback.event
        self.write(
            connection, f"{event.id} {event.ver}" if isinstance(event, Transaction) else f"{callback.request_id} -"
        )


def new_prefix(kind: str) -> str:
    """For tables that no other test of this process has."""
    return f"{kind}{next(_NUMBERS)}_"


def core_case(store: InboxStore) -> Case:
    """A case of a store, whose effects are in the same database; one database has the effects of one case."""
    store.create_tables()
    EFFECTS.metadata.create_all(store.engine)

    def effects() -> list[str]:
        with store.engine.connect() as db:
            return list(db.execute(select(EFFECTS.c.line).order_by(EFFECTS.c.id)).scalars())

    return Case(store, lambda db, line: db.execute(insert(EFFECTS).values(line=line)), effects)


def core_url(postgresql_url: str) -> str:
    return postgresql_url.replace("postgresql:", "postgresql+psycopg:")


STORES = ("memory", "postgresql")


def open_case(kind: str, folder: Path, request: pytest.FixtureRequest) -> Case:
    """The case of a kind of store, new."""
    if kind == "memory":
        return core_case(MemoryStore())
    if kind == "sqlite":
        return core_case(InboxStore(f"sqlite:///{folder}/inbox.sqlite"))
    store = InboxStore(core_url(request.getfixturevalue("postgresql_url")), prefix=new_prefix("inbox"))
    EFFECTS.metadata.drop_all(store.engine)
    request.addfinalizer(store.close)
    return core_case(store)
