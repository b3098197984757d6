"""Webhooks: written in the transaction of each status change of an order, and sent to its merchant without a signature."""

from __future__ import annotations

import time
from collections.abc import Callable

from tppkit.errors import FormatError, TransportError
from tppkit.protocol.gateway.webhooks import (
    MAX_ATTEMPTS,
    RETRY_AFTER_S,
    RETRY_TIMEOUT_S,
    TIMEOUT_S,
    StatusChanged,
    is_delivered,
)
from tppkit.sandbox.deliveries import Schedule
from tppkit.sandbox.delivery_tables import Attempt, Delivery, add_delivery
from tppkit.sandbox.faults import OF_TRANSPORT
from tppkit.sandbox.gateway.conformance import WebhookJudge
from tppkit.sandbox.gateway.settings import Work
from tppkit.sandbox.gateway.tables import StoredOrder
from tppkit.sandbox.outgoing_http import OutgoingHttp

SENDER = "gateway"
SCHEDULE = Schedule((RETRY_AFTER_S,) * (MAX_ATTEMPTS - 1), timeout_s=TIMEOUT_S, retry_timeout_s=RETRY_TIMEOUT_S)


def notify(work: Work, order: StoredOrder, *, original: StoredOrder | None = None) -> None:
    """Write the webhook about a status that has just changed, if there is an address (assumption webhook-changes).

    Args:
        work: the transaction of the change.
        order: the order whose status changed.
        original: the order that it was made from, whose address is used (assumption webhook-linked).
    """
    own_url = (original or order).terms.webhook_url  # an order of a payment link has the link's
    address = own_url or work.settings.project(order.project_id).webhook_url
    if address is None:
        return
    body = StatusChanged(event="status_changed", order_id=order.id, project_id=order.project_id).to_wire()
    # No stream: the bodies for an order are equal, so their order does not matter, and a failed one must not delay the others.
    add_delivery(work.db, sender=SENDER, address=address, body=body, at=work.at, stream=None, ver=0)


class GatewaySender:
    """Sends webhooks. See `Sender`.

    Args:
        http: makes the HTTP client; called at the first request.
        judge: judges the answers of receivers.

    Attributes:
        schedule: when deliveries are attempted.
        faults: the names of those that can apply.
    """

    schedule, faults = SCHEDULE, OF_TRANSPORT

    def __init__(self, http: Callable[[], OutgoingHttp], judge: WebhookJudge) -> None:
        self._http, self._judge = http, judge

    async def send(self, delivery: Delivery, timeout_s: float) -> Attempt:
        """Send a webhook once; the body of the answer is ignored."""
        headers, begun_s = (("Content-Type", "application/json"),), time.monotonic()
        try:
            answer = await self._http().request(
                "POST", delivery.address, headers=headers, body=delivery.body, timeout_s=timeout_s, answer_s=timeout_s, with_body=False,
            )  # fmt: skip
        except (TransportError, FormatError) as e:
            if e.code == "outgoing.timeout":
                self._judge.sent(delivery, begun_s=begun_s, status=None)
            return Attempt(False, f"{e.message} ({e.code})")
        self._judge.sent(delivery, begun_s=begun_s, status=answer.status)
        return Attempt(is_delivered(answer.status), f"status {answer.status}")
