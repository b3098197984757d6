"""The inspector in Chromium: live and without script, by keyboard, and checked by axe on a desktop and a phone."""

from __future__ import annotations

import pytest
from browser import DARK, heading, press, require_accessible
from raw_provider import PAYMENTS, RawProvider, altered

pytestmark = pytest.mark.slow

DESKTOP = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 375, "height": 812}, "has_touch": True, "is_mobile": True}


def refuse(tpp: RawProvider) -> None:
    """Send a payment that was sealed for another path, as behind a proxy that adds a prefix."""
    sealed = tpp.sealed(altered(tpp.message(), target=PAYMENTS.removeprefix("/psd2")))
    tpp.send(altered(sealed, target=PAYMENTS))


@pytest.mark.parametrize(("name", "form"), [("desktop", DESKTOP), ("phone", PHONE), ("dark", DARK)])
def test_the_pages_are_accessible_and_fit_the_screen(name, form, bank, tpp, browse, screenshots):
    tpp.new_payment()
    refuse(tpp)
    url = bank.addresses.control_url + "/inspector"
    page = browse(url, form)
    page.get_by_text("Requests appear as they arrive.").wait_for()
    page.get_by_text("Clock and faults").click()
    require_accessible(page, screenshots / f"inspector-{name}.png")
    assert all(cell.is_visible() for cell in page.locator("#rows tr").first.locator("td").all())
    page.get_by_role("link", name=f"POST {PAYMENTS}").first.click()
    assert heading(page) == f"POST {PAYMENTS}"
    assert page.get_by_role("heading", name="What the bank computed").is_visible()
    assert page.get_by_text("Example Shop").is_visible()
    require_accessible(page, screenshots / f"inspector-seal-{name}.png")


def test_requests_appear_until_they_are_paused(fresh_bank, caller, browse):
    page = browse(fresh_bank.addresses.control_url + "/inspector?status=4xx", DESKTOP)
    assert page.get_by_text("No requests yet.").is_visible()
    caller.new_payment()
    refuse(caller)
    page.get_by_text("SIGNATURE_INVALID").wait_for()
    assert page.locator("#rows tr").count() == 1  # the filter holds
    assert not page.get_by_text("No requests yet.").is_visible()
    press(page, "Pause")
    refuse(caller)
    press(page, "Resume")
    page.locator("#rows tr").nth(1).wait_for()
    assert page.locator("#rows tr").count() == 2


def test_without_script_by_keyboard_a_payment_is_approved(fresh_bank, caller, browse):
    payment = caller.new_payment()
    page = browse(fresh_bank.addresses.control_url + "/inspector", DESKTOP, java_script_enabled=False)
    assert page.get_by_text("Reload the page to see the latest.").is_visible()
    page.get_by_role("link", name=f"POST {PAYMENTS}").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Approve the payment").focus()
    page.keyboard.press("Enter")
    page.get_by_text("Approved.").wait_for()
    assert caller.status(payment) == "ACSP"
    page.get_by_role("link", name="All requests").click()
    page.get_by_text("Clock and faults").click()
    page.get_by_label("Seconds").fill("3600")
    press(page, "Advance")
    page.get_by_text("The clock was advanced.").wait_for()
    assert caller.status(payment) == "ACSC"
