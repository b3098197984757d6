"""The gateway and its vault by `curl` alone: the own checkout, and every other endpoint."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from cards import Cards
from merchant import EXPIRY
from raw_provider import curl

from tppkit.cli.sandbox import order_line
from tppkit.protocol.gateway.endpoints import (
    AUTHENTICATE,
    CAPTURE,
    CAPTURE_AMOUNT,
    CREATE_ORDER,
    CREATE_PAYMENT_LINK,
    CREATE_REFUND,
    GATEWAY,
    INITIATE,
    ORDER_DETAILS,
    PAYMENT_LINK_DETAILS,
    REFUNDS,
    SEARCH,
    SEARCH_CSV,
    STORE_CARD,
    VAULT,
    VOID,
    VOID_AMOUNT,
    WALLET_SESSION,
)
from tppkit.sandbox import SandboxServer


class Shell:
    """Runs curl for the first project of a sandbox.

    Attributes:
        called: the rows that were.
    """

    def __init__(self, bank: SandboxServer, root: Path, cards: Cards) -> None:
        self.at, self._root, self._cards = bank.addresses, root, cards
        self.pan, self.cvc = cards.pan(), cards.cvc()
        self.called: set[str] = set()
        cards.watch(bank.settings.directory)

    def curl(self, *options: str, body: Any = None) -> str:
        """The body of an answer with 200 or 201; that of the request goes by standard input, where no other user sees it."""
        status, answer, _ = self._cards.keep(curl(self._root, *options, body=body))
        assert status in (200, 201), answer
        return answer

    def call(self, row: Any, body: Any = None, **parameters: str) -> Any:
        """A row that must succeed: the JSON of its answer, or its text."""
        self.called.add(row.name)
        url = self.at.vault_url if row is STORE_CARD else self.at.gateway_url
        method = () if body is not None else ("-X", row.method)
        answer = self.curl("-u", f"{self.at.api_key}:", *method, url + row.target(**parameters), body=body)
        return answer if row is SEARCH_CSV else json.loads(answer)

    def own_checkout(self, *, by: Any = AUTHENTICATE, **transaction: Any) -> tuple[Any, dict[str, str]]:
        """The paid order after the steps of section 4.6, and the ids of its transaction."""
        chosen = {"payment_method": "credit-card", **transaction}
        order = self.call(CREATE_ORDER, {"currency": "EUR", "amount": 1000, "transactions": [chosen]})
        ids = {"order_id": order["id"], "transaction_id": order["transactions"][0]["id"]}
        setup_token = order["transactions"][0]["payment_method_details"]["setup_token"]
        card = self.call(STORE_CARD, {"pan": self.pan, "expiry": EXPIRY, "setup_token": setup_token})
        code = {"cvc": self.cvc} if by is AUTHENTICATE else {}
        self.call(by, {"vault_token": card["vault_token"], **code}, **ids)
        return self.call(ORDER_DETAILS, order_id=order["id"]), ids


def test_curl_drives_every_row(bank, bank_pki_folder, cards):
    shell = Shell(bank, bank_pki_folder / "root.pem", cards)
    paid, ids = shell.own_checkout()
    assert (paid["status"], paid["transactions"][0]["status"]) == ("completed", "accepted")
    order_id = {"order_id": ids["order_id"]}
    refund = shell.call(CREATE_REFUND, {"amount": 600}, **order_id)
    assert [one["id"] for one in shell.call(REFUNDS, **order_id)] == [refund["id"]]
    for row, body, amount in (
        (CAPTURE, None, 1000), (CAPTURE_AMOUNT, {"amount": 400, "description": "part"}, 400),
        (VOID, None, 1000), (VOID_AMOUNT, {"amount": 300}, 300),
    ):  # fmt: skip
        held, ids = shell.own_checkout(capture_mode="manual")
        assert held["transactions"][0]["is_capturable"]
        assert shell.call(row, body, **ids)["amount"] == amount
    series = {"recurring_type": "recurring", "first_network_transaction_id": "x"}
    assert shell.own_checkout(by=INITIATE, payment_method_details=series)[0]["status"] == "completed"

    link = shell.call(CREATE_PAYMENT_LINK, {"merchant_order_id": "L-1", "amount": 500, "currency": "EUR"})
    shell.curl(f"{shell.at.control_url}/gateway/paymentlinks/{link['id']}/pay", body={"outcome": "approved"})
    assert shell.call(PAYMENT_LINK_DETAILS, payment_link_id=link["id"])["status"] == "completed"
    wallet = {
        "validationUrl": "https://wallet.invalid/", "merchantIdentifier": shell.at.project_id.replace("-", ""), "displayName": "Shop",
        "initiativeContext": "shop.example",
    }  # fmt: skip
    assert shell.call(WALLET_SESSION, wallet)["sessionData"]
    found = shell.call(SEARCH, {"query": "status:completed"})["orders"]
    report = shell.call(SEARCH_CSV, {"query": "status:completed"})
    assert len(report.splitlines()) == 1 + len(found) == 13
    assert shell.called == {row.name for row in (*GATEWAY.endpoints, *VAULT.endpoints)}


def test_the_line_that_the_sandbox_prints_creates_an_order(bank):
    done = subprocess.run(["sh", "-c", order_line(bank)], capture_output=True, timeout=30, check=True)
    assert json.loads(done.stdout)["status"] == "new"
