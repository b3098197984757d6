"""A request as it stands on the wire."""

from __future__ import annotations

from contextlib import nullcontext

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.errors import FormatError
from tppkit.httpsig import message_components
from tppkit.httpsig.signing_string import require_field_value, require_start_line
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
