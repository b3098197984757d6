"""The pages of an approval link.

The link shows a code for the phone, or on a phone a button. Both lead to the phone's page, where the customer chooses an account and
approves or declines. Then the phone's browser goes to the TPP-Redirect-URI, and the browser of the link follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tppkit.errors import FormatError, TppkitError
from tppkit.qr.picture import encode_text
from tppkit.sandbox.bank.customers import customers
from tppkit.sandbox.cell import Services
from tppkit.sandbox.html import error_page, page, read_form, see_other
from tppkit.sandbox.psd2.approval import (
    DECISIONS,
    Order,
    Outcome,
    approve_order,
    choices_of,
    decline_order,
    lock_order,
    open_order,
    outcome_of,
)
from tppkit.sandbox.psd2.consent_tables import StoredConsent
from tppkit.sandbox.psd2.page_texts import (
    CORRECTABLE,
    ERRORS,
    GOOD,
    OTHER_ERROR,
    OUTCOMES,
    PRODUCTS,
    QUESTIONS,
    permissions,
)
from tppkit.sandbox.psd2.payments import approval_link
from tppkit.sandbox.psd2.settings import Psd2Settings

_MAX_FORM_BYTES = 1024
_RELOAD_S = 30  # without script; with it, the page asks every three seconds
_CODE_SCALE = 5
# What browsers send when they load a page before the user asks for it. Source: Fetch standard (Sec-Purpose); before it, Purpose of
# Chromium, X-Moz of Firefox and X-Purpose of Safari.
_PURPOSES = ("sec-purpose", "purpose", "x-moz", "x-purpose")
_UNSEEN = ("prefetch", "preview", "prerender")
# Clients that load a link to show a preview of it, by a part of their User-Agent, in lower case.
_PREVIEWERS = (
    "applebot", "bingbot", "bingpreview", "discordbot", "embedly", "facebookexternalhit", "facebot", "googlebot",
    "google-pagerenderer", "iframely", "kakaotalk-scrap", "linkedinbot", "mastodon", "mattermost-bot", "redditbot", "skypeuripreview",
    "slack-imgproxy", "slackbot", "snap url preview", "telegrambot", "twitterbot", "viber", "vkshare", "whatsapp", "zoombot",
)  # fmt: skip


class ApprovalPages:
    """Approval links: a link shows a payment or consent, and its form decides it. A used link shows only the outcome.

    Args:
        services: the services of the bank.
        settings: the settings of the bank.
        decided: called with the token of a link whose form has decided.

    Attributes:
        routes: the routes of the pages.
    """

    def __init__(
        self, services: Services, settings: Psd2Settings, *, decided: Callable[[str], object] = lambda token: None
    ) -> None:
        self._services, self._settings, self._decided = services, settings, decided
        self.routes = (
            Route("/approve/{token}", self._show, methods=["GET"]),
            Route("/approve/{token}", self._decide, methods=["POST"]),
            Route("/approve/{token}/phone", self._show_phone, methods=["GET"]),
            Route("/approve/{token}/state", self._show_state, methods=["GET"]),
            Route("/approve/{token}/phone/state", self._show_state, methods=["GET"]),
        )

    async def _show(self, request: Request) -> Response:
        try:
            order = await self._visit(request)
        except TppkitError as e:
            return _refused(e)
        outcome = outcome_of(order)
        if outcome is None:
            link = approval_link(self._settings, order.link_token) + "/phone"
            code = encode_text(link).svg(scale=_CODE_SCALE)
            values = self._values(order, reload_s=_RELOAD_S, code=code, link=link)
            return page("link.html", heading=QUESTIONS[type(order)], **values)
        if "returning" in request.query_params and outcome in DECISIONS and order.redirect_uri is not None:
            return see_other(order.redirect_uri)
        return self._show_outcome(order, outcome)

    async def _show_phone(self, request: Request) -> Response:
        try:
            order = await self._visit(request)
            known, choices = await self._services.database.read(lambda db: (customers(db), choices_of(db, order)))
        except TppkitError as e:
            return _refused(e)
        outcome = outcome_of(order)
        if outcome is not None:
            return self._show_outcome(order, outcome)
        customer = next((one for one in known if one.id == request.query_params.get("customer")), None)
        accounts = [account for one, account in choices if one == customer]
        refused = CORRECTABLE.get(request.query_params.get("refused", ""))
        values = self._values(order, customers=known, customer=customer, accounts=accounts, refused=refused)
        return page("phone.html", heading=QUESTIONS[type(order)], **values)

    async def _show_state(self, request: Request) -> Response:
        try:
            order = await self._visit(request)
        except TppkitError as e:
            is_unknown = e.code == "consent.unknown"  # permanent, so the page's script stops polling
            return JSONResponse({"open": False if is_unknown else None}, 404 if is_unknown else 503)
        return JSONResponse({"open": outcome_of(order) is None})

    async def _decide(self, request: Request) -> Response:
        token, refused, fields = request.path_params["token"], "", dict[str, str]()
        try:
            form = await read_form(request, self._settings.approval_url, max_bytes=_MAX_FORM_BYTES)
            fields = {name: values[0] for name, values in form.items()}
            if fields.get("action") not in ("approve", "decline"):
                raise FormatError("model.invalid", "the form neither approves nor declines")
            if fields["action"] == "decline" or fields.keys() >= {"customer", "iban"}:
                order, decided = await self._services.events.write(lambda db: self._apply(db, token, fields))
            else:
                refused = "form.incomplete"
        except TppkitError as e:
            if e.code not in CORRECTABLE:
                return _refused(e)
            refused = e.code
        if refused:  # by a redirect, so that the browser can go back to every page
            again = urlencode({"customer": fields.get("customer", ""), "refused": refused})
            return see_other(f"{request.scope['path']}/phone?{again}")
        if decided:
            self._decided(token)
        return see_other(order.redirect_uri if decided and order.redirect_uri is not None else request.scope["path"])

    async def _visit(self, request: Request) -> Order:
        """Return the order of the link; a visit by the customer opens it, but not what the page with the code asks by itself."""
        token = request.path_params["token"]
        is_waiting = "returning" in request.query_params or request.scope["path"] == f"/approve/{token}/state"
        is_customer = _is_customer(request) and not is_waiting

        def look(db: Connection) -> Order:
            at, rules = self._services.now(), self._settings.rules
            order = lock_order(db, token, at=at, rules=rules)
            return open_order(db, order, at=at, rules=rules) if is_customer else order

        return await self._services.events.write(look)

    def _apply(self, db: Connection, token: str, fields: Mapping[str, str]) -> tuple[Order, bool]:
        """Apply the form, and return the order and whether this form has decided it; a used link changes nothing."""
        at, rules = self._services.now(), self._settings.rules
        order = lock_order(db, token, at=at, rules=rules)
        if outcome_of(order) is not None:
            return order, False
        if fields["action"] == "decline":
            return decline_order(db, order, at=at), True
        return approve_order(db, order, fields["customer"], fields["iban"], at=at, rules=rules), True

    def _show_outcome(self, order: Order, outcome: Outcome) -> Response:
        heading, text = OUTCOMES[type(order), outcome]
        return page("outcome.html", heading=heading, **self._values(order, text=text, good=outcome in GOOD))

    def _values(self, order: Order, **values: Any) -> dict[str, Any]:
        """Return the values for every page of an order, including the address to which its script sends the browser."""
        redirect = order.redirect_uri
        if isinstance(order, StoredConsent):
            request = order.request
            until = order.progress.valid_until
            shown = {"consent": request, "permissions": permissions(request.access), "until": until}
        else:
            shown = {"payment": order.initiation, "product": PRODUCTS[order.product]}
        return {
            "payment": None,
            "consent": None,
            "organization": order.organization,
            "provider": order.provider_name or order.organization,
            "base": f"/approve/{order.link_token}",
            "redirect_uri": redirect,
            "leaves": "app" if redirect is not None and not redirect.lower().startswith(("http:", "https:")) else "web",
            "iban": getattr(order, "iban", None),
            **shown,
            **values,
        }


def _is_customer(request: Request) -> bool:
    """Whether a customer sees the answer, which excludes prefetches and link previews."""
    purposes = [request.headers.get(name, "").lower() for name in _PURPOSES]
    agent = request.headers.get("user-agent", "").lower()
    return (
        request.method == "GET"
        and not any(word in purpose for purpose in purposes for word in _UNSEEN)
        and not any(name in agent for name in _PREVIEWERS)
    )


def _refused(error: TppkitError) -> Response:
    return error_page(error, ERRORS.get(error.code, OTHER_ERROR))
