"""Finds a payment that a client made once more under another id, after the answer to the first one was lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from tppkit._cache import Cache
from tppkit.protocol.endpoint import Endpoint
from tppkit.sandbox.conformance import Conformance, Judge
from tppkit.sandbox.exchange import Exchange

# Faults after the commit whose answer does not tell the client that the payment was made.
_UNREADABLE = frozenset({"status-500-after", "status-503-after", "other-answer", "no-body"})
_WINDOW = timedelta(hours=1)  # in which a repetition with the same id is safe
_MAX_PAYMENTS, _MAX_OF_ONE = 1000, 4


class _Made(NamedTuple):
    """A payment that was made.

    Attributes:
        id: the id under which the client made it.
        at: the virtual time.
        begun_s: when the request came, in real seconds.
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
    """

    def __init__(
        self, report: Conformance, *, hosts: tuple[str, ...], row: Endpoint[Any, Any], id_of: Callable[[Exchange], str]
    ) -> None:
        self.hosts = hosts
        self._report, self._row, self._id_of = report, row.name, id_of
        self._made: Cache[int, tuple[_Made, ...]] = Cache(_MAX_PAYMENTS)

    def observe(self, exchange: Exchange) -> None:
        """Look at an exchange."""
        if exchange.row != self._row or exchange.error is not None or exchange.caller is None:
            return  # no payment was made
        id_, is_lost = self._id_of(exchange), exchange.is_lost or exchange.fault in _UNREADABLE
        this = _Made(id_, exchange.at, exchange.started_s, is_lost)
        key = hash((exchange.caller, exchange.body))
        earlier = self._made.get(key) or ()
        others = tuple([one for one in earlier if one.id != id_])
        is_repetition = len(others) < len(earlier)
        if not is_repetition and (is_lost or any(one.is_lost for one in others)):
            near = [one for one in others if abs(this.at - one.at) <= _WINDOW]
            # A late answer is observed after the request that the client sent without it.
            if any(_follows(this, one) or _follows(one, this) for one in near):
                self._report.broken("second-payment", exchange)
        self._made.put(key, (*others[1 - _MAX_OF_ONE :], this))

    def clear(self) -> None:
        """Forget all payments."""
        self._made.clear()


def _follows(second: _Made, first: _Made) -> bool:
    """Whether a payment was requested after another one and without its answer."""
    return first.is_lost and first.begun_s < second.begun_s
