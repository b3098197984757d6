"""The signed bytes have one reading under the rules."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from calling import ACCESS_URL, LOGIN_URL, ORIGIN, PAYMENT_URL, RECEIVER, target_of

from refusals import refused
from tppkit.callbacks import CallbackRejected, RequestIds
from tppkit.callbacks.signature import require_body, signed_bytes
from tppkit.callbacks.verify import require_address
from tppkit.errors import ConfigurationError
from tppkit.message import Message

LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ALIASES = (f"{ORIGIN}/a%2Fb/%C5%BEalias/", f"{ORIGIN}/a/b/žalias/", f"{ORIGIN}/a%2fb/%c5%bealias/")
WIDE = RequestIds(further="{}.~!", max_length=80)


def allowed(request_id: str, method: str, url: str, body: bytes) -> bool:
    """Whether the rules take this reading of signed bytes."""
    callback = Message(method, target_of(url), (), body)
    try:
        WIDE.require(request_id)
        match = require_address(callback, RECEIVER)
        require_body(method, body)
    except CallbackRejected:
        return False
    return url.encode() in match.urls


def readings(data: bytes) -> Iterator[tuple[str, str, str, bytes]]:
    """Every way to cut the bytes in four that the rules take: all cuts are tried, nothing is parsed."""
    for begin in range(len(data)):
        for method in ("GET", "POST"):
            if data.startswith(method.encode(), begin):
                start = begin + len(method)
                for end in range(start, len(data) + 1):
                    try:
                        cut = data[:begin].decode(), method, data[start:end].decode(), data[end:]
                    except UnicodeError:
                        continue
                    # Cheap conditions first, the rules decide.
                    if cut[2].startswith(ORIGIN) and cut[3][:1] in (b"", b"{") and allowed(*cut):
                        yield cut


def made_up(chance: random.Random) -> tuple[str, str, str, bytes]:
    """A callback that the rules take, made to be misread."""
    request_id = "".join(
        chance.choice((chance.choice(LETTERS + "-_{}.~!"), "GET", "POST", "https", "POSThttps"))
        for _ in range(chance.randint(1, 8))
    )
    token = "".join(chance.choices(LETTERS, k=chance.randint(20, 40)))
    if chance.random() < 0.2:
        token = chance.choice(("GET", "POST", "https")) + token[5:28] + "POST"
    method = chance.choice(("GET", "POST"))
    post_only = (ACCESS_URL, f"{ORIGIN}/cb/{token}")
    url = chance.choice((f"{ORIGIN}/login/{token}", *ALIASES, *(post_only if method == "POST" else ())))
    inner = chance.choice(("", f'"a":"GET{LOGIN_URL}"', f"POST{PAYMENT_URL}{{", f"{{{ACCESS_URL}", "x"))
    return request_id[:80], method, url, b"" if method == "GET" else f"{{{inner}}}".encode()


@pytest.mark.slow
def test_20_000_callbacks_are_read_back_as_they_were_and_in_no_other_way():
    chance = random.Random(6)
    for _ in range(20_000):
        callback = made_up(chance)
        assert list(readings(signed_bytes(*callback))) == [callback]


def test_without_the_rules_the_same_bytes_have_other_readings():
    # What the search above would find if requestids could have colons: it does look at every cut.
    data = signed_bytes("r1", "GET", f"https://stranger.example/x?POST{ACCESS_URL}", b'{"a":1}')
    position = data.index(b"POST")
    assert data == signed_bytes(data[:position].decode(), "POST", ACCESS_URL, b'{"a":1}')
    assert list(readings(data)) == []


def test_a_callback_shows_no_token_of_its_target_and_no_body():
    callback = Message("POST", "/cb/TOKEN", (("requestid", "r1"),), b'{"accessToken":"secret"}')
    assert repr(callback) == callback.__sentry_repr__() == "Message('POST', 1 headers, 24 bytes)"


@pytest.mark.parametrize("further", [":", "/", ",", " ", "é", "\n", "a:", "\x7f"])
def test_requestids_can_never_have_what_would_let_bytes_be_misread(further):
    with refused(ConfigurationError, "callback.request-id-setting"):
        RequestIds(further=further)


@pytest.mark.parametrize("max_length", [0, -1, 256])
def test_requestids_are_bounded(max_length):
    with refused(ConfigurationError, "callback.request-id-setting"):
        RequestIds(max_length=max_length)


def test_requestids_can_be_narrowed():
    assert RequestIds(max_length=3).allow("abc")
    assert not RequestIds(max_length=3).allow("abcd")
    assert not RequestIds().allow("")


def test_a_request_is_written_as_it_came_and_with_nothing_of_its_own():
    received = Message("POST", "/\xc5\xbe", (("X", "a"), ("x", "\xff")), b"{\r\n}")
    assert received.to_wire() == b"POST /\xc5\xbe HTTP/1.1\r\nX: a\r\nx: \xff\r\n\r\n{\r\n}"
