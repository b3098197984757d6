"""The hosted pages of orders, transactions and payment links (assumption hosted-pages).

Opening a page changes nothing. A form has an effect only while the page still offers its action, so of two tabs the first decides, and
no form decides twice. The token in the address is the only secret; a card number or security code is never shown again. A wrong
form is answered by a redirect with a cookie that names its errors, so that the browser can go back to every page.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote, urlencode

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tppkit.errors import FormatError, LocalProtocolError, TppkitError
from tppkit.protocol.gateway.orders import CREDIT_CARD
from tppkit.protocol.gateway.values import amount_with_decimals
from tppkit.sandbox.cell import Services
from tppkit.sandbox.gateway.card_form import CARD_ERRORS, Form, fields_to_show, read_card
from tppkit.sandbox.gateway.cipher import StoredCard
from tppkit.sandbox.gateway.hosted import Choice, pay, pay_link
from tppkit.sandbox.gateway.page_state import PageState, Result, page_state
from tppkit.sandbox.gateway.page_texts import CHECK_RESULTS, ERRORS, OTHER_ERROR, RESULTS, declined_reason, method_name
from tppkit.sandbox.gateway.settings import GatewaySettings, Job, Place
from tppkit.sandbox.html import error_page, form_fields, page, read_form, see_other, unframed

_MAX_FORM_BYTES = 4096
_TOKEN = re.compile("[A-Za-z0-9_-]{1,64}")
_COOKIE = "refused"
_COOKIE_S = 60
_SITE = {"site": "Sandbox Payments", "about": "Payments for tests: no real cards, no real money."}


class GatewayPages:
    """The hosted pages.

    Args:
        services: the services of the sandbox.
        settings: the settings of the gateway.

    Attributes:
        routes: the routes of the pages.
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
            state = await self._services.database.read(lambda db: page_state(db, self._settings, place, token))
        except TppkitError as e:
            return _message(e)
        own_path = _path(state)
        if state.place is Place.ORDER and own_path is not None and own_path != request.scope["path"]:
            return see_other(own_path)  # from a link to its order, or from a decided attempt
        refused = _refused(request)
        answer = _answer(state, method=request.query_params.get("method"), refused=refused)
        if refused is not None:
            answer.delete_cookie(_COOKIE, path=request.scope["path"])
        return answer

    async def _act(self, request: Request) -> Response:
        try:
            place, token = _address(request)
            form = _form(await read_form(request, self._settings.pages_url, max_bytes=_MAX_FORM_BYTES))
            state, wrong = await self._services.events.write(lambda db: self._apply(db, place, token, form))
        except TppkitError as e:
            return _message(e)
        if wrong:
            path = request.scope["path"]
            answer = see_other(f"{path}?method={CREDIT_CARD}")
            kept = quote(urlencode({"wrong": " ".join(wrong), **fields_to_show(form)}), safe="")
            is_https = self._settings.pages_url.startswith("https:")
            answer.set_cookie(_COOKIE, kept, _COOKIE_S, path=path, secure=is_https, httponly=True, samesite="strict")
            return answer
        return see_other(_next_address(state) or request.scope["path"])

    def _apply(self, db: Connection, place: Place, token: str, form: Form) -> tuple[PageState, tuple[str, ...]]:
        """Apply a form, and return the next page and the codes of the form's errors. A form of another step changes nothing."""
        job = Job(db, self._settings, self._services.now())
        state = page_state(db, self._settings, place, token, lock=True)
        has_order = (
            place is Place.LINK and state.order is not None
        )  # the form is on the page of the order, which locks it
        if state.result is not None or has_order or form.get("step") != state.step:
            return state, ()
        choice: dict[str, Any]
        match form.get("action"):
            case "pay" if state.asked is None and CREDIT_CARD in state.methods:
                card = read_card(form, at=job.at)
                if not isinstance(card, StoredCard):
                    return state, card
                choice = {"card": card, "asks": True}
            case "approve":
                choice = {"choice": Choice.APPROVED, "method": _method(state, form)}
            case "decline":
                choice = {"choice": Choice.DECLINED, "method": _method(state, form)}
            case "cancel" if state.asked is None:
                choice = {"choice": Choice.CANCELLED}
            case _:
                raise FormatError("model.invalid", "the form has no action of this page")
        if state.order is not None:
            order = pay(job, state.order, **choice)
        elif state.link is not None:
            order = pay_link(job, state.link, **choice)
        return page_state(db, self._settings, Place.ORDER, order.page_token), ()


def _method(state: PageState, form: Form) -> str:
    """Return the method that a form without a card approves: that of the attempt whose issuer waits, else the chosen one."""
    if state.asked is not None:
        return CREDIT_CARD
    method = form.get("method")
    if method == CREDIT_CARD or method not in state.methods:
        raise FormatError("model.invalid", "the form has no payment method of this page")
    return method


def _refused(request: Request) -> Form | None:
    """Return what is wrong with the last form of this page, and its fields to show again; None if it was not refused."""
    with suppress(FormatError):
        form = _form(form_fields(unquote(request.cookies.get(_COOKIE, "")).encode()))
        return form if form.get("wrong") else None
    return None


def _answer(state: PageState, *, method: str | None = None, refused: Form | None = None) -> Response:
    terms, link = state.terms, state.link
    codes = refused.get("wrong").split() if refused else ()
    wrong = {code.partition(".")[0]: CARD_ERRORS[code] for code in codes if code in CARD_ERRORS}
    values: dict[str, Any] = {
        **_SITE,
        "amount": f"{amount_with_decimals(terms.amount, terms.currency)} {terms.currency}",
        "is_zero": terms.amount == 0,
        "merchant": state.payee,
        "shop": getattr(terms, "merchant_name", None) or "the shop",
        "description": terms.description,
        "reference": terms.merchant_order_id,
    }
    if state.result is not None:
        heading, text = (RESULTS if terms.amount else CHECK_RESULTS)[state.result]
        if state.result is Result.FAILED and state.last is not None:
            text = f"{declined_reason(state.last)} {text}"
        return unframed(page(
            "gateway_result.html", heading=heading, text=text, good=state.result in (Result.PAID, Result.UNCLEAR),
            next_page=state.next_page,
            retry=f"/gateway/links/{link.page_token}" if link is not None and state.takes_another else None, **values,
        ))  # fmt: skip
    chosen = method if method in state.methods else state.methods[0]
    asked = state.asked
    details = None if asked is None else asked.shown.payment_method_details
    heading = "Confirm with your bank" if asked else "Your payment"
    return unframed(page(
        "gateway_pay.html", heading=f"Error: {heading}" if wrong else heading, title=heading, step=state.step,
        last_four=(details.truncated_pan or "")[-4:] if details else None, asks=asked is not None, chosen=chosen,
        is_card=chosen == CREDIT_CARD, chosen_name=method_name(chosen),
        others=[(one, method_name(one)) for one in state.methods if one != chosen],
        wrong=wrong, kept=fields_to_show(refused) if refused else {},
        declined=None if state.last is None or wrong else declined_reason(state.last), **values,
    ))  # fmt: skip


def _next_address(state: PageState) -> str | None:
    """Return the browser's next address after a form: the merchant's if the payment is over, else the next page."""
    if state.result is None:
        return _path(state)
    if state.link is not None and state.takes_another and state.result is not Result.CANCELLED:
        return f"/gateway/{Place.LINK}/{state.link.page_token}"
    return state.next_page or _path(state)


def _path(state: PageState) -> str | None:
    return None if state.order is None else f"/gateway/{Place.ORDER}/{state.order.page_token}"


def _address(request: Request) -> tuple[Place, str]:
    place, token = request.path_params["place"], request.path_params["token"]
    if place not in tuple(Place) or not _TOKEN.fullmatch(token):
        raise LocalProtocolError("order.unknown", "there is no such page")
    return Place(place), token


def _form(fields: Mapping[str, Sequence[str]]) -> Form:
    """Return a form with these fields; duplicates are rejected."""
    if any(len(values) > 1 for values in fields.values()):
        raise FormatError("model.invalid", "the form has a field twice")
    return Form({name: values[0] for name, values in fields.items()})


def _message(error: TppkitError) -> Response:
    return unframed(error_page(error, ERRORS.get(error.code, OTHER_ERROR), **_SITE))
