"""The control host: what a developer does to the sandbox from outside, on loopback only."""

from __future__ import annotations

import re
from datetime import timedelta
from ipaddress import AddressValueError, IPv4Address

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tppkit._clock import format_time
from tppkit._encoding import parse_json
from tppkit.errors import FormatError, TppkitError
from tppkit.protocol.wire import require_media_type
from tppkit.sandbox.clock import SandboxClock
from tppkit.web.message import read_message

_MAX_BODY_BYTES = 4096
_HOST = re.compile(r"(?P<name>\[::1\]|[A-Za-z0-9.]+)(:[0-9]{1,5})?")


class ControlHost:
    """`GET /clock`, and `POST /clock/advance` with `{"seconds": 300}`.

    A browser page from elsewhere must not move the clock, so only `application/json` is taken, which a browser does not
    send across origins without asking first. A page whose name was pointed at loopback (DNS rebinding) has the origin of
    this host, so `Host` must be a loopback name; other requests are answered 421.

    Args:
        clock: the sandbox's clock.
    """

    def __init__(self, clock: SandboxClock) -> None:
        self._clock = clock
        self.app = Starlette(
            routes=[
                Route("/clock", self._show, methods=["GET"]),
                Route("/clock/advance", self._advance, methods=["POST"]),
            ],
            middleware=[Middleware(_LoopbackNames)],
        )

    async def _show(self, request: Request) -> Response:
        return JSONResponse({"now": format_time(self._clock.now())})

    async def _advance(self, request: Request) -> Response:
        try:
            require_media_type(request.headers.get("content-type"), "application/json")
            message = await read_message(request.scope, request.receive, max_body_bytes=_MAX_BODY_BYTES)
            by = _seconds(message.body)
        except TppkitError as e:
            return _refusal(400, e)
        try:
            now = await self._clock.advance(by)
        except TppkitError as e:
            return _refusal(503 if e.code.startswith("database.") else 400, e)
        return JSONResponse({"now": format_time(now)})


class _LoopbackNames:
    """Passes on requests whose Host is a loopback name.

    Args:
        app: the application behind it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._app
        if scope["type"] == "http" and not _is_loopback(Request(scope).headers.get("host", "")):
            answer = _refusal(421, FormatError("control.host", "the Host of the request is not a loopback name"))
        await answer(scope, receive, send)


def _is_loopback(host: str) -> bool:
    fields = _HOST.fullmatch(host)
    name = fields["name"].lower() if fields else ""
    try:
        return name in ("localhost", "[::1]") or IPv4Address(name).is_loopback
    except AddressValueError:
        return False


def _refusal(status: int, error: TppkitError) -> Response:
    return JSONResponse({"error": {"code": error.code, "message": error.message}}, status_code=status)


def _seconds(body: bytes) -> timedelta:
    value = parse_json(body, what="the body", max_bytes=_MAX_BODY_BYTES)
    seconds = value.get("seconds") if isinstance(value, dict) else None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= 10**9:
        raise FormatError("model.invalid", 'the body is not {"seconds": number}')
    return timedelta(seconds=seconds)
