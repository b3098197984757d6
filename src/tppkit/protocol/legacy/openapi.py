"""The legacy interface as an OpenAPI document: what its rows do not say."""

from __future__ import annotations

from decimal import Decimal

from tppkit.protocol.legacy.endpoints import BALANCE, CALLBACKS, PAY, TRANSACTION_LIST
from tppkit.protocol.legacy.models import (
    AccessGranted,
    AccessRequest,
    LoginConfirmed,
    LoginPermission,
    LoginRequest,
    PaymentOrder,
    Transaction,
)
from tppkit.protocol.legacy.money import Amount, BalanceBody
from tppkit.protocol.legacy.rules import TOKEN_PATTERN
from tppkit.protocol.openapi import Description, HeaderField, Schema, Sent

_TOKEN: Schema = {"type": "string", "pattern": TOKEN_PATTERN}
_SIGNED = (
    HeaderField("requestid", "Identifies the callback.", required=True),
    HeaderField("signature", "The service's signature over requestid, method, address and body.", required=True),
)
_PAYMENT = frozenset({PAY.name})
_USING = _PAYMENT | {BALANCE.name, TRANSACTION_LIST.name}
_WEBHOOKS = {
    kind: {one.method: Sent(one.body, one.answer, _SIGNED) for one in CALLBACKS if one.kind == kind}
    for kind in dict.fromkeys(one.kind for one in CALLBACKS)
}

LEGACY_DESCRIPTION = Description(
    title="Legacy account information and payments",
    text="The webhooks are the callbacks of the service, each at an address of the provider.",
    schemes={
        "key": {"type": "apiKey", "in": "header", "name": "Authorization", "description": "The API key and nothing else."}
    },
    security=lambda row: {"key": []},
    parameters={"access_token": _TOKEN, "uuid": _TOKEN},
    scopes={"order.": _PAYMENT, "request-id.reuse": _PAYMENT, "token.refused": _USING},
    examples={
        AccessRequest: AccessRequest(acc="+37060000001"),
        PaymentOrder: PaymentOrder(acc="+37060000002", amts={"EUR": Decimal("12.50")}, msg="Order 4711"),
        BalanceBody: {"EUR": Decimal("1024.05")},
        Transaction: Transaction(
            id="a1", ver=1, time_stamp=844_000_000, tlc="executed", acc="+37060000002",
            amounts=(Amount("EUR", Decimal("-12.50")),), name="Bookshop", msg="Order 4711",
        ),
        AccessGranted: AccessGranted.from_object({"token": "0123456789abcdefghij", "exp": "2030-12-31 23:59:59"}),
        LoginRequest: LoginRequest(name="Bookshop", perm=(LoginPermission.NAME,)),
        LoginConfirmed: LoginConfirmed(id=7, name="Ona"),
    },
    webhooks=_WEBHOOKS,
)  # fmt: skip
