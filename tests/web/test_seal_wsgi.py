"""The WSGI middleware, called in memory: the target as it was on the wire, or no request at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import pytest
from asgi import BODY, REQUEST_ID, TARGET, sealed
from wsgi import Body, Recorder, call, code, environ_of, forwarded

from tppkit.seals import Message, Seal
from tppkit.testpki import Pki
from tppkit.web import (
    ReplayGuard,
    SealGate,
    WsgiSealMiddleware,
    verified_request,
)
from tppkit.web.replay_stores.memory import MemoryReplayStore


@pytest.fixture
def app() -> Recorder:
    return Recorder()


Door = Callable[..., WsgiSealMiddleware]


@pytest.fixture
def door(app: Recorder, make_gate: Callable[..., SealGate]) -> Door:
    return lambda before=app, **settings: WsgiSealMiddleware(before, gate=make_gate(**settings))


@pytest.fixture
def good(seal: Seal, pki: Pki) -> Message:
    return forwarded(sealed(seal), pki)


@pytest.mark.parametrize("name", ["RAW_URI", "REQUEST_URI"])
@pytest.mark.parametrize("prefix", ["", "http://bank.example", "HTTPS://bank.example:8443"])
def test_a_sealed_request_reaches_its_handler(name, prefix, door, app, good):
    environ = environ_of(good)
    del environ["RAW_URI"]
    assert call(door(), environ | {name: prefix + TARGET})[0] == 201
    verified = verified_request(app.environs[0])
    assert (verified.target, verified.body, app.bodies) == (TARGET, BODY, [BODY])
    assert app.environs[0]["CONTENT_LENGTH"] == str(len(BODY))
    assert app.closed == 1


def test_white_space_that_a_server_leaves_around_a_value_is_not_part_of_it(door, app, good):
    spaced = {name: f"\t {value} " for name, value in environ_of(good).items() if name.startswith(("HTTP_", "CONTENT"))}
    assert call(door(), environ_of(good) | spaced)[0] == 201
    assert (app.environs[0]["HTTP_X_REQUEST_ID"], app.bodies) == (REQUEST_ID, [BODY])
    assert app.environs[0]["CONTENT_TYPE"] == "application/json"


@pytest.mark.parametrize(
    "targets",
    [{}, {"RAW_URI": ""}, {"RAW_URI": TARGET, "REQUEST_URI": TARGET + "&y"}],
    ids=["none", "empty", "two that differ"],
)
def test_without_one_raw_target_nothing_is_put_together_again(targets, door, app, good):
    environ = environ_of(good)
    del environ["RAW_URI"]
    path, _, query = TARGET.partition("?")
    status, _, body = call(door(), environ | {"PATH_INFO": path, "QUERY_STRING": query} | targets)
    assert (status, code(body), app.environs) == (400, "FORMAT_ERROR", [])
    assert b"message.no-raw-path" in body


NO_PATHS = ("*", "bank.example:443", "http://bank.example", "http://bank.example?x", "//[#", "/a#b", "ž")


@pytest.mark.parametrize("target", [TARGET + "&y", TARGET.replace("%2F", "/"), "/decoded", *NO_PATHS])
def test_another_target_is_refused_without_reading_the_body(target, door, app, good):
    environ = environ_of(good, RAW_URI=target) if target in NO_PATHS else environ_of(good._replace(target=target))
    status, headers, body = call(door(), environ)
    assert (environ["wsgi.input"].reads, app.environs) == (0, [])
    if target in NO_PATHS:
        assert status in (400, 401)
    else:
        assert (status, code(body), headers["X-Request-ID"]) == (401, "SIGNATURE_INVALID", REQUEST_ID)


@pytest.mark.parametrize("name", ["DIGEST", "SIGNATURE", "TPP_SIGNATURE_CERTIFICATE", "X_REQUEST_ID", "CLIENT_CERT"])
@pytest.mark.parametrize("joint", [",", ", "])
def test_a_header_that_the_server_joined_is_refused(name, joint, door, app, good):
    environ = environ_of(good)
    value = environ["HTTP_" + name]
    status = call(door(), environ | {"HTTP_" + name: f"{value}{joint}{value}"})[0]
    assert (status in (400, 401), app.environs) == (True, [])


def test_a_body_over_the_limit_is_refused_without_reading_on(door, good):
    announced = environ_of(good)
    assert call(door(max_body_bytes=10), announced)[0] == 413
    assert announced["wsgi.input"].reads == 0
    endless = Body(b"x" * 1_000_000)
    chunked = environ_of(good, CONTENT_LENGTH="", **{"wsgi.input_terminated": True, "wsgi.input": endless})
    assert call(door(max_body_bytes=10), chunked)[0] == 413
    assert endless.reads == 1


def test_the_same_request_is_answered_as_before(door, app, good):
    guard = ReplayGuard(MemoryReplayStore())
    first = call(door(replay=guard), environ_of(good))
    assert call(door(replay=guard), environ_of(good)) == first == (201, {"ASPSP-Number": "1"}, b"done")
    assert (len(app.environs), app.closed) == (1, 1)


def test_a_client_that_leaves_while_it_is_answered_changes_nothing(door, app, good):
    guard = ReplayGuard(MemoryReplayStore())
    running = door(replay=guard)(environ_of(good), lambda *_: lambda chunk: None)
    next(iter(running))
    running.close()  # type: ignore[attr-defined]  # as a server does that cannot send
    assert app.closed == 1
    assert call(door(replay=guard), environ_of(good)) == (201, {"ASPSP-Number": "1"}, b"done")
    assert len(app.environs) == 1


def test_what_an_application_writes_is_kept_though_the_server_fails(door, good):
    handled = []

    def app(environ: Any, start_response: Any) -> Any:
        handled.append(environ)
        start_response("500 Replaced", [])(b"no")
        start_response("201 Created", [], (None, None, None))(b"do")
        return [b"ne"]

    def start_response(*_: Any) -> Any:
        raise OSError("gone")

    guard = ReplayGuard(MemoryReplayStore())
    with pytest.raises(OSError, match="gone"):
        list(door(app, replay=guard)(environ_of(good), start_response))
    assert call(door(app, replay=guard), environ_of(good)) == (201, {}, b"done")
    assert len(handled) == 1


@pytest.mark.parametrize("after", [None, b"", b"do"])
def test_an_application_that_fails_before_or_while_it_answers_is_called_again(after, door, app, good):
    def failing(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("201 Created", [])
        yield after
        raise RuntimeError("the handler fell over")

    def failing_at_once(environ: Any, start_response: Any) -> Any:
        raise RuntimeError("the handler fell over")

    guard = ReplayGuard(MemoryReplayStore())
    with pytest.raises(RuntimeError):
        call(door(failing_at_once if after is None else failing, replay=guard), environ_of(good))
    assert call(door(replay=guard), environ_of(good))[0] == 201


def test_an_answer_too_long_to_be_kept_is_sent_whole_and_never_handled_again(door, good):
    handled = []

    def long(environ: Any, start_response: Any) -> Iterator[bytes]:
        handled.append(environ)
        write = start_response("200 OK", [])
        for _ in range(3):
            write(b"w" * 30_000)
            yield b"y" * 30_000

    guard = ReplayGuard(MemoryReplayStore())
    assert call(door(long, replay=guard), environ_of(good))[2] == (b"w" * 30_000 + b"y" * 30_000) * 3
    assert (call(door(long, replay=guard), environ_of(good))[0], len(handled)) == (409, 1)


def test_a_refusal_of_head_has_no_body(door, good):
    status, headers, body = call(door(), environ_of(good._replace(method="HEAD")))
    assert (status, body, int(headers["Content-Length"]) > 0) == (401, b"", True)


@pytest.mark.parametrize(
    ("changed", "sent", "status"),
    [
        ({}, BODY + b"the next request", 201),
        ({}, BODY[:-1] + b" ", 401),
        ({"CONTENT_LENGTH": str(len(BODY) + 1)}, BODY, 400),
        ({"CONTENT_LENGTH": "", "wsgi.input_terminated": True}, BODY, 201),  # HTTP/2 has no Transfer-Encoding
        ({"CONTENT_LENGTH": ""}, BODY, 401),  # without length and chunks there is no body
    ],
)
def test_a_body_ends_with_its_length_or_where_the_server_says(changed, sent, status, door, app, good):
    assert call(door(), environ_of(good, **changed, **{"wsgi.input": Body(sent)}))[0] == status
    assert app.bodies == [BODY] * (status == 201)


@pytest.mark.parametrize(
    ("error", "code_of_cause"),
    [
        (ValueError, b"message.malformed"),
        (OSError, b"message.malformed"),
        (ConnectionResetError, b"transport.disconnected"),
        (TimeoutError, b"transport.disconnected"),
    ],
)
def test_a_body_that_the_server_cannot_read_is_malformed(error, code_of_cause, door, app, good):
    class Broken(BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise error("a chunk that is none")

    for length in ("", str(len(BODY))):
        broken = environ_of(good, CONTENT_LENGTH=length, **{"wsgi.input_terminated": True, "wsgi.input": Broken()})
        status, _, body = call(door(), broken)
        assert (status, code(body), app.environs) == (400, "FORMAT_ERROR", [])
        assert code_of_cause in body


@pytest.mark.parametrize(
    ("coding", "length"),
    [("chunked", ""), ("gzip, chunked", ""), ("identity", ""), ("chunked", str(len(BODY))), ("gzip", str(len(BODY)))],
)
def test_a_transfer_coding_behind_a_proxy_is_refused(coding, length, door, app, good):
    environ = environ_of(good, HTTP_TRANSFER_ENCODING=coding, CONTENT_LENGTH=length, **{"wsgi.input_terminated": True})
    status, _, body = call(door(), environ)
    assert (status, b"message.no-length" in body) == (411, True)
    assert (environ["wsgi.input"].reads, app.environs) == (0, [])
