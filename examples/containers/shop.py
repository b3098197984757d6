"""A shop beside the sandbox: it gets webhooks, fetches the orders, and delivers what was paid, once.

Started by compose.yaml in the folder of the sandbox, which has the ready file; WEBHOOK_PATH is its secret path.
"""

import json
import logging
import os
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, text
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from tppkit.client import GatewayClient
from tppkit.inbox import InboxError
from tppkit.inbox.store import InboxStore
from tppkit.protocol.gateway import Order
from tppkit.web import CallbackMiddleware, WebhookGate, WebhookInbox

ready = json.loads(Path("ready.json").read_bytes())
client = GatewayClient(ready["gateway_url"], api_key=ready["api_key"], server_anchors="pki/root.pem")
store = InboxStore("sqlite:////tmp/shop.sqlite")
store.create_tables()
inbox = WebhookInbox(store, client.order)
gate = WebhookGate(inbox, path=os.environ["WEBHOOK_PATH"])
with store.engine.begin() as setup:
    setup.execute(text("CREATE TABLE IF NOT EXISTS delivered (id TEXT PRIMARY KEY)"))


def changed(order: Order, connection: Connection) -> None:
    """Deliver an order when it is paid, in the transaction that marks its state as handled."""
    if client.delivery_state(order.id).delivery == "deliver":
        connection.execute(text("INSERT INTO delivered (id) VALUES (:id) ON CONFLICT DO NOTHING"), {"id": order.id})


def work() -> None:
    """Handle the orders whose webhooks have arrived."""
    worker = inbox.worker(changed)
    while True:
        try:
            store.work(worker, at=datetime.now(UTC))
        except InboxError:  # the database is unavailable
            logging.exception("no order was handled")
        time.sleep(0.2)


def delivered(request: object) -> JSONResponse:
    """Return the ids of the orders that were delivered."""
    with store.engine.begin() as connection:
        return JSONResponse(list(connection.execute(text("SELECT id FROM delivered")).scalars()))


threading.Thread(target=work, daemon=True).start()
app = CallbackMiddleware(Starlette(routes=[Route("/delivered", delivered)]), gate=gate, timeout_s=3)
