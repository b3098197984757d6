"""Cards in the shop's own checkout. The only module that sees a card number; it hands it to the vault, and keeps and logs nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping

from orders import gateway

from tppkit.client import VaultClient
from tppkit.protocol.gateway import AuthenticateRequest, CardRequest, CardSecret, Order

vault = VaultClient(os.environ["VAULT_URL"], api_key=os.environ["API_KEY"])


class BadCard(ValueError):
    """What the customer entered is not a card; the message is for the customer."""


def read_card(form: Mapping[str, str]) -> tuple[CardSecret, CardSecret, CardSecret]:
    """Return number, expiry (MMYYYY) and security code of a form.

    Raises:
        BadCard: one has a wrong form.
    """
    number, expiry, cvc = (form.get(name, "").replace(" ", "") for name in ("number", "expiry", "cvc"))
    if not (number.isdecimal() and 12 <= len(number) <= 19 and expiry.isdecimal() and len(expiry) == 6):
        raise BadCard("the card number has 12 to 19 digits, the expiry date six: MMYYYY")
    if not (cvc.isdecimal() and len(cvc) in (3, 4)):
        raise BadCard("the security code has 3 or 4 digits")
    return CardSecret(number), CardSecret(expiry), CardSecret(cvc)


def store(order: Order, number: CardSecret, expiry: CardSecret) -> str:
    """Store the card of an order in the vault, and return its token."""
    details = order.transactions[0].payment_method_details
    if details is None or details.setup_token is None:
        raise RuntimeError("the gateway created an order that takes no card")
    request = CardRequest(pan=number, expiry=expiry, setup_token=details.setup_token)
    return vault.store_card(request).card.vault_token


def pay(order: Order, token: str, cvc: CardSecret) -> str | None:
    """Pay with a stored card; return the address of the 3-D Secure challenge, if the issuer asks for one."""
    request = AuthenticateRequest(vault_token=token, cvc=cvc)
    return gateway.authenticate(order.id, order.transactions[0].id, request).redirect_url
