"""The WSGI middleware: what is read of a body, and how it ends."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from test_callback_gate import ACCESS, RECEIVER, Refusals, callback

from tppkit.callbacks import Inbox
from tppkit.inbox.store import MemoryStore
from tppkit.web import CallbackGate, WsgiCallbackMiddleware


class Input(BytesIO):
    """A body that comes in small pieces and counts what was asked for."""

    asked = 0

    def read(self, size: int | None = -1) -> bytes:
        assert size is not None
        assert size > 0
        self.asked += size
        return super().read(min(size, 20_000))


class Broken:
    """A connection that is gone."""

    def read(self, size: int) -> bytes:
        raise ConnectionResetError


def environ(body: Any, **changed: Any) -> dict[str, Any]:
    headers = {f"HTTP_{name.upper()}": value for name, value in callback().headers}
    fixed = {"REQUEST_METHOD": "POST", "RAW_URI": "/cb/", "REMOTE_ADDR": "127.0.0.1", "wsgi.input": body}
    return {**fixed, **headers, **changed}


def run(given: dict[str, Any]) -> tuple[str, bytes, Refusals]:
    refusals = Refusals()
    started: list[str] = []

    def application(environ: Any, start_response: Any) -> list[bytes]:
        start_response("404 Not Found", [])
        return [b"application"]

    gate = CallbackGate(Inbox(RECEIVER, MemoryStore()), on_refusal=refusals.append)
    middleware = WsgiCallbackMiddleware(application, gate=gate)
    body = b"".join(middleware(given, lambda status, headers, *_: started.append(status)))  # type: ignore[arg-type, func-returns-value]
    return started[0], body, refusals


def test_a_body_with_a_length_is_accepted():
    body = Input(ACCESS + b"the next request")
    assert run(environ(body, CONTENT_LENGTH=str(len(ACCESS)))) == ("200 OK", b"", [])


def test_a_body_that_the_server_ends_is_accepted():
    given = environ(Input(ACCESS), **{"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked"})
    assert run(given)[0] == "200 OK"


def test_a_chunked_body_without_an_end_is_refused_unread():
    body = Input(ACCESS)
    status, _, refusals = run(environ(body, HTTP_TRANSFER_ENCODING="chunked"))
    assert (status, body.asked, refusals.code) == ("400 Bad Request", 0, "message.malformed")


def test_a_request_without_length_has_no_body():
    status, _, refusals = run(environ(Input(ACCESS)))
    assert (status, refusals.code) == ("400 Bad Request", "callback.body")


def test_a_body_that_ends_too_early_is_refused():
    status, _, refusals = run(environ(Input(ACCESS[:10]), CONTENT_LENGTH=str(len(ACCESS))))
    assert (status, refusals.code) == ("400 Bad Request", "transport.disconnected")


def test_a_connection_that_fails_is_refused():
    assert run(environ(Broken(), CONTENT_LENGTH="10"))[2].code == "transport.disconnected"


@pytest.mark.parametrize("length", ["65537", "99999999999"])
def test_a_body_that_is_announced_too_long_is_not_read(length):
    body = Input(ACCESS)
    assert run(environ(body, CONTENT_LENGTH=length))[0].startswith("413 ")
    assert body.asked == 0


def test_a_body_is_read_no_further_than_its_limit():
    body = Input(b"x" * 1_000_000)
    assert run(environ(body, **{"wsgi.input_terminated": True}))[0].startswith("413 ")
    assert body.tell() == 65_537


@pytest.mark.parametrize("length", ["-1", "1_0", "x", "9" * 5000])
def test_a_length_that_is_not_a_number_is_refused(length):
    assert run(environ(Input(ACCESS), CONTENT_LENGTH=length))[0] == "400 Bad Request"


def test_everything_else_is_the_applications():
    assert run(environ(Input(ACCESS), RAW_URI="/other"))[:2] == ("404 Not Found", b"application")


def test_headers_that_the_server_joined_are_refused():
    given = environ(Input(ACCESS), CONTENT_LENGTH=str(len(ACCESS)), HTTP_REQUESTID="r-1,r-1")
    assert run(given)[2].code == "callback.request-id"
