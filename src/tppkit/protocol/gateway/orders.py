"""Orders and transactions. Source: gateway document, sections 2.2 to 2.4 and 2.7.

A class whose name ends in `Request` is what a merchant sends; the other classes are answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

from pydantic import ConfigDict, Field, WithJsonSchema

from tppkit.protocol.gateway.card_data import Cvc, Expiry, ReceiverNumber
from tppkit.protocol.gateway.states import OrderStatus, TransactionStatus
from tppkit.protocol.gateway.values import (
    Address,
    Amount,
    Country,
    Currency,
    Duration,
    GatewayModel,
    HolderName,
    MethodNames,
    PageAddress,
    Private,
    Reference,
    RequestBody,
    Text,
    Timestamp,
    Uuid,
)
from tppkit.protocol.wire import EmptyArrayAsObject, NullAsEmpty, known, rule

CREDIT_CARD = "credit-card"
AFT = "aft"
CARD_ACCOUNT = "card-account"
RECURRING = "recurring"
BILLING = "billing"
IS_TEST, IS_REFUND = "is-test", "is-refund"


class CaptureMode(StrEnum):
    """When a reserved amount is captured; a transaction without it is a sale."""

    MANUAL = "manual"
    DELAYED = "delayed"


class OneClickType(StrEnum):
    """Which of a series of one-click payments a transaction is."""

    FIRST = "first"
    ONE_CLICK = "one-click"


class CreditDebit(StrEnum):
    """Whether money is received or goes out."""

    CREDIT = "credit"
    DEBIT = "debit"


class WireName(NamedTuple):
    """A field that requests and answers name differently.

    Attributes:
        field: its name here.
        request: its name in a request.
        answer: its name in an answer.
    """

    field: str
    request: str
    answer: str


# Sections 2.4 and 4: external 3-D Secure values. Here a name cannot begin with a digit.
EXTERNAL_NAMES = (
    WireName("cavv", "cavv", "authenticationValue"),
    WireName("three_ds_version", "3ds_version", "protocolVersion"),
    WireName("three_ds_method_used", "3ds_method_used", "methodUsed"),
    WireName("ds_transaction_id", "ds_transaction_id", "dsTransID"),
)
_IN_ANSWERS = {name.field: name.answer for name in EXTERNAL_NAMES}


_Flag = Annotated[
    bool | Any, rule(lambda value: isinstance(value, bool), "not a boolean"), WithJsonSchema({"type": "boolean"})
]


class ExternalAuthentication(GatewayModel):
    """Results of 3-D Secure that was done elsewhere, as answers show them (assumption external-value-types)."""

    model_config = ConfigDict(alias_generator=lambda field: _IN_ANSWERS[field])

    cavv: Private = None
    three_ds_version: Text | None = None
    three_ds_method_used: _Flag | None = None
    ds_transaction_id: Text | None = None


class AniResults(GatewayModel):
    """The result of an account name inquiry; `ani_results` in `payments.py` makes it."""

    status: str
    status_description: str | None = None
    match: str | None = None
    match_description: str | None = None


class PaymentMethodDetails(GatewayModel):
    """Details of a card payment. `cvc` and `receiver_account_number` are in requests only."""

    setup_token: Uuid | None = Field(default=None, repr=False)
    vault_token: Uuid | None = Field(default=None, repr=False)
    truncated_pan: str | None = None
    card_expiry: Expiry | None = None
    cardholder_name: Annotated[HolderName | None, Field(repr=False)] = None
    liability_shift: bool | None = None
    one_click_type: Annotated[OneClickType | str, Field(union_mode="left_to_right"), known(OneClickType)] | None = None
    first_transaction_id: Uuid | None = None
    cvc: Cvc | None = None
    recurring_type: Text | None = None
    schedule_type: Text | None = None
    first_network_transaction_id: Text | None = None
    network_transaction_id: Text | None = None
    approval_code: str | None = None
    authorization_iso_response_code: str | None = None
    receiver_account_number: ReceiverNumber | None = None
    receiver_account_number_type: Text | None = None
    ani_results: AniResults | None = None
    external_authentication_details: ExternalAuthentication | None = None


class TransactionRequest(GatewayModel):
    """The payment method of a new order, chosen by the merchant."""

    is_request = True

    payment_method: Text | None = None
    capture_mode: Annotated[CaptureMode | str, Field(union_mode="left_to_right"), known(CaptureMode)] | None = None
    expiration_period: Duration | None = None
    payment_method_details: PaymentMethodDetails | None = None


class Event(GatewayModel):
    """What happened to a transaction; `occurred` at the source, `noticed` by the gateway."""

    event: str
    id: Uuid | None = None
    occurred: Timestamp | None = None
    noticed: Timestamp | None = None
    source: str | None = None


class Outcome(GatewayModel):
    """The result of processing; its status is not that of the transaction."""

    status: str | None = None
    response_code: str | None = None
    response_code_description: str | None = None


class Outcomes(GatewayModel):
    """Results of a transaction by what was done."""

    processing: Outcome | None = None


class OrderTransaction(TransactionRequest, title="Transaction"):
    """A payment attempt."""

    is_request = False

    id: Uuid
    status: Annotated[TransactionStatus | str, Field(union_mode="left_to_right"), known(TransactionStatus)]
    order_id: Uuid | None = None
    created: Timestamp | None = None
    currency: Currency | None = None
    amount: Amount | None = None
    credit_debit: Annotated[CreditDebit | str, Field(union_mode="left_to_right"), known(CreditDebit)] | None = None
    is_capturable: bool | None = None
    transaction_type: str | None = None
    payment_method_brand: str | None = None
    payment_url: Annotated[str | None, Field(repr=False)] = None
    events: Annotated[tuple[Event, ...], NullAsEmpty] = ()
    outcomes: Outcomes | None = None
    capture_of_transaction_id: Uuid | None = None
    refund_of_transaction_id: Uuid | None = None


class Customer(GatewayModel):
    """The customer; what banks and card networks assess risk by."""

    is_open = True  # section 2.2: full structure not shown

    merchant_customer_id: Reference | None = None
    email_address: Private = None
    first_name: Private = None
    last_name: Private = None
    address_type: Text | None = None
    address: Private = None
    postal_code: Private = None
    city: Private = None
    state: Text | None = None
    country: Country | None = None
    locale: Text | None = None
    phone_numbers: Annotated[Annotated[tuple[Text, ...], Field(strict=False)] | None, Field(repr=False)] = None
    ip_address: Private = None


class OrderTerms(GatewayModel):
    """Fields of an order that a merchant sends and reads again."""

    currency: Currency
    amount: Amount
    merchant_order_id: Reference | None = None
    merchant_name: Text | None = None
    description: Text | None = None
    expiration_period: Duration | None = None
    payment_methods: MethodNames | None = None
    return_url: PageAddress | None = None
    failure_url: PageAddress | None = None
    webhook_url: Annotated[Address | None, Field(repr=False)] = None
    customer: Customer | None = None
    client: Annotated[Mapping[str, Any] | None, EmptyArrayAsObject] = None
    extra: Annotated[Mapping[str, Any] | None, EmptyArrayAsObject, Field(repr=False)] = None


class OrderRequest(OrderTerms, RequestBody):
    """The body that creates an order. `payments.check_order` has the rules that join fields.

    Example:
        OrderRequest(currency="EUR", amount=1250, transactions=[TransactionRequest(payment_method="credit-card")])
    """

    transactions: Annotated[tuple[TransactionRequest, ...], Field(strict=False, max_length=1)] | None = None

    @property
    def transaction(self) -> TransactionRequest | None:
        """The transaction, or None if the customer chooses on the hosted page."""
        return self.transactions[0] if self.transactions else None


class Order(OrderTerms):
    """An order with its payment attempts. `delivery_state` in `payments.py` decides whether to deliver."""

    id: Uuid
    status: Annotated[OrderStatus | str, Field(union_mode="left_to_right"), known(OrderStatus)]
    project_id: Uuid | None = None
    merchant_id: Uuid | None = None
    flags: Annotated[tuple[str, ...], NullAsEmpty] = ()
    created: Timestamp | None = None
    modified: Timestamp | None = None
    completed: Timestamp | None = None
    transactions: Annotated[tuple[OrderTransaction, ...], NullAsEmpty] = ()
    order_url: Annotated[str | None, Field(repr=False)] = None
    redirect_url: Annotated[str | None, Field(repr=False)] = None  # assumption authenticate-answer
    refunded_amount: Amount | None = None
    refund_of_order_id: Uuid | None = None
    refund_orders: tuple[Uuid, ...] | None = None
    capture_of_order_id: Uuid | None = None
    void_of_order_id: Uuid | None = None
    chargeback_of_order_id: Uuid | None = None
    chargeback_orders: tuple[Uuid, ...] | None = None
    reversal_of_order_id: Uuid | None = None
    reversal_orders: tuple[Uuid, ...] | None = None
    related_order_id: Uuid | None = None
    related_orders: tuple[Uuid, ...] | None = None
    related_payment_link_id: Uuid | None = None


class Refund(GatewayModel):
    """A refund order in the list of refunds."""

    id: Uuid
    amount: Amount
    currency: Currency
    status: Annotated[OrderStatus | str, Field(union_mode="left_to_right")]  # known values are not shown
    created: Timestamp | None = None
    completed: Timestamp | None = None
    description: str | None = None
    flags: Annotated[tuple[str, ...], NullAsEmpty] = ()
    merchant_order_id: str | None = None
    refund_of_order_id: Uuid | None = None


class LinkedOrder(NamedTuple):
    """How an order that was made from another names it.

    Attributes:
        field: the field of the new order with the id of the original one; `related_order_id` has it too.
        listed: the field of the original order that lists such orders, or None; `related_orders` lists all of them.
        credit_debit: the direction of the money, of the new order's transaction.
        transaction_field: the field of that transaction with the id of the original one, or None.
        flags: of the new order.
    """

    field: str
    listed: str | None
    credit_debit: CreditDebit
    transaction_field: str | None = None
    flags: tuple[str, ...] = ()


# Sections 2.2 and 2.3; for directions, assumption linked-orders.
LINKED_ORDERS: Mapping[str, LinkedOrder] = {
    "capture": LinkedOrder("capture_of_order_id", None, CreditDebit.CREDIT, "capture_of_transaction_id"),
    "void": LinkedOrder("void_of_order_id", None, CreditDebit.DEBIT),
    "refund": LinkedOrder(
        "refund_of_order_id", "refund_orders", CreditDebit.DEBIT, "refund_of_transaction_id", flags=(IS_REFUND,)
    ),
    "chargeback": LinkedOrder("chargeback_of_order_id", "chargeback_orders", CreditDebit.DEBIT),
    "reversal": LinkedOrder("reversal_of_order_id", "reversal_orders", CreditDebit.CREDIT),
}
