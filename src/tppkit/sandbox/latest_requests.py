"""The latest requests to the interfaces with their answers, in memory only and bounded, for those who show them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from tppkit._clock import Clock, format_time, utc_now
from tppkit._text import shortened
from tppkit.certificates import EidasCertificate
from tppkit.errors import FormatError, TppkitError
from tppkit.sandbox.control import Control
from tppkit.sandbox.exchange import Exchange
from tppkit.sandbox.request_log import shown_target, without_secrets

MAX_REQUESTS = 200
MAX_BYTES = 4 * 1024 * 1024
_FIELD = 200  # bytes that Python needs for a header field beside its texts, or for another small object
_MAX_REASON = 1000  # characters of the message of an error


@dataclass(frozen=True, slots=True)
class Kept:
    """A request that is kept.

    Attributes:
        number: counts the requests since the start, from 1.
        exchange: the request with its answer; its `error` has code and message only.
        received_at: the real time of the request, aware UTC.
        size: the memory that it takes, in bytes.
    """

    number: int
    exchange: Exchange
    received_at: datetime
    size: int

    @property
    def method(self) -> str:
        """The method, without secrets."""
        return shortened(without_secrets(self.exchange.method), 32)

    @property
    def target(self) -> str:
        """The target as the log shows it."""
        return shown_target(self.exchange)

    @property
    def verdict(self) -> str:
        """`holds` for a request that was accepted, else `fails`."""
        return "holds" if self.exchange.status < 400 else "fails"

    @property
    def has_refused_seal(self) -> bool:
        """Whether its seal is why it was refused; the QWAC is verified first."""
        return self.exchange.error_code.partition(".")[0] in ("signature", "digest", "seal", "key-id")

    @property
    def caller(self) -> str | None:
        """The id of the caller, also if its seal was refused; None if it is unknown."""
        exchange = self.exchange
        if exchange.caller is None and exchange.certificate is not None and self.has_refused_seal:
            return _organisation(exchange.certificate)
        return exchange.caller


class LatestRequests:
    """The latest requests: at most 200, and at most 4 MiB.

    Args:
        now: the real time.

    Attributes:
        newest: the number of the latest request; 0 before the first.

    Example:
        observers.append(latest.keep)
        print([kept.target for kept in latest])
    """

    def __init__(self, now: Clock = utc_now) -> None:
        self._now = now
        self._kept: deque[Kept] = deque()
        self._size = 0
        self.newest = 0

    def keep(self, exchange: Exchange) -> None:
        """Add a request, and drop the oldest ones beyond the limits."""
        self.newest += 1
        if exchange.error is not None:  # its traceback keeps all variables of its frames
            exchange = replace(exchange, error=_without_traceback(exchange.error))
        one = Kept(self.newest, exchange, self._now(), _size_of(exchange))
        self._kept.append(one)
        self._size += one.size
        while len(self._kept) > MAX_REQUESTS or self._size > MAX_BYTES:
            self._size -= self._kept.popleft().size

    def clear(self) -> None:
        """Drop all requests. Numbers go on."""
        self._kept.clear()
        self._size = 0

    def find(self, number: int) -> Kept | None:
        """Return the request with a number, None if it is not kept."""
        return next((one for one in self._kept if one.number == number), None)

    def after(self, number: int) -> tuple[Kept, ...]:
        """Return the requests with a higher number, the oldest first."""
        return () if number >= self.newest else tuple([one for one in self._kept if one.number > number])

    def __iter__(self) -> Iterator[Kept]:
        """Yield the requests, the latest first."""
        return iter(tuple(reversed(self._kept)))

    @property
    def control(self) -> tuple[Control, ...]:
        """`GET /requests`: the latest first, with verdict (`holds`, `fails`) and code."""

        async def show(parameters: Mapping[str, str], body: Any) -> Any:
            return [
                {
                    "at": format_time(kept.exchange.at), "method": kept.method, "target": kept.target, "status": kept.exchange.status,
                    "verdict": kept.verdict, "code": kept.exchange.code or None, "text": kept.exchange.text or None,
                    "fault": kept.exchange.fault,
                }
                for kept in self
            ]  # fmt: skip

        return (Control("GET", "/requests", show),)


@lru_cache(maxsize=16)
def _organisation(certificate: str) -> str | None:
    with suppress(FormatError):
        identifier = EidasCertificate.from_pem(certificate).organization_identifier
        return None if identifier is None else identifier.text
    return None


def _without_traceback(error: Exception) -> TppkitError:
    if not isinstance(error, TppkitError):
        return TppkitError("host.failed", type(error).__name__)
    return TppkitError(error.code, shortened(error.message, _MAX_REASON))


def _size_of(exchange: Exchange) -> int:
    """Return about how much memory it takes; a head of many short fields takes many times its length."""
    size = (
        10 * _FIELD
        + len(exchange.body)
        + len(exchange.answer_body)
        + 3 * len(exchange.target)
        + len(exchange.certificate or "")
    )
    for fields in (exchange.headers, exchange.answer_headers):
        size += sum([len(name) + len(value) + _FIELD for name, value in fields])
    for names in (exchange.unknown_fields, exchange.unknown_query):
        size += sum([4 * len(name) + _FIELD for name in names])
    if exchange.status >= 400:
        size += 4 * (len(str(exchange.error or "")) + len(exchange.text) + len(exchange.code))
    return size
