"""The bank's app as a page, and the page of scan links, without a browser: their content, and the forms that decide."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from legacy_provider import (
    DAILY,
    FOREIGN,
    JONAS,
    JONAS_PHONE,
    MARTA,
    ONA,
    ONA_PHONE,
    ORDER,
    SAVINGS,
    SMALL,
    Receiver,
    new_id,
)
from raw_provider import is_refused

from tppkit.sandbox import SandboxServer

pytestmark = pytest.mark.slow

TX = f"TX:{FOREIGN}:Bookshop:EUR:12.50:SHOP:Order 4711"
SCAN = f"/scan?{quote(TX, safe='')}"


@pytest.fixture
def browser(bank: SandboxServer) -> Any:
    with httpx.Client(base_url=bank.addresses.approval_url, trust_env=False, follow_redirects=True) as http:
        yield http


def hidden(page: httpx.Response) -> dict[str, str]:
    """The hidden fields of the first form."""
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text.partition("</form>")[0]))


def send(browser: httpx.Client, page: httpx.Response, fields: Mapping[str, Any], **headers: str) -> httpx.Response:
    """The form of a page, filled in."""
    action = re.search(r'<form method="post" action="([^"]+)"', page.text)
    path = page.url.path if action is None else action[1]
    return browser.post(path, data={**hidden(page), **fields}, headers=headers)


def login(receiver: Receiver) -> str:
    """The path of a scanned login code of the receiver."""
    return f"/scan?{quote('LOGIN:' + receiver.url.removeprefix('https://') + '/login', safe='')}"


def test_a_customer_decides_about_access_with_an_account(browser, legacy):
    token = new_id()
    legacy.send("POST", f"/ais/{token}", {"acc": ONA_PHONE})
    for _ in range(51):
        legacy.send("POST", f"/ais/{new_id()}", {"acc": JONAS_PHONE})
    assert "Ona Kazlauskienė" in browser.get("/app").text
    assert token not in browser.get(f"/app?customer={JONAS}").text
    page = browser.get(f"/app?customer={ONA}")
    assert "asks to see the balance" in page.text
    assert token not in page.text
    for action in ("approve", "decline"):
        form = {**hidden(page), "customer": JONAS, "iban": SMALL, "action": action}
        assert browser.post("/app", data=form).status_code == 404
    done = send(browser, page, {"iban": SAVINGS, "action": "approve"})
    assert "Access approved" in done.text
    assert set(legacy.balance(token)) == {"EUR"}
    again = send(browser, page, {"iban": SAVINGS, "action": "approve"})
    assert (again.status_code, "decided before" in again.text) == (409, True)


def test_a_form_with_21_fields_decides_nothing(browser, legacy):
    uuid, _ = legacy.order(legacy.access("pis"))
    form = {"kind": "payment", "host": "test", "id": uuid, "customer": ONA, "action": "approve"}
    form |= {f"more-{number}": "1" for number in range(15)}
    refused = browser.post("/app", data={**form, "last": "1"})
    assert (refused.status_code, "cannot be processed" in refused.text) == (400, True)
    assert "Payment approved" in browser.post("/app", data=form).text


@pytest.mark.parametrize(("action", "state"), [("approve", "Payment approved"), ("decline", "Payment declined")])
def test_the_customers_of_the_account_decide_about_a_payment(action, state, browser, legacy):
    uuid, _ = legacy.order(legacy.access("pis", acc=SMALL), {**ORDER, "amts": {"EUR": 1.25}, "tcc": "REST"})
    form = {"kind": "payment", "host": "test", "id": uuid, "action": action}
    assert browser.post("/app", data={**form, "customer": MARTA}).status_code == 409
    page = browser.get(f"/app?customer={JONAS}")
    for text in ("Pay 1.25 EUR to Example Shop?", "Order 4711", "restaurants"):
        assert text in page.text
    assert state in send(browser, page, form).text


def test_a_scanned_payment_can_be_declined(browser):
    page = browser.get(SCAN)
    assert "12.50 EUR" in page.text
    chosen = send(browser, page, {"customer": JONAS})
    assert "Payment declined" in send(browser, chosen, {"iban": SMALL, "action": "decline"}).text


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"iban": SMALL, "action": "approve"}, 409),
        ({"action": "approve"}, 400),
        ({"iban": DAILY, "action": "APPROVE"}, 400),
        ({"iban": DAILY, "action": "approve", "payment": "x"}, 400),
        ({"iban": DAILY, "action": "approve", "code": "LOGIN:localhost"}, 400),
        ({"iban": DAILY, "action": "approve", "code": "TX:+37069999999::EUR:1::"}, 409),
        ({"iban": DAILY, "action": "approve", "customer": "nobody"}, 409),
    ],
)
def test_a_wrong_form_pays_nothing(fields, status, browser):
    chosen = send(browser, browser.get(SCAN), {"customer": ONA})
    assert send(browser, chosen, fields).status_code == status


@pytest.mark.parametrize("live", [False, True])
def test_a_login_shows_the_requested_data_and_posts_the_selected_data(live, bank, connect_legacy, browser, receiver):
    legacy = connect_legacy(bank, live=live)
    page = browser.get(legacy.http.get(login(receiver)).headers["location"])
    assert "localhost" in page.text
    assert receiver.arrived == []  # until a customer is chosen
    receiver.answer(200, {"name": "Bookshop <b>", "perm": ["NAME", "PHONE"], "code": "4711"})
    asked = send(browser, page, {"customer": ONA})
    for text in ("Log in at Bookshop &lt;b&gt;?", "4711", "Ona Kazlauskienė", ONA_PHONE):
        assert text in asked.text
    done = send(browser, asked, {"permission": "PHONE", "action": "approve"})
    assert "You are logged in" in done.text
    posted = receiver.wait(2)[1]
    assert {name: posted.json[name] for name in posted.json if name != "id"} == {"phone": ONA_PHONE}
    assert legacy.is_signed(posted, receiver.url.removesuffix("/cb"))


@pytest.mark.parametrize("action", ["approve", "decline"])
def test_a_login_is_for_the_customer_who_scanned_it_and_for_five_minutes(action, browser, legacy, receiver):
    receiver.answer(200, {"name": "Bookshop", "perm": ["ID"]})
    asked = send(browser, browser.get(login(receiver)), {"customer": ONA})
    form, path = {"permission": "ID", "action": action}, asked.url.path
    for answer in (browser.get(f"{path}?customer={JONAS}"), send(browser, asked, {**form, "customer": JONAS})):
        assert (answer.status_code, "not known" in answer.text) == (404, True)
    legacy.control("/clock/advance", {"seconds": 300})
    for answer in (browser.get(asked.url), send(browser, asked, form)):
        assert (answer.status_code, "This login is over" in answer.text) == (409, True)
    assert len(receiver.arrived) == 1


def test_a_dead_login_shows_the_reason(browser, receiver):
    receiver.answer(200, {"perm": []})
    page = send(browser, browser.get(login(receiver)), {"customer": ONA})
    assert (page.status_code, "cannot log in with this code" in page.text, "name" in page.text) == (502, True, True)


def test_a_pasted_code_opens_its_page(browser, bank):
    for code in (TX, f"https://other.example/scan?{quote(TX, safe='')}"):
        assert browser.get("/app", params={"code": code, "host": "live"}).url.path == "/scan/live"
    assert browser.get("/app", params={"code": "hello"}).status_code == 400


@pytest.mark.parametrize(
    "path", ["/scan", "/scan?", "/scan?hello", "/scan?TX%3A", "/scan?LOGIN%3Alocalhost", "/scan/x?TX", "/app/login/x"]
)
def test_an_unreadable_code_is_reported_in_plain_words(path, browser):
    page = browser.get(path)
    assert page.status_code in (400, 404)
    assert "<h1>" in page.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "https://evil.example"},
        {"Host": "evil.example", "Sec-Fetch-Site": "same-origin"},
    ],
)
def test_a_form_of_another_origin_decides_nothing(headers, browser, legacy):
    token = new_id()
    legacy.send("POST", f"/ais/{token}", {"acc": ONA_PHONE})
    form = {**hidden(browser.get(f"/app?customer={ONA}")), "iban": DAILY, "action": "approve"}
    assert browser.post("/app", data=form, headers=headers).status_code == 403
    assert is_refused(legacy.send("GET", f"/ais/{token}/LIST"), 401, "UNAUTHORIZED")


@pytest.mark.parametrize("path", ["/app", "/app%0A", f"/app?customer={ONA}"])
def test_the_app_is_for_this_machine_only(path, browser):
    host = {"Host": "192.0.2.7:8444"}  # a name of the sandbox, under which scanned codes are shown
    assert browser.get(SCAN, headers=host).status_code == 200
    for answer in (browser.get(path, headers=host), browser.post(path, headers=host, data={"action": "approve"})):
        assert (answer.status_code, "for this machine only" in answer.text) == (403, True)


@pytest.mark.parametrize(
    "host", ["192.0.2.7?", "192.0.2.7#", "192.0.2.7/", "192.0.2.7\\", "x@192.0.2.7", "[", "[192.0.2.7"]
)
def test_a_host_that_is_not_a_name_and_a_port_opens_no_page(host, browser):
    for path in ("/app", SCAN):
        assert browser.get(path, headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("name", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Forwarded-Host", "Via"])
def test_the_app_and_the_index_page_do_not_open_through_a_proxy(name, browser):
    for path in ("/app", "/"):
        assert browser.get(path, headers={name: "192.0.2.7"}).status_code == 403


@pytest.mark.parametrize("path", ["/app", f"/app?customer={ONA}", "/app/login/x", "/scan", SCAN])
def test_the_pages_cannot_be_framed(path, browser):
    (policy,) = browser.get(path).headers.get_list("Content-Security-Policy")
    assert policy.endswith("; frame-ancestors 'none'")


def test_the_index_page_shows_access_payments_logins_and_callbacks(browser, legacy, receiver):
    token = legacy.access()
    text = browser.get("/").text
    for heading in ("Legacy access", "Legacy payments", "Logins", "Callbacks"):
        assert heading in text
    assert token in text
