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
    CallbackAddress,
    CallbackKind,
    CallbackReceiver,
    Inbox,
    VerifiedCallback,
    load_callback_key,
)
from tppkit.inbox.store import InboxStore
from tppkit.protocol.legacy import AccessGranted, LoginConfirmed, LoginPermission, LoginRequest, Transaction
from tppkit.web import CallbackGate, CallbackMiddleware

DATABASE = Path("tpp.sqlite")

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


def handle(callback: VerifiedCallback, connection: Connection) -> None:
    """Has the effect of a callback; committed together with the mark that it is done, or not at all."""
    match callback.event:
        case AccessGranted():
            what = "access"
        case Transaction(id=record, ver=version, tlc=state):
            what = f"{record} {version} {state}"
        case LoginConfirmed():
            what = "login"
    connection.execute(text("INSERT INTO effects VALUES (:what)"), {"what": what})


def ask_login(callback: VerifiedCallback) -> LoginRequest:
    """Tell a customer who scanned our login code who asks, and for what."""
    return LoginRequest(name="Bookshop", perm=(LoginPermission.NAME, LoginPermission.EMAIL))


app = FastAPI()
app.add_middleware(CallbackMiddleware, gate=CallbackGate(Inbox(receiver, store), handler=handle, login=ask_login))


@app.get("/effects")
def effects() -> list[Any]:
    """What callbacks have done."""
    with sqlite3.connect(DATABASE) as connection:
        return [what for (what,) in connection.execute("SELECT what FROM effects ORDER BY rowid")]
