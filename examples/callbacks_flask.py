"""Callbacks in front of a Flask application: stored and acknowledged at once; a worker has their effects later.

    gunicorn callbacks_flask:app

Needs `service.pub`, the public key of the service, in the folder it is started in.
"""

import logging
import sqlite3
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from flask import Flask, Response, jsonify
from sqlalchemy import Connection, text

from tppkit.callbacks import (
    CallbackAddress,
    CallbackKind,
    CallbackReceiver,
    Inbox,
    VerifiedCallback,
    load_callback_key,
)
from tppkit.errors import InboxError
from tppkit.inbox.store import InboxStore
from tppkit.protocol.legacy import AccessGranted, LoginConfirmed, LoginPermission, LoginRequest, Transaction
from tppkit.web import CallbackGate, WsgiCallbackMiddleware

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
    """Has the effect of a callback; committed together with the mark that it is done; tried again when it raises."""
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


inbox = Inbox(receiver, store)


def work() -> None:
    """Has the effects of what is stored. Any number of these may run, here or in processes of their own."""
    while True:
        try:
            idle = not inbox.work(handle, at=datetime.now(UTC))
        except InboxError:  # the store fails for now; what was claimed is taken again
            logging.exception("callbacks are stored, but cannot be handled")
            idle = True
        if idle:
            time.sleep(0.2)


threading.Thread(target=work, daemon=True).start()
app = Flask(__name__)
app.wsgi_app = WsgiCallbackMiddleware(app.wsgi_app, gate=CallbackGate(inbox, login=ask_login))  # type: ignore[method-assign]  # as Flask says to do it


@app.get("/effects")
def effects() -> Response:
    """What callbacks have done."""
    with sqlite3.connect(DATABASE) as connection:
        return jsonify([what for (what,) in connection.execute("SELECT what FROM effects ORDER BY rowid")])
