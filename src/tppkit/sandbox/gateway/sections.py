"""The sections of the index page about the gateway, without tokens and paths, and with truncated card numbers."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from tppkit.protocol.gateway.values import amount_with_decimals
from tppkit.protocol.gateway.webhooks import StatusChanged
from tppkit.sandbox.cell import Section
from tppkit.sandbox.delivery_tables import latest_deliveries
from tppkit.sandbox.gateway.link_tables import newest_links
from tppkit.sandbox.gateway.tables import StoredTransaction, newest_orders, transactions_of_orders
from tppkit.sandbox.gateway.webhooks import SENDER
from tppkit.sandbox.html import shown_time

_SHOWN = 50


def gateway_sections(db: Connection, at: datetime) -> tuple[Section, ...]:
    """The latest orders, payment links and webhooks."""
    orders = newest_orders(db, _SHOWN)
    transactions = transactions_of_orders(db, [order.id for order in orders])
    return (
        Section(
            "Gateway orders", ("Order", "Reference", "Status", "Amount", "Made by", "Transactions", "Created"),
            [
                (one.id, one.terms.merchant_order_id or "", one.status.value, _amount(one.terms.amount, one.terms.currency),
                 one.made_by or "", ", ".join(map(_attempt, transactions[one.id])), shown_time(one.created_at))
                for one in orders
            ],
        ),
        Section(
            "Payment links", ("Link", "Reference", "Status", "Amount", "Created", "Ends"),
            [
                (one.id, one.terms.merchant_order_id, one.status.value, _amount(one.terms.amount, one.terms.currency),
                 shown_time(one.created_at), shown_time(one.ends_at))
                for one in newest_links(db, _SHOWN)
            ],
        ),
        Section(
            "Webhooks", ("Receiver", "Order", "State", "Attempts", "Latest answer", "Next attempt"),
            [
                (one.delivery.receiver, StatusChanged.from_wire(one.delivery.body).order_id, one.delivery.state, str(one.delivery.attempts),
                 one.attempts[-1].text if one.attempts else "", shown_time(one.delivery.due_at))
                for one in latest_deliveries(db, [SENDER], _SHOWN)
            ],
        ),
    )  # fmt: skip


def _attempt(transaction: StoredTransaction) -> str:
    shown = transaction.shown
    details = shown.payment_method_details
    card = details.truncated_pan if details else None
    return f"{card or shown.payment_method or ''} {shown.status}"


def _amount(amount: int, currency: str) -> str:
    return f"{amount_with_decimals(amount, currency)} {currency}"
