"""The shop's pages, and its receiver of webhooks.

gunicorn shop:app --bind 127.0.0.1:9443 --certfile certs/server-chain.pem --keyfile certs/server.key
"""

from __future__ import annotations

import logging
import re
import secrets

import cards
import orders
from flask import Flask, Response, abort, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from tppkit.errors import FormatError, RequestRefused, TppkitError
from tppkit.web import WebhookGate, WsgiCallbackMiddleware

_LOG = logging.getLogger("shop")
_REFERENCE = re.compile(r"[A-Za-z0-9_-]{22}")

app = Flask(__name__)
app.config["MAX_CONTENT_LENGTH"] = 16 * 1024
gate = WebhookGate(orders.inbox, path=orders.WEBHOOK_PATH)
app.wsgi_app = WsgiCallbackMiddleware(app.wsgi_app, gate=gate)  # type: ignore[method-assign]  # as Flask says to do it


@app.before_request
def require_own_origin() -> None:
    """Refuse forms of other pages: browsers send Origin with each form. Webhooks do not come here."""
    if request.method not in ("GET", "HEAD") and request.headers.get("Origin") != orders.PUBLIC_URL:
        abort(403)


@app.after_request
def set_security_headers(response: Response) -> Response:
    """Let no page be framed, cached, or run scripts."""
    response.headers["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"
    response.headers["Cache-Control"] = "no-store"
    response.headers["Referrer-Policy"] = (
        "same-origin"  # with no-referrer, browsers would send our own forms with Origin: null
    )
    response.headers["X-Content-Type-Options"] = "nosniff"
    return response


@app.get("/")
def index() -> str:
    """The shop window."""
    return render_template("index.html", price=orders.PRICE, reference=secrets.token_urlsafe(16))


@app.post("/hosted")
def hosted() -> AnyResponse:
    """Pay on the gateway's page."""
    order = orders.create(_reference(), own_checkout=False)
    return redirect(order.order_url if order and order.order_url else _own_page(), 303)


@app.get("/card")
def card() -> str:
    """The form for a card."""
    return render_template("card.html", price=orders.PRICE, reference=secrets.token_urlsafe(16))


@app.post("/card")
def pay() -> AnyResponse:
    """Pay with a card in the shop's own checkout."""
    number, expiry, cvc = cards.read_card(request.form)
    order = orders.create(_reference(), own_checkout=True)
    if order is None:  # the form was sent twice
        return redirect(_own_page(), 303)
    try:
        token = cards.store(order, number, expiry)
    except Exception as e:  # nothing was charged
        orders.fail(_reference())
        if isinstance(e, (FormatError, RequestRefused)):
            _LOG.warning("order %s: %s", order.id, e)
            raise cards.BadCard("it was not accepted, and you have not been charged") from e
        raise
    try:
        challenge = cards.pay(order, token, cvc)
    except TppkitError as e:  # it may have been charged: the worker asks the gateway
        _LOG.warning("order %s: %s", order.id, e)
        challenge = None
    return redirect(challenge or _own_page(), 303)


@app.get("/orders/<reference>")
def status(reference: str) -> str:
    """What became of an order. That the browser comes here proves nothing; the worker's answer counts."""
    order = orders.find(reference)
    if order is None:
        abort(404)
    return render_template("order.html", order=order)


@app.errorhandler(cards.BadCard)
def bad_card(error: cards.BadCard) -> tuple[str, int]:
    """Say what is wrong with the form."""
    return render_template("failed.html", text=f"Please check your card: {error}."), 422


@app.errorhandler(TppkitError)
def failed(error: TppkitError) -> tuple[str, int]:
    """Answer what went wrong without details; the log has them, and they never contain card data."""
    _LOG.warning("%s %s: %s", request.method, request.path, error)
    return render_template("failed.html", text="We cannot take payments right now. You have not been charged."), 503


def _reference() -> str:
    reference = request.form.get("reference", "")
    if not _REFERENCE.fullmatch(reference):
        abort(400)
    return reference


def _own_page() -> str:
    return url_for("status", reference=_reference())
