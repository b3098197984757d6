"""Orders of the shop: created at the gateway, and delivered once when the gateway says that they are paid.

tppkit inbox work --database "$DATABASE_URL" --handler orders:work --forever
"""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import Boolean, Column, Connection, MetaData, Numeric, Row, String, Table, insert, select, update
from sqlalchemy.exc import IntegrityError

from tppkit.client import GatewayClient
from tppkit.inbox.store import InboxStore
from tppkit.protocol.gateway import Order, OrderRequest, TransactionRequest
from tppkit.web import WebhookInbox

PUBLIC_URL, WEBHOOK_PATH = os.environ["PUBLIC_URL"], os.environ["WEBHOOK_PATH"]
PRICE, CURRENCY = Decimal("12.50"), "EUR"
OPEN, FAILED, PAID, CLOSED = "open", "failed", "paid", "closed"
_LOG = logging.getLogger("shop")

metadata = MetaData()
orders = Table(
    "orders",
    metadata,
    Column("reference", String(64), primary_key=True),  # made with the form, so a form that is sent twice is one order
    Column("order_id", String(36), unique=True),  # the gateway's
    Column("own_checkout", Boolean, nullable=False),
    Column("price", Numeric(12, 2), nullable=False),
    Column("status", String(10), nullable=False),
)

gateway = GatewayClient(os.environ["GATEWAY_URL"], api_key=os.environ["API_KEY"], timeout_s=5)
store = InboxStore(os.environ["DATABASE_URL"])
store.create_tables()
metadata.create_all(store.engine)
inbox = WebhookInbox(store, gateway.order)


def create(reference: str, *, own_checkout: bool) -> Order | None:
    """Create an order at the gateway, and look at it regularly from then on; None if the form was sent before."""
    row = {"reference": reference, "own_checkout": own_checkout, "price": PRICE, "status": OPEN}
    try:
        with store.engine.begin() as db:
            db.execute(insert(orders), row)
    except IntegrityError:
        return None
    card = (TransactionRequest(payment_method="credit-card"),) if own_checkout else None
    request = OrderRequest(
        currency=CURRENCY,
        amount=int(PRICE * 100),
        merchant_order_id=reference,
        transactions=card,
        return_url=f"{PUBLIC_URL}/orders/{reference}",
        webhook_url=PUBLIC_URL + WEBHOOK_PATH,
    )
    try:
        order = gateway.create_order(request)
    except Exception:  # the customer has seen no payment page and no card was sent, so nothing can be paid
        fail(reference)
        raise
    with store.engine.begin() as db:
        db.execute(update(orders).where(orders.c.reference == reference).values(order_id=order.id))
        inbox.watch(order.id, at=datetime.now(UTC), within=db)
    return order


def fail(reference: str) -> None:
    """Store that an order cannot be paid."""
    with store.engine.begin() as db:
        db.execute(update(orders).where(orders.c.reference == reference).values(status=FAILED))


def find(reference: str) -> Row[Any] | None:
    """Return an order of the shop."""
    with store.engine.connect() as db:
        return db.execute(select(orders).where(orders.c.reference == reference)).first()


def changed(order: Order, connection: Connection) -> None:
    """Deliver an order when it is paid, in the transaction that marks its state as handled. Called by the worker."""
    original = order.related_order_id or order.id  # a refund, for example, is an order of its own
    mine = orders.c.order_id == original
    # Locked before the gateway is asked, so that of a payment and its refund the later one decides; SQLite lets one worker write at a time.
    row = connection.execute(select(orders).where(mine).with_for_update()).first()
    if row is None:  # not an order of this shop
        return
    delivery, reason = gateway.delivery_state(original, own_checkout=row.own_checkout)
    if delivery == "deliver" and row.status in (OPEN, FAILED):
        connection.execute(update(orders).where(mine).values(status=PAID))
        _LOG.warning("deliver %s", row.reference)  # here: the row that makes the warehouse pack it
    elif delivery == "do-not-deliver":
        connection.execute(update(orders).where(mine).values(status=CLOSED))
        _LOG.warning("do not deliver %s: %s", row.reference, reason)


work = inbox.worker(changed)
