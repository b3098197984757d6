"""A merchant with a project of its own, which sends good and bad requests alike over HTTPS."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import httpx
from raw_provider import control

from tppkit.testpki import Pki, certificate_pem

# Codes that no amount, counter or time of a test has, since the firewall looks for them everywhere.
PAN, DECLINED, ASKED = "4111111111111111", "4000000000000002", "4000002760003184"
CVC, EXPIRY = "0739", "122039"
BILLING: Mapping[str, Any] = {
    "first_name": "Ona", "last_name": "Onaite", "address_type": "billing", "address": "Main St 1", "postal_code": "10001",
    "city": "Springfield", "country": "US", "state": "NY",
}  # fmt: skip


class Merchant:
    """A backend at one sandbox.

    Args:
        bank: the sandbox, in this process or in another.
        pki: of its server certificate.
        settings: of the project.

    Attributes:
        answers: every answer of the gateway, the vault and the control host.
        cards: every card number and security code that was sent.
    """

    def __init__(self, bank: Any, pki: Pki, **settings: Any) -> None:
        self.bank = bank
        self.answers: list[httpx.Response] = []
        self.cards = {PAN, CVC}
        made = self.control("/gateway/projects", settings)
        self.project_id, self.api_key = made["project_id"], made["api_key"]
        self.vault = bank.addresses.vault_url + "/v1/cards/"
        context = ssl.create_default_context(cadata=certificate_pem(pki.root.certificate).decode())
        self.http = httpx.Client(
            base_url=bank.addresses.gateway_url, auth=(self.api_key, ""), verify=context, trust_env=False, timeout=10,
            event_hooks={"response": [self.answers.append]},
        )  # fmt: skip

    def send(self, method: str, target: str, body: Any = None) -> httpx.Response:
        """A request with a JSON body, or with none."""
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

    def store(self, order: Any, pan: str = PAN, **fields: Any) -> httpx.Response:
        """The vault's answer to a card for an order."""
        self.cards |= {pan} if pan.isascii() and pan.isdigit() and 12 <= len(pan) <= 19 else set()
        token = order["transactions"][0]["payment_method_details"]["setup_token"]
        return self.send("POST", self.vault, {"pan": pan, "expiry": EXPIRY, "setup_token": token, **fields})

    def card(self, order: Any, pan: str = PAN, **fields: Any) -> str:
        """The vault token of a card that is stored for an order."""
        answer = self.store(order, pan, **fields)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["vault_token"])

    def act(self, order: Any, path: str, body: Any = None) -> httpx.Response:
        """POST to a path of an order's first transaction."""
        return self.send("POST", f"/v1/orders/{order['id']}/transactions/{order['transactions'][0]['id']}/{path}", body)

    def authenticate(self, order: Any, vault_token: str, *, cvc: str = CVC, **external: Any) -> httpx.Response:
        """Pay with a stored card."""
        self.cards.add(cvc)
        return self.act(order, "authenticate/", {"vault_token": vault_token, "cvc": cvc, **external})

    def own_checkout(
        self, amount: int = 1000, *, pan: str = PAN, transaction: Mapping[str, Any] | None = None, name: str | None = None, **fields: Any
    ) -> Any:  # fmt: skip
        """The order after its three steps."""
        order = self.card_order(amount, transaction=transaction, **fields)
        token = self.card(order, pan, **({} if name is None else {"name": name}))
        answer = self.authenticate(order, token)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def read(self, order: Any) -> Any:
        """The order as it is now."""
        answer = self.send("GET", f"/v1/orders/{order['id']}/")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def control(self, path: str, body: Any = None) -> Any:
        """A control call that must succeed."""
        answer = control(self.bank, path, body)
        self.answers.append(answer)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def pay(self, order: Any, **choice: Any) -> Any:
        """The order after what its customer does."""
        self.cards |= {choice["card"]} if "card" in choice else set()
        return self.control(f"/gateway/orders/{order['id']}/pay", choice)

    def advance(self, seconds: float) -> None:
        """Move the sandbox's clock."""
        self.control("/clock/advance", {"seconds": seconds})


MakeMerchant = Callable[..., Merchant]


def is_refused(answer: httpx.Response, status: int, code: str) -> bool:
    """Whether the answer is this error, in the interface's form."""
    return (answer.status_code, answer.json()["error"]["code"]) == (status, code)
