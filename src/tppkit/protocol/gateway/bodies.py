"""Other bodies: captures, voids, authentication, vault, payment links, search, wallet. Source: gateway document, sections 2 and 4."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from tppkit.protocol.gateway.card_data import Cvc, Expiry, Pan
from tppkit.protocol.gateway.orders import EXTERNAL_NAMES, Order
from tppkit.protocol.gateway.states import LinkStatus
from tppkit.protocol.gateway.values import (
    Address,
    Amount,
    Currency,
    Domain,
    Duration,
    GatewayModel,
    HolderName,
    HttpsAddress,
    MethodNames,
    PageAddress,
    Private,
    Reference,
    RequestBody,
    Text,
    Timestamp,
    Uuid,
)
from tppkit.protocol.wire import NullAsEmpty, known

_IN_REQUESTS = {name.field: name.request for name in EXTERNAL_NAMES}


class CaptureRequest(RequestBody):
    """A capture of part of an authorisation."""

    amount: Amount
    description: Text


class VoidRequest(RequestBody):
    """A void of part of an authorisation (assumption void-description)."""

    amount: Amount
    description: Text | None = None


class RefundRequest(RequestBody):
    """A refund (assumption gateway-extensions)."""

    amount: Amount
    description: Text | None = None


class InitiateRequest(RequestBody):
    """Continues a recurring series with a stored card."""

    vault_token: Annotated[Uuid, Field(repr=False)]


class AuthenticateRequest(RequestBody):
    """Pays with a stored card; without the four values of external 3-D Secure, the customer may have to go to `redirect_url`."""

    is_open = True  # section 4.5: request fields without external values not shown
    model_config = ConfigDict(alias_generator=lambda field: _IN_REQUESTS.get(field, field))

    vault_token: Annotated[Uuid, Field(repr=False)]
    cvc: Cvc
    cavv: Private = None
    three_ds_version: Text | None = None
    three_ds_method_used: bool | None = None
    ds_transaction_id: Text | None = None


class CardRequest(RequestBody):
    """A card to store.

    Example:
        CardRequest(pan=CardSecret("4111111111111111"), expiry=CardSecret("122030"), setup_token=token)
    """

    pan: Pan
    expiry: Expiry
    setup_token: Annotated[Uuid, Field(repr=False)]
    name: Annotated[HolderName | None, Field(repr=False)] = None


class VaultCard(GatewayModel):
    """A stored card."""

    vault_token: Annotated[Uuid, Field(repr=False)]
    truncated_pan: str
    brand: str | None = None
    brands: Annotated[tuple[str, ...], NullAsEmpty] = ()


class PaymentLinkRequest(RequestBody):
    """The body that creates a payment link (assumption gateway-extensions)."""

    merchant_order_id: Reference
    amount: Amount
    currency: Currency
    description: Text | None = None
    payment_methods: MethodNames | None = None
    expiration_period: Duration | None = None
    return_url: PageAddress | None = None
    webhook_url: Annotated[Address | None, Field(repr=False)] = None


class PaymentLink(PaymentLinkRequest):
    """A payment link; `orders` has ids by order status."""

    is_request = False

    id: Uuid
    status: Annotated[LinkStatus | str, Field(union_mode="left_to_right"), known(LinkStatus)]
    project_id: Uuid | None = None
    merchant_id: Uuid | None = None
    payment_url: Annotated[str | None, Field(repr=False)] = None
    reason: str | None = None
    completed_order_id: Uuid | None = None
    orders: Mapping[str, tuple[Uuid, ...]] | None = None
    created: Timestamp | None = None
    modified: Timestamp | None = None
    completed: Timestamp | None = None


class SearchRequest(RequestBody):
    """A search for orders; `search.page_of` has the rules of paging."""

    query: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    size: Annotated[int, Field(ge=1)] | None = None
    start: Annotated[int, Field(ge=0)] | None = None
    sort: Text | None = None
    search_after: Annotated[str, StringConstraints(min_length=1, max_length=4096)] | None = None


def _as_cursor(value: Any) -> Any:
    """A sort value as text, because `search_after` of a request is a string."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, int | float | list) else value


class SearchResult(GatewayModel):
    """A page of orders, and where the next one begins (assumption search-wrapper); a sort value that is no text is read as its JSON."""

    orders: tuple[Order, ...]
    search_after: Annotated[str, BeforeValidator(_as_cursor)] | None = None


class WalletSessionRequest(RequestBody):
    """A request to validate a wallet session; `merchant_identifier` is the project id without hyphens."""

    model_config = ConfigDict(alias_generator=to_camel)

    validation_url: HttpsAddress
    merchant_identifier: Text
    display_name: Text
    initiative_context: Domain


class WalletSession(GatewayModel):
    """What the browser completes the validation with, of any type."""

    model_config = ConfigDict(alias_generator=to_camel)

    session_data: Annotated[Any, Field(repr=False)]


# Section 4.3, in the document's order.
CSV_COLUMNS = (
    "id", "merchant_order_id", "created", "completed", "currency", "amount", "status", "transaction.id", "transaction.status",
    "transaction.payment_method", "transaction.payment_method_brand", "transaction.amount_with_decimals", "transaction.credit_debit",
    "transaction.refund_of_transaction_id", "transaction.payment_method_details.truncated_pan", "transaction.settlement_currency",
    "transaction.settlement_amount", "transaction.fee_currency", "transaction.fee_amount", "customer.merchant_customer_id",
    "merchant_id", "project_id",
)  # fmt: skip
_COLUMN_OF = {column.replace(".", "_"): column for column in CSV_COLUMNS}


class ReportRow(GatewayModel):
    """A transaction with its order, as the CSV report has it."""

    model_config = ConfigDict(alias_generator=lambda field: _COLUMN_OF[field])

    id: str
    merchant_order_id: str | None = None
    created: str | None = None
    completed: str | None = None
    currency: str
    amount: int
    status: str
    transaction_id: str
    transaction_status: str
    transaction_payment_method: str | None = None
    transaction_payment_method_brand: str | None = None
    transaction_amount_with_decimals: str | None = None
    transaction_credit_debit: str | None = None
    transaction_refund_of_transaction_id: str | None = None
    transaction_payment_method_details_truncated_pan: str | None = None
    transaction_settlement_currency: str | None = None
    transaction_settlement_amount: str | None = None
    transaction_fee_currency: str | None = None
    transaction_fee_amount: str | None = None
    customer_merchant_customer_id: str | None = None
    merchant_id: str | None = None
    project_id: str | None = None
