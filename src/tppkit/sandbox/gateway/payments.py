"""Attempts to pay: decisions of the issuer, expiry, and the resulting status of the order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from tppkit.errors import LocalProtocolError
from tppkit.protocol.gateway.authorisations import accept
from tppkit.protocol.gateway.card_data import detect_brands, is_expired, require_unexpired, truncate_pan
from tppkit.protocol.gateway.orders import (
    CaptureMode,
    ExternalAuthentication,
    OneClickType,
    Outcome,
    Outcomes,
    PaymentMethodDetails,
)
from tppkit.protocol.gateway.payments import ani_results, is_name_inquiry
from tppkit.protocol.gateway.states import (
    ORDER,
    TRANSACTION,
    OrderStatus,
    OrderTrigger,
    TransactionStatus,
    TransactionTrigger,
)
from tppkit.protocol.gateway.values import read_timestamp
from tppkit.sandbox.gateway.card_tables import CARDS, VaultRow, allow_one_click, drop_typed_card
from tppkit.sandbox.gateway.cipher import StoredCard
from tppkit.sandbox.gateway.links import follow_order
from tppkit.sandbox.gateway.orders import new_event
from tppkit.sandbox.gateway.outcomes import CARD_EXPIRED, CardOutcome, outcome_of
from tppkit.sandbox.gateway.settings import Work
from tppkit.sandbox.gateway.tables import ORDERS, TRANSACTIONS, StoredOrder, StoredTransaction, transactions_of
from tppkit.sandbox.gateway.webhooks import notify

EXPIRED = CardOutcome(False, "68", "the payment was not made in time")
_CANCELLED = CardOutcome(False, "17", "the customer cancelled")


@dataclass(frozen=True, slots=True)
class PayingCard:
    """A card that pays.

    Attributes:
        card: number, expiry and name.
        vault_token: its vault token, or None if it is not stored.
    """

    card: StoredCard
    vault_token: str | None = field(default=None, repr=False)


def require_card(work: Work, project_id: str, vault_token: str) -> VaultRow:
    """Return a project's card in the vault.

    Raises:
        LocalProtocolError: `vault-token.unknown`, also for a card of another project.
    """
    row = CARDS.find(work.db, vault_token.lower())
    if row is None or row.project_id != project_id:
        raise LocalProtocolError("vault-token.unknown", "the project has no card with this vault token")
    return row


def stored_card(work: Work, project_id: str, vault_token: str) -> PayingCard:
    """Return a project's card to begin a payment (assumption vault-token-use).

    Raises:
        LocalProtocolError: `vault-token.unknown`, `card.expired`.
    """
    paying = challenged_card(work, project_id, vault_token)
    require_unexpired(paying.card.expiry, at=work.at)
    return paying


def challenged_card(work: Work, project_id: str, vault_token: str) -> PayingCard:
    """Return a project's card to finish a payment that waited for its customer; the card may have expired since.

    Raises:
        LocalProtocolError: `vault-token.unknown`.
    """
    row = require_card(work, project_id, vault_token)
    card = work.settings.cipher.decrypt(row.sealed, project_id=project_id, vault_token=row.vault_token)
    return PayingCard(card, row.vault_token)


def store(work: Work, card: StoredCard, project_id: str, *, is_typed: bool = False) -> str:
    """Store a card in the vault of a project, and return its vault token.

    Args:
        work: the current job.
        card: number, expiry and name.
        project_id: its project.
        is_typed: store it only until the payment is decided.
    """
    vault_token = work.settings.new_uuid()
    sealed = work.settings.cipher.encrypt(card, project_id=project_id, vault_token=vault_token)
    CARDS.add(work.db, VaultRow(vault_token=vault_token, project_id=project_id, sealed=sealed, is_typed=is_typed))
    return vault_token


def attempt(
    work: Work, order: StoredOrder, transaction: StoredTransaction, paying: PayingCard, *,
    external: ExternalAuthentication | None = None, is_authenticated: bool = False,
) -> bool:  # fmt: skip
    """Ask the issuer of a card; the order is locked.

    Args:
        work: the current job.
        order: the order to pay.
        transaction: one of its open attempts.
        paying: the card.
        external: results of external 3-D Secure.
        is_authenticated: the issuer does not ask the customer, because the payment is recurring or the customer has answered.

    Returns:
        Whether the customer still has to authenticate.

    Raises:
        LocalProtocolError: `machine.no-such-move`, the transaction is decided or the order is final.
    """
    if not transaction.is_open or (transaction.due_at is not None and work.at >= transaction.due_at):
        raise LocalProtocolError("machine.no-such-move", "the transaction is decided, or its time is over")
    if order.status is OrderStatus.NEW:
        order = move_order(work, order, OrderTrigger.STARTED)
    elif order.status is not OrderStatus.PROCESSING:
        raise LocalProtocolError("machine.no-such-move", f"the order is {order.status}")
    if transaction.vault_token not in (None, paying.vault_token):
        transaction = _without_typed_card(work, transaction)  # another card pays instead
    card = paying.card
    outcome = CARD_EXPIRED if is_expired(card.expiry, at=work.at) else outcome_of(card.pan)
    brand = next(iter(detect_brands(card.pan)), None)
    given = _details(transaction)
    details = given.model_copy(
        update={
            "truncated_pan": truncate_pan(card.pan), "card_expiry": card.expiry, "cardholder_name": card.name or given.cardholder_name,
            "external_authentication_details": external,
        }
    )  # fmt: skip
    shown = transaction.shown.model_copy(update={"payment_method_details": details, "payment_method_brand": brand})
    transaction = replace(transaction, shown=shown, vault_token=paying.vault_token)
    if outcome.challenge and external is None and not is_authenticated:
        TRANSACTIONS.set(work.db, transaction)
        touch(work, order)
        return True
    decide(work, order, transaction, outcome)
    return False


def decide(work: Work, order: StoredOrder, transaction: StoredTransaction, outcome: CardOutcome) -> StoredOrder:
    """Accept or decline an open transaction, and return the updated order."""
    trigger = TransactionTrigger.ACCEPTED if outcome.approved else TransactionTrigger.DECLINED
    TRANSACTIONS.set(work.db, _decided(work, transaction, trigger, outcome))
    settled = settle_order(work, order)
    return touch(work, settled) if settled.status is order.status else settled


def expire(work: Work, transaction: StoredTransaction) -> None:
    """Decline an open transaction because its time is over."""
    TRANSACTIONS.set(work.db, _decided(work, transaction, TransactionTrigger.EXPIRED, EXPIRED))


def cancel(work: Work, order: StoredOrder) -> StoredOrder:
    """Cancel an order as the customer: open attempts are declined.

    Raises:
        LocalProtocolError: `machine.no-such-move`, also while the order lags behind its decided transaction.
    """
    transactions = transactions_of(work.db, order.id)
    if order.own_checkout and not any(one.is_open for one in transactions):
        raise LocalProtocolError("machine.no-such-move", "the payment is decided")
    for one in transactions:
        if one.is_open:
            TRANSACTIONS.set(work.db, _decided(work, one, TransactionTrigger.DECLINED, _CANCELLED))
    return move_order(work, order, OrderTrigger.CANCELLED)


def settle_order(work: Work, order: StoredOrder) -> StoredOrder:
    """Move an order to the status that follows from its transactions and the time (assumption order-moves)."""
    if order.status not in (OrderStatus.NEW, OrderStatus.PROCESSING) or order.ends_at is None:
        return order
    transactions = transactions_of(work.db, order.id)
    is_over = work.at >= order.ends_at
    open_ = [one for one in transactions if one.is_open]
    if is_over:
        for one in open_:
            expire(work, one)
    accepted = any(one.shown.status == TransactionStatus.ACCEPTED for one in transactions)
    decided_at = max((read_timestamp(one.shown.events[-1].occurred or "") for one in transactions), default=work.at)
    is_failed = order.has_one_attempt and not open_ and decided_at < order.ends_at
    if accepted:
        trigger = OrderTrigger.MIXED if open_ and not is_over else OrderTrigger.PAID
    elif is_failed:
        trigger = OrderTrigger.FAILED
    elif is_over:
        trigger = OrderTrigger.EXPIRED
    else:
        return order
    due_at = decided_at + timedelta(seconds=work.settings.project(order.project_id).lag_seconds)
    if order.own_checkout and trigger in (OrderTrigger.PAID, OrderTrigger.FAILED) and work.at < due_at:
        waiting = replace(order, due_at=due_at)
        ORDERS.set(work.db, waiting)
        return waiting
    return move_order(work, order, trigger)


def move_order(work: Work, order: StoredOrder, trigger: OrderTrigger) -> StoredOrder:
    """Change the status of an order; every change is made here.

    Raises:
        LocalProtocolError: `machine.no-such-move`.
    """
    status = ORDER.move(order.status, trigger)
    moved = replace(
        order, status=status, modified_at=work.at, due_at=None if status in ORDER.final else order.ends_at,
        completed_at=work.at if status is OrderStatus.COMPLETED else None,
    )  # fmt: skip
    ORDERS.set(work.db, moved)
    follow_order(work, moved)
    notify(work, moved)
    return moved


def touch(work: Work, order: StoredOrder) -> StoredOrder:
    """Record a change of an order that does not affect its status."""
    touched = replace(order, modified_at=work.at)
    ORDERS.set(work.db, touched)
    return touched


def _decided(
    work: Work, transaction: StoredTransaction, trigger: TransactionTrigger, outcome: CardOutcome
) -> StoredTransaction:
    shown = transaction.shown
    status = TRANSACTION.move(TransactionStatus(shown.status), trigger)
    result = Outcome(
        status=status.value, response_code=outcome.response_code, response_code_description=outcome.description
    )
    changes: dict[str, Any] = {
        "status": status, "events": (*shown.events, new_event(work, status)), "outcomes": Outcomes(processing=result),
    }  # fmt: skip
    if status is TransactionStatus.DECLINED:
        return _without_typed_card(work, replace(transaction, shown=shown.model_copy(update=changes), due_at=None))
    mode = None if shown.capture_mode is None else CaptureMode(shown.capture_mode)
    held = accept(shown.amount or 0, capture_mode=mode, expiration_period=shown.expiration_period, at=work.at)
    if shown.payment_method_details is not None:
        changes["payment_method_details"] = _accepted_details(work, transaction, outcome)
    due_at = None if mode is None else held.ends_at
    accepted = replace(transaction, shown=shown.model_copy(update=changes), authorisation=held, due_at=due_at)
    return _without_typed_card(work, accepted)


def _without_typed_card(work: Work, decided: StoredTransaction) -> StoredTransaction:
    """Delete a card that was stored only until the decision, and return the transaction without it."""
    is_dropped = decided.vault_token is not None and drop_typed_card(work.db, decided.vault_token)
    return replace(decided, vault_token=None) if is_dropped else decided


def _accepted_details(work: Work, transaction: StoredTransaction, outcome: CardOutcome) -> PaymentMethodDetails:
    details, shown = _details(transaction), transaction.shown
    changes: dict[str, Any] = {
        "approval_code": f"{int.from_bytes(work.settings.new_id().encode()) % 1_000_000:06d}",
        "authorization_iso_response_code": outcome.response_code, "network_transaction_id": work.settings.new_uuid(),
        "liability_shift": details.recurring_type is None,
    }  # fmt: skip
    amount, brand, name = shown.amount or 0, shown.payment_method_brand or "", details.cardholder_name
    if is_name_inquiry(details, amount=amount, brand=brand, cardholder_name=name):
        changes["ani_results"] = ani_results(outcome.ani_status, outcome.ani_match)
    if details.one_click_type == OneClickType.FIRST and transaction.vault_token is not None:
        allow_one_click(work.db, transaction.vault_token, transaction.id)
    return details.model_copy(update=changes)


def _details(transaction: StoredTransaction) -> PaymentMethodDetails:
    return transaction.shown.payment_method_details or PaymentMethodDetails()
