"""Callbacks in front of a FastAPI application, with their effects in the inbox's own SQLite file.

    uvicorn --no-proxy-headers callbacks_fastapi:app

Needs `service.pub`, the public key of the service, in the folder it is started in.
"""

import sqlite3
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from sqlalchemy import Connection, text

from tppkit.callbacks import (
    AsyncInbox,
    CallbackAddress,
    CallbackKind,
    CallbackReceiver,
    VerifiedCallback,
    load_callback_key,
)
from tppkit.inbox.store import InboxStore
from tppkit.protocol.legacy import AccessGranted, LoginConfirmed, LoginPermission, LoginRequest, Transaction
from tppkit.web import AsyncCallbackGate, CallbackMiddleware

DATABASE = Path("tpp.sqlite")
INSERT = text("INSERT INTO effects VALUES (:what)")

receiver = CallbackReceiver(
    [
        CallbackAddress("https://tpp.example/cb/", CallbackKind.ACCESS),
        CallbackAddress("https://tpp.example/cb/{token}", CallbackKind.PAYMENT),
        CallbackAddress("https://tpp.example/login/{token}", CallbackKind.LOGIN),
    ],
    keys=[load_callback_key(Path("service.pub"), name="live-2026")],
)
store = InboxStore(f"sqlite:///{DATABASE}")
store.create_tables()
with sqlite3.connect(DATABASE) as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS effects (what TEXT)")


async def granted(event: AccessGranted, callback: VerifiedCallback, connection: Connection) -> None:
    """Has the effect of a grant; committed together with the mark that it is done, or not at all."""
    connection.execute(INSERT, {"what": "access"})


async def paid(event: Transaction, callback: VerifiedCallback, connection: Connection) -> None:
    """Has the effect of the outcome of a payment."""
    connection.execute(INSERT, {"what": f"{event.id} {event.ver} {event.tlc}"})


async def logged_in(event: LoginConfirmed, callback: VerifiedCallback, connection: Connection) -> None:
    """Has the effect of a confirmed login."""
    connection.execute(INSERT, {"what": "login"})


def ask_login(callback: VerifiedCallback) -> LoginRequest:
    """Answer the scan of our login code with who asks, and for what."""
    return LoginRequest(name="Bookshop", perm=(LoginPermission.NAME, LoginPermission.EMAIL))


app = FastAPI()
gate = AsyncCallbackGate(
    AsyncInbox(receiver, store), on_access=granted, on_payment=paid, on_login=logged_in, login=ask_login
)
app.add_middleware(CallbackMiddleware, gate=gate)


@app.get("/effects")
def effects() -> list[Any]:
    """What callbacks have done."""
    with sqlite3.connect(DATABASE) as connection:
        return [what for (what,) in connection.execute("SELECT what FROM effects ORDER BY rowid")]
