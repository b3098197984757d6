"""The control host: what a developer does to the sandbox from outside, on loopback only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tppkit._clock import format_time
from tppkit._encoding import parse_json
from tppkit.errors import FormatError, TppkitError
from tppkit.protocol.psd2.rules import require_json
from tppkit.sandbox.clock import SandboxClock
from tppkit.web import read_message

_MAX_BODY_BYTES = 4096


class ControlHost:
    """`GET /clock`, and `POST /clock/advance` with `{"seconds": 300}`.

    A browser page from elsewhere must not move the clock, so only `application/json` is taken, which a browser does not
    send across origins without asking first.

    Args:
        clock: the sandbox's clock.
    """

    def __init__(self, clock: SandboxClock) -> None:
        self._clock = clock
        self.app = Starlette(
            routes=[
                Route("/clock", self._show, methods=["GET"]),
                Route("/clock/advance", self._advance, methods=["POST"]),
            ]
        )

    async def _show(self, request: Request) -> Response:
        return await self._answer(self._clock.show)

    async def _advance(self, request: Request) -> Response:
        try:
            require_json(request.headers.get("content-type"))
            message = await read_message(request.scope, request.receive, max_body_bytes=_MAX_BODY_BYTES)
            by = _seconds(message.body)
        except TppkitError as e:
            return _refusal(e)
        return await self._answer(partial(self._clock.advance, by))

    async def _answer(self, call: Callable[[], datetime]) -> Response:
        try:
            now = await asyncio.to_thread(call)  # the clock is in the database
        except TppkitError as e:
            return _refusal(e)
        return JSONResponse({"now": format_time(now)})


def _refusal(error: TppkitError) -> Response:
    status = 503 if error.code.startswith("database.") else 400
    return JSONResponse({"error": {"code": error.code, "message": error.message}}, status_code=status)


def _seconds(body: bytes) -> timedelta:
    value = parse_json(body, what="the body", max_bytes=_MAX_BODY_BYTES)
    seconds = value.get("seconds") if isinstance(value, dict) else None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= 10**9:
        raise FormatError("model.invalid", 'the body is not {"seconds": number}')
    return timedelta(seconds=seconds)
