"""Templates and headers of the pages for browsers. The headers prevent caching, and allow only the page's own script."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib.resources import files
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tppkit._encoding import encode_base64
from tppkit.errors import FormatError, LocalProtocolError, TppkitError
from tppkit.sandbox.control import is_loopback_name
from tppkit.sandbox.host import RETRY_AFTER_S
from tppkit.web.sources import read_message

_LOGGER = logging.getLogger("tppkit.sandbox.pages")

SCRIPT, INSPECTOR_SCRIPT = [
    files("tppkit.sandbox").joinpath(f"templates/{name}.js").read_text("utf-8") for name in ("approval", "inspector")
]


def _policy(script: str) -> str:
    return (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; "
        f"script-src 'sha256-{encode_base64(hashlib.sha256(script.encode()).digest())}'"
    )


# No form-action: Chromium applies it to every redirect after a form is sent, and these lead to the provider, from there to an
# application's scheme. No frame-ancestors: a provider may show the approval page in an iframe.
_POLICY = _policy(SCRIPT)
_HEADERS: Mapping[str, str] = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers would not send the origin of our own forms
    "X-Content-Type-Options": "nosniff",
}

INSPECTOR_HEADERS: Mapping[str, str] = {
    **_HEADERS,
    "Content-Security-Policy": f"{_policy(INSPECTOR_SCRIPT)}; form-action 'self'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_MAX_FIELDS = 20
_DIRECTION = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_FORWARDED = ("x-forwarded-for", "forwarded", "x-real-ip", "x-forwarded-host", "via")  # set by reverse proxies


def grouped(iban: str) -> str:
    """An IBAN in groups of four characters, the print format of ISO 13616."""
    return " ".join(iban[i : i + 4] for i in range(0, len(iban), 4))


def shown_time(at: datetime | None) -> str:
    """A time on a page, to the second; empty for None."""
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def _without_direction(value: object) -> object:
    """Remove the marks that change the direction of text, with which a shop could rearrange what the page says."""
    return _DIRECTION.sub("", value) if isinstance(value, str) and _DIRECTION.search(value) else value


_TEMPLATES = Environment(
    autoescape=True, undefined=StrictUndefined, loader=PackageLoader("tppkit.sandbox"), trim_blocks=True, lstrip_blocks=True,
    finalize=_without_direction,
)  # fmt: skip
_TEMPLATES.filters["grouped"] = grouped


def page(template: str, /, *, status: int = 200, headers: Mapping[str, str] | None = None, **values: Any) -> Response:
    """Render a page.

    Args:
        template: name of its file in `templates`.
        status: HTTP status of the answer.
        headers: further headers.
        values: values of the template; markup in them is escaped.
    """
    return HTMLResponse(fragment(template, **{"script": SCRIPT} | values), status, headers=headers)


def fragment(template: str, /, **values: Any) -> str:
    """Render a template as text."""
    return _TEMPLATES.get_template(template).render(values)


def see_other(address: str) -> Response:
    """Redirect the browser to an address, which is sent unchanged."""
    response = Response(status_code=303)
    response.headers["location"] = address
    return response


def unframed(response: Response) -> Response:
    """Forbid other sites to show this page in a frame (clickjacking)."""
    response.headers["Content-Security-Policy"] = f"{_POLICY}; frame-ancestors 'none'"
    return response


def protected(app: ASGIApp) -> ASGIApp:
    """Add the protective headers to every answer of the pages host that lacks them: also to its keys and unknown paths."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def add(event: Message) -> None:
            if event["type"] == "http.response.start":
                headers = MutableHeaders(raw=event.setdefault("headers", []))
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(event)

        await app(scope, receive, add)

    return answer


async def read_form(request: Request, url: str, *, max_bytes: int) -> Mapping[str, Sequence[str]]:
    """Read a form sent by a page of the sandbox at `url`; reject forms of other origins.

    Raises:
        FormatError: `message.too-large`, `model.invalid`.
        LocalProtocolError: `form.elsewhere`, a page of another origin sent it.
    """
    message = await read_message(request.scope, request.receive, max_body_bytes=max_bytes)
    if is_cross_origin(request, url):
        raise LocalProtocolError("form.elsewhere", "")
    return form_fields(message.body)


def form_fields(body: bytes) -> Mapping[str, Sequence[str]]:
    """Parse the fields of a form, each with its values.

    Raises:
        FormatError: `model.invalid`, the form has too many fields.
    """
    try:
        return parse_qs(body.decode("latin-1"), max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise FormatError("model.invalid", "the form has too many fields") from None


def error_page(error: TppkitError, shown: tuple[int, str, str], **values: Any) -> Response:
    """Render the page about an error with the status, heading and text for it."""
    headers = {}
    if error.code == "database.unavailable":
        _LOGGER.warning("  %s", error)
        headers = {"Retry-After": str(RETRY_AFTER_S)}
    status, heading, text = shown
    return page("message.html", status=status, headers=headers, heading=heading, text=text, **values)


def is_cross_origin(request: Request, url: str) -> bool:
    """Whether a page of another origin than `url` and the Host header sent a request."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None or origin is None:
        return site not in (None, "same-origin")
    return origin.partition("://")[2] not in (request.headers.get("host"), url.partition("://")[2])


def is_local(request: Request) -> bool:
    """Whether a client on this machine uses a loopback name, and no header tells of a proxy. Any other name may be DNS rebinding."""
    peer = ip_address(request.client.host if request.client else "0.0.0.0")  # noqa: S104  # an absent peer is not local
    peer = getattr(peer, "ipv4_mapped", None) or peer
    is_forwarded = any(name in request.headers for name in _FORWARDED)
    return peer.is_loopback and not is_forwarded and is_loopback_name(request.headers.get("host", ""))


def local_only_page() -> Response:
    """Return the answer to a request that is not local, for a page with the data of all customers."""
    text = "Open it at localhost, on the machine that runs the sandbox."
    return page("message.html", status=403, heading="This page is for this machine only", text=text)
