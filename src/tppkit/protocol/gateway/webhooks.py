"""Webhooks: how a status change is reported to merchants, and when it is repeated. Source: section 6.1."""

from __future__ import annotations

from typing import Literal

from tppkit.protocol.gateway.values import GatewayModel, Uuid

MAX_ATTEMPTS = 10  # the first one included
RETRY_AFTER_S = 120.0  # from a failure
# Of the first attempt and of the others: to connect, and again for the answer (assumption webhook-timeouts).
TIMEOUT_S, RETRY_TIMEOUT_S = 4.0, 10.0


class StatusChanged(GatewayModel):
    """The body of a webhook. It has no status, id or signature: read the order, and act on what it says.

    Example:
        StatusChanged.from_wire(body).order_id
    """

    event: Literal["status_changed"]
    order_id: Uuid
    project_id: Uuid


def webhook_address(order_url: str | None, project_url: str | None) -> str | None:
    """Where the webhooks of an order go: to its own address, else the project's; None: nowhere (assumption webhook-linked).

    Args:
        order_url: webhook_url of the order, of its payment link, or of the order that it was made from.
        project_url: webhook_url of the project.
    """
    return order_url or project_url


def is_delivered(status: int) -> bool:
    """Whether an answer with this HTTP status acknowledges a webhook (assumption webhook-success)."""
    return 200 <= status < 300
