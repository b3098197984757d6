"""The latest requests in memory: bounded in number and size."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tppkit.errors import FormatError
from tppkit.sandbox.exchange import Exchange
from tppkit.sandbox.latest_requests import MAX_BYTES, MAX_REQUESTS, LatestRequests

AT = datetime(2026, 6, 1, tzinfo=UTC)


def exchange(target: str = "/", **fields: Any) -> Exchange:
    return Exchange(
        **{"host": "psd2", "at": AT, "started_s": 0.0, "method": "GET", "target": target, "headers": ()} | fields
    )


def filled(count: int, **fields: Any) -> LatestRequests:
    latest = LatestRequests(lambda: AT)
    for number in range(1, count + 1):
        latest.keep(exchange(f"/{number}", **fields))
    return latest


def test_old_requests_are_dropped():
    latest = filled(1000)
    assert [one.target for one in latest][::199] == ["/1000", "/801"]
    assert (len([*latest]), latest.find(800), latest.find(801).target) == (MAX_REQUESTS, None, "/801")
    assert [one.number for one in latest.after(998)] == [999, 1000]
    latest.clear()
    assert ([*latest], latest.after(0), latest.newest) == ([], (), 1000)


@pytest.mark.parametrize(
    "fields",
    [
        {"body": b"x" * 65536, "answer_body": b"y" * 65536},
        {"headers": (("a", "b" * 65000),)},
        {"headers": (("a", ""),) * 20000},  # 65 KiB as sent, several MiB in memory
    ],
)
def test_large_requests_take_a_bounded_memory(fields):
    kept = [*filled(300, **fields)]
    assert 0 < len(kept) < MAX_REQUESTS
    assert sum(one.size for one in kept) <= MAX_BYTES
    assert kept[0].target == "/300"


def test_an_error_is_kept_without_its_frames():
    try:
        raise FormatError("model.invalid", "x" * 100_000)
    except FormatError as e:
        latest = LatestRequests()
        latest.keep(exchange(error=e))
    (kept,) = latest
    assert (kept.exchange.error.code, kept.exchange.error.__traceback__) == ("model.invalid", None)
    assert len(kept.exchange.error.message) == 1000
