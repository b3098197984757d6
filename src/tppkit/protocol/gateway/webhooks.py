"""Webhooks: what merchants get after a status change, and when it is sent again. Source: section 6.1."""

from __future__ import annotations

from typing import Literal

from tppkit.protocol.gateway.values import GatewayModel, Uuid

MAX_ATTEMPTS = 10  # the first one included
RETRY_AFTER_S = 120.0  # from a failure
# Of the first attempt and of the others: to connect, and again for the answer (assumption webhook-timeouts).
TIMEOUT_S, RETRY_TIMEOUT_S = 4.0, 10.0


class StatusChanged(GatewayModel):
    """The body of a webhook. It has no status, id or signature: read the order, and act on its status.

    Example:
        StatusChanged.from_wire(body).order_id
    """

    event: Literal["status_changed"]
    order_id: Uuid
    project_id: Uuid


def is_delivered(status: int) -> bool:
    """Whether an answer with this HTTP status acknowledges a webhook (assumption webhook-success)."""
    return 200 <= status < 300
