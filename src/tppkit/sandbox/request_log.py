"""One line per request: `METHOD target status code`, the code only where the answer carries one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tppkit.protocol.refusals import Refusals
from tppkit.web.sources import RAW_TARGET

Write = Callable[[str], object]

_MAX_TARGET = 1024  # a line must fit into a pipe's buffer at once
_VISIBLE = "".join(map(chr, range(0x21, 0x7F)))
# Each character may be percent-encoded, also more than once: the server routes /%61pprove/ to the same page.
_ENCODED = [f"(?:{char}|%(?:25)*(?:{ord(char):02x}|{ord(char.upper()):02x}))" for char in "approve/"]
_LINK = re.compile(rf"({''.join(_ENCODED)}(?:{_ENCODED[-1]})*)[^\s'\"]+", re.IGNORECASE)


def without_tokens(text: str) -> str:
    """The text with the secret part of every approval link replaced: whoever reads it could approve the payment."""
    return _LINK.sub(r"\1***", text)


class RequestLog:
    """Writes a line for each request just before the last part of its answer is sent.

    Args:
        app: the ASGI application that answers.
        write: takes a line; printable ASCII without a line break, whatever the client sent.
        refusals: reads the error bodies of the application.
    """

    def __init__(self, app: ASGIApp, write: Write, refusals: Refusals) -> None:
        self._app = app
        self._write = write
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        status, code, written = 500, "", False  # the server answers 500 when an application ends without an answer

        def write() -> None:
            nonlocal written
            if not written:
                written = True
                with suppress(OSError):  # a reader of the lines that left must not fail a request
                    self._write(" ".join(filter(None, (scope["method"], _target(scope), str(status), code))))

        async def watch(event: Message) -> None:
            nonlocal status, code
            if event["type"] == "http.response.start":
                status = event["status"]
            elif event["type"] == "http.response.body":
                code = code or (self._code(event.get("body", b"")) if status >= 400 else "")
                if not event.get("more_body", False):
                    write()
            await send(event)

        try:
            await self._app(scope, receive, watch)
        finally:
            write()

    def _code(self, body: bytes) -> str:
        code, _ = self._refusals.read(body)
        return code if code is not None and code.isascii() and code.isprintable() else ""


def _target(scope: Mapping[str, Any]) -> str:
    return _shown(scope["extensions"][RAW_TARGET]["target"][:_MAX_TARGET])


@lru_cache(maxsize=64)
def _shown(target: bytes) -> str:
    return without_tokens(quote(target, safe=_VISIBLE))
