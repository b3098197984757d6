"""What observers of the sandbox learn of each request."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx
import pytest

from tppkit._clock import utc_now
from tppkit.errors import FormatError, RequestRefused
from tppkit.protocol.control import CONTROL_REFUSALS
from tppkit.protocol.gateway import OrderRequest
from tppkit.sandbox import Sandbox
from tppkit.sandbox.exchange import EXCHANGE, MAX_KEPT_BYTES, Exchange, Observed
from tppkit.web.sources import RAW_TARGET


@pytest.fixture
def seen(inside: Sandbox) -> list[Exchange]:
    found: list[Exchange] = []
    inside._hosts.observers.append(found.append)
    return found


@pytest.fixture
def inside(tppkit_pki):
    with Sandbox(pki=tppkit_pki) as inside:
        yield inside


def test_a_request_is_seen_whole_with_its_row_caller_and_reason(inside, seen):
    client = inside.client()
    with pytest.raises(RequestRefused):
        client.payment_status("absent")
    inside.gateway.client().create_order(OrderRequest(currency="EUR", amount=1250))
    refused, order = seen
    assert (refused.host, refused.row, refused.parameters["payment_id"]) == ("psd2", "payment_status", "absent")
    assert (refused.caller, refused.status, refused.code) == ("PSDLT-BL-LB000000", 403, "RESOURCE_UNKNOWN")
    assert refused.error.code == "payment.unknown"
    assert refused.header("x-request-id") == dict(refused.answer_headers)["x-request-id"]
    assert refused.target.endswith("/payments/sepa-credit-transfers/absent/status")
    assert b"RESOURCE_UNKNOWN" in refused.answer_body
    assert (order.host, order.status, order.error, order.body_size) == ("gateway", 201, None, len(order.body))
    assert b"1250" in order.body
    assert order.duration_s > 0


def test_a_body_is_kept_to_a_limit(inside, seen):
    with httpx.Client(transport=inside.transport()) as http:
        http.post(
            inside.addresses.gateway_url + "/v1/orders/", content=b"x" * 100_000, auth=(inside.gateway.api_key, "")
        )
    assert (len(seen[0].body), seen[0].body_size, seen[0].error is None) == (MAX_KEPT_BYTES, 100_000, False)


def test_an_observer_that_fails_changes_no_answer(inside, seen, caplog):
    inside._hosts.observers.insert(0, lambda exchange: 1 / 0)
    with caplog.at_level(logging.ERROR):
        inside.gateway.client().create_order(OrderRequest(currency="EUR", amount=1250))
    assert len(seen) == 1
    assert "could not be observed" in caplog.text


async def test_a_report_of_an_error_shows_nothing_of_the_bodies():
    async def fails(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"SECRET", "more_body": True})
        raise ZeroDivisionError

    async def receive() -> Any:
        return {"type": "http.request", "body": b"SECRET", "more_body": False}

    async def send(event: object) -> None: ...

    found: list[Exchange] = []
    observed = Observed(fails, host="vault", refusals=CONTROL_REFUSALS, observers=[found.append], now=utc_now)
    scope = {"type": "http", "method": "POST", "headers": [], "extensions": {RAW_TARGET: {"target": b"/"}}}
    with pytest.raises(ZeroDivisionError) as caught:
        await observed(scope, receive, send)
    frames = [frame.frame for frame in caught.traceback]
    assert not any("SECRET" in repr(value) for frame in frames for value in frame.f_locals.values())
    assert (found[0].body, found[0].answer_body) == (b"SECRET", b"SECRET")


@pytest.mark.parametrize(
    ("events", "headers", "seen_body"),
    [
        ([(b"ab", True), (b"c", False)], [], (b"abc", True)),
        ([(b"ab", True)], [], (b"ab", False)),  # the rest never comes
        (
            [(b"abc", False)],
            [(b"expect", b"100-continue")],
            (b"", False),
        ),  # asking for it would make the client send it
    ],
)
async def test_the_body_of_a_refused_head_is_read_for_a_moment(events, headers, seen_body):
    found: list[Exchange] = []

    async def refuses(scope: Any, receive: object, send: Any) -> None:
        scope["extensions"][EXCHANGE].error = FormatError("signature.missing", "")
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Any:
        if not events:
            await asyncio.Event().wait()
        body, more = events.pop(0)
        return {"type": "http.request", "body": body, "more_body": more}

    async def send(event: object) -> None: ...

    observed = Observed(refuses, host="psd2", refusals=CONTROL_REFUSALS, observers=[found.append], now=utc_now)
    scope = {"type": "http", "method": "POST", "headers": headers, "extensions": {RAW_TARGET: {"target": b"/"}}}
    await asyncio.wait_for(observed(scope, receive, send), 5)
    assert (found[0].body, found[0].is_whole) == seen_body
