"""Callbacks in front of a Flask application: stored and acknowledged at once; a worker has their effects later.

    gunicorn callbacks_flask:app
    tppkit inbox work --database sqlite:///tpp.sqlite --handler callbacks_flask:work --forever

Needs `service.pub`, the public key of the service, in the folder it is started in.
"""

import sqlite3
from pathlib import Path

from flask import Flask, Response, jsonify
from sqlalchemy import Connection, text

from tppkit.callbacks import (
    CallbackAddress,
    CallbackKind,
    CallbackReceiver,
    Inbox,
    VerifiedCallback,
    handler_by_kind,
    load_callback_key,
)
from tppkit.inbox.store import InboxStore
from tppkit.protocol.legacy import AccessGranted, LoginConfirmed, LoginPermission, LoginRequest, Transaction
from tppkit.web import CallbackGate, WsgiCallbackMiddleware

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


def granted(event: AccessGranted, callback: VerifiedCallback, connection: Connection) -> None:
    """Has the effect of a grant; committed together with the mark that it is done; tried again when it raises."""
    connection.execute(INSERT, {"what": "access"})


def paid(event: Transaction, callback: VerifiedCallback, connection: Connection) -> None:
    """Has the effect of the outcome of a payment."""
    connection.execute(INSERT, {"what": f"{event.id} {event.ver} {event.tlc}"})


def logged_in(event: LoginConfirmed, callback: VerifiedCallback, connection: Connection) -> None:
    """Has the effect of a confirmed login."""
    connection.execute(INSERT, {"what": "login"})


def ask_login(callback: VerifiedCallback) -> LoginRequest:
    """Answer the scan of our login code with who asks, and for what."""
    return LoginRequest(name="Bookshop", perm=(LoginPermission.NAME, LoginPermission.EMAIL))


inbox = Inbox(receiver, store)
work = inbox.worker(handler_by_kind(receiver, on_access=granted, on_payment=paid, on_login=logged_in))
app = Flask(__name__)
app.wsgi_app = WsgiCallbackMiddleware(app.wsgi_app, gate=CallbackGate(inbox, login=ask_login))  # type: ignore[method-assign]  # as Flask says to do it


@app.get("/effects")
def effects() -> Response:
    """What callbacks have done."""
    with sqlite3.connect(DATABASE) as connection:
        return jsonify([what for (what,) in connection.execute("SELECT what FROM effects ORDER BY rowid")])
