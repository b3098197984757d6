"""The payment gateway and its vault, and their endpoint rows. Source: gateway document, sections 4 and 7."""

from __future__ import annotations

from tppkit.protocol.endpoint import Auth, Endpoint, Interface, Query
from tppkit.protocol.gateway.bodies import (
    CSV_COLUMNS,
    AuthenticateRequest,
    CaptureRequest,
    CardRequest,
    InitiateRequest,
    PaymentLink,
    PaymentLinkRequest,
    RefundRequest,
    ReportRow,
    SearchRequest,
    SearchResult,
    VaultCard,
    VoidRequest,
    WalletSession,
    WalletSessionRequest,
)
from tppkit.protocol.gateway.errors import REFUSALS
from tppkit.protocol.gateway.orders import Order, OrderRequest, Refund
from tppkit.protocol.reports import CsvRows
from tppkit.protocol.wire import MAX_ARRAY_BYTES, Json, JsonArray, Nothing

_ORDER = "/v1/orders/{order_id}/"
_TRANSACTION = _ORDER + "transactions/{transaction_id}/"
_SOURCE = "gateway document 4"
_ORDER_BODY = Json(Order, max_bytes=MAX_ARRAY_BYTES)  # an order grows with its attempts
CREATED = 201  # assumption gateway-success

CREATE_ORDER = Endpoint(
    name="create_order", method="POST", path="/v1/orders/", source=_SOURCE, auth=Auth.BASIC,
    request=Json(OrderRequest), answer=_ORDER_BODY, success=CREATED,
)  # fmt: skip
ORDER_DETAILS = Endpoint(
    name="order", method="GET", path=_ORDER, source=_SOURCE, auth=Auth.BASIC,
    request=Nothing(), answer=_ORDER_BODY, safe=True,
)  # fmt: skip
CAPTURE = Endpoint(
    name="capture", method="POST", path=_TRANSACTION + "captures/", source=_SOURCE, auth=Auth.BASIC,
    request=Nothing(), answer=_ORDER_BODY, success=CREATED,
)  # fmt: skip
CAPTURE_AMOUNT = Endpoint(
    name="capture_amount", method="POST", path=_TRANSACTION + "captures/amount/", source=_SOURCE, auth=Auth.BASIC,
    request=Json(CaptureRequest), answer=_ORDER_BODY, success=CREATED,
)  # fmt: skip
VOID = Endpoint(
    name="void", method="POST", path=_TRANSACTION + "voids/", source=_SOURCE, auth=Auth.BASIC,
    request=Nothing(), answer=_ORDER_BODY, success=CREATED,
)  # fmt: skip
VOID_AMOUNT = Endpoint(
    name="void_amount", method="POST", path=_TRANSACTION + "voids/amount/", source=_SOURCE, auth=Auth.BASIC,
    request=Json(VoidRequest), answer=_ORDER_BODY, success=CREATED,
)  # fmt: skip
INITIATE = Endpoint(
    name="initiate", method="POST", path=_TRANSACTION + "initiate/", source=_SOURCE, auth=Auth.BASIC,
    request=Json(InitiateRequest), answer=_ORDER_BODY,
)  # fmt: skip
AUTHENTICATE = Endpoint(
    name="authenticate", method="POST", path=_TRANSACTION + "authenticate/", source=_SOURCE, auth=Auth.BASIC,
    request=Json(AuthenticateRequest), answer=_ORDER_BODY,
)  # fmt: skip
REFUNDS = Endpoint(
    name="refunds", method="GET", path=_ORDER + "refunds/", source=_SOURCE, auth=Auth.BASIC,
    request=Nothing(), answer=JsonArray(Refund), safe=True,
)  # fmt: skip
PAYMENT_LINK_DETAILS = Endpoint(
    name="payment_link", method="GET", path="/v1/paymentlinks/{payment_link_id}/", source=_SOURCE, auth=Auth.BASIC,
    request=Nothing(), answer=Json(PaymentLink, max_bytes=MAX_ARRAY_BYTES), safe=True,
)  # fmt: skip
STORE_CARD = Endpoint(
    name="store_card", method="POST", path="/v1/cards/", source=_SOURCE, auth=Auth.BASIC,
    request=Json(CardRequest), answer=Json(VaultCard), success=CREATED,
)  # fmt: skip
SEARCH = Endpoint(
    name="search", method="POST", path="/v1/search/orders/", source=_SOURCE, auth=Auth.BASIC,
    request=Json(SearchRequest), answer=Json(SearchResult, max_bytes=MAX_ARRAY_BYTES), safe=True,
)  # fmt: skip
REPORT = CsvRows(CSV_COLUMNS, ReportRow)
SEARCH_CSV = Endpoint(
    name="search_csv", method="POST", path="/v1/search/orders/", source=_SOURCE, auth=Auth.BASIC,
    query=(Query("format", only="csv"),),
    request=Json(SearchRequest), answer=REPORT, safe=True,
)  # fmt: skip
WALLET_SESSION = Endpoint(
    name="wallet_session", method="POST", path="/v1/wallet-pay/sessions/", source=_SOURCE, auth=Auth.BASIC,
    request=Json(WalletSessionRequest), answer=Json(WalletSession),
)  # fmt: skip

# The document mentions the creation of refunds and links, and shows no endpoint (assumption gateway-extensions).
EXTENSION = "/sandbox/v1"
CREATE_REFUND = Endpoint(
    name="create_refund", method="POST", path=EXTENSION + "/orders/{order_id}/refunds/",
    source="assumption gateway-extensions", auth=Auth.BASIC,
    request=Json(RefundRequest), answer=_ORDER_BODY, success=CREATED,
)  # fmt: skip
CREATE_PAYMENT_LINK = Endpoint(
    name="create_payment_link", method="POST", path=EXTENSION + "/paymentlinks/",
    source="assumption gateway-extensions", auth=Auth.BASIC,
    request=Json(PaymentLinkRequest), answer=Json(PaymentLink), success=CREATED,
)  # fmt: skip

ENDPOINTS = (
    CREATE_ORDER, ORDER_DETAILS, CAPTURE, CAPTURE_AMOUNT, VOID, VOID_AMOUNT, INITIATE, AUTHENTICATE, REFUNDS, PAYMENT_LINK_DETAILS,
    SEARCH, SEARCH_CSV, WALLET_SESSION,
)  # fmt: skip
VAULT_ENDPOINTS = (STORE_CARD,)
EXTENSIONS = (CREATE_REFUND, CREATE_PAYMENT_LINK)

GATEWAY = Interface(
    name="gateway", endpoints=(*ENDPOINTS, *EXTENSIONS), refusals=REFUSALS, default_auth=Auth.BASIC, any_2xx=True
)  # fmt: skip
# The vault has its own address.
VAULT = Interface(
    name="vault", endpoints=VAULT_ENDPOINTS, refusals=REFUSALS, default_auth=Auth.BASIC, any_2xx=True
)  # fmt: skip
