"""The hosted pages of orders, transactions and payment links (assumption hosted-pages).

Opening a page changes nothing. A form has an effect only while the page still offers its action, so of two tabs the first decides, and
no form decides twice. The token in the address is the only secret; a customer's input is never shown again.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tppkit.errors import FormatError, LocalProtocolError, TppkitError
from tppkit.protocol.gateway.orders import CREDIT_CARD
from tppkit.protocol.gateway.values import amount_with_decimals
from tppkit.sandbox.cell import Services
from tppkit.sandbox.gateway.card_form import Form, read_card
from tppkit.sandbox.gateway.cipher import StoredCard
from tppkit.sandbox.gateway.hosted import Choice, pay, pay_link
from tppkit.sandbox.gateway.page_texts import ERRORS, OTHER_ERROR, RESULTS, declined_reason, method_name
from tppkit.sandbox.gateway.settings import GatewaySettings, Job
from tppkit.sandbox.gateway.visits import Place, Result, Visit, visit
from tppkit.sandbox.host import RETRY_AFTER_S
from tppkit.sandbox.html import is_from_elsewhere, page, see_other, unframed
from tppkit.web import read_message

_LOGGER = logging.getLogger("tppkit.sandbox.pages")
_MAX_FORM_BYTES = 4096
_MAX_FIELDS = 20
_TOKEN = re.compile("[A-Za-z0-9_-]{1,64}")
_SITE = {"site": "Sandbox Payments", "about": "Payments for tests: no real cards, no real money."}


class GatewayPages:
    """The hosted pages.

    Args:
        services: of the sandbox.
        settings: of the gateway.

    Attributes:
        routes: of the pages.
    """

    def __init__(self, services: Services, settings: GatewaySettings) -> None:
        self._services = services
        self._settings = settings
        path = "/gateway/{place:str}/{token:str}"
        self.routes = (Route(path, self._show, methods=["GET"]), Route(path, self._act, methods=["POST"]))

    async def _show(self, request: Request) -> Response:
        try:
            place, token = _address(request)
            await self._services.events.catch_up()
            seen = await self._services.database.read(lambda db: visit(db, self._settings, place, token))
        except TppkitError as e:
            return _message(e)
        own_path = _path(seen)
        if seen.place is Place.ORDER and own_path is not None and own_path != request.url.path:
            return see_other(own_path)  # from a link to its order, or from a decided attempt
        return _answer(seen, method=request.query_params.get("method"))

    async def _act(self, request: Request) -> Response:
        try:
            place, token = _address(request)
            message = await read_message(request.scope, request.receive, max_body_bytes=_MAX_FORM_BYTES)
            if is_from_elsewhere(request, self._settings.pages_url):
                raise LocalProtocolError("form.elsewhere", "")
            form = _read_form(message.body)
            seen, wrong = await self._services.events.write(lambda db: self._apply(db, place, token, form))
        except TppkitError as e:
            return _message(e)
        if wrong:
            return _answer(seen, status=400, method=CREDIT_CARD, wrong=wrong)
        return see_other(_next_address(seen) or request.url.path)

    def _apply(self, db: Connection, place: Place, token: str, form: Form) -> tuple[Visit, Mapping[str, str]]:
        """Apply a form, and return the next page and the errors of the form. A form of another step changes nothing."""
        job = Job(db, self._settings, self._services.now())
        seen = visit(db, self._settings, place, token, lock=True)
        is_elsewhere = place is Place.LINK and seen.order is not None  # its page has the form, and locks the order
        if seen.result is not None or is_elsewhere or form.get("step") != seen.step:
            return seen, {}
        choice: dict[str, Any]
        match form.get("action"):
            case "pay" if seen.asked is None and CREDIT_CARD in seen.methods:
                card = read_card(form, at=job.at)
                if not isinstance(card, StoredCard):
                    return seen, card
                choice = {"card": card, "asks": True}
            case "approve":
                choice = {"choice": Choice.APPROVED, "method": _method(seen, form)}
            case "decline":
                choice = {"choice": Choice.DECLINED, "method": _method(seen, form)}
            case "cancel" if seen.asked is None:
                choice = {"choice": Choice.CANCELLED}
            case _:
                raise FormatError("model.invalid", "the form has no action of this page")
        if seen.order is not None:
            order = pay(job, seen.order, **choice)
        elif seen.link is not None:
            order = pay_link(job, seen.link, **choice)
        return visit(db, self._settings, Place.ORDER, order.page_token), {}


def _method(seen: Visit, form: Form) -> str:
    """Return the method that a form without a card approves: that of the attempt whose issuer waits, else the chosen one."""
    if seen.asked is not None:
        return CREDIT_CARD
    method = form.get("method")
    if method == CREDIT_CARD or method not in seen.methods:
        raise FormatError("model.invalid", "the form has no payment method of this page")
    return method


def _answer(
    seen: Visit, *, method: str | None = None, status: int = 200, wrong: Mapping[str, str] | None = None
) -> Response:  # fmt: skip
    terms, link = seen.terms, seen.link
    merchant = getattr(terms, "merchant_name", None)
    values: dict[str, Any] = {
        **_SITE,
        "amount": f"{amount_with_decimals(terms.amount, terms.currency)} {terms.currency}",
        "is_zero": terms.amount == 0,
        "merchant": merchant,
        "description": terms.description,
        "reference": terms.merchant_order_id,
    }
    if seen.result is not None:
        heading, text = RESULTS[seen.result]
        return unframed(page(
            "gateway_result.html", heading=heading, text=text, good=seen.result in (Result.PAID, Result.UNCLEAR), next_page=seen.next_page,
            retry=f"/gateway/links/{link.page_token}" if link is not None and seen.takes_another else None, **values,
        ))  # fmt: skip
    chosen = method if method in seen.methods else seen.methods[0]
    asked = seen.asked
    details = None if asked is None else asked.shown.payment_method_details
    heading = "Confirm with your bank" if asked else "Your payment"
    return unframed(page(
        "gateway_pay.html", status=status, heading=f"Error: {heading}" if wrong else heading, title=heading, step=seen.step,
        last_four=(details.truncated_pan or "")[-4:] if details else None, asks=asked is not None, chosen=chosen,
        is_card=chosen == CREDIT_CARD, chosen_name=method_name(chosen),
        others=[(one, method_name(one)) for one in seen.methods if one != chosen], wrong=wrong or {},
        declined=None if seen.last is None or wrong else declined_reason(seen.last), **values,
    ))  # fmt: skip


def _next_address(seen: Visit) -> str | None:
    """Return the browser's next address after a form: the merchant's if the payment is over, else the next page."""
    if seen.result is None:
        return _path(seen)
    if seen.link is not None and seen.takes_another and seen.result is not Result.CANCELLED:
        return f"/gateway/links/{seen.link.page_token}"
    return seen.next_page or _path(seen)


def _path(seen: Visit) -> str | None:
    return None if seen.order is None else f"/gateway/orders/{seen.order.page_token}"


def _address(request: Request) -> tuple[Place, str]:
    place, token = request.path_params["place"], request.path_params["token"]
    if place not in tuple(Place) or not _TOKEN.fullmatch(token):
        raise LocalProtocolError("order.unknown", "there is no such page")
    return Place(place), token


def _read_form(body: bytes) -> Form:
    """Parse the fields of a form; duplicates are rejected."""
    try:
        fields = parse_qs(body.decode("latin-1"), max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise FormatError("model.invalid", "the form has too many fields") from None
    if any(len(values) > 1 for values in fields.values()):
        raise FormatError("model.invalid", "the form has a field twice")
    return Form({name: values[0] for name, values in fields.items()})


def _message(error: TppkitError) -> Response:
    headers = {}
    if error.code == "database.unavailable":
        _LOGGER.warning("  %s", error)
        headers = {"Retry-After": str(RETRY_AFTER_S)}
    status, heading, text = ERRORS.get(error.code, OTHER_ERROR)
    return unframed(page("message.html", status=status, headers=headers, heading=heading, text=text, **_SITE))
