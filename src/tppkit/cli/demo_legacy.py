"""The legacy interface in `tppkit demo`: a login by code, and a payment whose outcome arrives by callback."""

from __future__ import annotations

import secrets
from decimal import Decimal

from tppkit._clock import utc_now
from tppkit.callbacks.login_codes import digest_session_id
from tppkit.cli.demo_shop import Shop
from tppkit.cli.demo_steps import Steps, expect
from tppkit.client import AccessKind, LegacyClient
from tppkit.protocol.legacy import PaymentOrder

_PHONE = "+37060000001"
_ORDER = PaymentOrder(
    acc="LT121000011101001000", amts={"EUR": Decimal("12.50")}, name="Bookshop Ąžuolas", street="Pilies g. 1", city="Vilnius",
    country="LTU", msg="Order 4712",
)  # fmt: skip
_HOUR_S = 3600


def show_legacy(steps: Steps, shop: Shop, client: LegacyClient) -> None:
    """Run the steps of the legacy interface.

    Args:
        steps: Gets the steps.
        shop: Receives the callbacks.
        client: The shop's client of the legacy interface.

    Raises:
        DemoStopped: A step had an unexpected result.
    """
    shop.control("/legacy/provider", {"callback_url": f"{shop.origin}/cb"})
    _log_in(steps, shop)
    _pay(steps, shop, client)


def _log_in(steps: Steps, shop: Shop) -> None:
    with steps.step("Log a customer in with a code on the shop's page") as lines:
        session_id = secrets.token_urlsafe()
        code = shop.codes.make(session_id, at=utc_now())
        lines.append(f"The page shows {code.text} and {code.code}.")
        asked = shop.control("/legacy/login", {"code": code.text})["asked"]
        lines.append(
            f"The customer scans it; a signed GET asks who we are: {asked['name']}, {' '.join(asked['perm'])}."
        )
        shop.deliver()
        expect(len(shop.logins) == 1, f"{len(shop.logins)} logins arrived")
        ((session, login),) = shop.logins
        lines.append(f"A signed POST logs in {login.name}, {login.email}, in the session of that page only.")
        expect(session == digest_session_id(session_id), "the login belongs to no session")


def _pay(steps: Steps, shop: Shop, client: LegacyClient) -> None:
    with steps.step("Request access to payments, which a callback grants") as lines:
        token = client.request_access(AccessKind.PAYMENTS, _PHONE)
        lines.append("POST /pis/<access token> with an API key; the customer approves.")
        shop.control(f"/legacy/access/{token}/approve", None)
        shop.deliver()
        expect([one.token for one in shop.grants] == [token], "the callback names another access")
        lines.append(f"A signed POST gives the end of the access: {shop.grants[0].exp}.")
    with steps.step("Pay, and receive the outcome by callbacks") as lines:
        uuid = client.pay(token, _ORDER)
        lines.append(f"POST /pis/<access token>/TX/{uuid}; the customer approves.")
        shop.control(f"/legacy/payments/{uuid}/approve", None)
        shop.deliver()
        shop.deliver(after_s=_HOUR_S)
        for name, one in shop.outcomes:
            amounts = " ".join(map(str, one.amounts))
            lines.append(f"A signed POST to /cb/{name}: {one.tlc}, version {one.ver}, {amounts}.")
        states = [(name, one.tlc, str(one.amounts[0])) for name, one in shop.outcomes]
        expect(states == [(uuid, "posted", "EUR-12.50"), (uuid, "executed", "EUR-12.50")], f"the outcomes are {states}")
