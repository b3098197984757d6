"""Log lines of the gates: the same fields in each, nothing in them that a peer could forge, and few lines for one cause."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgi import BODY, REQUEST_ID, TARGET, Recorder, call, request, scope_of
from wsgi import environ_of, forwarded

from tppkit.callbacks import parse_networks
from tppkit.errors import FormatError, TransportError
from tppkit.web import (
    AsgiSource,
    CallbackPeers,
    ProxyForm,
    SealMiddleware,
    TrustedProxy,
    WebhookGate,
    WebhookInbox,
    WsgiSealMiddleware,
    WsgiSource,
    caller_of,
)
from tppkit.web.log import LimitedHandler

FIELDS = ("request_id", "organisation", "code", "method", "target", "peer", "interface")
PATH = TARGET.partition("?")[0]


@pytest.fixture(autouse=True)
def every_line(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG, logger="tppkit.web")
    yield
    for record in caplog.records:
        texts = [getattr(record, name) for name in FIELDS] if record.msg.startswith("%s") else []
        assert all(isinstance(text, str) and text.isprintable() and len(text) <= 2048 for text in texts)


def fields(record: logging.LogRecord) -> tuple[str, ...]:
    return tuple(getattr(record, name) for name in FIELDS)


def test_admissions_refusals_and_failures_have_the_same_fields(make_gate, good, pki, caplog):
    organisation = str(pki.provider.organization_identifier)

    def fails() -> Any:
        raise OSError("disk")

    ok, broken = SealMiddleware(Recorder(), gate=make_gate()), SealMiddleware(Recorder(), gate=make_gate(now=fails))
    for gate, scope, body in (
        (ok, scope_of(good, pki.qwac), BODY), (ok, scope_of(good, pki.qwac), b"other"), (ok, scope_of(good, None), BODY),
        (ok, scope_of(request(), pki.qwac), BODY), (broken, scope_of(good, pki.qwac), BODY),
    ):  # fmt: skip
        call(gate, scope, [body])
    common = ("POST", PATH, "198.51.100.7", "psd2")
    assert [(record.levelname, *fields(record)) for record in caplog.records] == [
        ("DEBUG", REQUEST_ID, organisation, "", *common),
        ("WARNING", REQUEST_ID, organisation, "digest.mismatch", *common),
        ("WARNING", REQUEST_ID, "", "certificate.missing", *common),  # the organisation is not proven
        ("WARNING", REQUEST_ID, organisation, "signature.missing", *common),
        ("ERROR", REQUEST_ID, "", "OSError", *common),
    ]
    assert "secret" not in caplog.text
    assert caplog.records[0].funcName == "admit"


@pytest.mark.parametrize("source", [AsgiSource, WsgiSource])
def test_a_refusal_of_the_application_has_the_organisation_and_is_not_counted(source, make_gate, good, pki, caplog):
    counted: list[object] = []
    gate, app = make_gate(count=lambda *given: counted.append(given[:2])), Recorder()
    call(SealMiddleware(app, gate=gate), scope_of(good, pki.qwac), [BODY])
    caller = caller_of(app.scopes[0])
    entered = {**(app.scopes[0] if source is AsgiSource else environ_of(good)), "tppkit.caller": caller}
    assert gate.refuse(source(entered), FormatError("model.invalid", "no")).status == 400
    assert fields(caplog.records[-1])[:3] == (REQUEST_ID, caller.id, "model.invalid")
    assert counted == [("admitted", "")]


def test_an_ignored_certificate_header_has_fields_and_a_code_by_which_its_lines_are_limited(
    make_gate, good, pki, caplog
):
    call(
        SealMiddleware(Recorder(), gate=make_gate()),
        scope_of(good.with_headers(("Client-Cert", "x")), pki.qwac),
        [BODY],
    )
    assert fields(caplog.records[0])[:3] == (REQUEST_ID, "", "certificate.header-ignored")


def test_wsgi_has_the_same_fields(make_gate, good, pki, caplog):
    app = WsgiSealMiddleware(lambda _, start: start("201 Created", []) or [], gate=make_gate())
    app(environ_of(forwarded(good, pki)), lambda *_: None)
    assert fields(caplog.records[0])[2:] == ("", "POST", PATH, "127.0.0.1", "psd2")
    assert caplog.records[0].levelname == "DEBUG"


HOSTILE = {
    "request id with a line end": ((b"x-request-id", REQUEST_ID.encode() + b"\nERROR forged"), "", "198.51.100.7"),
    "two request ids": ((b"x-request-id", REQUEST_ID.encode()), "", "198.51.100.7"),
    "request id by underscores": ((b"x_request_id", b"x"), REQUEST_ID, "198.51.100.7"),
    "a lying X-Forwarded-For": ((b"x-forwarded-for", b"192.0.2.1"), REQUEST_ID, "198.51.100.7"),
}


@pytest.mark.parametrize(("header", "request_id", "peer"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_headers_forge_no_field(header, request_id, peer, make_gate, good, pki, caplog):
    scope = scope_of(good, pki.qwac)
    scope["headers"].append(header)
    scope |= {"method": "PO\x1bST\n" + "X" * 5000, "raw_path": PATH.encode() + b"\xc2\x85" + b"a" * 5000}
    call(SealMiddleware(Recorder(), gate=make_gate()), scope, [BODY])
    (record,) = caplog.records
    assert (record.request_id, record.peer) == (request_id, peer)
    assert (record.method, len(record.target)) == ("PO\\x1bST\\n" + "X" * 22, 2048)
    assert "\n" not in record.getMessage()


PROXIED = [
    ({"forwarded_for": True}, "192.0.2.1, 203.0.113.9", {}, "203.0.113.9"),
    ({"forwarded_for": True}, "192.0.2.1, 203.0.113.9:4711, 10.0.0.6", {}, "203.0.113.9"),
    ({"forwarded_for": True}, "203.0.113.9, no address", {}, "10.0.0.5"),
    ({"forwarded_for": True}, "203.0.113.9", {"client": ("198.51.100.7", 1)}, "198.51.100.7"),
    ({"forwarded_for": True}, "203.0.113.9", {"http_version": "2"}, "10.0.0.5"),
    ({"forwarded_for": False}, "203.0.113.9", {}, "10.0.0.5"),
]


@pytest.mark.parametrize(("proxy", "header", "more", "peer"), PROXIED)
def test_the_peer_is_the_client_behind_a_proxy_that_adds_its_address(
    proxy, header, more, peer, make_gate, good, caplog
):
    gate = make_gate(trusted_proxies=[TrustedProxy("10.0.0.0/28", form=ProxyForm.NGINX, **proxy)], address_is_raw=True)
    scope = scope_of(good, None, client=("10.0.0.5", 1)) | more
    scope["headers"].append((b"x-forwarded-for", header.encode()))
    call(SealMiddleware(Recorder(), gate=gate), scope, [BODY])
    assert caplog.records[0].peer == peer
    assert f" from {peer}: " in caplog.records[0].getMessage()


def test_a_webhooks_line_hides_the_secret_path_and_has_the_sender_behind_the_proxy(caplog):
    path = "/webhooks/0123456789abcdefghijAB"
    peers = CallbackPeers(parse_networks(["203.0.113.0/28"]), trusted_proxies=parse_networks(["10.0.0.5"]))
    inbox = WebhookInbox(None, None)  # nothing is stored
    gate = WebhookGate(inbox, path=path, peers=peers)
    headers = [(b"x-forwarded-for", b"192.0.2.1"), (b"requestid", b"r-1")]
    source = AsgiSource({"method": "POST", "path": path, "headers": headers, "client": ("10.0.0.5", 1)})
    gate.refuse(TransportError("transport.timeout", "too late"), source, begin=0.0)
    gate.admit(source, begin=0.0, outcome="stored")
    assert [fields(record) for record in caplog.records] == [
        ("r-1", "", code, "POST", "/webhooks/***", "192.0.2.1", "gateway") for code in ("transport.timeout", "")
    ]
    assert "0123456789" not in repr([vars(record) for record in caplog.records])


def test_fields_win_over_those_of_the_applications_record_factory(make_gate, good, caplog):
    before = logging.getLogRecordFactory()

    def made(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = before(*args, **kwargs)
        record.request_id = "-"
        return record

    logging.setLogRecordFactory(made)
    try:
        call(SealMiddleware(Recorder(), gate=make_gate()), scope_of(good, None), [BODY])
    finally:
        logging.setLogRecordFactory(before)
    assert caplog.records[0].request_id == REQUEST_ID


def limit(**settings: Any) -> tuple[LimitedHandler, Callable[..., str]]:
    """Return a handler, and a function that handles a record and returns what was written."""
    stream = io.StringIO()
    handler = LimitedHandler(logging.StreamHandler(stream), **settings)

    def written(at: float, **given: Any) -> str:
        begin = stream.tell()
        record = logging.makeLogRecord(
            {"name": "tppkit.web", "created": at, "levelno": 30, "msg": "%s", "args": ("no",), "code": "a", "peer": "p"}
            | given
        )
        handler.handle(record)
        assert (record.msg, record.args, record.exc_info) == (
            "%s",
            ("no",),
            given.get("exc_info"),
        )  # for other handlers
        return stream.getvalue()[begin:]

    return handler, written


def test_lines_of_one_cause_are_limited_and_their_number_is_written():
    handler, written = limit(most=2, period_s=60)
    assert [written(at) for at in (0.0, 1.0, 2.0, 59.9)] == ["no\n", "no\n", "", ""]
    assert [written(2.0, **other) for other in ({"code": "b"}, {"peer": "q"}, {"organisation": "o"})] == ["no\n"] * 3
    for other in ({"code": ""}, {"name": "library", "code": ["a"]}):  # admissions; lines of others
        assert [written(2.0, **other) for _ in range(5)] == ["no\n"] * 5
    held = "2 more lines such as this were held back: no\n"
    assert written(60.0, code="") == held + "no\n"
    assert [written(at) for at in (61.0, 62.0, 63.0)] == ["no\n", "no\n", ""]
    assert written(-3600.0) == held.replace("2 more", "1 more") + "no\n"  # the clock was set back
    assert [written(-3599.0), written(-3598.0)] == ["no\n", ""]
    handler.close()
    assert handler.target.stream.getvalue().endswith("1 more lines such as this were held back: no\n")


def test_a_flood_of_causes_keeps_the_memory_bounded_and_loses_no_number():
    handler, written = limit(most=1)
    total = 0
    for peer in range(3000):
        for _ in range(2):
            total += written(1.0, peer=str(peer)).count("\n")
    assert len(handler._periods) == 1024
    handler.close()
    assert handler.target.stream.getvalue().count("\n") == 6000


def test_an_error_has_one_traceback_in_a_period_and_each_line():
    _, written = limit(most=9, period_s=10)

    def has_traceback(at: float, error: Exception) -> bool:
        text = written(at, exc_info=(type(error), error, None))
        assert text.startswith("no\n")
        return type(error).__name__ in text

    busy = TransportError("transport.busy", "too many")
    assert [has_traceback(at, busy) for at in (0.0, 1.0, 9.9, 10.0)] == [True, False, False, True]
    assert has_traceback(11.0, TransportError("archive.unusable", "full"))
    assert has_traceback(11.0, OSError("full"))


def test_the_line_for_those_held_back_has_their_request_ids():
    handler, written = limit(most=1)
    kept: list[logging.LogRecord] = []
    handler.target.addFilter(lambda record: kept.append(record) or True)
    for number in range(102):
        assert bool(written(1.0, request_id=f"id-{number}")) == (number == 0)
    handler.close()
    ids = [f"id-{number}" for number in range(1, 101)]
    held = kept[-1]
    assert (held.held_back, held.request_ids) == (101, ids)
    assert held.getMessage() == f"101 more lines such as this were held back: no; request ids: {' '.join(ids)}"
