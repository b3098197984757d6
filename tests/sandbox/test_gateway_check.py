"""The findings of the gateway's check, and the gateway's part of the index page."""

from __future__ import annotations

import base64
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from merchant import LINK
from sqlalchemy import NullPool, create_engine

from refusals import refused
from tppkit.errors import ConfigurationError
from tppkit.protocol.gateway import Order, OrderRequest, TransactionRequest
from tppkit.protocol.gateway.bodies import PaymentLinkRequest
from tppkit.sandbox import Sandbox
from tppkit.sandbox.gateway.check import check_gateway
from tppkit.sandbox.gateway.cipher import VARIABLE
from tppkit.sandbox.sandbox import DATABASE

pytestmark = pytest.mark.slow


def sell(bank: Sandbox) -> None:
    """Orders in every status but expired, with everything that can be made from one, and links."""
    gateway, client = bank.gateway, bank.gateway.client()

    def order(capture_mode: str | None = None) -> Order:
        card = TransactionRequest(payment_method="credit-card", capture_mode=capture_mode)
        chosen = {"transactions": (card,)} if capture_mode else {}
        return client.create_order(OrderRequest(currency="EUR", amount=1000, **chosen))

    held = order("manual")
    gateway.pay(held.id, outcome="approved")
    client.void_amount(held.id, held.transactions[0].id, 100)
    client.capture_amount(held.id, held.transactions[0].id, 800, description="part")
    gateway.refund(held.id, 300)
    gateway.charge_back(held.id)
    gateway.reverse(held.id)
    for outcome in ("approved", "declined", "cancelled"):
        gateway.pay(order("delayed").id, outcome=outcome)
    order()
    gateway.pay(order().id, outcome="declined")
    gateway.pay(order().id, outcome="approved")
    for outcomes in ((), ("declined",), ("declined", "approved")):
        link = client.create_payment_link(PaymentLinkRequest.from_object(LINK))
        for outcome in outcomes:
            bank.control("POST", f"/gateway/paymentlinks/{link.id}/pay", {"outcome": outcome})


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of a sandbox that has sold."""
    path = tmp_path_factory.mktemp("tables") / "sold.sqlite"
    with Sandbox(seed=19) as bank:
        sell(bank)
        with closing(sqlite3.connect(bank.directory / DATABASE)) as used, closing(sqlite3.connect(path)) as copy:
            used.backup(copy)
    return path


def differences(tables: Path, change: str = "SELECT 1") -> list[str]:
    """What the check finds after a change, which is undone."""
    with closing(create_engine(f"sqlite:///{tables}", poolclass=NullPool).connect()) as db:
        db.exec_driver_sql(change)
        return check_gateway(db)


def test_sold_orders_have_no_differences(tables):
    assert differences(tables) == []


ORDERS, TRANSACTIONS, LINKS = (f"UPDATE gateway_{name} SET " for name in ("orders", "transactions", "links"))
HELD = " WHERE capture_mode = 'manual' AND authorised IS NOT NULL"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (TRANSACTIONS + "captured = 950" + HELD, "950 was captured and 100 voided of 1000"),
        (TRANSACTIONS + "refunded = 801" + HELD, "801 was refunded and 0 charged back of 800"),
        (TRANSACTIONS + "captured = 799" + HELD, "the capture orders have 800, and the transaction 799"),
        (TRANSACTIONS + "voided = 101" + HELD, "the void orders have 100, and the transaction 101"),
        (TRANSACTIONS + "refunded = 299" + HELD, "the refund orders have 300, and the transaction 299"),
        (TRANSACTIONS + "state = 'open'" + HELD, "it is open, and 800 of 1000 was captured"),
        ("DELETE FROM gateway_orders WHERE made_by = 'refund'", "the refund orders have 0, and the transaction 300"),
        ("DELETE FROM gateway_orders WHERE made_by = 'chargeback'", "the chargeback orders have -500, and the transaction 0"),
        (TRANSACTIONS + "charged_back = 501" + HELD, "300 was refunded and 501 charged back of 800"),
        ("DELETE FROM gateway_orders WHERE id IN (SELECT original_id FROM gateway_orders)", "which does not exist"),
        ("DELETE FROM gateway_transactions WHERE capture_mode = 'manual'", "and 0 transactions are accepted"),
        (TRANSACTIONS + "authorised = NULL" + HELD, "1 transactions are accepted, and 0 authorised"),
        (ORDERS + "status = 'processing' WHERE status = 'completed' AND made_by IS NULL", "it is processing forever"),
        (ORDERS + "completed_at = NULL WHERE status = 'completed'", "which its time of completion contradicts"),
        (ORDERS + "status = 'completed', completed_at = 1 WHERE status = 'error'", "and 0 transactions are accepted"),
        (ORDERS + "status = 'error', completed_at = NULL WHERE made_by = 'void'", "it was made by a void, and is error"),
        (ORDERS + "amount = amount + 1 WHERE status = 'error'", "a transaction has another amount"),
        (ORDERS + "due_at = NULL WHERE status = 'new'", "it is new forever"),
        (TRANSACTIONS + "due_at = NULL WHERE capture_mode = 'delayed'", "a transaction is open forever"),
        (LINKS + "completed_order_id = NULL WHERE status = 'completed'", "but not the one that it names"),
        (LINKS + "status = 'processing' WHERE status = 'completed'", "it is processing, 1 orders are completed and 0 open"),
        (LINKS + "status = 'new' WHERE status = 'all_unsuccessful'", "it is new with 1 orders"),
        ("DELETE FROM gateway_links", "which does not exist"),
        ("INSERT INTO gateway_cards VALUES ('card-1', 'p', x'00', NULL, 1)", "the card card-1 was to be deleted"),
    ],
)  # fmt: skip
def test_a_change_of_the_tables_is_found(tables, change, expected):
    found = differences(tables, change)
    assert any(expected in text for text in found), found


def test_the_index_page_shows_orders_and_links_without_their_tokens(merchant):
    order = merchant.own_checkout(1234, merchant_order_id="shown-on-the-page")
    link = merchant.link()
    page = httpx.get(merchant.bank.addresses.approval_url + "/", trust_env=False).text
    for shown in (order["id"], "shown-on-the-page", "12.34 EUR", merchant.pan[:6] + "******", link["id"]):
        assert shown in page
    for hidden in (order["order_url"], order["transactions"][0]["payment_url"], link["payment_url"]):
        assert hidden.rpartition("/")[2] not in page


def test_a_restart_with_the_same_seed_makes_new_orders(open_bank, make_merchant):
    ids = set[str]()
    for _ in range(2):
        with open_bank(seed=5) as server:
            merchant = make_merchant(server)
            ids |= {merchant.project_id, merchant.order()["id"]}
    assert len(ids) == 4


def test_another_vault_key_is_detected_at_the_start_if_there_are_cards(open_bank, make_merchant, monkeypatch):
    keys = [base64.b64encode(bytes([number]) * 32).decode() for number in range(2)]
    for key in keys:  # without cards any key is taken
        monkeypatch.setenv(VARIABLE, key)
        with open_bank() as server:
            if key is keys[1]:
                make_merchant(server).own_checkout()
    with open_bank():
        pass
    monkeypatch.setenv(VARIABLE, keys[0])
    with refused(ConfigurationError, "vault.key", match="TPPKIT_VAULT_KEY"), open_bank():
        pass
