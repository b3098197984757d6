"""Scopes and environs are read by the rules of their specifications."""

from __future__ import annotations

from typing import Any

import pytest

from tppkit.web import Answer, AsgiSource, WsgiSource

ENVIRON = {
    "REQUEST_METHOD": "POST",
    "RAW_URI": "/a?b",
    "REMOTE_ADDR": "192.0.2.1",
    "HTTP_X_A": "1",
    "CONTENT_LENGTH": "7",
}
SCOPE: dict[str, Any] = {
    "type": "http", "method": "POST", "path": "/decoded", "raw_path": b"/a", "query_string": b"b", "client": ("192.0.2.1", 4000),
    "headers": [(b"x-a", b"1"), (b"content-length", b"7")],
}  # fmt: skip


@pytest.mark.parametrize("source", [AsgiSource(SCOPE), WsgiSource(ENVIRON)], ids=["asgi", "wsgi"])
def test_both_report_the_same_about_a_request(source):
    assert (source.method, source.raw_target(), source.address()) == ("POST", b"/a?b", "192.0.2.1")
    assert source.header_names() == {"x-a", "content-length"}
    assert [source.header_values(name) for name in ("X-A", "Content-Length", "X-B")] == [("1",), ("7",), ()]
    assert sorted(source.head().headers) == [("content-length", "7"), ("x-a", "1")]


def test_the_headers_of_a_scope_are_copied_byte_by_byte():
    fields = [(b"RequestID", b"\xe9"), (b"requestid", b"b")]
    source = AsgiSource({**SCOPE, "headers": fields})
    fields.append((b"trailer", b"c"))
    assert source.headers() == (("RequestID", "\xe9"), ("requestid", "b"))


def test_variables_of_the_machine_in_an_environ_are_ignored():
    tls = {"client_cert_chain": ("-----BEGIN CERTIFICATE-----",)}
    source = WsgiSource({**ENVIRON, "type": "http", "headers": "x", "client": "y", "extensions": {"tls": tls}})
    assert (source.address(), dict(source.extensions)) == ("192.0.2.1", {})


def test_what_is_absent_or_empty_in_a_scope_or_an_environ_is_none():
    source = AsgiSource({"type": "http", "method": "GET", "raw_path": b"/", "extensions": None})
    assert (source.raw_target(), source.header_names(), source.header_values("x")) == (b"/", frozenset(), ())
    assert dict(source.extensions) == {}
    assert WsgiSource({**ENVIRON, "CONTENT_LENGTH": ""}).header_values("content-length") == ()


def test_an_answer_shows_no_header_and_no_body():
    answer = Answer(200, (("Set-Cookie", "secret"),), b'{"iban":"secret"}')
    assert repr(answer) == answer.__sentry_repr__() == "Answer(200, 1 headers, 17 bytes)"
