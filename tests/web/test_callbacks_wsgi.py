"""The WSGI middleware for callbacks: what is read of a body, and how it ends. `test_seal_wsgi` shows the rest of reading."""

from __future__ import annotations

from typing import Any

import pytest
from test_callback_gate import ACCESS, RECEIVER, Refusals, callback
from wsgi import Body, call, environ_of

from tppkit.callbacks import Inbox
from tppkit.inbox.store import MemoryStore
from tppkit.seals import Message
from tppkit.web import CallbackGate, WsgiCallbackMiddleware


def run(target: str = "/cb/", **changed: Any) -> tuple[int, bytes, Refusals]:
    refusals = Refusals()

    def application(environ: Any, start_response: Any) -> list[bytes]:
        start_response("404 Not Found", [])
        return [b"application"]

    gate = CallbackGate(Inbox(RECEIVER, MemoryStore()), on_refusal=refusals.append)
    environ = environ_of(Message("POST", target, callback().headers, ACCESS), **changed)
    status, _, body = call(WsgiCallbackMiddleware(application, gate=gate), environ)
    return status, body, refusals


@pytest.mark.parametrize(
    ("changed", "sent", "status", "code", "read"),
    [
        ({}, ACCESS + b"the next request", 200, "", len(ACCESS)),
        ({}, ACCESS[:10], 400, "transport.disconnected", 10),
        ({"CONTENT_LENGTH": ""}, ACCESS, 400, "callback.body", 0),
        ({"CONTENT_LENGTH": "", "HTTP_TRANSFER_ENCODING": "chunked"}, ACCESS, 400, "message.malformed", 0),
        ({"CONTENT_LENGTH": "1_0"}, ACCESS, 400, "message.malformed", 0),
        ({"CONTENT_LENGTH": "65537"}, ACCESS, 413, "message.too-large", 0),
        ({"CONTENT_LENGTH": "", "wsgi.input_terminated": True}, b"x" * 1_000_000, 413, "message.too-large", 65_537),
        ({"HTTP_REQUESTID": "r-1,r-1"}, ACCESS, 400, "callback.request-id", len(ACCESS)),
    ],
)
def test_a_body_is_read_as_far_as_it_goes_and_no_further_than_its_limit(changed, sent, status, code, read):
    body = Body(sent)
    answered, _, refusals = run(**changed, **{"wsgi.input": body})
    assert (answered, refusals.code if refusals else "", body.tell()) == (status, code, read)


def test_everything_else_is_the_applications():
    assert run("/other")[:2] == (404, b"application")
