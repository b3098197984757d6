"""Finds a payment that a client made once more under another id, after the answer to the first one was lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tppkit._cache import Cache
from tppkit._clock import format_time
from tppkit.protocol.endpoint import Endpoint
from tppkit.sandbox.conformance import Conformance, Judge
from tppkit.sandbox.exchange import Exchange

# Faults after the commit whose answer does not tell the client that the payment was made.
_UNREADABLE = frozenset({"status-500-after", "status-503-after", "other-answer", "no-body"})
WINDOW = timedelta(hours=1)  # in which a repetition with the same id is safe
_MAX_PAYMENTS, _MAX_OF_ONE = 1000, 4


class _Made(NamedTuple):
    """A payment that was made.

    Attributes:
        id: the id under which the client made it.
        at: when it was made, by the virtual clock.
        begun_s: when the latest request for it came, in real seconds.
        is_lost: the client cannot know from the answer that it was made.
    """

    id: str
    at: datetime
    begun_s: float
    is_lost: bool


class SecondPayments(Judge):
    """Reports `second-payment`: the same caller, row and body with another id, sent after the first one and without its answer.

    Args:
        report: counts the broken rule.
        hosts: the names of the listeners.
        row: the endpoint that makes a payment.
        id_of: returns the id under which the client may repeat a request.
        window: how long after a payment a second one is counted. Where the customer approves by a link, it ends when the first one
            expires: without its answer nobody has the link, and an expired payment is never paid.
    """

    def __init__(
        self, report: Conformance, *, hosts: tuple[str, ...], row: Endpoint[Any, Any], id_of: Callable[[Exchange], str],
        window: timedelta = WINDOW,
    ) -> None:  # fmt: skip
        self.hosts, self._window = hosts, window
        self._report, self._row, self._id_of = report, row.name, id_of
        self._made: Cache[int, tuple[_Made, ...]] = Cache(_MAX_PAYMENTS)

    def observe(self, exchange: Exchange) -> None:
        """Look at an exchange."""
        if exchange.row != self._row or exchange.error is not None or exchange.caller is None:
            return  # no payment was made
        id_, is_lost = self._id_of(exchange), exchange.is_lost or exchange.fault in _UNREADABLE
        key = hash((exchange.caller, exchange.body))
        earlier = self._made.get(key) or ()
        made_at = next((one.at for one in earlier if one.id == id_), exchange.at)  # a repetition makes nothing
        this = _Made(id_, made_at, exchange.started_s, is_lost)
        others = tuple([one for one in earlier if one.id != id_])
        is_repetition = len(others) < len(earlier)
        if not is_repetition and (is_lost or any(one.is_lost for one in others)):
            # A late answer is observed after the request that the client sent without it.
            either = (one for one in others if _follows(this, one) or _follows(one, this))
            other = next((one for one in either if abs(this.at - one.at) < self._window), None)
            if other is not None:
                when = "before, without an answer," if other.begun_s < this.begun_s else "again, without this answer,"
                self._report.broken("second-payment", exchange, f"made {when} as {other.id} at {format_time(other.at)}")
        self._made.put(key, (*others[1 - _MAX_OF_ONE :], this))

    def clear(self) -> None:
        """Forget all payments."""
        self._made.clear()


def _follows(second: _Made, first: _Made) -> bool:
    """Whether a payment was requested after another one and without its answer."""
    return first.is_lost and first.begun_s < second.begun_s
