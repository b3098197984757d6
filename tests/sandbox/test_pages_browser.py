"""The pages in Chromium: on a desktop and a phone, in an iframe, without script, by keyboard, and checked by axe."""

from __future__ import annotations

from typing import Any

import pytest
from browser import DARK, DESKTOP, PHONE, Provider, heading, press, require_accessible
from legacy_provider import ORDER, new_id
from raw_provider import PAYMENT, RawProvider, advance, approval_link, checked_sandbox, decide
from test_legacy_pages import TX
from test_psd2_pages import DAILY, JONAS, ONA, SMALL, new_consent

from tppkit.qr import read_texts
from tppkit.sandbox import SandboxSettings

pytestmark = pytest.mark.slow


def returning(tpp: RawProvider, provider: Provider, **options: Any) -> tuple[dict[str, Any], str]:
    """A payment with a return address, and that address."""
    back = f"{provider.url}/back?order=4711&name=a%20b"
    return tpp.new_payment(headers=[("TPP-Redirect-URI", back)], **options), back


def choose(page: Any, customer: str = "Ona Kazlauskienė") -> None:
    page.get_by_role("link", name=customer).click()


def test_the_desktop_shows_a_code_for_the_phone_and_follows_its_decision(tpp, provider, browse):
    payment, back = returning(tpp, provider)
    desktop = browse(approval_link(payment))
    assert not desktop.get_by_role("link", name="Open your bank’s app").is_visible()
    (code,) = read_texts(desktop.screenshot())
    assert code == approval_link(payment) + "/phone"
    phone = browse(code, PHONE)
    choose(phone)
    phone.get_by_label("Savings").check()
    press(phone, "Approve")
    for page in (phone, desktop):
        page.wait_for_url(back)
    assert tpp.status(payment) == "ACSP"


def test_a_phone_shows_a_button_to_the_next_page(tpp, provider, browse):
    payment, back = returning(tpp, provider)
    page = browse(approval_link(payment), PHONE)
    assert not page.get_by_role("img", name="QR code").is_visible()
    page.get_by_role("link", name="Open your bank’s app").click()
    choose(page)
    press(page, "Decline")
    page.wait_for_url(back)
    assert tpp.status(payment) == "RJCT"


def test_story_18_in_an_iframe_of_another_origin_a_decision_redirects_to_the_return_address(tpp, provider, browse):
    """The page has the site localhost, the provider 127.0.0.1."""
    payment, back = returning(tpp, provider)
    provider.frame = approval_link(payment)
    page = browse(f"{provider.url}/shop")
    frame = page.frame_locator("iframe")
    assert frame.get_by_role("img", name="QR code").is_visible()  # narrow, and still on a desktop
    frame.get_by_role("link", name="Continue on this device").click()
    frame.get_by_role("link", name="Ona Kazlauskienė").click()
    with page.expect_event("framenavigated", lambda one: one.url == back):
        frame.get_by_role("button", name="Approve").click()
    assert provider.visits == ["/back?order=4711&name=a%20b"]
    assert tpp.status(payment) == "ACSP"


def test_of_two_tabs_the_first_decides_and_the_second_shows_it(tpp, browse):
    payment = tpp.new_payment()
    url = f"{approval_link(payment)}/phone?customer={ONA}"
    first = browse(url, java_script_enabled=False)
    second, third = browse(url, beside=first), browse(url)
    press(first, "Decline")
    press(second, "Approve")
    assert heading(first) == heading(second) == "Payment declined"
    third.get_by_role("heading", name="Payment declined").wait_for()  # by its script
    assert tpp.status(payment) == "RJCT"


def test_going_back_shows_the_outcome(tpp, provider, browse):
    payment, back = returning(tpp, provider)
    page = browse(f"{approval_link(payment)}/phone?customer={ONA}")
    press(page, "Approve")
    page.wait_for_url(back)
    page.go_back()
    page.get_by_role("heading", name="Payment approved").wait_for()
    assert page.get_by_role("button").count() == 0
    page.get_by_role("link", name="Return to Example Payments TEST").click()
    page.wait_for_url(back)


def test_without_script_everything_works(tpp, provider, browse):
    payment, back = returning(tpp, provider)
    waiting = browse(approval_link(payment), java_script_enabled=False)
    page = browse(approval_link(payment), PHONE, java_script_enabled=False)
    page.get_by_role("link", name="Open your bank’s app").click()
    choose(page)
    press(page, "Approve")
    page.wait_for_url(back)
    waiting.get_by_role("link", name="I have decided: continue").click()
    waiting.wait_for_url(back)


def test_the_keyboard_is_enough(tpp, browse):
    payment = tpp.new_payment()
    page = browse(approval_link(payment))

    def focused() -> str:
        return str(page.evaluate("document.activeElement.innerText || document.activeElement.value"))

    for expected in ("Continue on this device", "OK", DAILY, "Approve"):
        page.keyboard.press("Tab")
        assert expected in focused()
        if expected == DAILY:
            page.keyboard.press("ArrowDown")
        else:
            with page.expect_navigation():
                page.keyboard.press("Enter")
    page.get_by_role("heading", name="Payment approved").wait_for()
    assert tpp.status(payment) == "ACSP"


def test_an_application_that_does_not_open_leaves_the_outcome_on_the_page(tpp, browse):
    payment = tpp.new_payment(headers=[("TPP-Redirect-URI", "com.example.app:/done?x=1")])
    page = browse(f"{approval_link(payment)}/phone?customer={ONA}")
    press(page, "Approve")
    page.get_by_role("heading", name="Payment approved").wait_for()


@pytest.mark.parametrize("form", [DESKTOP, PHONE, DARK], ids=["desktop", "phone", "dark"])
def test_axe_finds_nothing_in_any_page(form, tpp, bank, browse, screenshots, request):
    long = {**PAYMENT, "creditorName": "<b>" + "Ä" * 60, "remittanceInformationUnstructured": "W" * 140}
    payment, consent = tpp.new_payment(body=long), new_consent(tpp)
    approved, declined = tpp.new_payment(headers=[("TPP-Redirect-URI", "https://tpp.example/")]), new_consent(tpp)
    decided = browse(f"{approval_link(approved)}/phone?customer={ONA}")
    decided.route("https://tpp.example/", lambda route: route.fulfill(body="provider"))
    press(decided, "Approve")
    decide(declined, "decline")
    jonas = tpp.new_payment(body={**PAYMENT, "debtorAccount": {"iban": DAILY}})
    pages = {
        "link": approval_link(payment), "customers": f"{approval_link(payment)}/phone",
        "accounts": f"{approval_link(payment)}/phone?customer={ONA}",
        "none": f"{approval_link(jonas)}/phone?customer={JONAS}",
        "consent": approval_link(consent), "share": f"{approval_link(consent)}/phone?customer={ONA}",
        "approved": approval_link(approved), "declined": approval_link(declined),
        "unknown": f"{bank.addresses.approval_url}/approve/unknown", "index": bank.addresses.approval_url,
    }  # fmt: skip
    page = browse(pages["link"], form)
    for name, url in pages.items():
        page.goto(url)
        require_accessible(page, screenshots / f"{request.node.callspec.id}-{name}.png")


@pytest.mark.parametrize("form", [DESKTOP, PHONE, DARK], ids=["desktop", "phone", "dark"])
def test_the_app_takes_codes_and_decides_in_accessible_pages(form, legacy, browse, screenshots, receiver, request):
    def check(name: str) -> None:
        require_accessible(page, screenshots / f"{request.node.callspec.id}-app-{name}.png")

    legacy.send("POST", f"/ais/{new_id()}", {"acc": SMALL})
    legacy.order(legacy.access("pis", acc=SMALL), {**ORDER, "amts": {"EUR": 2.5}, "msg": "W" * 140})
    page = browse(f"{legacy.bank.addresses.approval_url}/app", form)
    check("customers")
    choose(page, "Jonas Petraitis")
    check("waiting")
    while page.get_by_role("button", name="Approve").count():
        page.get_by_role("button", name="Approve").first.click()
        page.get_by_role("status").wait_for()
    receiver.answer(200, {"name": "Bookshop", "perm": ["NAME", "EMAIL"], "code": "4711"})
    for code, customer in ((f"LOGIN:{receiver.url.removeprefix('https://')}", "Marta Nowak"), (TX, "Ona Kazlauskienė")):
        page.get_by_role("textbox").fill(code)
        press(page, "Open the code")
        check(f"scan-{code[:2]}")
        press(page, customer)
        check(f"chosen-{code[:2]}")
        if code == TX:
            press(page, "Approve")
        else:
            page.get_by_label("E-mail address").uncheck()
            press(page, "Log in")
            assert heading(page) == "You are logged in"
            page.goto(f"{legacy.bank.addresses.approval_url}/app?customer={ONA}")
    assert heading(page) == "Payment approved"
    assert set(receiver.wait(2)[1].json) == {"id", "name"}


def test_a_waiting_page_shows_that_the_time_is_over(fresh_bank, connect, browse):
    page = browse(approval_link(connect(fresh_bank).new_payment()))
    advance(fresh_bank, 300)
    page.get_by_role("heading", name="The time to approve is over").wait_for()


def test_the_pages_are_served_over_https_without_asking_for_a_certificate(
    bank_pki_folder, tmp_path, connect, make_merchant, browse
):
    with checked_sandbox(SandboxSettings(tmp_path, pki=bank_pki_folder, pages_tls=True)) as server:
        tpp = connect(server)
        payment = tpp.new_payment()
        assert approval_link(payment).startswith("https://localhost:")
        page = browse(approval_link(payment) + "/phone", ignore_https_errors=True)
        choose(page)
        press(page, "Approve")
        assert heading(page) == "Payment approved"
        assert tpp.status(payment) == "ACSP"
        order = make_merchant(server).order()
        assert order["order_url"].startswith("https://localhost:")
        page.goto(order["order_url"])
        page.get_by_role("link", name="Bank transfer").click()
        press(page, "Approve")
        assert heading(page) == "Payment successful"
