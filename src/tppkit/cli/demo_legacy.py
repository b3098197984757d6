"""The legacy interface in `tppkit demo`: a login by code, and a payment whose outcome arrives by callback at a receiver over HTTPS."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from tppkit._clock import utc_now
from tppkit.callbacks import (
    CallbackAddress,
    CallbackKind,
    CallbackReceiver,
    Inbox,
    VerifiedCallback,
    load_callback_key,
)
from tppkit.callbacks.login_codes import LoginCodes, digest_session_id
from tppkit.cli.demo_receiver import Control, deliver, receiving
from tppkit.cli.story import Story, expect
from tppkit.client import AccessKind, LegacyClient
from tppkit.inbox.store import InboxStore
from tppkit.protocol.legacy import AccessGranted, LoginConfirmed, LoginPermission, PaymentOrder, Transaction
from tppkit.sandbox import SandboxServer
from tppkit.sandbox.listening import listen
from tppkit.testpki import Pki
from tppkit.web import CallbackGate

_PHONE = "+37060000001"
_ORDER = PaymentOrder(
    acc="LT121000011101001000", amts={"EUR": Decimal("12.50")}, name="Bookshop Ąžuolas", street="Pilies g. 1", city="Vilnius",
    country="LTU", msg="Order 4712",
)  # fmt: skip
_HOUR_S = 3600


class _Shop:
    """What the handlers of the receiver got, and the login codes of its page."""

    def __init__(self, inbox: Inbox) -> None:
        self.codes = LoginCodes(inbox, name="Bookshop Ąžuolas", perm=(LoginPermission.NAME, LoginPermission.EMAIL))
        self.codes.create_tables()
        self.grants: list[AccessGranted] = []
        self.outcomes: list[tuple[str, Transaction]] = []
        self.logins: list[tuple[str | None, LoginConfirmed]] = []
        self.gate = CallbackGate(
            inbox, on_access=self._granted, on_payment=self._paid, on_login=self._logged_in, login=self.codes.answer
        )

    def _granted(self, event: AccessGranted, callback: VerifiedCallback, connection: Any) -> None:
        self.grants.append(event)

    def _paid(self, event: Transaction, callback: VerifiedCallback, connection: Any) -> None:
        self.outcomes.append((callback.token, event))

    def _logged_in(self, event: LoginConfirmed, callback: VerifiedCallback, connection: Any) -> None:
        self.logins.append((self.codes.match(callback, connection), event))


def play_legacy(story: Story, server: SandboxServer, pki: Pki, folder: Path, control: Control) -> None:
    """Play the steps of the legacy interface.

    Args:
        story: gets the steps.
        server: the sandbox.
        pki: of the sandbox; issues the receiver's certificate.
        folder: gets the receiver's database.
        control: decides for the customer and moves the clock.

    Raises:
        StoryOver: a step went otherwise than expected.
    """
    at = server.addresses
    with (
        _receiving(server, pki, folder, control) as shop,
        LegacyClient(at.legacy_url, api_key=at.legacy_api_key, server_anchors=[pki.root.certificate]) as client,
    ):
        _log_in(story, shop, control)
        _pay(story, shop, client, control)


@contextmanager
def _receiving(server: SandboxServer, pki: Pki, folder: Path, control: Control) -> Iterator[_Shop]:
    """A receiver on loopback, to which the sandbox is told to send its callbacks."""
    with listen("127.0.0.1", 0) as bound, closing(InboxStore(f"sqlite:///{folder / 'inbox.sqlite'}")) as store:
        origin = f"https://localhost:{bound.getsockname()[1]}"
        receiver = CallbackReceiver(
            [
                CallbackAddress(f"{origin}/cb/", CallbackKind.ACCESS),
                CallbackAddress(f"{origin}/cb/{{token}}", CallbackKind.PAYMENT),
                CallbackAddress(f"{origin}/login/{{token}}", CallbackKind.LOGIN),
            ],
            keys=[load_callback_key(Path(server.addresses.legacy_public_key), name="sandbox")],
        )
        store.create_tables()
        shop = _Shop(Inbox(receiver, store))
        with receiving(bound, shop.gate, server=server, pki=pki):
            control("/legacy/provider", {"callback_url": f"{origin}/cb"})
            yield shop


def _log_in(story: Story, shop: _Shop, control: Control) -> None:
    with story.step("Log a customer in by a code on a page of ours") as told:
        session_id = secrets.token_urlsafe()
        shown = shop.codes.make(session_id, at=utc_now())
        told.append(f"The page shows {shown.text}, with {shown.code} beside it.")
        asked = control("/legacy/login", {"code": shown.text})["asked"]
        told.append(f"The customer scans it; a signed GET asks who we are: {asked['name']}, {' '.join(asked['perm'])}.")
        deliver(control)
        expect(len(shop.logins) == 1, f"{len(shop.logins)} logins arrived")
        ((session, login),) = shop.logins
        told.append(f"A signed POST logs in {login.name}, {login.email}, in the session of that page alone.")
        expect(session == digest_session_id(session_id), "the login belongs to no session")


def _pay(story: Story, shop: _Shop, client: LegacyClient, control: Control) -> None:
    with story.step("Request access to payments, which a callback grants") as told:
        token = client.request_access(AccessKind.PAYMENTS, _PHONE)
        told.append("POST /pis/<access token> with an API key; the customer approves.")
        control(f"/legacy/access/{token}/approve", None)
        deliver(control)
        expect([one.token for one in shop.grants] == [token], "the callback is not of this access")
        told.append(f"A signed POST says until when: {shop.grants[0].exp}.")
    with story.step("Pay, and get the outcome by callbacks") as told:
        uuid = client.pay(token, _ORDER)
        told.append(f"POST /pis/<access token>/TX/{uuid}; the customer approves.")
        control(f"/legacy/payments/{uuid}/approve", None)
        deliver(control)
        deliver(control, after_s=_HOUR_S)
        for name, one in shop.outcomes:
            told.append(
                f"A signed POST to /cb/{name}: {one.tlc}, version {one.ver}, {' '.join(map(str, one.amounts))}."
            )
        states = [(name, one.tlc, str(one.amounts[0])) for name, one in shop.outcomes]
        expect(states == [(uuid, "posted", "EUR-12.50"), (uuid, "executed", "EUR-12.50")], "the outcomes are others")
