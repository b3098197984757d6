"""The approval page: what the payer's browser gets, and what its buttons do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest
import resvg_py
from raw_provider import PAYMENT, RawProvider, advance, approval_link, decide

from tppkit.qr import read_texts
from tppkit.sandbox import SandboxServer

BACK = "https://tpp.example/back?x=1&y=2"


class Page(HTMLParser):
    """The text of a page, and the tags and links in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str | None] = []
        self.metas: list[dict[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.metas += [dict(attrs)] if tag == "meta" else []
        self.links += [value for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def reloads_after_s(self) -> int | None:
        """Seconds until the browser loads the page again, with or without script."""
        return next((int(a["content"] or "") for a in self.metas if a.get("http-equiv") == "refresh"), None)


def get(url: str) -> httpx.Response:
    return httpx.get(url, trust_env=False)


def open_link(payment: Mapping[str, Any]) -> Page:
    response = get(approval_link(payment))
    assert response.status_code == 200
    return Page(response.text)


def has_buttons(page: Page) -> bool:
    return "form" in page.tags


def test_the_page_shows_the_payment(tpp: RawProvider, bank: SandboxServer) -> None:
    page = open_link(tpp.new_payment())
    for text in ("12.50 EUR", "Example Shop", "DE89370400440532013000", "Order 4711", "PSDLT-BL-LB000000", "RCVD"):
        assert text in page.text
    assert page.tags.count("button") == 2


def test_the_link_leads_to_the_approval_host(tpp: RawProvider, bank: SandboxServer) -> None:
    assert approval_link(tpp.new_payment()).startswith(bank.addresses.approval_url + "/approve/")


@pytest.mark.parametrize("field", ["creditorName", "remittanceInformationUnstructured"])
def test_what_a_provider_sends_is_shown_as_text(field: str, tpp: RawProvider) -> None:
    hostile = "</dd><script>alert('1')</script><img src=x onerror=\"a()\">"
    page = open_link(tpp.new_payment(body={**PAYMENT, field: hostile}))
    assert hostile in page.text
    assert not {"script", "img"} & set(page.tags)


def test_a_return_address_cannot_leave_its_attribute(tpp: RawProvider) -> None:
    hostile = 'https://tpp.example/"onmouseover="alert(1)"><script>'
    payment = tpp.new_payment(headers=[("TPP-Redirect-URI", hostile)])
    decide(payment, "approve")
    page = open_link(payment)
    assert page.links == [hostile]
    assert "script" not in page.tags


def picture_on(page: str) -> bytes:
    found = re.search(r"<svg .*?</svg>", page, re.DOTALL)
    return bytes(resvg_py.svg_to_bytes(svg_string=found.group())) if found else b""


def test_the_code_on_the_page_leads_a_phone_to_the_same_page(tpp: RawProvider) -> None:
    link = approval_link(tpp.new_payment())
    assert read_texts(picture_on(get(link).text)) == (link,)


def test_a_payment_that_is_decided_has_no_code(tpp: RawProvider) -> None:
    assert picture_on(decide(tpp.new_payment(), "approve").text) == b""


@pytest.mark.parametrize("action", ["approve", "decline"])
def test_the_way_back_to_the_provider_is_shown_at_the_end(action: str, tpp: RawProvider) -> None:
    payment = tpp.new_payment(headers=[("TPP-Redirect-URI", BACK)])
    assert open_link(payment).links == []
    assert Page(decide(payment, action).text).links == [BACK]


def test_without_a_return_address_there_is_no_way_back(tpp: RawProvider) -> None:
    assert Page(decide(tpp.new_payment(), "approve").text).links == []


def test_a_decision_leads_back_to_the_page(tpp: RawProvider) -> None:
    payment = tpp.new_payment()
    response = httpx.post(approval_link(payment), data={"action": "approve"}, trust_env=False)
    assert response.status_code == 303
    assert approval_link(payment).endswith(response.headers["location"])


@pytest.mark.parametrize(("action", "state"), [("approve", re.compile("ACSP")), ("decline", re.compile("RJCT"))])
def test_a_link_that_was_used_shows_only_the_state(action: str, state: re.Pattern[str], tpp: RawProvider) -> None:
    payment = tpp.new_payment()
    assert not has_buttons(Page(decide(payment, action).text))
    again = open_link(payment)
    assert not has_buttons(again)
    assert state.search(again.text)


@pytest.mark.parametrize(("first", "second"), [("approve", "decline"), ("decline", "approve")])
def test_a_link_decides_once(first: str, second: str, tpp: RawProvider) -> None:
    payment = tpp.new_payment()
    decide(payment, first)
    before = tpp.status(payment)
    again = decide(payment, second)
    assert (again.status_code, has_buttons(Page(again.text))) == (200, False)
    assert tpp.status(payment) == before


def test_a_link_of_a_cancelled_payment_shows_only_the_state(tpp: RawProvider) -> None:
    payment = tpp.new_payment()
    tpp.cancel(payment)
    page = open_link(payment)
    assert not has_buttons(page)
    assert "RJCT" in page.text
    decide(payment, "approve")
    assert tpp.status(payment) == "RJCT"


def test_a_link_of_a_payment_that_ran_out_shows_only_the_state(
    fresh_bank: SandboxServer, connect: Callable[..., RawProvider]
) -> None:
    payment = connect(fresh_bank).new_payment()
    advance(fresh_bank, 300)
    page = open_link(payment)
    assert not has_buttons(page)
    assert "RJCT" in page.text


@pytest.mark.parametrize("data", [{}, {"action": ""}, {"action": "APPROVE"}, {"other": "approve"}])
def test_a_form_without_a_decision_decides_nothing(data: dict[str, str], tpp: RawProvider) -> None:
    payment = tpp.new_payment()
    httpx.post(approval_link(payment), data=data, trust_env=False)
    assert tpp.status(payment) == "RCVD"


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"action=approve" + b"&" * 2000, b"%" * 100])
def test_a_form_that_is_none_decides_nothing(content: bytes, tpp: RawProvider) -> None:
    payment = tpp.new_payment()
    assert httpx.post(approval_link(payment), content=content, trust_env=False).status_code in (303, 404)
    assert tpp.status(payment) == "RCVD"


@pytest.mark.parametrize("token", ["unknown", "%00", "%ff%fe", "'--", "a" * 5000, "%F0%9F%92%A9"])
def test_an_unknown_link_is_not_found(token: str, bank: SandboxServer) -> None:
    url = f"{bank.addresses.approval_url}/approve/{token}"
    for response in (get(url), httpx.post(url, data={"action": "approve"}, trust_env=False)):
        assert response.status_code == 404
        assert "This link leads to no payment" in response.text


def test_a_payment_id_is_no_link(tpp: RawProvider, bank: SandboxServer) -> None:
    assert get(f"{bank.addresses.approval_url}/approve/{tpp.new_payment()['paymentId']}").status_code == 404


def test_the_page_is_not_stored_and_runs_no_script(tpp: RawProvider) -> None:
    headers = get(approval_link(tpp.new_payment())).headers
    assert headers["cache-control"] == "no-store"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["x-content-type-options"] == "nosniff"


def test_the_page_asks_for_no_certificate(tpp: RawProvider) -> None:
    assert get(approval_link(tpp.new_payment())).url.scheme == "http"


def test_asking_only_for_the_headers_does_not_open_the_payment(tpp: RawProvider) -> None:
    payment = tpp.new_payment()
    httpx.head(approval_link(payment), trust_env=False)
    assert tpp.cancel(payment).status_code == 200


def test_an_open_page_reloads_every_30_seconds_until_the_payment_is_decided(tpp: RawProvider) -> None:
    payment = tpp.new_payment()
    assert open_link(payment).reloads_after_s == 30
    assert Page(decide(payment, "approve").text).reloads_after_s is None


def test_the_page_may_be_shown_in_an_iframe(tpp: RawProvider) -> None:
    headers = get(approval_link(tpp.new_payment())).headers
    assert "x-frame-options" not in headers
    assert "frame-ancestors" not in headers["content-security-policy"]
