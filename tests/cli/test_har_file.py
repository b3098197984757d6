"""Requests from HAR files."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import suppress
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.cli.har_file import parse_har
from tppkit.errors import FormatError
from tppkit.message import Message

SIGNATURE = {"name": "Signature", "value": 'keyId="a"'}
SIGNED = {
    "method": "POST",
    "url": "https://bank.example:8443/psd2/v1/payments?x=%2F#top",
    "httpVersion": "HTTP/1.1",
    "headers": [SIGNATURE, {"name": "X-Request-ID", "value": " 1 "}],
    "postData": {"mimeType": "application/json", "text": '{"name":"é"}\r\n'},
}
LENGTH_3 = [SIGNATURE, {"name": "content-length", "value": "3"}]
LENGTH_0 = [SIGNATURE, {"name": "content-length", "value": "0"}]
# What exporters write besides: the body, "é\n", has 3 bytes and 2 characters.
EXPORTS = {
    "Chrome": {
        "headers": [{"name": ":authority", "value": "b.example"}, {"name": ":method", "value": "POST"}, *LENGTH_3],
        "bodySize": 3, "postData": {"mimeType": "application/json", "text": "é\n"},
    },
    "Firefox": {
        "headers": [{"name": "Host", "value": "b.example"}, *LENGTH_3], "bodySize": 2,
        "postData": {"mimeType": "application/json", "params": [], "text": "é\n"},
    },
    "Charles": {
        "headers": [{"name": "Host", "value": "b.example"}, {"name": ":authority", "value": "b.example"}, SIGNATURE], "bodySize": 3,
        "postData": {"mimeType": "a/b", "text": b64encode("é\n".encode()).decode(), "encoding": "base64"},
    },
    "Insomnia": {
        "headers": [{"name": "host", "value": "b.example"}, SIGNATURE], "headersSize": -1, "bodySize": -1,
        "postData": {"mimeType": "a/b", "text": "é\n", "params": [{"name": "é\n"}], "encoding": ""},
    },
}  # fmt: skip


def har(*requests: Any) -> bytes:
    return json.dumps({"log": {"version": "1.2", "entries": [{"request": request} for request in requests]}}).encode()


def changed(**parts: Any) -> dict[str, Any]:
    return SIGNED | parts


def test_a_request_comes_out_byte_for_byte():
    assert parse_har(b"\xef\xbb\xbf" + har(SIGNED)) == Message(
        "POST",
        "/psd2/v1/payments?x=%2F",
        (("Host", "bank.example:8443"), ("Signature", 'keyId="a"'), ("X-Request-ID", "1")),
        '{"name":"é"}\r\n'.encode(),
    )


@pytest.mark.parametrize("parts", EXPORTS.values(), ids=EXPORTS)
def test_an_export_has_one_host_and_the_bytes_of_the_body(parts):
    message = parse_har(har(changed(**parts)))
    assert (message.values("host"), message.body) == (("b.example",), "é\n".encode())
    assert not [name for name, _ in message.headers if name.startswith(":")]


def test_the_one_signed_entry_is_chosen():
    bearer, signature = [{"name": "Authorization", "value": value} for value in ("Bearer x", 'Signature keyId="a"')]
    for row in (SIGNATURE, signature):
        unsigned = changed(headers=[bearer])
        assert parse_har(har(unsigned, changed(method="PUT", headers=[row]), unsigned)).method == "PUT"


def test_an_entry_is_chosen_by_its_number():
    assert parse_har(har(SIGNED, changed(method="PUT", headers=[])), entry=2).method == "PUT"


ENTRIES = [([SIGNED], 0), ([SIGNED], 2), ([SIGNED], -1), ([SIGNED, SIGNED], None), ([changed(headers=[])], None)]
# What the request has instead, by the code.
REJECTED: dict[str, list[dict[str, Any]]] = {
    "har.body": [
        {"postData": {"mimeType": "a/b", "_file": "x.bin"}}, {"postData": {"text": "", "_file": "x.bin"}},
        {"postData": {"mimeType": "a/b"}}, {"postData": {"text": "a", "encoding": "utf-16"}}, {"postData": {"text": "a", "encoding": 1}},
        {"postData": {"params": [{"name": "a", "value": "b"}]}}, {"postData": {"text": "", "params": [{"name": "a"}]}},
        {"postData": {"text": "", "params": []}, "bodySize": 7}, {"postData": None, "bodySize": 7}, {"postData": None, "headers": LENGTH_3},
        {"postData": {"text": "é"}, "headers": LENGTH_3, "bodySize": 2}, {"postData": {"text": "é"}, "bodySize": 1},
        {"postData": {"text": "abc"}, "bodySize": 0}, {"postData": {"text": "YWJj", "encoding": "base64"}, "bodySize": 4},
    ],
    "har.malformed": [
        {"url": 1}, {"headers": [{"name": "A b", "value": ""}]}, {"headers": [1]}, {"headers": {}}, {"headers": [{"name": "A"}]},
        {"headers": [{"name": "A", "value": "b"}] * 257}, {"postData": {"text": 1}}, {"postData": [1]},
    ],
    "message.address": [{"url": "ftp://a/"}, {"url": "https://a/é"}],
    "message.malformed": [{"method": "PO ST"}],
    "header.control-character": [{"headers": [{"name": "A", "value": "b\r\nC: d"}]}],
    "base64.malformed": [{"postData": {"text": "%", "encoding": "base64"}}],
}  # fmt: skip
FILES = [
    (b"", "json.malformed"), (b"[]", "har.malformed"), (b'{"log":{"entries":[]}}', "har.malformed"),
    (b'{"log":{"entries":[1]}}', "har.malformed"), (b'{"a":' * 999, "json.too-deep"),
    (b'{"log":{"entries":[' + b'{"request":{}},' * 300_000, "har.malformed"),
]  # fmt: skip


def test_a_file_or_request_that_cannot_be_read_is_rejected():
    for requests, entry in ENTRIES:
        with refused(FormatError, "har.entry", row=(requests, entry)):
            parse_har(har(*requests), entry=entry)
    for code, rows in REJECTED.items():
        for parts, as_found in product(rows, (False, True)):
            with refused(FormatError, code, row=parts):
                parse_har(har(changed(**parts)), entry=1, as_found=as_found)
    for raw, code in FILES:
        with refused(FormatError, code, row=raw[:50]):
            parse_har(raw, entry=1)


@pytest.mark.parametrize(
    "parts",
    [
        {"postData": None}, {"postData": None, "bodySize": 0}, {"postData": None, "bodySize": -1, "headers": LENGTH_0},
        {"postData": {"mimeType": "", "text": "", "params": []}, "bodySize": -1}, {"postData": {"mimeType": ""}, "bodySize": 0},
    ],
)  # fmt: skip
def test_a_request_without_a_body_is_read_as_exporters_write_it(parts):
    assert parse_har(har(changed(**parts))).body == b""


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ({"method": "post"}, "message.malformed"),
        ({"headers": [SIGNATURE, {"name": "Transfer-Encoding", "value": "x"}]}, "message.length"),
    ],
)
def test_a_fault_of_the_request_is_accepted_only_as_found(parts, fault):
    with refused(FormatError, fault):
        parse_har(har(changed(**parts)))
    assert parse_har(har(changed(**parts)), as_found=True).method in ("POST", "post")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*SIGNED, "request", "name", "value", "text"]), inner)
    ),
)


@given(
    st.binary() | json_values.map(lambda value: har(value, changed(postData=value), changed(headers=[value]))),
    st.integers(1, 3),
)
def test_only_format_error_escapes(raw, entry):
    with suppress(FormatError):
        parse_har(raw, entry=entry)


@given(body=st.text(st.characters(codec="utf-8")), value=st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E)))
def test_what_is_written_comes_back(body, value):
    message = parse_har(har(changed(headers=[SIGNATURE, {"name": "X", "value": value}], postData={"text": body})))
    assert (message.body.decode(), message.headers[-1]) == (body, ("X", value))
