"""The page where the payer approves or declines a payment."""

from __future__ import annotations

import logging
from importlib.resources import files
from urllib.parse import parse_qs

from jinja2 import Environment, StrictUndefined
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from tppkit.errors import TppkitError
from tppkit.protocol.psd2 import PaymentInitiation, TransactionStatus
from tppkit.protocol.psd2.payment import reported_status
from tppkit.qr.picture import encode_text
from tppkit.sandbox.cell import Services
from tppkit.sandbox.host import RETRY_AFTER_S
from tppkit.sandbox.psd2.payments import (
    Psd2Settings,
    approve_payment,
    decline_payment,
    is_open,
    look_at_payment,
    open_payment,
)
from tppkit.sandbox.psd2.tables import StoredPayment
from tppkit.web import read_message

_LOGGER = logging.getLogger("tppkit.sandbox.approval")
_MAX_FORM_BYTES = 1024
_RENEWAL_S = 30  # an open page loads itself again, which renews the payment's five minutes
_HEADINGS = {
    TransactionStatus.RCVD: "Approve this payment?",
    TransactionStatus.ACTC: "Approve this payment?",
    TransactionStatus.ACSP: "Approved – the payment is on its way",
    TransactionStatus.ACSC: "The payment has been made",
    TransactionStatus.RJCT: "This payment was not made",
    TransactionStatus.CANC: "This payment was not made",
}
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class ApprovalPages:
    """Approval links: opening one shows the payment, sending the form decides it; a used link can decide nothing more and shows the state.

    Args:
        services: of the bank.
        settings: of the bank.

    Attributes:
        routes: of the pages.
    """

    def __init__(self, services: Services, settings: Psd2Settings) -> None:
        self._services = services
        self._settings = settings
        environment = Environment(autoescape=True, undefined=StrictUndefined)
        self._page = environment.from_string(files("tppkit.sandbox.psd2").joinpath("approval.html").read_text("utf-8"))
        self.routes = (
            Route("/approve/{token}", self._show, methods=["GET"]),
            Route("/approve/{token}", self._decide, methods=["POST"]),
        )

    async def _show(self, request: Request) -> Response:
        token = request.path_params["token"]
        action = None if request.method == "HEAD" else "open"  # HEAD is no customer
        try:
            payment = await self._services.events.write(lambda db: self._use(db, token, action))
        except TppkitError as e:
            return self._refused(e)
        return self._render(payment)

    async def _decide(self, request: Request) -> Response:
        token = request.path_params["token"]
        try:
            message = await read_message(request.scope, request.receive, max_body_bytes=_MAX_FORM_BYTES)
            action = parse_qs(message.body.decode("latin-1")).get("action", [""])[0]
            await self._services.events.write(lambda db: self._use(db, token, action))
        except TppkitError as e:
            return self._refused(e)
        return RedirectResponse(request.url.path, status_code=303, headers=_HEADERS)

    def _use(self, db: Connection, token: str, action: str | None) -> StoredPayment:
        at, rules = self._services.now(), self._settings.rules
        payment = look_at_payment(db, token, at=at, rules=rules)
        if action is None or not is_open(payment):  # a used link changes nothing
            return payment
        payment = open_payment(db, payment, at=at, rules=rules)
        if action == "approve":
            return approve_payment(db, payment, None, None, at=at, rules=rules)
        return decline_payment(db, payment, at=at) if action == "decline" else payment

    def _render(self, payment: StoredPayment) -> Response:
        status = reported_status(payment.progress.status)
        waits = is_open(payment)
        text = self._page.render(
            heading=_HEADINGS[status],
            payment=PaymentInitiation.from_wire(payment.body),
            organization=payment.organization,
            status=status.value,
            open=waits,
            renewal_s=_RENEWAL_S,
            picture=encode_text(self._settings.approval_link(payment)).svg(scale=4) if waits else None,
            redirect_uri=payment.redirect_uri,
        )
        return HTMLResponse(text, headers=_HEADERS)

    def _refused(self, error: TppkitError) -> Response:
        if error.code == "database.unavailable":
            _LOGGER.warning("  %s", error)
            text = self._page.render(heading="The bank cannot answer now. Please try again", payment=None)
            return HTMLResponse(text, status_code=503, headers={**_HEADERS, "Retry-After": str(RETRY_AFTER_S)})
        if error.code == "account.unfit":
            text = self._page.render(heading="None of your accounts may pay this", payment=None)
            return HTMLResponse(text, status_code=409, headers=_HEADERS)
        text = self._page.render(heading="This link leads to no payment", payment=None)
        return HTMLResponse(text, status_code=404, headers=_HEADERS)
