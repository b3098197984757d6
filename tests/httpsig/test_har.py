"""Requests out of HAR files."""

from __future__ import annotations

import json
from base64 import b64encode
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.errors import FormatError
from tppkit.httpsig import Message
from tppkit.httpsig.har import parse_har

SIGNED = {
    "method": "POST",
    "url": "https://bank.example:8443/psd2/v1/payments?x=%2F#top",
    "httpVersion": "HTTP/1.1",
    "headers": [{"name": "Signature", "value": 'keyId="a"'}, {"name": "X-Request-ID", "value": " 1 "}],
    "postData": {"mimeType": "application/json", "text": '{"name":"é"}\r\n'},
}


def har(*requests: Any) -> bytes:
    return json.dumps({"log": {"version": "1.2", "entries": [{"request": request} for request in requests]}}).encode()


def changed(**parts: Any) -> dict[str, Any]:
    return SIGNED | parts


def code(raw: bytes, entry: int | None = None) -> str:
    with pytest.raises(FormatError) as caught:
        parse_har(raw, entry=entry)
    return caught.value.code


def test_a_request_comes_out_byte_for_byte() -> None:
    assert parse_har(har(SIGNED)) == Message(
        "POST",
        "/psd2/v1/payments?x=%2F",
        (("Host", "bank.example:8443"), ("Signature", 'keyId="a"'), ("X-Request-ID", "1")),
        '{"name":"é"}\r\n'.encode(),
    )


def test_the_one_signed_entry_is_chosen() -> None:
    unsigned = changed(headers=[])
    assert parse_har(har(unsigned, changed(method="PUT"), unsigned)).method == "PUT"


def test_a_signature_in_authorization_counts_as_signed() -> None:
    row = {"name": "authorization", "value": 'Signature keyId="a"'}
    bearer = {"name": "Authorization", "value": "Bearer x"}
    assert parse_har(har(changed(headers=[bearer]), changed(headers=[row], method="PUT"))).method == "PUT"


def test_an_entry_is_chosen_by_its_number() -> None:
    assert parse_har(har(SIGNED, changed(method="PUT", headers=[])), entry=2).method == "PUT"


@pytest.mark.parametrize("entry", [0, 2, -1, 10**9])
def test_an_entry_that_is_not_there_is_refused(entry: int) -> None:
    assert code(har(SIGNED), entry) == "har.entry"


def test_several_signed_entries_need_a_number() -> None:
    assert code(har(SIGNED, SIGNED)) == "har.entry"


def test_no_signed_entry_needs_a_number() -> None:
    assert code(har(changed(headers=[]))) == "har.entry"


def test_pseudo_headers_of_http_2_are_the_start_line() -> None:
    rows = [{"name": ":method", "value": "POST"}, {"name": ":authority", "value": "b.example"}, *SIGNED["headers"]]
    assert parse_har(har(changed(headers=rows))).headers[0] == ("Host", "b.example")


def test_a_body_in_base64_is_decoded() -> None:
    data = {"text": b64encode(b"\xff\x00").decode(), "encoding": "base64"}
    assert parse_har(har(changed(postData=data))).body == b"\xff\x00"


def sent(text: str, size: int, content_type: str, *lengths: str, **data: str) -> bytes:
    rows = [("Signature", "a"), ("content-type", content_type), *(("Content-Length", length) for length in lengths)]
    headers = [{"name": name, "value": value} for name, value in rows]
    return har(changed(headers=headers, postData={"text": text} | data, bodySize=size))


QUOTED = 'multipart/form-data; boundary="; charset=iso-8859-2;"; charset='


@pytest.mark.parametrize(
    ("text", "length", "content_type", "body"),
    [
        ('{"a":"é"}', "9", "application/json; charset=iso-8859-1", b'{"a":"\xe9"}'),
        ('{"a":"é"}', "9", 'application/json;a=b;\tCharset="ISO-8859-15" ; c=d', b'{"a":"\xe9"}'),
        ("ąé€", "3", "text/plain;charset=windows-1257", b"\xe0\xe9\x80"),
        ("Ã©", "2", "text/plain;charset=iso-8859-1", "é".encode()),
        ("é", "2", "text/plain;charset=iso-8859-1", "é".encode()),
        ("¡", "1", f"{QUOTED}iso-8859-1", b"\xa1"),
        ("é", "2", f"{QUOTED}utf-8", "é".encode()),
    ],
)
@pytest.mark.parametrize("size", [-1, 1, 2, 9])
def test_a_body_that_the_exporter_decoded_is_encoded_as_its_content_length_proves(
    text: str, length: str, content_type: str, body: bytes, size: int
) -> None:
    assert parse_har(sent(text, size, content_type, length)).body == body


@pytest.mark.parametrize(
    ("text", "size", "content_type"),
    [
        ("é", 2, "text/plain;charset=iso-8859-1"),
        ("e", -1, "text/plain;charset=iso-8859-1"),
        ("é", -1, f"{QUOTED}utf-8"),
    ],
)
def test_without_content_length_a_text_is_read_that_could_be_sent_in_one_way(
    text: str, size: int, content_type: str
) -> None:
    assert parse_har(sent(text, size, content_type)).body == text.encode()


@pytest.mark.parametrize(
    ("size", "content_type", "lengths"),
    [
        (1, "text/plain;charset=iso-8859-1", []), (-1, "text/plain;charset=iso-8859-1", []), (1, "text/plain", []),
        (1, "text/plain;charset=utf-8", []), (-1, "text/plain;charset=iso-8859-1", ["1", "2"]),
        (1, "text/plain;charset=iso-8859-1", ["5"]),
    ],
)  # fmt: skip
def test_a_text_of_which_nothing_proves_the_character_set_is_refused(
    size: int, content_type: str, lengths: list[str]
) -> None:
    with refused(FormatError, "har.body", match="nothing proves in which character set"):
        parse_har(sent("é", size, content_type, *lengths))


@pytest.mark.parametrize(
    ("text", "size", "content_type"),
    [
        ("abc", 10, "text/plain"), ("abc", 0, "text/plain"), ("abc", 2, "text/plain;charset=iso-8859-1"), ("é", 1, "text/plain"),
        ("é€", 2, "text/plain;charset=iso-8859-1"), ("é", 1, f"{QUOTED}utf-8"), ("é", 1, "text/plain;charset=iso-8859-12"),
        ("é", 1, "text/plain;charset=zlib"),
        ("é", 1, "text/plain;xcharset=iso-8859-1"), ("é" * 400_000, 400_000, "text/plain;charset=punycode"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("as_found", [False, True])
def test_a_text_of_which_other_bytes_were_sent_is_refused(
    text: str, size: int, content_type: str, as_found: bool
) -> None:
    with refused(FormatError, "har.body"):
        parse_har(sent(text, size, content_type), as_found=as_found)


def test_bytes_of_which_others_were_sent_are_refused() -> None:
    raw = sent(b64encode(b"abc").decode(), 10, "text/plain;charset=iso-8859-1", encoding="base64")
    assert code(raw) == "har.body"


def test_a_body_that_is_not_its_content_length_is_refused() -> None:
    rows = [*SIGNED["headers"], {"name": "Content-Length", "value": "3"}]
    assert code(har(changed(headers=rows))) == "message.length"
    assert parse_har(har(changed(headers=rows)), as_found=True).method == "POST"


LENGTH_3 = [*SIGNED["headers"], {"name": "Content-Length", "value": "3"}]
LENGTH_0 = [*SIGNED["headers"], {"name": "content-length", "value": "0"}]


@pytest.mark.parametrize(
    "request_part",
    [
        {"postData": {"mimeType": "a/b", "_file": "x.bin"}}, {"postData": {"text": "", "_file": "x.bin"}}, {"postData": {}},
        {"postData": {"mimeType": "a/b"}}, {"postData": {"text": "a", "encoding": "utf-16"}}, {"postData": {"text": "a", "encoding": 1}},
        {"postData": {"params": [{"name": "a", "value": "b"}]}}, {"postData": {"text": "", "params": [{"name": "a"}]}},
        {"postData": {"mimeType": "a/b", "text": "", "params": []}, "bodySize": 7}, {"postData": None, "bodySize": 7},
        {"postData": {"mimeType": "a/b", "text": "", "params": []}, "headers": LENGTH_3}, {"postData": None, "headers": LENGTH_3},
    ],
)  # fmt: skip
@pytest.mark.parametrize("as_found", [False, True])
def test_a_body_that_is_not_in_the_file_is_refused(request_part: dict[str, Any], as_found: bool) -> None:
    with refused(FormatError, "har.body"):
        parse_har(har(changed(**request_part)), as_found=as_found)


@pytest.mark.parametrize(
    "request_part",
    [
        {"postData": None}, {"postData": None, "bodySize": 0}, {"postData": None, "bodySize": -1, "headers": LENGTH_0},
        {"postData": {"mimeType": "", "text": "", "params": []}, "bodySize": -1}, {"postData": {"mimeType": ""}, "bodySize": 0},
        {"postData": {}, "headers": LENGTH_0},
    ],
)  # fmt: skip
def test_a_request_without_a_body_is_read_as_exporters_write_it(request_part: dict[str, Any]) -> None:
    assert parse_har(har(changed(**request_part))).body == b""


def test_the_text_of_a_form_is_accepted_beside_its_fields() -> None:
    data = {"text": "a=1+2", "params": [{"name": "a", "value": "1 2"}], "encoding": ""}
    assert parse_har(har(changed(postData=data))).body == b"a=1+2"


def test_a_method_in_lower_case_is_kept_where_it_is_read_as_found() -> None:
    lower = har(changed(method="post"))
    assert code(lower) == "message.malformed"
    assert parse_har(lower, as_found=True).method == "post"


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse_har(b"\xef\xbb\xbf" + har(SIGNED)).method == "POST"


@pytest.mark.parametrize(
    "request_part",
    [
        {"url": "ftp://a/"}, {"url": "/path"}, {"url": "https://a/ b"}, {"url": "https://a/é"}, {"url": 1}, {"method": "PO ST"},
        {"headers": [{"name": "A", "value": "b\r\nC: d"}]}, {"headers": [{"name": "A b", "value": ""}]}, {"headers": [1]},
        {"headers": {}}, {"headers": [{"name": "A"}]}, {"postData": {"text": 1}}, {"postData": []},
        {"postData": {"text": "%", "encoding": "base64"}}, {"headers": [{"name": "A", "value": "b"}] * 257},
    ],
)  # fmt: skip
def test_what_is_not_a_request_is_refused(request_part: dict[str, Any]) -> None:
    assert code(har(changed(**request_part)), 1) in {
        "har.malformed", "message.malformed", "message.address", "header.control-character", "base64.malformed",
    }  # fmt: skip


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{}", b'{"log":{}}', b'{"log":{"entries":[]}}', b'{"log":{"entries":[1]}}', b"{" * 999]
)
def test_what_is_not_a_har_file_is_refused(raw: bytes) -> None:
    assert code(raw, 1).split(".")[0] in {"har", "json"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["request", "url", "method", "headers", "name", "value",
    "text", "postData"]), inner),
)  # fmt: skip


@given(
    st.binary() | json_values.map(lambda value: json.dumps({"log": {"entries": [value, {"request": value}]}}).encode()),
    st.none() | st.integers(1, 2),
)
def test_only_format_error_escapes(raw: bytes, entry: int | None) -> None:
    with suppress(FormatError):
        parse_har(raw, entry=entry)


@given(
    body=st.text(st.characters(codec="utf-8"), max_size=20),
    value=st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=20),
)
def test_what_is_written_comes_back(body: str, value: str) -> None:
    rows = [{"name": "Signature", "value": "a"}, {"name": "X", "value": value}]
    message = parse_har(har(changed(headers=rows, postData={"text": body})))
    assert (message.body.decode(), message.headers[-1]) == (body, ("X", value))


def test_host_and_authority_of_the_same_value_are_one_header() -> None:
    names = [{"name": "Host", "value": "b.example"}, {"name": ":authority", "value": "b.example"}, *SIGNED["headers"]]
    assert parse_har(har(changed(headers=names))).values("host") == ("b.example",)
    names[1]["value"] = "other.example"
    assert parse_har(har(changed(headers=names))).values("host") == ("b.example", "other.example")


def test_a_file_of_too_many_entries_is_refused_before_it_is_read() -> None:
    assert code(b'{"log":{"entries":[' + b'{"request":{}},' * 300_000) == "har.malformed"
