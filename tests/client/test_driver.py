"""Calls are repeated where their row allows it, with the same bytes, and end after three attempts."""

from __future__ import annotations

import asyncio
import inspect
import pydoc
import re
from collections.abc import Callable
from typing import Any, get_type_hints

import httpx
import pytest
from http_drivers import Ask, caught
from payments import INITIATED, PAYMENT
from rogue_bank import Answer, as_json, http

from tppkit.client import (
    AsyncGatewayClient,
    AsyncLegacyClient,
    AsyncPsd2Client,
    GatewayClient,
    LegacyClient,
    Psd2Client,
)
from tppkit.client.answers import pause_before_repeat_s
from tppkit.client.calls import ServerAnswer
from tppkit.errors import OutcomeUnknown, RequestRefused, TransportError
from tppkit.protocol.psd2.endpoints import PAYMENT_STATUS

STATUS = as_json(200, {"transactionStatus": "RCVD"})
BUSY = {"tppMessages": [{"category": "ERROR", "code": "SERVICE_UNAVAILABLE", "text": "locked"}]}
LATER = as_json(503, BUSY)
FAILED = as_json(500, {"tppMessages": [{"category": "ERROR", "code": "INTERNAL_SERVER_ERROR", "text": "failed"}]})
CUT_OFF = http(200, b"{}", content_length="50")
STEPS = {
    "initiate": lambda client: client.initiate_payment(PAYMENT),
    "status": lambda client: client.payment_status("any"),
    "cancel": lambda client: client.cancel_payment("any"),
}


Run = Callable[..., tuple[Any, Any, list[float]]]


@pytest.fixture
def run(driver: Any, ask: Ask) -> Run:
    """The result or error of a step, the bank, and the pauses."""

    def running(step: str, *answers: Answer) -> tuple[Any, Any, list[float]]:
        pauses: list[float] = []
        left = iter(answers)
        sleep = driver.waiting(pauses.append)
        result, bank = ask(lambda request: next(left)(request), STEPS[step], then_close=True, sleep=sleep)
        return result, bank, pauses

    return running


@pytest.mark.parametrize(("step", "good"), [("initiate", as_json(201, INITIATED)), ("status", STATUS)])
@pytest.mark.parametrize("bad", [CUT_OFF, http(503), http(429)], ids=["cut off", "503", "429"])
def test_a_failed_attempt_is_repeated_byte_for_byte(bad, step, good, run):
    result, bank, pauses = run(step, bad, bad, good)
    assert (result.transaction_status, pauses) == ("RCVD", [0.5, 1.0])
    assert bank.requests[0] == bank.requests[1] == bank.requests[2]


@pytest.mark.parametrize(
    ("step", "bad", "error", "attempts"),
    [
        *(("status", *case, 3) for case in ((CUT_OFF, TransportError), (http(503), RequestRefused))),
        *(("cancel", *case, 1) for case in ((CUT_OFF, TransportError), (http(503), OutcomeUnknown), (LATER, RequestRefused))),
        # A service may fail after it has carried out the request.
        ("initiate", http(500), OutcomeUnknown, 1), ("initiate", FAILED, OutcomeUnknown, 1), ("status", http(502), RequestRefused, 1),
        ("status", http(503, x_request_id=""), OutcomeUnknown, 3),
    ],
)  # fmt: skip
def test_three_attempts_are_the_end_and_what_may_not_be_repeated_is_sent_once(step, bad, error, attempts, run):
    result, bank, pauses = run(step, *[bad] * attempts, STATUS)
    assert type(result) is error if attempts == 3 else isinstance(result, error)
    assert (len(bank.requests), len(pauses)) == (attempts, attempts - 1)


@pytest.mark.parametrize(
    "refusal", [http(409), http(401), http(500), http(429, retry_after="61")], ids=["409", "401", "500", "429"]
)
@pytest.mark.parametrize("first", [CUT_OFF, http(503)], ids=["cut off", "503 without a code"])
def test_a_refusal_after_a_lost_attempt_leaves_the_payment_unknown(first, refusal, run):
    result, bank, _ = run("initiate", first, refusal)
    assert (type(result), result.code, len(bank.requests)) == (OutcomeUnknown, "answer.after-lost", 2)
    assert result.request_id in result.message
    assert result.request_id.encode() in bank.requests[0]
    assert isinstance(run("status", first, http(409))[0], RequestRefused)


@pytest.mark.parametrize(
    ("answers", "status", "kind"),
    [
        ((LATER, LATER, LATER), 503, RequestRefused), ((LATER, http(409)), 409, RequestRefused),
        ((http(429), LATER, LATER), 503, RequestRefused),
        ((CUT_OFF, LATER, LATER), 503, OutcomeUnknown), ((LATER, http(503), LATER), 503, OutcomeUnknown),
    ],
)  # fmt: skip
def test_a_refusal_after_attempts_that_the_service_itself_refused_is_one_and_no_other(answers, status, kind, run):
    result, bank, _ = run("initiate", *answers)
    assert (type(result), result.status, len(bank.requests)) == (kind, status, len(answers))
    if kind is OutcomeUnknown:
        assert result.code == "answer.after-lost"
    else:
        assert result.peer_text == ("locked" if status == 503 else None)


class _Failing(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Ends each request with the next failure, or status."""

    def __init__(self, *ends: Exception | int) -> None:
        self._ends = iter(ends)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        end = next(self._ends)
        if isinstance(end, Exception):
            raise end
        return httpx.Response(end, headers={"x-request-id": request.headers["x-request-id"]})

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return self.handle_request(request)


REFUSED, LOST = httpx.ConnectError("Connection refused"), httpx.ReadError("reset")


@pytest.mark.parametrize(
    ("step", "ends", "kind", "text"),
    [
        ("initiate", [REFUSED] * 3, TransportError, "Connection refused; nothing was sent"),
        ("initiate", [httpx.ConnectTimeout("")], TransportError, "(ConnectTimeout); nothing was sent"),
        ("cancel", [httpx.PoolTimeout("")], TransportError, "(PoolTimeout); nothing was sent"),
        ("initiate", [LOST, REFUSED, REFUSED], TransportError, "may have been carried out"),
        ("initiate", [REFUSED, LOST, REFUSED], TransportError, "may have been carried out"),
        ("initiate", [429, REFUSED, REFUSED], TransportError, "may have been carried out"),
        ("cancel", [LOST], TransportError, "may have been carried out"),
        ("cancel", [httpx.ReadTimeout("")], TransportError, "may have been carried out"),
        ("initiate", [REFUSED, 409], RequestRefused, "409"),
        ("initiate", [REFUSED, LOST, 409], OutcomeUnknown, "not known"),
    ],
)
def test_an_error_says_that_nothing_was_sent_only_if_no_attempt_had_a_connection(
    step, ends, kind, text, driver, identity
):
    http = (httpx.AsyncClient if driver.is_async else httpx.Client)(transport=_Failing(*ends))
    sleep = driver.waiting(lambda _: None)
    (error,) = driver.run("https://bank.example", identity, caught(STEPS[step]), http=http, sleep=sleep)
    assert type(error) is kind
    assert text in error.message
    assert ("nothing was sent" in error.message) != (
        "may have been carried out" in error.message
    ) or kind is not TransportError


OWN_CODE = as_json(401, {"tppMessages": [{"category": "ERROR", "code": "of 4711", "text": "no"}]})


@pytest.mark.parametrize(
    ("step", "answers", "counted"),
    [
        ("initiate", [CUT_OFF, http(503), as_json(201, INITIATED)], ("answered", "")),
        ("status", [FAILED] * 3, ("refused", "INTERNAL_SERVER_ERROR")),
        ("status", [OWN_CODE], ("refused", "request.refused")),
        ("status", [http(200, b"{}")], ("failed", "model.invalid")),
        ("initiate", [CUT_OFF] * 3, ("failed", "transport.failed")),
        ("initiate", [CUT_OFF, OWN_CODE], ("failed", "answer.after-lost")),
    ],
)  # fmt: skip
def test_a_request_is_counted_once_with_its_final_outcome_and_a_code_of_a_fixed_set(
    step, answers, counted, driver, ask
):
    seen: list[Any] = []

    def count(*given: Any) -> None:
        seen.append(given)
        raise ZeroDivisionError

    left, sleep = iter(answers), driver.waiting(lambda _: None)
    ask(lambda request: next(left)(request), STEPS[step], then_close=True, sleep=sleep, count=count)
    assert [(outcome, code) for outcome, code, seconds in seen if 0 < seconds < 60] == [counted]


def test_an_error_before_a_request_is_sent_is_counted(ask):
    seen: list[Any] = []

    def keep(*_: Any) -> None:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        ask(STATUS, STEPS["initiate"], keep=keep, count=lambda *given: seen.append(given[:2]))
    assert seen == [("failed", "OSError")]


@pytest.mark.parametrize(
    ("retry_after", "pause_s"),
    [("7", 7.0), ("60", 60.0), ("61", None), ("99999999999", None), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.5), ("-1", 0.5), ("\u0663", 0.5)],
)  # fmt: skip
def test_the_servers_retry_after_is_followed_up_to_a_minute(retry_after, pause_s):
    assert pause_before_repeat_s(PAYMENT_STATUS, 1, ServerAnswer(429, {"retry-after": retry_after})) == pause_s


@pytest.mark.parametrize(
    ("method", "signature", "is_coroutine"),
    [
        (GatewayClient.order, "(self, order_id: str) -> Order", False),
        (AsyncGatewayClient.order, "(self, order_id: str) -> Order", True),
        (GatewayClient.orders, ") -> Generator[Order, None, None]", False),
        (AsyncGatewayClient.orders, ") -> AsyncGenerator[Order, None]", False),
        (LegacyClient.balance, "(self, token: str) -> Mapping[str, Decimal]", False),
    ],
)
def test_tools_show_the_signature_that_a_user_calls(method, signature, is_coroutine):
    shown = re.sub(r"[a-z][\w.]*\.(?=[A-Z])", "", str(inspect.signature(method)))
    assert shown.endswith(signature)
    assert inspect.iscoroutinefunction(method) is is_coroutine
    assert get_type_hints(method)["return"] == inspect.signature(method).return_annotation


@pytest.mark.parametrize(
    "client", [Psd2Client, AsyncPsd2Client, LegacyClient, AsyncLegacyClient, GatewayClient, AsyncGatewayClient]
)
def test_help_shows_no_addresses_of_functions(client):
    assert not re.search("<(function|built-in)", pydoc.render_doc(client))


@pytest.mark.parametrize("arguments", [{}, {"order_id": "1", "card": "4111"}])
@pytest.mark.parametrize("method", ["order", "related_orders"])
def test_a_wrong_argument_names_the_method_of_the_client(method, arguments):
    async def use(client):
        await getattr(client("https://gateway.example", api_key="k"), method)(**arguments)

    for client in (GatewayClient, AsyncGatewayClient):
        with pytest.raises(TypeError, match=rf"^{client.__name__}\.{method}\(\) "):
            asyncio.run(use(client))


def test_a_bound_method_has_the_parameters_after_self_and_the_builders_text():
    with GatewayClient("https://gateway.example", api_key="k") as client:
        assert list(inspect.signature(client.order).parameters) == ["order_id"]
        assert "An order with all its transactions" in pydoc.render_doc(client.order)


def test_no_method_of_a_client_shows_what_its_builder_returns():
    clients = (Psd2Client, AsyncPsd2Client, LegacyClient, AsyncLegacyClient, GatewayClient, AsyncGatewayClient)
    methods = [getattr(client, name) for client in clients for name in dir(client) if not name.startswith("_")]
    results = [str(inspect.signature(method).return_annotation) for method in methods if callable(method)]
    assert len(results) > 60
    assert not [result for result in results if "Call[" in result]
