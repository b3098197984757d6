"""The legacy interface, its endpoint rows, and the callbacks of the service. Source: PSD2 document, part B sections 4 to 6."""

from __future__ import annotations

from typing import NamedTuple

from tppkit.protocol.endpoint import Auth, Endpoint, Interface
from tppkit.protocol.legacy.errors import REFUSALS
from tppkit.protocol.legacy.models import (
    AccessGranted,
    AccessRequest,
    LegacyModel,
    LoginConfirmed,
    LoginRequest,
    PaymentOrder,
    Transaction,
)
from tppkit.protocol.legacy.money import BalanceBody
from tppkit.protocol.wire import Json, JsonArray, Nothing

_AIS, _PIS = "/ais/{access_token}", "/pis/{access_token}"
_SOURCE = "PSD2 document B.4"

REQUEST_ACCOUNT_ACCESS = Endpoint(
    name="request_account_access", method="POST", path=_AIS, source=_SOURCE, auth=Auth.API_KEY,
    request=Json(AccessRequest), answer=Nothing(),  # assumption post-answers
)  # fmt: skip
BALANCE = Endpoint(
    name="balance", method="GET", path=_AIS + "/BALANCE", source=_SOURCE, auth=Auth.API_KEY,
    request=Nothing(), answer=BalanceBody(), safe=True,
)  # fmt: skip
TRANSACTION_LIST = Endpoint(
    name="transactions", method="GET", path=_AIS + "/LIST", source=_SOURCE, auth=Auth.API_KEY,
    request=Nothing(), answer=JsonArray(Transaction), safe=True,
)  # fmt: skip
REQUEST_PAYMENT_ACCESS = Endpoint(
    name="request_payment_access", method="POST", path=_PIS, source=_SOURCE, auth=Auth.API_KEY,
    request=Json(AccessRequest), answer=Nothing(),
)  # fmt: skip
PAY = Endpoint(
    name="pay", method="POST", path=_PIS + "/TX/{uuid}", source=_SOURCE, auth=Auth.API_KEY,
    request=Json(PaymentOrder), answer=Nothing(),  # assumption tx-repeats
)  # fmt: skip

ENDPOINTS = (REQUEST_ACCOUNT_ACCESS, BALANCE, TRANSACTION_LIST, REQUEST_PAYMENT_ACCESS, PAY)

# Not a row of the interface, because it is for a customer's browser: the whole query is the code (`qr.parse_scan_link`).
SCAN = Endpoint(
    name="scan", method="GET", path="/scan", source=_SOURCE, auth=Auth.NONE, request=Nothing(), answer=Nothing(), safe=True,
)  # fmt: skip


class Callback(NamedTuple):
    """A signed request of the service to the provider.

    Attributes:
        kind: the kind of its address: a value of `callbacks.CallbackKind`.
        method: HTTP method.
        address: that address.
        source: where the document shows the row.
        body: the model of its body, None for none.
        answer: the model of the provider's answer, None for an empty one.
    """

    kind: str
    method: str
    address: str
    source: str
    body: type[LegacyModel] | None
    answer: type[LegacyModel] | None = None


CALLBACKS = (
    Callback("access", "POST", "{tpp_callback_url}/", "PSD2 document B.6", AccessGranted),
    Callback("payment", "POST", "{tpp_callback_url}/{uuid}", "PSD2 document B.6", Transaction),
    Callback("login", "GET", "the address of the login code", "PSD2 document B.4", None, LoginRequest),
    Callback("login", "POST", "the address of the login code", "PSD2 document B.6", LoginConfirmed),
)

LEGACY = Interface(name="legacy", endpoints=ENDPOINTS, refusals=REFUSALS, default_auth=Auth.API_KEY)
