"""Steps with a client for threads or for asyncio, and servers that answer as a test says."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from http_drivers import Step, run_steps
from rogue_bank import Answer, RogueBank, as_json, http, rogue_bank, server_context

from tppkit.errors import TppkitError
from tppkit.testpki import Pki

KEY = "live_5ec4e75ec4e75ec4e7"


def in_turn(*answers: Answer) -> Answer:
    """Each answer once, and the last one for ever."""
    left = list(answers)
    return lambda request: (left.pop(0) if len(left) > 1 else left[0])(request)


# Ends of a request that leave its outcome open.
LOST: dict[str, Answer] = {
    "connection": lambda _: b"",
    "proxy": http(502, b"<html>"),
    "unavailable": http(503, b"<html>"),
    "server": http(500, b'{"error":{"code":"INTERNAL_SERVER_ERROR"}}'),
    "proxy's timeout": http(408, b"stream timeout"),
    "proxy's timeout in JSON": http(408, b'{"error":{"code":"TIMEOUT"}}'),
    "proxy's refusal": http(403, b"<html>"),
    "redirect": http(307, location="https://localhost:1/"),
    "cut off": lambda _: b"HTTP/1.1 201 Created\r\ncontent-length: 10\r\n\r\n{",
    "no http": lambda _: b"SSH-2.0-OpenSSH\r\n\r\n",
    "empty success": http(204),
    "unreadable success": as_json(201, {"id": 1}),
}


@dataclass(frozen=True)
class Player:
    """Runs a step with a client against a server on loopback.

    Attributes:
        client: the class of the client, for threads or for asyncio.
        folder: the server's certificate.
        pki: its authority.
        repeats: whether the client repeats requests, so that it sleeps in between.
    """

    client: Any
    folder: Path
    pki: Pki
    repeats: bool = True

    def run(self, url: str, step: Step, **options: Any) -> Any:
        """The result of a step; rows as a list."""
        is_async = hasattr(self.client, "__aenter__")
        sleep: Any = (lambda _: asyncio.sleep(0)) if is_async else (lambda _: None)
        options = {"api_key": KEY, "server_anchors": [self.pki.root.certificate], **options}
        options |= {"sleep": sleep} if self.repeats else {}
        return run_steps(self.client(url, **options), step)[0]

    def ask(self, answer: Answer, step: Step, **options: Any) -> tuple[Any, RogueBank]:
        """The result of a step or the error that it raises, and what the server saw."""
        with rogue_bank(server_context(self.folder), answer, then_close=True) as server, suppress(ValueError):
            try:
                return self.run(server.url, step, **options), server
            except TppkitError as e:
                return e, server
        raise AssertionError("the step raised a ValueError")
