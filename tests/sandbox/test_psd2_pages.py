"""The pages of an approval link without a browser: texts of each state, and the forms that decide."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

import httpx
import pytest
from raw_provider import APPROVE, PAYMENT, RawProvider, advance, approval_link, control, decide

from tppkit.sandbox.psd2.page_texts import OUTCOMES
from tppkit.seals import Message

pytestmark = pytest.mark.slow

BACK = "https://tpp.example/back?x=1&y=2"
ONA, JONAS, MARTA = "customer-1", "customer-2", "customer-3"
DAILY, SHOP, SMALL = "LT029999900000000001", "LT459999900000000003", "LT189999900000000004"
ALL = {"allPsd2": "allAccounts"}


class Page(HTMLParser):
    """The text of a page, and the tags, links and values in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data

    def values(self, name: str) -> list[str | None]:
        return [value for each, value in self.attributes if each == name]


def get(url: str, **headers: str) -> httpx.Response:
    return httpx.get(url, headers=headers, trust_env=False)


def post(url: str, data: Mapping[str, str], **headers: str) -> httpx.Response:
    return httpx.post(url, data=data, headers=headers, trust_env=False)


def refusal_of(order: Mapping[str, Any], form: Mapping[str, str]) -> dict[str, str]:
    """The parameters of the address to which a refused form is redirected: the customer, and the code of the refusal."""
    answer = post(approval_link(order), form)
    path, _, query = answer.headers["location"].partition("?")
    assert (answer.status_code, path) == (303, urlsplit(approval_link(order)).path + "/phone")
    return dict(parse_qsl(query))


def open_link(order: Mapping[str, Any]) -> Page:
    response = get(approval_link(order))
    assert response.status_code == 200
    return Page(response.text)


def open_phone(order: Mapping[str, Any], customer: str = ONA) -> Page:
    return Page(get(f"{approval_link(order)}/phone?customer={customer}").text)


def has_buttons(page: Page) -> bool:
    return "button" in page.tags


def new_consent(tpp: RawProvider, access: Mapping[str, Any] = ALL, *headers: tuple[str, str]) -> dict[str, Any]:
    body = {"access": access, "validUntil": "2999-01-01", "frequencyPerDay": 4}
    named = (("X-Request-ID", str(uuid4())), ("Content-Type", "application/json"))
    message = Message("POST", "/psd2/v1/consents", (*named, *headers), json.dumps(body).encode())
    response = tpp.send(tpp.sealed(message))
    assert response.status_code == 201, response.text
    answer: dict[str, Any] = response.json()
    return answer


def status(tpp: RawProvider, order: Mapping[str, Any]) -> str:
    """The state of a payment or a consent that a poll reports."""
    ((_, reported),) = tpp.request("GET", order["_links"]["status"]["href"]).json().items()
    return str(reported)


def new_order(tpp: RawProvider, kind: str) -> dict[str, Any]:
    return tpp.new_payment() if kind == "payment" else new_consent(tpp)


@pytest.mark.parametrize("path", ["", "/phone"])
def test_the_page_shows_the_payment_in_plain_words(path, tpp):
    text = Page(get(approval_link(tpp.new_payment()) + path).text).text
    for shown in (
        "12.50 EUR", "Example Shop", "DE89 3704 0044 0532 0130 00", "Order 4711", "Example Payments TEST", "PSDLT-BL-LB000000",
        "Bank transfer",
    ):  # fmt: skip
        assert shown in text
    assert not re.search("RCVD|sepa-credit", text)


def test_the_page_shows_the_access_of_a_consent(tpp):
    text = open_link(new_consent(tpp, {"accounts": [{"iban": DAILY}], "balances": [{"iban": DAILY}]})).text
    assert "Its balances" in text
    assert "up to 4 times a day" in text
    assert not re.search("Its transactions|received|allPsd2", text)


@pytest.mark.parametrize("field", ["creditorName", "remittanceInformationUnstructured"])
def test_texts_of_a_provider_are_escaped(field, tpp, bank):
    hostile = "</dd><script>alert('1')</script><img src=x onerror=\"a()\">"
    payment = tpp.new_payment(body={**PAYMENT, field: hostile})
    for url in (approval_link(payment), approval_link(payment) + "/phone", bank.addresses.approval_url):
        page = Page(get(url).text)
        assert hostile in page.text or (field != "creditorName" and url == bank.addresses.approval_url)
        assert "img" not in page.tags
        assert page.tags.count("script") == (url != bank.addresses.approval_url)


def test_a_return_address_cannot_leave_its_attribute(tpp):
    hostile = 'https://tpp.example/"onmouseover="alert(1)"><script>'
    payment = tpp.new_payment(headers=[("TPP-Redirect-URI", hostile)])
    post(approval_link(payment), APPROVE)
    page = open_link(payment)
    assert hostile in page.values("href")
    assert "script" not in page.tags


@pytest.mark.parametrize("action", ["approve", "decline"])
@pytest.mark.parametrize("address", [BACK, "com.example.app:/done?x=1", "http://127.0.0.1:8000/back?x=1"])
def test_a_decision_redirects_to_the_return_address(action, address, tpp):
    for order in (
        tpp.new_payment(headers=[("TPP-Redirect-URI", address)]), new_consent(tpp, ALL, ("TPP-Redirect-URI", address))
    ):  # fmt: skip
        link = approval_link(order)
        answer = post(link, {**APPROVE, "action": action})
        assert (answer.status_code, answer.headers["location"]) == (303, address)
        assert get(f"{link}?returning").headers["location"] == address
        assert address in open_link(order).values("href")


def test_without_a_return_address_a_decision_redirects_to_the_page(tpp):
    payment = tpp.new_payment()
    answer = post(approval_link(payment), APPROVE)
    assert answer.status_code == 303
    assert approval_link(payment).endswith(answer.headers["location"])
    assert get(f"{approval_link(payment)}?returning").status_code == 200


def test_without_script_the_link_reloads_every_30_seconds_until_it_is_decided(tpp):
    payment = tpp.new_payment()
    reload = r'<noscript><meta http-equiv="refresh" content="30;'
    assert reload in get(approval_link(payment)).text
    assert reload not in decide(payment, "approve").text


@pytest.mark.parametrize("kind", ["payment", "consent"])
@pytest.mark.parametrize(
    ("action", "texts"),
    [
        ("approve", ("Payment approved", "Access approved")), ("decline", ("Payment declined", "Access declined")),
        ("cancel", ("Payment cancelled", "Request cancelled")),
    ],
)  # fmt: skip
def test_a_link_decides_once_and_then_shows_only_the_outcome(kind, action, texts, tpp):
    order = new_order(tpp, kind)
    if action == "cancel":
        tpp.cancel(order)
    else:
        decide(order, action)
    before = status(tpp, order)
    again = [decide(order, other) for other in ("approve", "decline")]
    assert {answer.status_code for answer in again} == {200}
    for page in (open_link(order), open_phone(order), *(Page(answer.text) for answer in again)):
        assert texts[kind == "consent"] in page.text
        assert not has_buttons(page)
    assert status(tpp, order) == before


def test_the_page_distinguishes_expired_ended_and_revoked_orders(caller, fresh_bank):
    made, payment = (caller.new_payment() for _ in range(2))
    lost = caller.new_payment(body={**PAYMENT, "creditorAccount": {"iban": "LT729999900000000099"}})
    consent, revoked, ended = (new_consent(caller) for _ in range(3))
    for order, data in (made, {}), (lost, {}), (revoked, {}), (ended, {}):
        post(approval_link(order), APPROVE | data)
    control(fresh_bank, f"/consents/{revoked['consentId']}/revoke")
    advance(fresh_bank, 300)
    for order, text in (
        (payment, "was not approved in time. No money"), (consent, "was not approved in time. No data"), (made, "Payment made"),
        (lost, "Payment failed"), (revoked, "Access withdrawn"),
    ):  # fmt: skip
        assert text in open_link(order).text
    advance(fresh_bank, 181 * 86_400)
    assert "Access has ended" in open_link(ended).text
    assert len(set(OUTCOMES.values())) == len(OUTCOMES)


def test_the_customer_can_choose_only_own_accounts(tpp):
    payment = tpp.new_payment()
    assert not has_buttons(open_phone(payment, "unknown"))
    assert [value for value in open_phone(payment, MARTA).values("value") if value and value.startswith("LT")] == [
        "LT889999900000000005", SHOP,
    ]  # fmt: skip
    refusal = refusal_of(payment, {"action": "approve", "customer": JONAS, "iban": SHOP})
    assert refusal == {"customer": JONAS, "refused": "account.unfit"}
    refused = httpx.get(approval_link(payment) + "/phone", params=refusal, trust_env=False)
    assert ("This account cannot be used" in refused.text, has_buttons(Page(refused.text))) == (True, True)
    assert tpp.status(payment) == "RCVD"
    assert post(approval_link(payment), {"action": "approve", "customer": MARTA, "iban": SHOP}).status_code == 303
    assert tpp.status(payment) == "ACSP"


@pytest.mark.parametrize("kind", ["payment", "consent"])
def test_a_named_account_restricts_the_choice(kind, tpp):
    """Stories 4 and 13."""
    named = {"iban": SMALL}
    if kind == "payment":
        amount = {"currency": "EUR", "amount": "1.00"}
        order = tpp.new_payment(body={**PAYMENT, "instructedAmount": amount, "debtorAccount": named})
    else:
        order = new_consent(tpp, {"accounts": [named]})
    refused = open_phone(order, ONA)
    assert "None of your accounts can be used" in refused.text
    assert not {"approve", "decline", DAILY, SMALL} & set(refused.values("value"))
    for iban in (DAILY, SMALL):
        form = {"action": "approve", "customer": ONA, "iban": iban}
        assert refusal_of(order, form)["refused"] == "account.unfit"
    assert SMALL in open_phone(order, JONAS).values("value")
    assert post(approval_link(order), {"action": "approve", "customer": JONAS, "iban": SMALL}).status_code == 303
    assert status(tpp, order) in ("ACSP", "valid")


@pytest.mark.parametrize("kind", ["payment", "consent"])
@pytest.mark.parametrize(("left_out", "shown"), [("customer", "Who are you?"), ("iban", "Daily account")])
def test_an_approval_without_customer_or_account_shows_the_form_again(left_out, shown, kind, tpp):
    order = new_order(tpp, kind)
    refusal = refusal_of(order, {**APPROVE, left_out: ""})
    answer = httpx.get(approval_link(order) + "/phone", params=refusal, trust_env=False)
    assert (answer.status_code, "Nothing has been approved" in answer.text, shown in answer.text) == (200, True, True)
    assert status(tpp, order) in ("RCVD", "received")


@pytest.mark.parametrize(
    "content",
    [b"", b"action=", b"action=APPROVE", b"other=approve", b"\xff\xfe\x00", b"action=approve" + b"&" * 2000, b"%" * 100],
)  # fmt: skip
def test_a_form_without_a_decision_decides_nothing(content, tpp):
    payment, headers = tpp.new_payment(), {"Content-Type": "application/x-www-form-urlencoded"}
    answer = httpx.post(approval_link(payment), content=content, headers=headers, trust_env=False)
    assert answer.status_code in (400, 413)
    assert get(approval_link(payment) + "/state").json() == {"open": True}
    assert tpp.cancel(payment).status_code == 200  # nothing was opened


def test_a_form_with_21_fields_decides_nothing(tpp):
    payment = tpp.new_payment()
    form = APPROVE | {f"more-{number}": "1" for number in range(17)}
    answer = post(approval_link(payment), {**form, "last": "1"})
    assert (answer.status_code, "The form is not as this page made it" in answer.text) == (400, True)
    assert tpp.status(payment) == "RCVD"
    assert post(approval_link(payment), form).status_code == 303
    assert tpp.status(payment) == "ACSP"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Sec-Fetch-Site": "same-site"}, 403), ({"Sec-Fetch-Site": "none"}, 403),
        ({"Origin": "https://evil.example"}, 403), ({"Origin": "null"}, 403), ({"Origin": "http://["}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 303), ({"Origin": "{own}"}, 303), ({}, 303),
    ],
)  # fmt: skip
def test_a_form_of_another_page_decides_nothing(headers, status, tpp, bank):
    payment = tpp.new_payment()
    sent = {name: value.replace("{own}", bank.addresses.approval_url) for name, value in headers.items()}
    assert post(approval_link(payment), APPROVE, **sent).status_code == status
    assert tpp.status(payment) == ("ACSP" if status == 303 else "RCVD")


def test_a_malformed_request_is_not_answered_as_an_unknown_link(tpp):
    link = approval_link(tpp.new_payment())
    with httpx.Client(trust_env=False) as client:
        response = client.post(link, extensions={"target": httpx.URL(link).raw_path + b"#f"})
    assert response.status_code == 400
    assert "This request cannot be processed" in response.text


def test_no_host_redirects_to_the_host_of_the_request(bank):
    for url in (f"{bank.addresses.approval_url}/approve/x/", f"{bank.addresses.control_url}/clock/"):
        assert get(url, Host="localhost:1").status_code == 404


@pytest.mark.parametrize(
    "token", ["unknown", "%00", "%ff%fe", "'--", "a" * 5000, "%F0%9F%92%A9", "id of payment", "id of consent"]
)
def test_an_unknown_link_is_not_found(token, tpp, bank):
    if token.startswith("id of "):
        kind = token.removeprefix("id of ")
        token = new_order(tpp, kind)[f"{kind}Id"]
    url = f"{bank.addresses.approval_url}/approve/{token}"
    for response in (get(url), get(f"{url}/phone"), post(url, APPROVE)):
        assert response.status_code == 404
        assert "This link leads to no payment" in response.text
    state = get(f"{url}/state")
    assert (state.status_code, state.json()) == (404, {"open": False})


def test_the_page_is_not_stored_runs_its_own_script_only_and_may_be_shown_in_an_iframe(tpp):
    headers = get(approval_link(tpp.new_payment())).headers
    policy = headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
    assert policy.startswith("default-src 'none'")
    assert policy.count("script-src 'sha256-") == 1
    assert "'unsafe-inline'" not in policy.partition("script-src")[2]
    assert headers["referrer-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"
    assert "x-frame-options" not in headers
    assert not re.search("frame-ancestors|form-action", policy)


@pytest.mark.parametrize(
    ("path", "status"), [("/", 200), ("/unknown", 404), ("/approve/x/y", 404), ("/legacy/keys/test.pem", 200), ("/legacy/keys/x.pem", 404)]
)  # fmt: skip
def test_every_answer_of_the_pages_host_has_the_protective_headers(path, status, bank):
    for answer in (get(bank.addresses.approval_url + path), post(bank.addresses.approval_url + path, {})):
        assert answer.status_code in (status, 405)
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Purpose": "prefetch;prerender"}, {"Purpose": "prefetch"}, {"X-Moz": "prefetch"}, {"X-Purpose": "preview"},
        {"User-Agent": "WhatsApp/2.23.20.0"}, {"User-Agent": "Mozilla/5.0 (compatible; Slackbot-LinkExpanding 1.0)"},
    ],
)  # fmt: skip
def test_loading_ahead_and_previews_do_not_open_the_payment(headers, tpp):
    payment = tpp.new_payment()
    httpx.head(approval_link(payment), trust_env=False)
    for path in ("", "/phone", "/phone/state"):
        assert get(approval_link(payment) + path, **headers).status_code == 200
    assert tpp.cancel(payment).status_code == 200


def test_using_the_page_keeps_the_payment_open(caller, fresh_bank):
    """Story 14."""
    payment = caller.new_payment()
    for path in ("", "/phone", "/phone/state", "/phone", "with a form"):
        advance(fresh_bank, 290)
        if path == "with a form":
            get(approval_link(payment) + "/phone", **refusal_of(payment, {"action": "approve"}))  # as browsers do
        else:
            get(approval_link(payment) + path)
    advance(fresh_bank, 290)
    decide(payment, "approve")
    assert caller.status(payment) == "ACSP"


@pytest.mark.parametrize("path", ["/state", "?returning", "with a form"])
def test_what_no_customer_does_keeps_no_payment_open(path, caller, fresh_bank):
    payment = caller.new_payment()
    for _ in range(2):
        advance(fresh_bank, 160)
        if path == "with a form":
            assert post(approval_link(payment), {"action": "other"}).status_code == 400
        else:
            assert get(approval_link(payment) + path).status_code == 200
    assert caller.status(payment) == "RJCT"


@pytest.mark.parametrize(
    ("peer", "host"),
    [("127.0.0.1", "evil.example"), ("127.0.0.1", ""), ("192.0.2.9", "localhost"), ("::ffff:192.0.2.9", "[::1]"), ("fd00::2", "[::1]")],
)  # fmt: skip
def test_the_index_is_for_this_machine_only(peer, host, bank):
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(bank.sandbox.pages, client=(peer, 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/", headers={"Host": host})

    assert asyncio.run(ask()).status_code == 403


def test_the_index_lists_the_banks_data_but_no_link(tpp, bank):
    payment, consent = tpp.new_payment(), new_consent(tpp)
    decide(payment, "decline")
    tpp.request("GET", "/nothing")
    text = Page(get(bank.addresses.approval_url).text).text
    for shown in (
        payment["paymentId"], "RJCT, declined", consent["consentId"], "received, waits", "Ona Kazlauskienė", "RESOURCE_UNKNOWN", "fails",
    ):  # fmt: skip
        assert shown in text
    assert not any(approval_link(order).rpartition("/")[2] in text for order in (payment, consent))
