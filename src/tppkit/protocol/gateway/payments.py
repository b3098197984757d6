"""Rules for orders and card payments. Source: gateway document, sections 3.5, 4.1, 4.2, 4.5 and 6.3."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Literal, NamedTuple

from tppkit.errors import Finding, LocalProtocolError, Severity
from tppkit.protocol.gateway.bodies import AuthenticateRequest, CardRequest
from tppkit.protocol.gateway.card_data import is_luhn_number, is_pan
from tppkit.protocol.gateway.orders import (
    BILLING,
    CARD_ACCOUNT,
    CREDIT_CARD,
    EXTERNAL_NAMES,
    LINKED_ORDERS,
    RECURRING,
    AniResults,
    CaptureMode,
    CreditDebit,
    Customer,
    ExternalAuthentication,
    OneClickType,
    Order,
    OrderRequest,
    OrderTransaction,
    PaymentMethodDetails,
)
from tppkit.protocol.gateway.states import ORDER, OrderStatus, SetupTokenState, TransactionStatus

SETUP_TOKEN_LIFETIME = timedelta(seconds=300)  # section 8, from the creation of the order
_FAILED = (OrderStatus.CANCELLED, OrderStatus.EXPIRED, OrderStatus.ERROR)
ANI_BRAND = "visa"  # assumption name-inquiry

# Section 4.1. fmt: off
_STATES = {
    "CA": "AB BC MB NB NL NS NT NU ON PE QC SK YT",
    "US": """
        AA AE AK AL AP AR AZ CA CO CT DC DE FL GA HI IA ID IL IN KS KY LA MA MD ME MI MN MO MS MT NC ND NE NH NJ NM NV
        NY OH OK OR PA RI SC SD TN TX UT VA VT WA WI WV WY
    """,
}
# fmt: on
STATES: Mapping[str, frozenset[str]] = MappingProxyType(
    {country: frozenset(codes.split()) for country, codes in _STATES.items()}
)
_ADDRESS = ("first_name", "last_name", "address_type", "address", "postal_code", "city", "country")

# Section 3.5.
ANI_STATUS: Mapping[str, str] = MappingProxyType(
    {"00": "performed", "01": "requested but not performed", "02": "requested but issuer does not support it"}
)
ANI_MATCH: Mapping[str, str] = MappingProxyType({"01": "full match", "50": "partial match", "99": "no match"})


class DeliveryState(NamedTuple):
    """Whether to deliver an order.

    Attributes:
        delivery: what to do.
        reason: why, as a text that may change.

    Example:
        if client.delivery_state(order_id).delivery == "deliver":
            ship(order_id)
    """

    delivery: Literal["deliver", "wait", "do-not-deliver"]
    reason: str


def is_paid(order: Order, *, own_checkout: bool) -> bool:
    """Whether the customer has paid, also after a void, a refund or a chargeback: `delivery_state` says whether to deliver.

    Args:
        order: as retrieved from the gateway.
        own_checkout: the card was paid in the merchant's own checkout: the transaction counts, because the order can stay
            processing up to 60 minutes longer. Otherwise, on the hosted page and by links, the order counts.

    Example:
        order = client.order(order_id)
        is_paid(order, own_checkout=True)

    Source: section 6.3.
    """
    if is_linked(order):
        return False  # a refund is completed too
    if not own_checkout:
        return order.status == OrderStatus.COMPLETED
    if len(order.transactions) != 1 or order.transactions[0].credit_debit == CreditDebit.DEBIT:
        return False
    return order.transactions[0].status == TransactionStatus.ACCEPTED


def is_linked(order: Order) -> bool:
    """Whether the gateway made the order from another one, as it does for captures and refunds."""
    return any(getattr(order, link.field) is not None for link in LINKED_ORDERS.values())


def delivery_state(order: Order, *related: Order, own_checkout: bool) -> DeliveryState:
    """Decide whether to deliver an order: it is paid, and the money was not released or returned in full, or charged back.

    Args:
        order: as retrieved from the gateway.
        related: all orders that were made from it.
        own_checkout: see `is_paid`.

    Source: sections 3.4 and 6.3; assumption delivery-state.
    """
    if is_linked(order):
        return DeliveryState("do-not-deliver", "it was made from another order")
    if not is_paid(order, own_checkout=own_checkout):
        is_final = order.status in ORDER.final
        return DeliveryState("do-not-deliver" if is_final else "wait", f"not paid: it is {order.status}")
    sums = Counter[str]()
    for one in related:
        kind = next((kind for kind, link in LINKED_ORDERS.items() if getattr(one, link.field) is not None), "")
        if kind in ("capture", "reversal") and one.status not in (OrderStatus.COMPLETED, *_FAILED):
            return DeliveryState("wait", f"a {kind} is {one.status}")
        if one.status not in _FAILED:
            sums[kind] += one.amount
    captured, refunded = sums["capture"], max(sums["refund"], order.refunded_amount or 0)
    accepted = [one for one in order.transactions if one.status == TransactionStatus.ACCEPTED]
    reserved = next((one for one in accepted if one.capture_mode is not None and not captured), None)
    has_ended = reserved and not reserved.is_capturable and reserved.capture_mode != CaptureMode.DELAYED
    for holds, reason in (
        (reserved and 0 < order.amount <= sums["void"], "the whole amount was voided"),
        (has_ended, "nothing was captured, and the authorisation has ended"),
        (sums["chargeback"] > sums["reversal"], "the payment was charged back"),
        (0 < (captured or order.amount) <= refunded, "the whole amount was refunded"),
    ):
        if holds:
            return DeliveryState("do-not-deliver", reason)
    return DeliveryState("deliver", "authorised: capture it" if reserved else "paid")


def check_order(order: OrderRequest) -> None:
    """Check the rules that join fields of a new order.

    Raises:
        LocalProtocolError: `one-click.cvc`, `one-click.card`, `one-click.recurring`, `recurring.incomplete`, `order.method`,
            `aft.receiver`, `aft.address`, `aft.state`.
    """
    details = order.transaction.payment_method_details if order.transaction else None
    if order.transaction is None or details is None:
        return
    special = is_aft(details) or details.one_click_type is not None or is_recurring(details)
    if special and order.transaction.payment_method != CREDIT_CARD:
        raise LocalProtocolError("order.method", f"one-click, recurring and AFT need the payment method {CREDIT_CARD}")
    _check_series(details)
    if is_aft(details):
        _check_aft(details, order.customer)


def is_recurring(details: PaymentMethodDetails) -> bool:
    """Whether it belongs to a recurring series (assumption recurring-place)."""
    return details.recurring_type is not None or details.first_network_transaction_id is not None


def _check_series(details: PaymentMethodDetails) -> None:
    if is_recurring(details):
        if details.recurring_type != RECURRING:
            raise LocalProtocolError("recurring.incomplete", f"a series needs recurring_type {RECURRING}")
        if details.one_click_type is not None:
            raise LocalProtocolError("one-click.recurring", "a payment is one-click or recurring, not both")
    if details.one_click_type == OneClickType.ONE_CLICK:
        if (details.vault_token is None) == (details.first_transaction_id is None):
            raise LocalProtocolError("one-click.card", "one-click needs one of vault_token and first_transaction_id")
        if details.cvc is None:
            raise LocalProtocolError(
                "one-click.cvc", "one-click needs the cvc every time", clause="gateway document 3.5 rule 3"
            )
    elif any(value is not None for value in (details.vault_token, details.first_transaction_id, details.cvc)):
        raise LocalProtocolError(
            "one-click.card",
            f"vault_token, first_transaction_id and cvc are for one_click_type {OneClickType.ONE_CLICK} only",
        )


def shown_details(
    details: PaymentMethodDetails, *, vault_token: str | None, order_status: OrderStatus
) -> PaymentMethodDetails:
    """The details as answers show them: the card that a first transaction stored appears on the completed order.

    Args:
        details: as the merchant sent them, with what the payment added.
        vault_token: of the card that the transaction was paid with, if it was.
        order_status: the order's status now; it can follow that of the transaction later.

    Source: section 3.5 rule 1.
    """
    if details.one_click_type != OneClickType.FIRST:
        return details
    shown = vault_token if order_status == OrderStatus.COMPLETED else None
    return details.model_copy(update={"vault_token": shown})


def require_one_click_card(first: OrderTransaction | None) -> None:
    """Check that a stored card can be used for one-click: an accepted first transaction stored it (assumption one-click-card).

    Raises:
        LocalProtocolError: `one-click.card`.
    """
    details = first.payment_method_details if first and first.status == TransactionStatus.ACCEPTED else None
    if details is None or details.one_click_type != OneClickType.FIRST:
        raise LocalProtocolError("one-click.card", "no accepted first one-click transaction stored this card")


def require_same_card(details: PaymentMethodDetails | None, *, paid_with: str | None, vault_token: str) -> None:
    """Check that a one-click transaction is authenticated with the card that its order was created with.

    Args:
        details: of the transaction.
        paid_with: the vault token of that card, in lower case.
        vault_token: that of the request.

    Raises:
        LocalProtocolError: `one-click.card`.

    Source: section 3.5 rule 3; assumption one-click-card.
    """
    if details and details.one_click_type == OneClickType.ONE_CLICK and vault_token.lower() != paid_with:
        raise LocalProtocolError("one-click.card", "a one-click payment keeps the card that its order was created with")


def require_recurring(details: PaymentMethodDetails | None) -> None:
    """Check that a transaction can be initiated without the customer: it has both fields of a series (assumption recurring-place).

    Raises:
        LocalProtocolError: `recurring.incomplete`.

    Source: section 4.1.
    """
    if details is None or None in (details.recurring_type, details.first_network_transaction_id):
        raise LocalProtocolError(
            "recurring.incomplete", "initiate needs a transaction with recurring_type and first_network_transaction_id"
        )


def is_name_inquiry(details: PaymentMethodDetails, *, amount: int, brand: str, cardholder_name: str | None) -> bool:
    """Whether an account name inquiry runs: a first transaction of amount 0, the one network, and a name.

    Source: section 3.5 rule 5; assumption name-inquiry.
    """
    return details.one_click_type == OneClickType.FIRST and not amount and brand == ANI_BRAND and bool(cardholder_name)


def ani_results(status: str, match: str | None = None) -> AniResults:
    """The result of an account name inquiry, by the codes of `ANI_STATUS` and `ANI_MATCH`."""
    return AniResults(
        status=status,
        status_description=ANI_STATUS[status],
        match=match,
        match_description=None if match is None else ANI_MATCH[match],
    )


def is_aft(details: PaymentMethodDetails) -> bool:
    """Whether it is an account funding transaction: it names a receiver."""
    return details.receiver_account_number is not None or details.receiver_account_number_type is not None


def require_aft_enabled(details: PaymentMethodDetails, *, enabled: bool) -> None:
    """Check that the account may fund accounts.

    Raises:
        LocalProtocolError: `aft.not-enabled`.
    """
    if is_aft(details) and not enabled:
        raise LocalProtocolError("aft.not-enabled", "the account is not enabled for account funding transactions")


def _check_aft(details: PaymentMethodDetails, customer: Customer | None) -> None:
    if details.receiver_account_number_type != CARD_ACCOUNT or not is_pan(details.receiver_account_number):
        raise LocalProtocolError(  # assumption aft-receiver
            "aft.receiver",
            f"a receiver needs receiver_account_number_type {CARD_ACCOUNT} and a number of 12 to 19 digits",
        )
    missing = [name for name in _ADDRESS if not (getattr(customer, name, None) or "").strip()]
    if customer is None or missing or customer.address_type != BILLING:
        wanted = ", ".join(missing) or f"address_type {BILLING}"
        raise LocalProtocolError("aft.address", f"account funding needs the customer's {wanted}")
    states = STATES.get(customer.country or "")
    if states is not None and customer.state not in states:
        raise LocalProtocolError("aft.state", f"the customer's state is not one of {customer.country}")


def external_authentication(request: AuthenticateRequest, *, own_checkout: bool) -> ExternalAuthentication | None:
    """The 3-D Secure values of a request as answers show them, or None if there are none.

    Args:
        request: the body.
        own_checkout: the order was created with one card transaction.

    Raises:
        LocalProtocolError: `external-authentication.incomplete`, `external-authentication.hosted`.

    Source: section 4.5.
    """
    missing = [name.request for name in EXTERNAL_NAMES if getattr(request, name.field) is None]
    if len(missing) == len(EXTERNAL_NAMES):
        return None
    if missing:
        raise LocalProtocolError(
            "external-authentication.incomplete", f"{', '.join(missing)} missing; all four or none"
        )
    if not own_checkout:
        raise LocalProtocolError(
            "external-authentication.hosted", "external 3-D Secure works for cards in an own checkout only"
        )
    return ExternalAuthentication(**{name.field: getattr(request, name.field) for name in EXTERNAL_NAMES})


def require_setup_token(state: SetupTokenState, *, order_created: datetime, at: datetime) -> None:
    """Check that a setup token can store a card: once, up to 300 seconds after the order, inclusive.

    Raises:
        LocalProtocolError: `setup-token.used`, `setup-token.expired`.

    Source: section 4.2.
    """
    if state is SetupTokenState.USED:
        raise LocalProtocolError("setup-token.used", "the setup token has stored a card")
    if at - order_created > SETUP_TOKEN_LIFETIME:
        raise LocalProtocolError("setup-token.expired", "the order was created more than 300 seconds ago")


def check_card(card: CardRequest) -> tuple[Finding, ...]:
    """What is suspicious about a card: a warning if its check digit does not fit. The vault stores it all the same.

    Source: section 4.2, whose rule is 12 to 19 digits.
    """
    if is_luhn_number(card.pan):
        return ()
    return (Finding("card.luhn", Severity.WARNING, "the check digit of the card number does not fit"),)


def merchant_identifier(project_id: str) -> str:
    """The project id as wallet sessions need it: without hyphens. Source: section 4.4."""
    return project_id.replace("-", "")
