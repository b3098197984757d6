"""examples/shop against a sandbox's gateway: both ways end in a paid order that is delivered once, and no card number is kept."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from secrets import token_urlsafe
from typing import NamedTuple

import httpx
import pytest
from example_folders import Example
from serving import free_port, wait_until

from tppkit.testing import assert_no_pan

pytestmark = pytest.mark.slow

PAN, CVC, DECLINED = "4111111111111111", "0739", "4000000000000002"
CARD = {"number": "4111 1111 1111 1111", "expiry": "122030", "cvc": CVC}


class Shop(NamedTuple):
    """The example with all its servers, and a browser."""

    example: Example
    page: httpx.Client

    def send(self, path: str, reference: str, **form: str) -> httpx.Response:
        return self.page.post(path, data={"reference": reference, **form})

    def status(self, reference: str) -> str:
        return re.search(r"EUR 12.50, (\w+)", self.page.get(f"/orders/{reference}").text)[1]

    def order_id(self, reference: str) -> str:
        with closing(sqlite3.connect(self.example.folder / "shop.sqlite")) as database:
            return str(database.execute("SELECT order_id FROM orders WHERE reference = ?", [reference]).fetchone()[0])

    def delivered(self, reference: str) -> int:
        return self.example.log.read_text().splitlines().count(f"deliver {reference}")


@contextmanager
def serving_shop(scratch: Path) -> Iterator[Shop]:
    example = Example("shop", scratch)
    example.prepare()
    port = free_port()
    with ExitStack() as stack:
        at = stack.enter_context(example.sandbox())
        url = f"https://localhost:{port}"
        example.environment |= example.settings() | {
            "PUBLIC_URL": url, "GATEWAY_URL": at.gateway_url, "VAULT_URL": at.vault_url,
        }  # fmt: skip
        stack.enter_context(example.running("gunicorn", ports={"127.0.0.1:9443": f"127.0.0.1:{port}"}))
        page = stack.enter_context(example.browser(url))
        example.wait_for(page)
        stack.enter_context(example.running("tppkit inbox work"))
        yield Shop(example, page)


@pytest.fixture(scope="module")
def shop(tmp_path_factory) -> Iterator[Shop]:
    with serving_shop(tmp_path_factory.mktemp("examples")) as served:
        yield served


def test_an_order_on_the_hosted_page_is_delivered_once_whatever_the_gateway_sends(shop):
    reference = token_urlsafe(16)
    sent = shop.send("/hosted", reference)
    assert sent.status_code == 303, sent.text
    assert "/gateway/orders/" in sent.headers["Location"]
    assert shop.send("/hosted", reference).headers["Location"] == f"/orders/{reference}"  # the same form again
    assert shop.status(reference) == "open"
    shop.example.control("/faults", {"name": "duplicate", "sender": "gateway"})
    shop.example.control(f"/gateway/orders/{shop.order_id(reference)}/pay", {"outcome": "approved"})
    wait_until(lambda: shop.status(reference) == "paid", "the delivery")
    shop.example.control(f"/gateway/orders/{shop.order_id(reference)}/refund", {"amount": 100})
    shop.example.control("/clock/advance", {"seconds": 0})
    later = token_urlsafe(16)
    shop.send("/hosted", later)
    shop.example.control(f"/gateway/orders/{shop.order_id(later)}/pay", {"outcome": "cancelled"})
    wait_until(lambda: shop.status(later) == "closed", "the end of the other order")
    assert (shop.status(reference), shop.delivered(reference), shop.delivered(later)) == ("paid", 1, 0)
    shop.example.control(f"/gateway/orders/{shop.order_id(reference)}/refund", {"amount": 1150})
    wait_until(lambda: shop.status(reference) == "closed", "the refund of the rest")


def test_a_card_in_the_own_checkout_is_charged_once_and_kept_nowhere(tmp_path):
    reference, declined, wrong = (token_urlsafe(16) for _ in range(3))
    with serving_shop(tmp_path) as shop:
        for _ in range(2):
            sent = shop.send("/card", reference, **CARD)
            assert (sent.status_code, sent.headers["Location"]) == (303, f"/orders/{reference}"), sent.text
        wait_until(lambda: shop.status(reference) == "paid", "the delivery")
        shop.send("/card", declined, **{**CARD, "number": DECLINED})
        wait_until(lambda: shop.status(declined) == "closed", "the end of the declined order")
        for form in ({"number": PAN + "1111"}, {"number": "4111-1111"}, {"expiry": "132030"}, {"cvc": PAN}):
            answer = shop.send("/card", token_urlsafe(16), **{**CARD, **form})
            assert (answer.status_code, "check your card" in answer.text) == (422, True)
        assert shop.send("/card", wrong[:-1], **CARD).status_code == 400
        assert (shop.delivered(reference), shop.delivered(declined)) == (1, 0)
    shop.example.run(" ".join(shop.example.command("tppkit pan scan")))
    files = [path for path in shop.example.folder.glob("*") if path.name not in ("sandbox", "README.md")]
    assert_no_pan(*files, shop.example.log, cards=[PAN, DECLINED, CVC])


def test_only_the_vault_can_refuse_a_card(shop):
    for endpoint, interface, status in (("create_order", "gateway", 503), ("store_card", "vault", 422)):
        shop.example.control(
            "/faults", {"name": "status-429", "interface": interface, "endpoint": endpoint, "count": 5}
        )
        reference = token_urlsafe(16)
        answer = shop.send("/card", reference, **CARD)
        httpx.delete(f"{shop.example.control_url}/faults", trust_env=False).raise_for_status()
        assert (answer.status_code, "not accepted" in answer.text) == (status, status == 422)
        assert shop.status(reference) == "failed"


def test_other_pages_and_forged_webhooks_change_nothing(shop):
    for origin in ("https://evil.example", "null", ""):
        sent = shop.page.post("/hosted", data={"reference": token_urlsafe(16)}, headers={"Origin": origin})
        assert sent.status_code == 403
    path = shop.example.environment["WEBHOOK_PATH"]
    assert shop.page.post(path, json={}).status_code == 400
    assert shop.page.post(path + "x", json={}).status_code == 404
    index = shop.page.get("/")
    assert "frame-ancestors 'none'" in index.headers["Content-Security-Policy"]
    assert index.headers["Referrer-Policy"] == "same-origin"
    assert index.headers["X-Content-Type-Options"] == "nosniff"
    assert path not in shop.example.log.read_text()
