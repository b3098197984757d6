"""A request as it is on the wire, and the readers of saved requests and addresses."""

from __future__ import annotations

from contextlib import nullcontext, suppress

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.errors import FormatError
from tppkit.httpsig import message_components
from tppkit.httpsig.signing_string import is_field_name, require_field_value, require_start_line
from tppkit.httpsig.wire import length_differences, parse_request, split_address
from tppkit.message import Message

MESSAGE = Message("POST", "/a", (("X-A", "1"), ("x-b", "2"), ("x-a", "3")), b"{}")


def test_values_of_a_name_come_in_wire_order_whatever_the_case():
    assert MESSAGE.values("X-a") == ("1", "3")
    assert MESSAGE.values("x-c") == ()


def test_a_single_header_appears_once_or_not_at_all():
    message = Message("GET", "/", (("Accept", "a"), ("Via", "1"), ("via", "2")))
    assert (message.single("accept"), message.single("date")) == ("a", None)
    with refused(FormatError, "header.duplicate"):
        message.single("Via")


def test_further_headers_make_another_message_and_none_can_be_changed():
    further = MESSAGE.with_headers(("X-C", "4"))
    assert further.headers == (*MESSAGE.headers, ("X-C", "4"))
    assert MESSAGE.values("x-c") == ()
    with pytest.raises(AttributeError):
        MESSAGE.body = b""  # type: ignore[misc]


@given(target=st.binary(), headers=st.lists(st.tuples(st.binary(), st.binary())), body=st.binary())
def test_not_a_byte_of_a_received_request_is_changed(target, headers, body):
    message = Message.from_wire("POST", target, headers, body)
    assert message.target.encode("latin-1") == target
    assert [(name.encode("latin-1"), value.encode("latin-1")) for name, value in message.headers] == headers
    assert message.body == body


def test_a_request_of_httpx_is_the_message_that_it_sends():
    request = httpx.Request("POST", "https://bank/a%2Fb?x=%20", headers=[("X-A", "1"), ("x-a", "é".encode())], json={})
    message = Message.from_httpx(request)
    assert (message.method, message.target, message.body) == ("POST", "/a%2Fb?x=%20", b"{}")
    assert (message.values("x-a"), message.single("Host")) == (("1", "Ã©"), "bank")


def test_the_components_are_the_fields_and_the_request_target_which_no_header_can_replace():
    components, doubled = message_components(MESSAGE)
    assert components == {"x-a": "1, 3", "x-b": "2", "(request-target)": "post /a"}
    assert doubled == ("x-a",)
    components, _ = message_components(MESSAGE.with_headers(("(request-target)", "get /b")))
    assert components["(request-target)"].startswith("post /a")


METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "M-SEARCH")
TARGETS = ("/", "*", "/a?b=c&d=%2F", "https://bank.example/a", "/a//b/../c")
NO_METHODS = ("", "get", "Get", "GE T", "GET\n", "GÉT", "GET/", "(GET)")
NO_TARGETS = ("", " ", "/a b", "/a\n", "/a\x00", "/é", "/a\u2028b", "/a\x7f")


@pytest.mark.parametrize(
    ("message", "accepted"),
    [
        *((Message(method, "/"), method in METHODS) for method in (*METHODS, *NO_METHODS)),
        *((Message("GET", target), target in TARGETS) for target in (*TARGETS, *NO_TARGETS)),
    ],
)
def test_a_start_line_has_a_method_in_upper_case_and_a_target_of_visible_characters(message, accepted):
    with nullcontext() if accepted else refused(FormatError, "message.malformed"):
        require_start_line(message)


@pytest.mark.parametrize("value", ["\n", "a\n", "\r", "\x00", "\x1f", "\x7f", "\u0100", "\ud800"])
def test_only_visible_characters_spaces_and_tabs_are_a_value_and_no_other_is_shown_raw(value):
    for good in ("", "a b\tc", "\x80\xff", "~"):
        require_field_value("x-a", good)
    with pytest.raises(FormatError) as caught:
        require_field_value("x-a", value)
    assert caught.value.code == "header.control-character"
    assert caught.value.message.isprintable()


def test_a_raw_request_is_read_unchanged_but_for_folded_lines():
    message = parse_request(b"POST /a%2Fb?c HTTP/1.1\r\nHost: x\r\nX-A:  b \r\nX-A: c\r\nContent-Length: 2\r\n\r\n\r\n")
    assert (message.method, message.target, message.body) == ("POST", "/a%2Fb?c", b"\r\n")
    assert message.values("x-a") == ("b", "c")
    assert parse_request(b"GET / HTTP/1.1\nHost: x\n\nbody\r\n").body == b"body\r\n"
    raw = b"GET / HTTP/1.1\r\nA: b \r\n \t c\r\n\td\r\nE:\r\n f\r\n\r\n"
    assert parse_request(raw).headers == (("A", "b c d"), ("E", "f"))
    raw = b"GET / HTTP/1.1\r\nA: b\r\n Digest: x\r\n\r\n"
    assert parse_request(raw).headers == (("A", "b Digest: x"),)


@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
@pytest.mark.parametrize(
    "body", [b"--b\r\nContent-Type: text/xml\r\n\r\n<x/>\r\n--b--\r\n", b"a\n\nb", b"\n", b"\r\n\r\n"]
)
def test_empty_lines_of_the_body_may_end_otherwise_than_the_head_s(end, body):
    message = parse_request(b"POST /a HTTP/1.1" + end + b"Host: h" + end + end + body)
    assert (message.headers, message.body) == ((("Host", "h"),), body)


@pytest.mark.parametrize(
    "head",
    [b"A: b\r\nC: d\n\n", b"A: b\nC: d\r\n\n", b"A: b\r\n\n", b"A: b\n\r\n", b"A: b\rC: d\n\n", b"A: b\r\r\n\r\n"],
)  # fmt: skip
@pytest.mark.parametrize("end", [b"\r\n", b"\n"])
def test_a_head_of_mixed_line_ends_is_refused(end, head):
    with refused(FormatError, "message.malformed"):
        parse_request(b"POST /a HTTP/1.1" + end + head)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"hello", b"GET / HTTP/1.1\r\n", b"GET  / HTTP/1.1\r\n\r\n", b"GET / HTTP/2\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\n folded: x\r\n\r\n", b"GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n", b"GET / HTTP/1.1\r\nA : b\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\x00\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_not_a_request_is_refused(raw):
    with refused(FormatError, "message.malformed"):
        parse_request(raw)


@pytest.mark.parametrize("field", [b"Content-Length: 3", b"Content-Length: two", b"Transfer-Encoding: chunked"])
def test_a_body_of_another_length_is_refused_with_what_to_do_about_that(field):
    with pytest.raises(FormatError) as caught:
        parse_request(b"POST / HTTP/1.1\r\n" + field + b"\r\n\r\nab")
    assert caught.value.code == "message.length"
    assert "byte for byte" in caught.value.hint


@pytest.mark.parametrize(
    "raw",
    [
        b"\xef\xbb\xbfPOST /a HTTP/1.1\r\n\r\nab", b"POST /a HTTP/2\r\n\r\nab", b"POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nab",
        b"POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nab",
    ],
)  # fmt: skip
def test_a_broken_request_is_read_as_found_when_that_is_requested(raw):
    with pytest.raises(FormatError):
        parse_request(raw)
    message = parse_request(raw, as_found=True)
    assert (message.method, message.target, message.body) == ("POST", "/a", b"ab")


@pytest.mark.parametrize("length", ["2", "02", "9" * 5000])
def test_how_the_length_differs_is_reported(length):
    differences = list(length_differences(Message("POST", "/", (("Content-Length", length),), b"ab")))
    assert len(differences) == (0 if int(length[:10]) == 2 else 1)


def test_a_long_run_of_spaces_in_a_header_costs_nothing():
    # With a pattern that backtracks this takes hours.
    assert parse_request(b"GET / HTTP/1.1\r\nA: b" + b" " * 60_000 + b"c\r\n\r\n").values("a")[0].endswith("c")
    with pytest.raises(FormatError):
        parse_request(b"GET / HTTP/1.1\r\nA: " + b" " * 60_000 + b"\x00\r\n\r\n")


@given(st.binary())
def test_only_format_error_escapes(raw):
    with suppress(FormatError):
        parse_request(raw)
    with suppress(FormatError):
        parse_request(b"GET / HTTP/1.1\r\n" + raw + b"\r\n\r\n")


@pytest.mark.parametrize(("name", "is_one"), [("X-A", True), ("", False), ("a b", False), ("Ü", False), ("a:", False)])
def test_field_names_are_tokens(name, is_one):
    assert is_field_name(name) is is_one


@pytest.mark.parametrize(
    ("text", "host", "target"),
    [
        ("https://a.example", "a.example", "/"), ("http://a:80/b/../c//d", "a:80", "/b/../c//d"), ("HTTPS://A/?x=%2f#y", "A", "/?x=%2f"),
        ("https://a?x=1", "a", "/?x=1"), ("https://[::1]:8443/a?", "[::1]:8443", "/a?"), ("https://me:pw@a/b", "a", "/b"),
    ],
)  # fmt: skip
def test_the_target_of_an_address_is_kept_unchanged(text, host, target):
    assert split_address(text) == (host, target)


@pytest.mark.parametrize(
    "text",
    ["", "a", "ftp://a/", "https:///a", "https://a b/", "https://a/\n", "https://é/", "https://a/" + "b" * 20000],
)
def test_what_is_not_an_address_is_refused(text):
    with pytest.raises(FormatError, match="http"):
        split_address(text)


@given(st.text() | st.text(alphabet="htps:/@?#a[].", max_size=40))
def test_only_format_error_escapes_from_an_address(text):
    with suppress(FormatError):
        split_address(text)
