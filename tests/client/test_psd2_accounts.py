"""Consents and account information as a client reads them, from banks that answer well, otherwise, or badly."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pytest
from http_drivers import caught
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rogue_bank import Answer, RogueBank, as_json, http, rogue_bank, server_context

from tppkit.client import Identity
from tppkit.client.calls import MAX_PAGES
from tppkit.client.psd2 import Psd2Calls
from tppkit.errors import RemoteProtocolError, TransportError
from tppkit.protocol.psd2 import Access, BookingStatus, ConsentRequest, ConsentStatus, TransactionReport

CONSENT = ConsentRequest(
    access=Access(all_psd2="allAccounts"), valid_until=date(2026, 12, 1), frequency_per_day=4, recurring_indicator=True
)
LINKS = {name: {"href": "https://bank.example/x"} for name in ("scaRedirect", "self", "status")}
CREATED = {"consentId": "c-1", "status": "received", "_links": LINKS}
IBAN = {"iban": "LT601010012345678901"}
BALANCES = {
    "account": IBAN,
    "balances": [{"balanceType": "closingBooked", "balanceAmount": {"currency": "JPY", "amount": "7"}}],
}
ACCOUNTS = {"accounts": [{"resourceId": "r-1", "iban": IBAN["iban"], "currency": "XXX", "name": "n" * 200, "bic": "X"}]}
FIRST = "/psd2/v1/accounts/r-1/transactions?dateFrom=2026-01-01&bookingStatus=booked"
EMPTY = as_json(200, {"account": IBAN, "transactions": {}})


def page(*ids: str, next_: str | None = None, pending: tuple[str, ...] = ()) -> dict[str, Any]:
    def entries(names: tuple[str, ...]) -> list[dict[str, Any]]:
        return [{"transactionId": name, "transactionAmount": {"currency": "EUR", "amount": "-1.00"}} for name in names]

    links = {} if next_ is None else {"_links": {"next": {"href": next_}}}
    return {"account": IBAN, "transactions": {"booked": entries(ids), "pending": entries(pending), **links}}


def collect(rows: Any, found: list[str]) -> Any:
    """Append the ids as they arrive: at once, or by a coroutine."""

    async def from_async() -> None:
        async for row in rows:
            found.append(row.transaction_id)  # noqa: PERF401  # an error comes after rows

    if hasattr(rows, "__aiter__"):
        return from_async()
    found.extend(row.transaction_id for row in rows)
    return None


def iterate(client: Any, found: list[str], **options: Any) -> Any:
    return collect(client.iter_transactions("c-1", "r-1", date_from=date(2026, 1, 1), **options), found)


class Played:
    """What a call gave: its result or error, the bank, and the pauses."""

    def __init__(self, bank: RogueBank) -> None:
        self.bank, self.result, self.pauses = bank, None, list[float]()
        self.now = 0.0

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def values(self, number: int, *names: str) -> list[tuple[str, ...]]:
        return [tuple(self.bank.message(number).values(name)) for name in names]


@pytest.fixture
def play(driver: Any, identity: Identity, bank_pki_folder: Path) -> Callable[..., Played]:
    """Runs one step against a bank that gives these answers, the last one for ever; each on a connection of its own."""

    def played(step: Callable[[Any], Any], *answers: Answer, prefix: str = "") -> Played:
        left = list(answers)

        def answer(request: bytes) -> bytes:
            return (left.pop(0) if len(left) > 1 else left[0])(request)

        with rogue_bank(server_context(bank_pki_folder), answer, then_close=True) as bank:
            run = Played(bank)
            timing = {"sleep": driver.waiting(run.sleep), "clock": lambda: run.now}
            (run.result,) = driver.run(bank.url + prefix, identity, caught(step), **timing)
        return run

    return played


def test_a_consent_is_created_with_a_seal_and_where_the_customer_returns_to(play):
    further = {"redirect_uri": "com.example.app:/done?x=1", "psu_ip_address": "2001:db8::1"}
    run = play(lambda client: client.create_consent(CONSENT, **further), as_json(201, CREATED))
    sent = run.bank.message()
    assert (sent.method, sent.target, ConsentRequest.from_wire(sent.body)) == ("POST", "/psd2/v1/consents", CONSENT)
    assert [len(sent.values(name)) for name in ("Signature", "Digest", "TPP-Signature-Certificate")] == [1, 1, 1]
    assert run.values(0, "TPP-Redirect-URI", "PSU-IP-Address") == [(value,) for value in further.values()]
    assert (run.result.consent_id, run.result.status) == ("c-1", ConsentStatus.RECEIVED)


CALLS: dict[str, tuple[Callable[[Any], Any], dict[str, Any], str]] = {
    "consent": (
        lambda client: client.consent("c-1"),
        {"consentStatus": "rejected", "access": {"availableAccounts": "allAccountsWithOwnerName"}, "validUntil": "9999-12-31",
         "frequencyPerDay": 4, "lastActionDate": "2026-01-01"},
        "/psd2/v1/consents/c-1",
    ),
    "status": (lambda client: client.consent_status("c-1"), {"consentStatus": "valid"}, "/psd2/v1/consents/c-1/status"),
    "accounts": (lambda client: client.accounts("c-1"), ACCOUNTS, "/psd2/v1/accounts"),
    "with balance": (
        lambda client: client.accounts("c-1", with_balance=True), ACCOUNTS, "/psd2/v1/accounts?withBalance=true"
    ),
    "balances": (lambda client: client.balances("c-1", "r-1"), BALANCES, "/psd2/v1/accounts/r-1/balances"),
    "transactions": (
        lambda client: client.transactions(
            "c-1", "r-1", date_from=date(2026, 1, 1), date_to=date(2026, 1, 31), booking_status=BookingStatus.BOTH
        ),
        page("t-1", pending=("p-1",), next_="/psd2/v1/x"),
        "/psd2/v1/accounts/r-1/transactions?dateFrom=2026-01-01&bookingStatus=both&dateTo=2026-01-31",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_an_answer_of_another_bank_is_read_and_kept(name, play):
    step, body, target = CALLS[name]
    run = play(step, as_json(200, body))
    named = {key: value for key, value in body.items() if key != "consentStatus"}
    if "consentStatus" in body:
        named["status"] = {"rejected": "revoked"}.get(body["consentStatus"], body["consentStatus"])
    assert run.result.to_object() == named
    assert run.bank.message().target == target
    assert run.values(0, "Consent-ID") == [() if "/consents" in target else ("c-1",)]


@pytest.mark.parametrize("name", ["account", "booked", "pending", "_links", "next"])
def test_an_optional_member_that_is_null_is_absent(name, play):
    answer = page("t-1", next_="/x", pending=("p-1",))
    (place,) = (one for one in (answer, answer["transactions"], answer["transactions"]["_links"]) if name in one)
    place[name] = None
    of_null = play(
        lambda client: client.transactions("c", "r", date_from=date(2026, 1, 1)), as_json(200, answer)
    ).result
    del place[name]
    assert of_null == TransactionReport.from_wire(json.dumps(answer).encode())


@pytest.mark.parametrize("answer", [http(200), http(202), http(204), as_json(200, {"any": "thing"})])
def test_a_consent_is_deleted_whatever_the_success_and_a_payment_cancelled_also_without_a_body(answer, play):
    run = play(lambda client: client.delete_consent("c-1"), answer)
    assert (run.result, run.bank.message().method) == (None, "DELETE")
    if b"{" not in answer(b""):
        assert play(lambda client: client.cancel_payment("p-1"), answer).result.transaction_status == "CANC"


@pytest.mark.parametrize(
    ("options", "code"),
    [({"psu_ip_address": "1.2.3"}, "header.psu-ip-address"), ({"consent_id": ""}, "header.consent-id")],
)
def test_a_nonsensical_header_is_not_sent(options, code, play):
    run = play(lambda client: client.accounts(**{"consent_id": "c-1"} | options), as_json(200, ACCOUNTS))
    assert (run.result.code, run.bank.requests) == (code, [])


def test_an_error_has_status_code_and_request_id(play):
    refusal = as_json(429, {"tppMessages": [{"category": "ERROR", "code": "ACCESS_EXCEEDED"}]}, retry_after="3600")
    run = play(lambda client: client.accounts("c-1"), refusal)
    assert (run.result.status, run.result.peer_code, len(run.bank.requests)) == (429, "ACCESS_EXCEEDED", 1)
    assert run.values(0, "X-Request-ID") == [(run.result.request_id,)]


STATES = [{"consentStatus": state} for state in ("received", "partiallyAuthorised", "odd")]


@pytest.mark.parametrize(
    ("answers", "options", "found", "pauses"),
    [
        *(([*STATES, {"consentStatus": last}], {"interval_s": 0.1}, found, [2.0] * 3) for last, found in (
            ("valid", "valid"), ("expired", "expired"), ("revokedByPsu", "revoked"), ("terminatedByTpp", "revoked"),
        )),
        ([{"status": "received"}], {"wait_s": 9}, "consent.not-decided", [3.0] * 3),
        *(([trouble, {"status": "valid"}], {}, "valid", [pause_s]) for trouble, pause_s in (
            (http(503), 3.0), (http(429, retry_after="1"), 3.0), (http(429, retry_after="7"), 7.0),
            (http(200, b"{}", content_length="9"), 3.0),
        )),
    ],
)  # fmt: skip
def test_a_consent_is_waited_for_until_the_customer_has_decided_or_the_time_is_over(
    answers, options, found, pauses, play
):
    given = [one if callable(one) else as_json(200, one) for one in answers]
    run = play(lambda client: client.wait_for_consent("c-1", **options), *given)
    assert (getattr(run.result, "code", run.result), run.pauses) == (found, pauses)
    assert not hasattr(run.result, "code") or type(run.result) is TransportError


@pytest.mark.parametrize("prefix", ["", "/gateway"])
def test_pages_are_followed_to_their_end_with_the_same_consent(prefix, play):
    found: list[str] = []
    pages = [
        page("t-3", "t-2", pending=("p-1",), next_=FIRST + "&after=t-2"),
        page("t-1", next_=prefix + FIRST + "&after=t-1"),
        page("t-0"),
    ]
    step = lambda client: iterate(client, found, psu_ip_address="192.0.2.7")  # noqa: E731  # as short as its use
    run = play(step, http(503), *[as_json(200, one) for one in pages], prefix=prefix)
    assert found == ["p-1", "t-3", "t-2", "t-1", "t-0"]
    targets = [run.bank.message(number).target for number in range(4)]
    assert targets == [prefix + FIRST] * 2 + [f"{prefix}{FIRST}&after={last}" for last in ("t-2", "t-1")]
    assert {tuple(run.values(number, "Consent-ID", "PSU-IP-Address")) for number in range(4)} == {
        (("c-1",), ("192.0.2.7",))
    }
    assert len({tuple(run.values(number, "X-Request-ID")) for number in range(4)}) == 3


def test_a_link_with_the_banks_own_origin_is_followed(play):
    def first(request: bytes) -> bytes:
        host = request.split(b"Host: ", 1)[1].split(b"\r\n", 1)[0].decode()
        return as_json(200, page(next_=f"https://{host}{FIRST}&after=x"))(request)

    run = play(lambda client: iterate(client, []), first, EMPTY)
    assert (run.result, len(run.bank.requests)) == (None, 2)


@pytest.mark.parametrize(
    "href",
    [
        "", "next", "//evil.example/psd2/v1/x", "https://evil.example/psd2/v1/x", "http://localhost/psd2/v1/x", "/psd2/v1", "/psd2/v1/",
        "/psd2/v1evil/x", "/psd2/v2/x", "/other", "/psd2/v1/../../control", "/psd2/v1/./x", "/psd2/v1/%2e%2e/x", "/psd2/v1/a%2Fb",
        "/psd2/v1//x", "/psd2/v1/x#y", "/psd2/v1/x y", "/psd2/v1/x\\y", "/psd2/v1/x\r\nA: b", "/psd2/v1/é", "/psd2/v1/x?a=%zz",
        "/psd2/v1/" + "x" * 5000,
        "javascript:alert(1)", "?after=1", "@evil.example/psd2/v1/x", "/gateway/psd2/v1/x",
    ],
)  # fmt: skip
def test_a_link_that_leads_elsewhere_is_not_followed(href, play):
    found: list[str] = []
    run = play(lambda client: iterate(client, found), as_json(200, page("t-1", next_=href)))
    assert (type(run.result), run.result.code) == (RemoteProtocolError, "answer.link")
    assert (found, len(run.bank.requests)) == (["t-1"], 1)


@pytest.mark.parametrize(
    "links", [[FIRST], [FIRST + "&after=a", FIRST + "&after=a"], [FIRST + "&after=a", FIRST + "&after=b", FIRST]]
)
def test_pages_that_link_in_a_circle_are_abandoned(links, play):
    run = play(lambda client: iterate(client, []), *[as_json(200, page(next_=link)) for link in links])
    assert (type(run.result), run.result.code, len(run.bank.requests)) == (
        RemoteProtocolError,
        "answer.pages",
        len(links),
    )


def test_pages_without_an_end_are_abandoned(identity):
    paged = Psd2Calls("https://bank.example", identity=identity).iter_transactions("c", "r", date_from=date(2026, 1, 1))
    report = TransactionReport.from_wire(json.dumps(page(next_="/psd2/v1/x")).encode())
    seen = {str(number) for number in range(MAX_PAGES - 2)}
    assert paged.after(report, set(seen)) is not None
    with pytest.raises(RemoteProtocolError):
        paged.after(report, seen | {"last"})


PIECES = st.sampled_from(
    [
        "/psd2/v1",
        "/",
        ".",
        "..",
        "%2e",
        "?",
        "&a=",
        "#",
        "\\",
        ":",
        "@",
        "'",
        "[",
        "^",
        "x",
        " ",
        "https://bank.example",
    ]
)


@given(st.text() | st.lists(PIECES | st.characters(), max_size=12).map(lambda rest: "/psd2/v1/" + "".join(rest)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_the_link_only_a_path_of_the_interface_is_followed(identity, href):
    calls = Psd2Calls("https://bank.example/gateway", identity=identity)
    try:
        target = calls.linked_target(href, below="/psd2/v1")
    except RemoteProtocolError:
        return
    url = httpx.URL(calls.origin + target)
    assert (url.host, url.raw_path.decode(), url.path[:17]) == ("bank.example", target, "/gateway/psd2/v1/")
    assert not {".", ".."} & set(url.path.split("/"))
