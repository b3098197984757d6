"""What a merchant did wrong with webhooks. See `tppkit.sandbox.conformance`."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from tppkit._cache import Cache
from tppkit._clock import format_time
from tppkit.protocol.gateway.endpoints import ORDER_DETAILS, SEARCH, SEARCH_CSV
from tppkit.protocol.gateway.states import ORDER
from tppkit.protocol.gateway.webhooks import StatusChanged, is_delivered
from tppkit.sandbox.conformance import Conformance, Example, Judge
from tppkit.sandbox.delivery_tables import Delivery
from tppkit.sandbox.exchange import Exchange

_KEPT = 10_000  # orders
_MAX_UNREAD = 1000
_OK = 200
_FINAL = tuple([f'"status":"{status}"'.encode() for status in ORDER.final])  # no transaction has these


class WebhookJudge(Judge):
    """Judges the answers to webhooks, and whether their orders are read.

    Args:
        report: counts broken rules.
    """

    hosts = ("gateway",)

    def __init__(self, report: Conformance) -> None:
        self._report = report
        self._read_s: Cache[str, float] = Cache(_KEPT)  # real seconds
        self._searched_s = float("-inf")
        self._unread: Cache[str, Example] = Cache(_MAX_UNREAD)

    def clear(self) -> None:
        """Forget all orders."""
        self._read_s.clear()
        self._unread.clear()

    def observe(self, exchange: Exchange) -> None:
        """Take into account that an order was read. A search may read any."""
        if exchange.error is not None:
            return
        if exchange.row == ORDER_DETAILS.name and exchange.parameters is not None:
            order_id = exchange.parameters["order_id"].lower()
            is_final = any(status in exchange.answer_body for status in _FINAL)  # then a duplicate needs no read
            self._read_s.put(order_id, float("inf") if is_final else exchange.started_s)
            self._unread.pop(order_id)
        elif exchange.row in (SEARCH.name, SEARCH_CSV.name):
            self._searched_s = exchange.started_s
            self._unread.clear()

    def sent(self, delivery: Delivery, *, begun_s: float, status: int | None) -> None:
        """Judge an attempt.

        Args:
            delivery: the webhook.
            begun_s: when the attempt began, in real monotonic seconds.
            status: the status of the answer, or None if it was late.
        """
        order_id = StatusChanged.from_wire(delivery.body).order_id.lower()
        example = {
            "at": format_time(self._report.now()), "host": "gateway", "order_id": order_id, "detail": f"the order {order_id}",
            "request": f"POST {urlsplit(delivery.address).netloc} {status or 'no answer'}",  # its path may be a secret
        }  # fmt: skip
        if status is None:
            self._report.count("webhook-late", example)
        elif status != _OK:
            self._report.count("webhook-not-200", example)
        if status is not None and is_delivered(status):
            read_s = max(self._read_s.get(order_id) or self._searched_s, self._searched_s)
            if read_s < begun_s:  # receivers may read the order before they answer
                self._unread.put(order_id, example)

    def remaining(self) -> Iterable[tuple[str, Example]]:
        """Return an acknowledged webhook of each order that was not read."""
        return [("webhook-order-not-read", example) for example in self._unread.values()]
