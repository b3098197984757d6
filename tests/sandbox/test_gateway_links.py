"""Payment links and wallet sessions over HTTPS."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from gateway_customer import Customer
from merchant import ASKED, DECLINED, LINK
from raw_provider import control, is_refused
from sqlalchemy import create_engine

from tppkit.protocol.gateway.bodies import PaymentLinkRequest
from tppkit.protocol.gateway.orders import OrderTerms
from tppkit.protocol.gateway.states import LinkStatus, OrderStatus
from tppkit.sandbox.gateway.cipher import CardCipher
from tppkit.sandbox.gateway.link_tables import LINKS, StoredLink, next_due
from tppkit.sandbox.gateway.links import follow_order
from tppkit.sandbox.gateway.projects import Projects
from tppkit.sandbox.gateway.settings import GatewaySettings, Job
from tppkit.sandbox.gateway.tables import TABLES, StoredOrder
from tppkit.sandbox.outgoing_http import Receivers

pytestmark = pytest.mark.slow

DAY = 86400


def test_a_link_has_its_terms_and_no_order_before_a_payment(merchant):
    page = {"description": "Chairs", "return_url": "https://shop.example/"}
    terms = {**page, "expiration_period": "P2D", "payment_methods": ["credit-card"]}
    link = merchant.link(**terms, unlisted=1)
    assert {**LINK, **terms}.items() <= link.items()
    assert (link["status"], link["orders"], link["project_id"]) == ("new", {}, merchant.project_id)
    assert "completed_order_id" not in link
    assert "unlisted" not in link
    assert merchant.read_link(link) == link


def test_each_attempt_is_an_order_and_a_later_one_can_still_succeed(merchant):
    link = merchant.link(webhook_url="https://shop.example/hook", return_url="https://shop.example/")
    failed = merchant.pay_link(link, card=DECLINED)
    assert (failed["status"], list(failed["orders"])) == ("all_unsuccessful", ["error"])
    left = merchant.pay_link(link, outcome="cancelled")
    assert (left["status"], set(left["orders"])) == ("all_unsuccessful", {"error", "cancelled"})
    paid = merchant.pay_link(link, card=merchant.pan)
    assert paid == merchant.read_link(link)
    assert (paid["status"], paid["orders"]["completed"]) == ("completed", [paid["completed_order_id"]])
    assert len({link["reason"], failed["reason"], paid["reason"]}) == 3
    order = merchant.read({"id": paid["completed_order_id"]})
    assert (order["related_payment_link_id"], len(order["transactions"])) == (link["id"], 1)
    kept = {name: order.get(name) for name in (*LINK, "webhook_url", "return_url", "description")}
    assert kept == {**LINK, "webhook_url": link["webhook_url"], "return_url": link["return_url"], "description": None}
    assert "setup_token" not in order["transactions"][0]["payment_method_details"]


def test_a_paid_link_takes_no_other_payment(merchant):
    paid = merchant.pay_link(link := merchant.link(), outcome="approved")
    refused = control(merchant.bank, f"/gateway/paymentlinks/{link['id']}/pay", {"outcome": "approved"})
    assert is_refused(refused, 400, "machine.no-such-move")
    assert merchant.read_link(link) == paid


def test_the_page_of_a_link_offers_the_methods_that_the_project_and_the_link_have(merchant):
    transfer = merchant.link(payment_methods=["bank-transfer"])
    path = f"/gateway/paymentlinks/{transfer['id']}/pay"
    merchant.cards.pan(merchant.pan)
    assert is_refused(control(merchant.bank, path, {"card": merchant.pan}), 400, "order.method")
    paid = merchant.pay_link(transfer, outcome="approved")
    (transaction,) = merchant.read({"id": paid["completed_order_id"]})["transactions"]
    assert transaction["payment_method"] == "bank-transfer"


@pytest.mark.parametrize("path", ["/v1/orders/", "/sandbox/v1/paymentlinks/"])
def test_an_order_without_a_payment_method_of_the_project_is_rejected(path, merchant):
    answer = merchant.send("POST", path, {**LINK, "payment_methods": ["other"]})
    assert is_refused(answer, 400, "FORMAT_ERROR")
    assert "credit-card, bank-transfer" in answer.text


def test_a_project_has_the_methods_that_it_was_made_with(bank, make_merchant):
    merchant = make_merchant(bank, payment_methods=["bank-transfer"])
    path = f"/gateway/orders/{merchant.order()['id']}/pay"
    assert is_refused(control(merchant.bank, path, {"card": merchant.pan}), 400, "order.method")
    names = [f"{number:040}" for number in range(51)]
    assert make_merchant(bank, payment_methods=names[:50]).project_id
    assert is_refused(control(merchant.bank, "/gateway/projects", {"payment_methods": names}), 400, "model.invalid")


def test_a_developer_makes_links_for_the_first_project_or_another(merchant):
    first = merchant.control("/gateway/paymentlinks", LINK)
    own = merchant.control("/gateway/paymentlinks", {**LINK, "project_id": merchant.project_id})
    assert first["project_id"] == merchant.bank.addresses.project_id
    assert merchant.read_link(own) == own
    assert is_refused(merchant.send("GET", f"/v1/paymentlinks/{first['id']}/"), 404, "NOT_FOUND")
    strange = {**LINK, "project_id": own["id"]}
    assert is_refused(control(merchant.bank, "/gateway/paymentlinks", strange), 400, "project.unknown")


def test_a_link_expires_after_30_days_or_its_period(timed_merchant):
    merchant = timed_merchant
    short, long, failed = merchant.link(expiration_period="P1D"), merchant.link(), merchant.link()
    merchant.pay_link(failed, outcome="declined")
    merchant.advance(DAY)
    found = [merchant.read_link(link)["status"] for link in (short, long, failed)]
    assert found == ["expired", "new", "all_unsuccessful"]
    merchant.advance(29 * DAY)
    assert [merchant.read_link(link)["status"] for link in (long, failed)] == ["expired", "expired"]


def test_the_end_of_a_link_waits_for_an_attempt_under_way(timed_merchant):
    link = timed_merchant.link(expiration_period="PT1M")
    customer = Customer(timed_merchant, link["payment_url"])
    assert customer.pay(ASKED) == "Confirm with your bank"
    for seconds in (0, 120):
        timed_merchant.advance(seconds)
        assert timed_merchant.read_link(link)["status"] == "processing"
    customer.press("decline")
    assert timed_merchant.read_link(link)["status"] == "expired"


@pytest.mark.parametrize(("seconds", "status"), [(-1e-6, "all_unsuccessful"), (0, "expired")])
def test_an_attempt_that_fails_when_its_link_ends_leaves_no_open_link(seconds, status, tmp_path):
    ends = datetime(2026, 6, 1, 12, tzinfo=UTC)
    settings = GatewaySettings(
        Projects(tmp_path), CardCipher(bytes(32), source="the test"), lambda: "", "", Receivers()
    )
    link = StoredLink(
        id="l", project_id="p", page_token="t", terms=PaymentLinkRequest(**LINK), created_at=ends - timedelta(days=1),
        ends_at=ends, status=LinkStatus.PROCESSING, modified_at=ends - timedelta(days=1),
    )  # fmt: skip
    at = ends + timedelta(seconds=seconds)
    order = StoredOrder(
        id="o", project_id="p", status=OrderStatus.ERROR, terms=OrderTerms(currency="EUR", amount=1250), is_test=True, own_checkout=False,
        page_token="t", created_at=at, modified_at=at, link_id="l",
    )  # fmt: skip
    with create_engine("sqlite://").begin() as db:
        TABLES.create_all(db)
        LINKS.add(db, link)
        follow_order(Job(db, settings, at), order)
        found = LINKS.find(db, "l")
        assert found is not None
        assert found.status == status


def test_the_next_end_is_found_by_an_index():
    statements = list[str]()
    with create_engine("sqlite://").begin() as db:
        TABLES.create_all(db)
        raw: Any = db.connection.dbapi_connection
        raw.set_trace_callback(statements.append)
        next_due(db)
        assert "gateway_links_due" in str(raw.execute(f"EXPLAIN QUERY PLAN {statements[-1]}").fetchall())


@pytest.mark.parametrize("of", ["the project", "another project", "the project, with hyphens"])
def test_a_wallet_session_is_for_the_project_id_without_hyphens(of, bank, merchant, make_merchant):
    owner = make_merchant(bank) if "another" in of else merchant
    identifier = owner.project_id if "hyphens" in of else owner.project_id.replace("-", "")
    session = {
        "validationUrl": "https://127.0.0.1:1/session",
        "displayName": "Shop",
        "initiativeContext": "shop.example",
    }
    answer = merchant.send("POST", "/v1/wallet-pay/sessions/", {**session, "merchantIdentifier": identifier})
    if of == "the project":
        assert (answer.status_code, answer.json()["sessionData"]["domainName"]) == (200, "shop.example")
    else:
        assert is_refused(answer, 400, "FORMAT_ERROR")
