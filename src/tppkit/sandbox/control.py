"""The control host: routes for developers to control the sandbox, on loopback only."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from ipaddress import AddressValueError, IPv4Address
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tppkit._encoding import parse_json
from tppkit.errors import FormatError, TppkitError
from tppkit.protocol.refusals import Refusal, Refusals, find_error, write_error
from tppkit.protocol.wire import require_media_type
from tppkit.web.sources import read_message

_MAX_BODY_BYTES = 4096
_HOST = re.compile(r"(?P<name>\[::1\]|[A-Za-z0-9.]+)(:[0-9]{1,5})?")


class Control(NamedTuple):
    """One route of the control host.

    Attributes:
        method: GET, POST or DELETE.
        path: with parameters in braces, for example `/consents/{id}/approve`.
        answer: called with the parameters of the path and the JSON of a POST's body, or None without a body; returns JSON.
    """

    method: str
    path: str
    answer: Callable[[Mapping[str, str], Any], Awaitable[Any]]


def text_fields(body: Any, *names: str) -> Mapping[str, str]:
    """Return the fields of a body with these names, without absent ones; all must be texts.

    Raises:
        FormatError: `model.invalid`.
    """
    fields = {} if body is None else body
    if not isinstance(fields, dict) or not all(isinstance(fields.get(name, ""), str) for name in names):
        raise FormatError("model.invalid", f"the body is not an object with texts for {', '.join(names)}")
    return {name: fields[name] for name in names if name in fields}


def control_host(controls: Iterable[Control]) -> ASGIApp:
    """Make the control host with these routes.

    A web page of another origin must not move the clock. So only `application/json` is accepted, which browsers do not send across
    origins without a preflight request. After DNS rebinding, a page has the origin of this host, so `Host` must be a loopback name;
    other requests are answered with 421.
    """
    routes = Starlette(routes=[Route(row.path, _endpoint(row), methods=[row.method]) for row in controls])
    routes.router.redirect_slashes = False  # a redirect would lead to the port in the Host header
    misdirected = _refusal(421, FormatError("control.host", "the Host of the request is not a loopback name"))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        is_ours = scope["type"] != "http" or is_loopback_name(Request(scope).headers.get("host", ""))
        await (routes if is_ours else misdirected)(scope, receive, send)

    return app


def _endpoint(control: Control) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            reading = _read(request) if control.method == "POST" else None
            return JSONResponse(await control.answer(request.path_params, reading and await reading))
        except TppkitError as e:
            return _refusal(503 if e.code.startswith(("database.", "archive.")) else 400, e)

    return answer


async def _read(request: Request) -> Any:
    """Read the JSON of the body, None if there is no body. Rejects requests across origins, which always have an Origin."""
    message = await read_message(request.scope, request.receive, max_body_bytes=_MAX_BODY_BYTES)
    if message.body or "origin" in request.headers:
        require_media_type(request.headers.get("content-type"), "application/json")
    return None if not message.body else parse_json(message.body, what="the body", max_bytes=_MAX_BODY_BYTES)


def is_loopback_name(host: str) -> bool:
    """Whether a Host header names loopback, with or without a port."""
    fields = _HOST.fullmatch(host)
    name = fields["name"].lower() if fields else ""
    try:
        return name in ("localhost", "[::1]") or IPv4Address(name).is_loopback
    except AddressValueError:
        return False


def _refusal(status: int, error: TppkitError) -> Response:
    body = CONTROL_REFUSALS.write(Refusal(status, error.code, error.message))
    return Response(body, status, media_type="application/json")


CONTROL_REFUSALS = Refusals(rows=(), write=write_error, find=find_error)
