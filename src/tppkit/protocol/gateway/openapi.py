"""The payment gateway and its vault as an OpenAPI document: what their rows do not say."""

from __future__ import annotations

from tppkit.protocol.gateway.bodies import CardRequest, SearchRequest
from tppkit.protocol.gateway.endpoints import EXTENSION
from tppkit.protocol.gateway.orders import OrderRequest, OrderTransaction
from tppkit.protocol.gateway.webhooks import StatusChanged
from tppkit.protocol.openapi import Description, Schema, Sent

_UUID: Schema = {"type": "string", "format": "uuid"}
_ID = "3f0c6b1e-7d5a-4c55-9a3e-1f8f5f0f3a01"

GATEWAY_DESCRIPTION = Description(
    title="Payment gateway and card vault",
    text=f"Paths under {EXTENSION}/ exist in the sandbox only.",
    schemes={"project": {"type": "http", "scheme": "basic", "description": "The API key as user name, no password."}},
    security=lambda row: {"project": []},
    parameters={"order_id": _UUID, "transaction_id": _UUID, "payment_link_id": _UUID},
    examples={
        OrderRequest: OrderRequest(currency="EUR", amount=1250, description="Order 4711"),
        SearchRequest: SearchRequest(query="status:completed"),
        CardRequest: CardRequest.from_object({"pan": "4111111111111111", "expiry": "122030", "setup_token": _ID}),
        StatusChanged: StatusChanged(event="status_changed", order_id=_ID, project_id=_ID),
    },
    webhooks={"status_changed": {"POST": Sent(StatusChanged)}},
    # A schema's name is a part of the public document: generated clients have it as a class.
    names={OrderTransaction.__name__: OrderTransaction.model_config.get("title") or ""},
)
