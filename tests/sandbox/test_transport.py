"""The transport of the sandbox in this process: the errors of failing applications."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from tppkit.sandbox.transport import SandboxTransport


async def failing_page(request: Request) -> Any:
    raise ValueError("of the test")


async def failing(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise TimeoutError("of the test")


def get(app: Any) -> int:
    async def ask() -> int:
        transport = SandboxTransport({"http://bank:1": app}, asyncio.get_running_loop())
        async with httpx.AsyncClient(transport=transport) as http:
            return (await http.get("http://bank:1/")).status_code

    return asyncio.run(ask())


def test_an_application_that_fails_after_its_answer_has_answered(caplog):
    assert get(Starlette(routes=[Route("/", failing_page)])) == 500
    assert "ValueError: of the test" in caplog.text


def test_an_application_that_fails_before_its_answer_is_a_lost_answer():
    with pytest.raises(httpx.ReadError, match="without a whole answer"):
        get(failing)
