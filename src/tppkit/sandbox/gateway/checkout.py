"""Handlers for a merchant's backend: create an order, store a card, authenticate or initiate a transaction."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tppkit.errors import LocalProtocolError
from tppkit.protocol.gateway.bodies import AuthenticateRequest, CardRequest, InitiateRequest, VaultCard
from tppkit.protocol.gateway.card_data import detect_brands, require_unexpired, truncate_pan
from tppkit.protocol.gateway.endpoints import AUTHENTICATE, CREATE_ORDER, INITIATE, STORE_CARD
from tppkit.protocol.gateway.orders import (
    CREDIT_CARD,
    OneClickType,
    Order,
    OrderRequest,
    OrderTerms,
    PaymentMethodDetails,
)
from tppkit.protocol.gateway.payments import (
    check_order,
    external_authentication,
    require_aft_enabled,
    require_one_click_card,
    require_recurring,
    require_same_card,
    require_setup_token,
)
from tppkit.protocol.gateway.states import SETUP_TOKEN, SetupTokenTrigger
from tppkit.sandbox.cell import Answer, Handler, HostCall
from tppkit.sandbox.gateway.cipher import StoredCard
from tppkit.sandbox.gateway.orders import listed_fields, new_order, new_transaction, transaction_of_caller, write_order
from tppkit.sandbox.gateway.payments import PayingCard, attempt, require_card, store, stored_card
from tppkit.sandbox.gateway.projects import Project
from tppkit.sandbox.gateway.settings import Place
from tppkit.sandbox.gateway.tables import (
    ORDERS,
    TRANSACTIONS,
    StoredOrder,
    StoredTransaction,
    add_order,
    find_order_of_transaction,
    lock_order_of_setup_token,
    transactions_of,
)


def create_order(call: HostCall[OrderRequest]) -> Answer[Order]:
    """POST /v1/orders/."""
    body, project = call.body, call.settings.project(call.caller)
    check_order(body)
    call.settings.require_webhook_url(body.webhook_url)
    project.offered(body.payment_methods)
    request = body.transaction
    if request is None:
        order = new_order(call, listed_fields(body, OrderTerms), project)
        add_order(call.db, order)
        return _answer(call, order)
    _require_method(request.payment_method, project)
    details = request.payment_method_details or PaymentMethodDetails()
    require_aft_enabled(details, enabled=project.aft)
    paying = _one_click_card(call, details) if details.one_click_type == OneClickType.ONE_CLICK else None
    order = new_order(call, listed_fields(body, OrderTerms), project, transaction=request)
    transaction = new_transaction(call, order, request)
    add_order(call.db, order, transaction)
    if paying is None:
        return _answer(call, order, transaction)
    attempt(call, order, transaction, paying)  # now, because the security code is not stored
    return _reloaded_answer(call, order)


def store_card(call: HostCall[CardRequest]) -> Answer[VaultCard]:
    """POST /v1/cards/ of the vault. A rejected card does not use up the setup token (assumption setup-token)."""
    body, token = call.body, call.body.setup_token.lower()
    order = lock_order_of_setup_token(call.db, token)
    if order is None or order.project_id != call.caller:
        raise LocalProtocolError("setup-token.unknown", "the project has no transaction with this setup token")
    (transaction,) = [one for one in transactions_of(call.db, order.id) if one.setup_token == token]
    state = transaction.setup_state or SETUP_TOKEN.initial
    require_setup_token(state, order_created=order.created_at, at=call.at)
    require_unexpired(body.expiry, at=call.at)
    vault_token, brands = (
        store(call, StoredCard(body.pan, body.expiry, body.name), call.caller),
        detect_brands(body.pan),
    )
    TRANSACTIONS.set(call.db, replace(transaction, setup_state=SETUP_TOKEN.move(state, SetupTokenTrigger.STORED)))
    brand, truncated_pan = next(iter(brands), None), truncate_pan(body.pan)
    return Answer(VaultCard(vault_token=vault_token, truncated_pan=truncated_pan, brand=brand, brands=brands))


def authenticate(call: HostCall[AuthenticateRequest]) -> Answer[Order]:
    """POST /v1/orders/{order_id}/transactions/{transaction_id}/authenticate/."""
    order, transaction = transaction_of_caller(call)
    external = external_authentication(call.body, own_checkout=order.own_checkout)
    _require_own_checkout(order.own_checkout)
    details, paid_with = transaction.shown.payment_method_details, transaction.vault_token
    require_same_card(details, paid_with=paid_with, vault_token=call.body.vault_token)
    needs_customer = attempt(
        call, order, transaction, stored_card(call, call.caller, call.body.vault_token), external=external
    )
    answer = _reloaded_answer(call, order)
    redirect_url = call.settings.page_url(Place.TRANSACTION, transaction.page_token) if needs_customer else None
    return replace(answer, value=answer.value.model_copy(update={"redirect_url": redirect_url}))


def initiate(call: HostCall[InitiateRequest]) -> Answer[Order]:
    """POST /v1/orders/{order_id}/transactions/{transaction_id}/initiate/, without the customer, so without authentication."""
    order, transaction = transaction_of_caller(call)
    require_recurring(transaction.shown.payment_method_details)
    attempt(call, order, transaction, stored_card(call, call.caller, call.body.vault_token), is_authenticated=True)
    return _reloaded_answer(call, order)


HANDLERS: tuple[Handler[Any, Any], ...] = (
    Handler(CREATE_ORDER, create_order),
    Handler(AUTHENTICATE, authenticate),
    Handler(INITIATE, initiate),
)
VAULT_HANDLERS: tuple[Handler[Any, Any], ...] = (Handler(STORE_CARD, store_card),)


def _answer(call: HostCall[Any], order: StoredOrder, *transactions: StoredTransaction) -> Answer[Order]:
    """Return the answer for an order without linked orders, and the time of its next event."""
    due = filter(None, (order.due_at, *(one.due_at for one in transactions)))
    return Answer(write_order(call.settings, order, transactions, (), at=call.at), due_at=min(due, default=None))


def _reloaded_answer(call: HostCall[Any], order: StoredOrder) -> Answer[Order]:
    answer = _answer(call, ORDERS.find(call.db, order.id) or order, *transactions_of(call.db, order.id))
    return replace(answer, delivers=True)


def _one_click_card(call: HostCall[Any], details: PaymentMethodDetails) -> PayingCard:
    """Return the card of a one-click payment, which an accepted first payment stored (assumption one-click-card)."""
    first_id, vault_token = details.first_transaction_id, details.vault_token
    if vault_token is not None:
        first_id = require_card(call, call.caller, vault_token).one_click_id
    order = None if first_id is None else find_order_of_transaction(call.db, first_id.lower())
    is_own = order is not None and order.project_id == call.caller
    firsts = transactions_of(call.db, order.id) if order is not None and is_own else ()
    first = next((one for one in firsts if one.id == (first_id or "").lower()), None)
    require_one_click_card(None if first is None else first.shown)
    return stored_card(call, call.caller, vault_token or (first and first.vault_token) or "")


def _require_method(method: str | None, project: Project) -> None:
    if method not in project.payment_methods:  # assumption transaction-method
        raise LocalProtocolError(
            "order.method", f"the payment method of a transaction is one of {', '.join(project.payment_methods)}"
        )


def _require_own_checkout(own_checkout: bool) -> None:
    if not own_checkout:
        raise LocalProtocolError(
            "order.method", f"only a transaction that the order was created with, by {CREDIT_CARD}, is authenticated"
        )
