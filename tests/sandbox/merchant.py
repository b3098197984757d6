"""A merchant with its own project, which sends valid and invalid requests over HTTPS."""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import httpx
from cards import Cards
from raw_provider import control

from tppkit.testpki import Pki, certificate_pem

DECLINED, ASKED, EXPIRY = "4000000000000002", "4000002760003184", "122039"
BILLING: Mapping[str, Any] = {
    "first_name": "Ona", "last_name": "Onaite", "address_type": "billing", "address": "Main St 1", "postal_code": "10001",
    "city": "Springfield", "country": "US", "state": "NY",
}  # fmt: skip
LINK: Mapping[str, Any] = {"currency": "EUR", "amount": 1250, "merchant_order_id": "L-1"}
EXTERNAL: Mapping[str, Any] = {
    "cavv": "AAABCZIhcQAAAABZlyFxAAAAAAA=",
    "3ds_version": "2.2.0",
    "3ds_method_used": True,
    "ds_transaction_id": "f25084f0",
}


class Merchant:
    """A backend at one sandbox.

    Args:
        bank: the sandbox, in this process or in another.
        pki: of its server certificate.
        cards: of the test; they get every card that is sent, every answer, and the folder of the sandbox.
        settings: of the project.

    Attributes:
        pan: the number of a card that is approved.
        cvc: its security code.
    """

    def __init__(self, bank: Any, pki: Pki, cards: Cards, **settings: Any) -> None:
        self.bank, self.cards = bank, cards
        self.pan, self.cvc = cards.pan(), cards.cvc()
        cards.watch(bank.settings.directory)
        made = self.control("/gateway/projects", settings)
        self.project_id, self.api_key = made["project_id"], made["api_key"]
        self.vault = bank.addresses.vault_url + "/v1/cards/"
        context = ssl.create_default_context(cadata=certificate_pem(pki.root.certificate).decode())
        self.http = httpx.Client(
            base_url=bank.addresses.gateway_url, auth=(self.api_key, ""), verify=context, trust_env=False, timeout=10,
            event_hooks={"response": [cards.keep]},
        )  # fmt: skip

    def send(self, method: str, target: str, body: Any = None) -> httpx.Response:
        """Send a request with a JSON body, or without a body."""
        content = None if body is None else json.dumps(body).encode()
        headers = None if body is None else {"Content-Type": "application/json"}
        return self.http.request(method, target, content=content, headers=headers)

    def post(self, target: str, body: Any = None) -> Any:
        """The JSON of a POST that must succeed."""
        answer = self.send("POST", target, body)
        assert answer.is_success, answer.text
        return answer.json()

    def order(self, amount: int = 1000, **fields: Any) -> Any:
        """A new order, on the hosted page."""
        return self.post("/v1/orders/", {"currency": "EUR", "amount": amount, **fields})

    def card_order(self, amount: int = 1000, *, transaction: Mapping[str, Any] | None = None, **fields: Any) -> Any:
        """A new order for an own checkout; `transaction` has fields of its transaction."""
        return self.order(amount, transactions=[{"payment_method": "credit-card", **(transaction or {})}], **fields)

    def store(self, order: Any, pan: str | None = None, **fields: Any) -> httpx.Response:
        """The vault's answer to a card for an order."""
        if pan is not None and re.fullmatch("[0-9]{12,19}", pan):
            self.cards.pan(pan)
        token = order["transactions"][0]["payment_method_details"]["setup_token"]
        card = {"pan": pan or self.pan, "expiry": EXPIRY, "setup_token": token}
        return self.send("POST", self.vault, {**card, **fields})

    def card(self, order: Any, pan: str | None = None, **fields: Any) -> str:
        """The vault token of a card that is stored for an order."""
        answer = self.store(order, pan, **fields)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["vault_token"])

    def act(self, order: Any, path: str, body: Any = None) -> httpx.Response:
        """POST to a path of an order's first transaction."""
        return self.send("POST", f"/v1/orders/{order['id']}/transactions/{order['transactions'][0]['id']}/{path}", body)

    def authenticate(self, order: Any, vault_token: str, **external: Any) -> httpx.Response:
        """Pay with a stored card."""
        return self.act(order, "authenticate/", {"vault_token": vault_token, "cvc": self.cvc, **external})

    def own_checkout(
        self, amount: int = 1000, *, pan: str | None = None, name: str | None = None, transaction: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Any:  # fmt: skip
        """The order after its three steps."""
        order = self.card_order(amount, transaction=transaction, **fields)
        token = self.card(order, pan, **({} if name is None else {"name": name}))
        answer = self.authenticate(order, token)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def read(self, order: Any, kind: str = "orders") -> Any:
        """The order as it is now."""
        answer = self.send("GET", f"/v1/{kind}/{order['id']}/")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def link(self, **fields: Any) -> Any:
        """A new payment link."""
        return self.post("/sandbox/v1/paymentlinks/", {**LINK, **fields})

    def read_link(self, link: Any) -> Any:
        """The link as it is now."""
        return self.read(link, "paymentlinks")

    def control(self, path: str, body: Any = None) -> Any:
        """A control call that must succeed."""
        answer = self.cards.keep(control(self.bank, path, body))
        assert answer.status_code == 200, answer.text
        return answer.json()

    def pay(self, order: Any, kind: str = "orders", **choice: Any) -> Any:
        """Act as the order's customer, and return the order."""
        if "card" in choice:
            self.cards.pan(choice["card"])
        return self.control(f"/gateway/{kind}/{order['id']}/pay", choice)

    def pay_link(self, link: Any, **choice: Any) -> Any:
        """Act as the link's customer, and return the link."""
        return self.pay(link, "paymentlinks", **choice)

    def advance(self, seconds: float) -> None:
        """Move the sandbox's clock."""
        self.control("/clock/advance", {"seconds": seconds})

    def show_everything(self) -> None:
        """Request the latest orders and their report, so that `cards` searches all fields; skipped if the sandbox has stopped."""
        with suppress(httpx.TransportError):
            for form in ("", "?format=csv"):
                answer = self.send("POST", f"/v1/search/orders/{form}", {"query": "*", "size": 100})
                assert answer.status_code == 200, answer.text


MakeMerchant = Callable[..., Merchant]
