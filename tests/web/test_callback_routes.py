"""Routes of an application's own: the FastAPI dependency, the Flask decorator and `verify_callback_request`, by real servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from callback_servers import Response, Server, request, running
from cryptography.hazmat.primitives.asymmetric import ec
from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest
from fastapi import FastAPI, HTTPException
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request

from refusals import refused
from tppkit.callbacks import CallbackAddress, CallbackKey, CallbackKind, CallbackReceiver, Inbox, sign_callback
from tppkit.errors import FormatError, TransportError
from tppkit.inbox.store import MemoryStore
from tppkit.testpki import write_pki
from tppkit.web import CallbackGate, CallbackMiddleware, RefusedCallback, verify_callback_request
from tppkit.web.fastapi import verified_callback
from tppkit.web.receiving import routes

UUID = "4fZ0aB9" * 4
ACCESS = b'{"token":"abcdefghijklmnopqrstuvwxyz","exp":"2030-01-01 12:00:00"}'
PAYMENT = b'{"id":"T-1","ver":1,"timeStamp":0,"tlc":"posted","acc":"LT12","amount":["EUR-1"]}'
SERVERS = {
    "fastapi": Server(("-m", "uvicorn", "callback_route_apps:app", "--port", "{port}", "--no-proxy-headers")),
    "flask": Server(("-m", "gunicorn", "callback_route_apps:flask", "-b", "127.0.0.1:{port}")),
}


class Application(NamedTuple):
    """An application that runs, and the service's key."""

    port: int
    key: ec.EllipticCurvePrivateKey
    log: Path

    def call(
        self, path: str, body: bytes = b"", *, method: str = "POST", sent: bytes | None = None,
        headers: tuple[tuple[str, str], ...] = (), **more: Any,
    ) -> Response:  # fmt: skip
        signed = sign_callback(self.key, request_id="r-1", method=method, url=f"https://tpp.example{path}", body=body)
        return request(self.port, method, path, (*signed, *headers), body if sent is None else sent, **more)


@pytest.fixture(scope="module")
def applications(pki: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Application]]:
    folder = tmp_path_factory.mktemp("routes")
    write_pki(pki, folder / "certs")
    key, log = pki.callback_keys["callback-live"], folder / "log"
    with running(SERVERS, environment={"CALLBACK_KEY": str(folder / "certs" / "callback-live.pub")}, log=log) as ports:
        yield {name: Application(port, key, log) for name, port in ports.items()}


@pytest.fixture(params=SERVERS)
def application(request: pytest.FixtureRequest, applications: dict[str, Application]) -> Application:
    return applications[request.param]


@pytest.mark.parametrize(
    ("method", "path", "body", "event"),
    [
        ("POST", "/cb/", ACCESS, "AccessGranted"), ("POST", f"/cb/{UUID}", PAYMENT, "Transaction"),
        ("GET", f"/login/{UUID}", b"", "NoneType"), ("POST", "/own", b'{"a":1}', "NoneType"),
    ],
)  # fmt: skip
def test_a_route_gets_what_was_proven(application, method, path, body, event):
    for _ in range(2):  # nothing is remembered
        response = application.call(path, body, method=method)
        assert response.status == 200
        found = json.loads(response.body)
        assert (found["url"], found["event"]) == (f"https://tpp.example{path}", event)


@pytest.mark.parametrize(
    ("body", "sent", "status", "code"),
    [
        (ACCESS, ACCESS + b" ", 400, "callback.signature"), (PAYMENT, PAYMENT, 400, "model.invalid"),
        (ACCESS, b"{" + b" " * 70_000, 413, "message.too-large"),
    ],
)  # fmt: skip
def test_what_is_refused_gets_a_status_without_a_reason_and_is_logged_and_counted(
    application, body, sent, status, code
):
    response = application.call("/cb/", body, sent=sent)
    assert response.status == status
    assert b"callback" not in response.body
    assert b"sign" not in response.body
    assert f"[{code}]" in application.log.read_text()
    counted = json.loads(application.call("/cb/", ACCESS).body)["counted"]
    assert counted[-2:] == [["refused", code], ["verified", ""]]


def test_a_body_without_a_length_is_read_no_further_than_its_limit(application):
    assert application.call("/cb/", ACCESS, chunked=True).status == 200
    assert application.call("/cb/", ACCESS, sent=b"{" + b" " * 70_000, chunked=True).status == 413


JSON, FORM = "application/json", "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("name", "before", "kind", "chunked"),
    [
        ("fastapi", "", JSON, False), ("fastapi", "body", JSON, False), ("fastapi", "json", JSON, False), ("fastapi", "json", JSON, True),
        ("flask", "", JSON, False), ("flask", "get_data", JSON, False), ("flask", "get_json", JSON, False), ("flask", "", JSON, True),
        ("flask", "form", JSON, False), ("flask", "get_data", FORM, False),
    ],
)  # fmt: skip
def test_the_body_can_be_read_before_and_after(name, before, kind, chunked, applications):
    headers = (("X-Before", before), ("Content-Type", kind))
    response = applications[name].call("/own", b'{"a":1}', headers=headers, chunked=chunked)
    assert json.loads(response.body)["again"] == {"a": 1}


@pytest.mark.parametrize(("name", "before"), [("fastapi", "stream"), ("fastapi", "middleware"), ("flask", "form")])
def test_a_body_that_was_parsed_as_a_form_is_refused_with_that_reason(name, before, applications):
    headers = (("X-Before", before), ("Content-Type", FORM))
    response = applications[name].call("/own", b'{"a":1}', headers=headers)
    assert b"message.body-read" in response.body


def test_a_body_whose_stream_a_middleware_consumed_is_refused_with_that_reason():
    async def consume(request: Request, call_next: Any) -> Any:
        [_ async for _ in request.stream()]
        return await call_next(request)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"{}"}

    async def send(event: Any) -> None: ...

    refused: list[RefusedCallback] = []
    gate = CallbackGate(Inbox(RECEIVER, MemoryStore()), on_refusal=refused.append)
    app = BaseHTTPMiddleware(CallbackMiddleware(FastAPI(), gate=gate), consume)
    headers = [(b"content-length", b"2"), (b"requestid", b"r-1"), (b"signature", b"00")]
    asyncio.run(app(SCOPE | {"headers": headers}, receive, send))
    assert [getattr(one.error, "code", None) for one in refused] == ["message.body-read"]


@pytest.mark.parametrize(
    ("before", "kind"), [(None, JSON), ("body", JSON), ("POST", FORM), ("POST", "multipart/form-data; boundary=b")]
)
def test_django_reads_the_body_before_and_after(before, kind, pki):
    if not settings.configured:
        settings.configure()
    key = pki.callback_keys["callback-live"]
    receiver = CallbackReceiver(RECEIVER.book.addresses, keys=[CallbackKey("live", key.public_key())])
    body = b'{"a":"--b--"}'
    signed = sign_callback(key, request_id="r-1", method="POST", url="https://tpp.example/own", body=body)
    asked = WSGIRequest({
        "REQUEST_METHOD": "POST", "PATH_INFO": "/own", "RAW_URI": "/own", "CONTENT_TYPE": kind, "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": BytesIO(body), **{f"HTTP_{name.upper()}": value for name, value in signed},
    })  # fmt: skip
    if before:
        getattr(asked, before)
    if kind.startswith("multipart"):
        with refused(FormatError, "message.body-read"):
            verify_callback_request(asked, receiver=receiver)
    else:
        assert verify_callback_request(asked, receiver=receiver).request_id == "r-1"
        assert asked.body == body


@pytest.mark.parametrize("error", [RuntimeError("no pool"), OSError(28, "no space"), ValueError("other")])
def test_an_error_of_another_cause_is_not_reported_as_one_of_the_body(error):
    async def receive() -> Any:
        raise error

    scope = {
        "type": "http", "http_version": "1.1", "method": "POST", "scheme": "https", "path": "/own", "raw_path": b"/own",
        "query_string": b"",
        "headers": [(b"host", b"tpp.example"), (b"content-length", b"7"), (b"requestid", b"r-1"), (b"signature", b"00")],
    }  # fmt: skip
    with pytest.raises(type(error)) as raised:
        asyncio.run(verify_callback_request(Request(scope, receive), receiver=RECEIVER))
    assert raised.value is error


def test_other_senders_are_refused_before_the_body_and_an_own_route_gets_the_reason(application):
    assert application.call("/guarded", b"{}").status == 403
    assert b"callback.signature" in application.call("/own", b"{}", sent=b"{ }").body


def test_an_environ_is_verified_like_a_request(applications):
    assert b"callback.address" in applications["flask"].call("/own?by=environ", b"{}").body


KEY = ec.derive_private_key(4711, ec.SECP256R1()).public_key()
RECEIVER = CallbackReceiver(
    [CallbackAddress("https://tpp.example/own", CallbackKind.OTHER)], keys=[CallbackKey("live", KEY)]
)
SCOPE = {"type": "http", "method": "POST", "path": "/own", "raw_path": b"/own", "query_string": b"", "headers": []}


async def disconnected() -> dict[str, Any]:
    return {"type": "http.disconnect"}


@pytest.mark.parametrize(
    ("receive", "code"),
    [(asyncio.Event().wait, "transport.timeout"), (disconnected, "transport.disconnected")],
)
def test_a_body_that_does_not_come_is_waited_for_no_longer_than_the_limit(receive, code, monkeypatch):
    monkeypatch.setattr(routes, "TIMEOUT_S", 0.01)

    async def verify() -> None:
        await verify_callback_request(Request(SCOPE, receive=receive), receiver=RECEIVER)

    with refused(TransportError, code):
        asyncio.run(verify())


def test_a_sender_that_leaves_before_the_body_is_refused_and_counted():
    refused, counted = list[RefusedCallback](), list[tuple[str, str]]()
    dependency = verified_callback(RECEIVER, on_refusal=refused.append, count=lambda *one: counted.append(one[:2]))
    with pytest.raises(HTTPException) as answer:
        asyncio.run(dependency(Request(SCOPE, receive=disconnected)))
    assert (answer.value.status_code, refused[0].status) == (400, 400)
    assert counted == [("refused", "transport.disconnected")]
