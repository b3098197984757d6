"""Calls are repeated where their row allows it, with the same bytes, and end after three attempts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from http_drivers import caught
from payments import INITIATED, PAYMENT
from rogue_bank import Answer, as_json, http, rogue_bank, server_context

from tppkit.client import Identity
from tppkit.client.answers import pause_before_repeat_s
from tppkit.client.calls import ServerAnswer
from tppkit.errors import OutcomeUnknown, RequestRefused, TransportError
from tppkit.protocol.psd2.endpoints import PAYMENT_STATUS

STATUS = as_json(200, {"transactionStatus": "RCVD"})
BUSY = {"tppMessages": [{"category": "ERROR", "code": "SERVICE_UNAVAILABLE", "text": "locked"}]}
LATER = as_json(503, BUSY)
CUT_OFF = http(200, b"{}", content_length="50")
STEPS = {
    "initiate": lambda client: client.initiate_payment(PAYMENT),
    "status": lambda client: client.payment_status("any"),
    "cancel": lambda client: client.cancel_payment("any"),
}


def run(driver: Any, identity: Identity, folder: Path, step: str, *answers: Answer) -> tuple[Any, Any, list[float]]:
    """The result or error, the bank, and the pauses."""
    pauses: list[float] = []
    left = iter(answers)
    with rogue_bank(server_context(folder), lambda request: next(left)(request), then_close=True) as bank:
        (result,) = driver.run(bank.url, identity, caught(STEPS[step]), sleep=driver.waiting(pauses.append))
    return result, bank, pauses


@pytest.mark.parametrize(("step", "good"), [("initiate", as_json(201, INITIATED)), ("status", STATUS)])
@pytest.mark.parametrize("bad", [CUT_OFF, http(503), http(429)], ids=["cut off", "503", "429"])
def test_a_failed_attempt_is_repeated_byte_for_byte(
    bad: Answer, step: str, good: Answer, driver: Any, identity: Identity, bank_pki_folder: Path
) -> None:
    result, bank, pauses = run(driver, identity, bank_pki_folder, step, bad, bad, good)
    assert result.transaction_status == "RCVD"
    assert pauses == [0.5, 1.0]
    assert bank.requests[0] == bank.requests[1] == bank.requests[2]


@pytest.mark.parametrize(
    ("bad", "error"), [(CUT_OFF, TransportError), (http(503), RequestRefused)], ids=["cut off", "503"]
)
def test_three_attempts_are_the_end(bad, error, driver, identity, bank_pki_folder):
    result, bank, _ = run(driver, identity, bank_pki_folder, "status", bad, bad, bad, STATUS)
    assert (type(result), len(bank.requests)) == (error, 3)


@pytest.mark.parametrize(
    ("step", "bad"), [("cancel", CUT_OFF), ("cancel", http(503)), ("initiate", http(500)), ("status", http(502))]
)
def test_what_may_not_be_repeated_is_sent_once(
    step: str, bad: Answer, driver: Any, identity: Identity, bank_pki_folder: Path
) -> None:
    result, bank, pauses = run(driver, identity, bank_pki_folder, step, bad)
    assert isinstance(result, RequestRefused | TransportError)
    assert (len(bank.requests), pauses) == (1, [])


@pytest.mark.parametrize(
    "refusal", [http(409), http(401), http(500), http(429, retry_after="61")], ids=["409", "401", "500", "429"]
)
@pytest.mark.parametrize("first", [CUT_OFF, http(503)], ids=["cut off", "503 without a code"])
def test_a_refusal_after_a_lost_attempt_leaves_the_payment_unknown(
    first: Answer, refusal: Answer, driver: Any, identity: Identity, bank_pki_folder: Path
) -> None:
    result, bank, _ = run(driver, identity, bank_pki_folder, "initiate", first, refusal)
    assert (type(result), result.code, len(bank.requests)) == (OutcomeUnknown, "answer.after-lost", 2)
    assert result.request_id in result.message
    assert result.request_id.encode() in bank.requests[0]
    assert isinstance(run(driver, identity, bank_pki_folder, "status", first, http(409))[0], RequestRefused)


@pytest.mark.parametrize(
    ("answers", "status"),
    [((LATER, LATER, LATER), 503), ((LATER, http(409)), 409), ((http(429), LATER, LATER), 503)],
)
def test_a_refusal_after_attempts_that_the_service_refused_is_one(
    answers: tuple[Answer, ...], status: int, driver: Any, identity: Identity, bank_pki_folder: Path
) -> None:
    result, bank, _ = run(driver, identity, bank_pki_folder, "initiate", *answers)
    assert (type(result), result.status, len(bank.requests)) == (RequestRefused, status, len(answers))
    assert result.peer_text == ("locked" if status == 503 else None)


@pytest.mark.parametrize(
    ("answers", "status"),
    [((CUT_OFF, LATER, LATER), 503), ((LATER, http(503), LATER), 503)],
    ids=["cut off", "no code"],
)
def test_one_attempt_without_an_answer_of_the_service_leaves_the_payment_unknown(
    answers: tuple[Answer, ...], status: int, driver: Any, identity: Identity, bank_pki_folder: Path
) -> None:
    result, _, _ = run(driver, identity, bank_pki_folder, "initiate", *answers)
    assert (type(result), result.code, result.status) == (OutcomeUnknown, "answer.after-lost", status)


@pytest.mark.parametrize(
    ("retry_after", "pause_s"),
    [("7", 7.0), ("60", 60.0), ("61", None), ("99999999999", None), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.5), ("-1", 0.5), ("\u0663", 0.5)],
)  # fmt: skip
def test_the_servers_retry_after_is_followed_up_to_a_minute(retry_after: str, pause_s: float | None) -> None:
    assert pause_before_repeat_s(PAYMENT_STATUS, 1, ServerAnswer(429, {"retry-after": retry_after})) == pause_s
