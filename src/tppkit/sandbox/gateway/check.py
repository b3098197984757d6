"""Check that the orders, transactions and payment links of the gateway agree: money, statuses, and their relations."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from tppkit.protocol.gateway.states import ORDER, AuthorisationState, LinkStatus, OrderStatus, TransactionStatus
from tppkit.sandbox.gateway.card_tables import left_over_cards
from tppkit.sandbox.gateway.link_tables import LINKS
from tppkit.sandbox.gateway.tables import ORDERS, TRANSACTIONS

_ORDERS, _TRANSACTIONS, _LINKS = select(ORDERS.table), select(TRANSACTIONS.table), select(LINKS.table)


class _Attempt(NamedTuple):
    status: str
    amount: int
    row: Any


def check_gateway(db: Connection) -> list[str]:
    """Return the differences, including open orders, transactions and links without a due time."""
    attempts: defaultdict[str, list[_Attempt]] = defaultdict(list)
    for row in db.execute(_TRANSACTIONS):
        shown = json.loads(bytes(row.shown))
        attempts[row.order_id].append(_Attempt(shown["status"], shown["amount"], row))
    orders = {row.id: row for row in db.execute(_ORDERS)}
    made: defaultdict[str, Counter[str]] = defaultdict(Counter)
    by_link: defaultdict[str, list[Any]] = defaultdict(list)
    for order in orders.values():
        if order.made_by is not None:
            made[order.original_id][order.made_by] += order.amount
        elif order.link_id is not None:
            by_link[order.link_id].append(order)
    links = {row.id: row for row in db.execute(_LINKS)}
    found = [f"an order was made from {id_}, which does not exist" for id_ in made if id_ not in orders]
    found += [f"an order is of the link {id_}, which does not exist" for id_ in by_link if id_ not in links]
    found += [f"a transaction is of the order {id_}, which does not exist" for id_ in attempts if id_ not in orders]
    found += [f"the card {token} was to be deleted when its payment was decided" for token in left_over_cards(db)]
    for order in orders.values():
        found += [f"order {order.id}: {text}" for text in _of_order(order, attempts[order.id], made[order.id])]
    found += [f"payment link {link.id}: {text}" for link in links.values() for text in _of_link(link, by_link[link.id])]
    return found


def _of_order(order: Any, attempts: Sequence[_Attempt], made: Mapping[str, int]) -> Iterator[str]:
    status, counts = OrderStatus(order.status), Counter(one.status for one in attempts)
    accepted, is_open = counts[TransactionStatus.ACCEPTED], counts[TransactionStatus.NEW] > 0
    if (status is OrderStatus.COMPLETED) != (order.completed_at is not None):
        yield f"it is {status}, which its time of completion contradicts"
    if any(one.amount != order.amount for one in attempts):
        yield "a transaction has another amount"
    if order.made_by is not None:
        if (status, accepted, len(attempts)) != (OrderStatus.COMPLETED, 1, 1):
            yield f"it was made by a {order.made_by}, and is {status} with {len(attempts)} transactions"
        return
    lags = status is OrderStatus.PROCESSING and order.own_checkout
    is_paid = status in (OrderStatus.COMPLETED, OrderStatus.SEE_TRANSACTIONS)
    if accepted > 1 or ((accepted == 1) != is_paid and not (accepted and lags)):
        yield f"it is {status}, and {accepted} transactions are accepted"
    if is_open and status in ORDER.final - {OrderStatus.SEE_TRANSACTIONS}:
        yield f"it is {status}, and a transaction is open"
    if status not in ORDER.final and order.due_at is None:
        yield f"it is {status} forever"
    waiting = (TransactionStatus.NEW, AuthorisationState.OPEN)
    if any(one.row.due_at is None and (one.status in waiting or one.row.state in waiting) for one in attempts):
        yield "a transaction is open forever"
    held = [one.row for one in attempts if one.row.authorised is not None]
    if len(held) != accepted:
        yield f"{accepted} transactions are accepted, and {len(held)} authorised"
    if not held and made:
        yield "others were made from it, and nothing was authorised"
    for row in held:
        yield from _of_money(row, made)


def _of_money(row: Any, made: Mapping[str, int]) -> Iterator[str]:
    is_sale, state = row.capture_mode is None, AuthorisationState(row.state)
    if not 0 <= row.captured <= row.captured + row.voided <= row.authorised:
        yield f"{row.captured} was captured and {row.voided} voided of {row.authorised}"
    if not 0 <= row.refunded <= row.refunded + row.charged_back <= row.captured:
        yield f"{row.refunded} was refunded and {row.charged_back} charged back of {row.captured}"
    if (row.captured and state is not AuthorisationState.CAPTURED) or (is_sale and row.captured != row.authorised):
        yield f"it is {state}, and {row.captured} of {row.authorised} was captured"
    made = {**made, "chargeback": made.get("chargeback", 0) - made.get("reversal", 0)}
    sums = {
        "capture": 0 if is_sale else row.captured,
        "void": row.voided,
        "refund": row.refunded,
        "chargeback": row.charged_back,
    }
    for kind, total in sums.items():
        if made.get(kind, 0) != total:
            yield f"the {kind} orders have {made.get(kind, 0)}, and the transaction {total}"


def _of_link(link: Any, orders: Sequence[Any]) -> Iterator[str]:
    paid = [order.id for order in orders if order.status == OrderStatus.COMPLETED]
    open_ = [order.id for order in orders if order.status not in ORDER.final]
    status = LinkStatus(link.status)
    if paid != ([] if link.completed_order_id is None else [link.completed_order_id]):
        yield f"{len(paid)} orders are completed, but not the one that it names"
    if (status is LinkStatus.COMPLETED) != bool(paid) or (status is LinkStatus.PROCESSING) != bool(open_):
        yield f"it is {status}, {len(paid)} orders are completed and {len(open_)} open"
    if status in (LinkStatus.NEW, LinkStatus.ALL_UNSUCCESSFUL) and link.due_at is None:
        yield f"it is {status} forever"
    if (status is LinkStatus.NEW and orders) or (status is LinkStatus.ALL_UNSUCCESSFUL and not orders):
        yield f"it is {status} with {len(orders)} orders"
