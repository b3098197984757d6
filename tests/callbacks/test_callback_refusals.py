"""Each refusal on its own: a good callback with one thing wrong."""

from __future__ import annotations

import base64
from contextlib import suppress

import pytest
from calling import (
    ACCESS,
    ACCESS_URL,
    AT,
    LIVE,
    LOGIN,
    LOGIN_URL,
    ORIGIN,
    PAYMENT_URL,
    RECEIVER,
    TEST,
    TRANSACTION,
    UUID,
    header,
    received,
    refusal,
    with_headers,
)
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from hypothesis import given
from hypothesis import strategies as st

from tppkit.callbacks import CallbackRejected, verify_callback
from tppkit.callbacks.signature import make_signature
from tppkit.callbacks.verify import P256_ORDER
from tppkit.message import Message

GOOD = received()
SIGNATURE = header(GOOD, "signature")
DER = bytes.fromhex(SIGNATURE)
R, S = decode_dss_signature(DER)


def test_the_forgery_is_refused():
    # A stranger's LOGIN code made the service sign this GET; its end is read as a callback to us.
    request_id = "r1GEThttps://stranger.example/x?"
    signature = make_signature(LIVE, b"r1" + b"GET" + f"https://stranger.example/x?POST{ACCESS_URL}".encode() + ACCESS)
    forged = with_headers(GOOD, requestid=request_id, signature=signature)
    assert f"{request_id}POST{ACCESS_URL}".encode() + ACCESS == (
        b"r1" + b"GET" + f"https://stranger.example/x?POST{ACCESS_URL}".encode() + ACCESS
    )
    assert refusal(forged) == "callback.request-id"


def test_a_moved_boundary_is_refused():
    request_id = header(GOOD, "requestid")
    moved = with_headers(GOOD, requestid=request_id[:-1])._replace(method=request_id[-1] + "POST")
    assert refusal(moved) == "callback.method"


def test_a_requestid_that_ends_like_a_method_has_one_reading():
    callback = received(request_id="rPOST")
    assert verify_callback(callback, at=AT, receiver=RECEIVER).request_id == "rPOST"
    assert refusal(with_headers(callback, requestid="r")._replace(method="POSTPOST")) == "callback.method"


def test_the_end_of_a_url_is_not_a_body():
    callback = received(LOGIN_URL, b"", method="GET")
    cut = callback._replace(target=callback.target[:-1], body=callback.target[-1:].encode())
    assert refusal(cut) == "callback.body"
    assert refusal(received(f"{ACCESS_URL}more", b"", signed_url=f"{ACCESS_URL}more")) == "callback.address"


def test_a_login_get_is_not_accepted_where_payments_arrive():
    # A LOGIN code may name our own payment address: then the service signs a GET and a POST to it.
    assert refusal(received(PAYMENT_URL, b"", method="GET")) == "callback.method"
    assert refusal(received(PAYMENT_URL, LOGIN)) == "model.invalid"
    assert refusal(received(ACCESS_URL, LOGIN)) == "model.invalid"


def test_an_access_is_neither_a_login_nor_a_payment():
    assert refusal(received(LOGIN_URL, ACCESS)) == "model.invalid"
    assert refusal(received(PAYMENT_URL, ACCESS)) == "model.invalid"


@pytest.mark.parametrize("name", ["requestid", "signature"])
def test_each_header_is_there_once(name):
    assert refusal(with_headers(GOOD, **{name: None})) == "callback.header-missing"
    doubled = GOOD._replace(headers=(*GOOD.headers, (name.title(), header(GOOD, name))))
    assert refusal(doubled) == "callback.header-duplicate"


@pytest.mark.parametrize("request_id", ["", "a" * 65, "a:b", "a/b", "a b", "a,b", "a\n", "é", "a\u0661", "{a}", "a.b"])
def test_requestids_have_letters_digits_hyphen_and_underscore(request_id):
    assert refusal(received(request_id=request_id)) == "callback.request-id"


@pytest.mark.parametrize("method", ["post", "Post", "PUT", "", "GET ", "POSTPOST", "HEAD"])
def test_the_method_is_get_or_post_exactly(method):
    assert refusal(received(method=method)) == "callback.method"


@pytest.mark.parametrize(
    "target",
    [
        "", "/", "/cb", "/cb//", "/CB/", "/cb/?", "/cb/?a=1", "/cb/#", "cb/", "//tpp.example/cb/", "/cb/../cb/", "/cb/%2E/", "/%2563b/",
        "/cb%00/", "http://tpp.example/cb/", "https://stranger.example/cb/", "https://tpp.example:443/cb/", "https://tpp.example",
        "https://tpp.example@stranger.example/cb/", "/cb/" + UUID[:19], "/cb/" + "a" * 41, "/cb/" + UUID + "/", "/cb/" + UUID + "é",
        "/cb/%61" + UUID, "/cb/" + UUID[:-1] + "\u0661", "/cb/" + UUID + "?", "/login/", "\udcff/cb/", "/cb/\x00", "/%E0%A4/",
    ],
)  # fmt: skip
def test_only_the_receivers_own_addresses_are_accepted(target):
    assert refusal(received(target=target)) == "callback.address"


@pytest.mark.parametrize("body", [b"", b" {}", b"[]", b"\xef\xbb\xbf{}", b"x{}", b"null"])
def test_the_body_of_a_post_begins_with_a_brace(body):
    assert refusal(received(body=body)) == "callback.body"


def test_a_get_has_no_body():
    assert refusal(received(LOGIN_URL, LOGIN, method="GET")) == "callback.body"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "json.malformed"), (b"{}x", "json.malformed"), (b'{"a":NaN}', "json.malformed"), (b'{"a":"\xff"}', "json.malformed"),
        (b'{"token":"a","token":"b"}', "json.duplicate-name"), (b'{"a":' + b"[" * 40 + b"]" * 40 + b"}", "json.too-deep"),
        (b"{}", "model.invalid"),
    ],
)  # fmt: skip
def test_a_signed_body_that_cannot_be_read_is_refused(body, code):
    assert refusal(received(body=body)) == code


@pytest.mark.parametrize(
    "signature",
    [
        "", SIGNATURE.upper(), " " + SIGNATURE, SIGNATURE + " ", SIGNATURE[:8] + " " + SIGNATURE[8:], "0x" + SIGNATURE,
        SIGNATURE[:-1], SIGNATURE[:-2], SIGNATURE + "00", "zz" + SIGNATURE[2:], "é" * 8, "\u0663\u0660", "\udcff", "30" * 5000,
        base64.b64encode(DER).decode(), (R.to_bytes(32, "big") + S.to_bytes(32, "big")).hex(),
        (b"\x30\x81" + DER[1:]).hex(), (b"\x31" + DER[1:]).hex(), "3080" + SIGNATURE[4:] + "0000",
        (bytes([0x30, DER[1] + 1, 2, DER[3] + 1, 0]) + DER[4:]).hex(), "300602010102017f00", "30060201ff020101",
    ],
)  # fmt: skip
def test_a_signature_has_one_form(signature):
    assert refusal(with_headers(GOOD, signature=signature)) == "callback.signature-form"


@pytest.mark.parametrize(
    ("r", "s"), [(0, S), (R, 0), (0, 0), (P256_ORDER, S), (R, P256_ORDER), (R + P256_ORDER, S), (R, S + P256_ORDER)]
)
def test_r_and_s_are_in_range(r, s):
    signature = encode_dss_signature(r, s).hex()
    assert refusal(with_headers(GOOD, signature=signature)) == "callback.signature-range"


@pytest.mark.parametrize(
    "callback",
    [
        received(key=TEST),
        GOOD._replace(body=ACCESS.replace(b"12:00", b"13:00")),
        GOOD._replace(body=ACCESS + b"\n"),
        with_headers(GOOD, requestid="another"),
        received(PAYMENT_URL, TRANSACTION, target=f"/cb/{UUID[::-1]}"),
        received(signed_url="http://tpp.example/cb/"),
        received(signed_url=f"{ORIGIN}/cb"),
        with_headers(GOOD, signature=encode_dss_signature(R, S - 1).hex()),
        with_headers(GOOD, signature=encode_dss_signature(S, R).hex()),
    ],
    ids=["key", "body", "newline", "requestid", "token", "scheme", "slash", "other s", "swapped"],
)
def test_what_was_not_signed_is_refused(callback):
    assert refusal(callback) == "callback.signature"


def test_sizes_are_bounded():
    assert refusal(received(body=b'{"a":"' + b"x" * 65_536 + b'"}')) == "callback.too-large"
    assert refusal(received(target="/" + "a" * 4096)) == "callback.too-large"
    assert refusal(GOOD._replace(headers=GOOD.headers + (("a", "b"),) * 100)) == "callback.too-large"


def test_a_refusal_shows_neither_body_nor_token():
    with pytest.raises(CallbackRejected) as refused:
        verify_callback(received(LOGIN_URL, ACCESS), at=AT, receiver=RECEIVER)
    assert "abcdefghijklmnopqrstuvwxyz" not in str(refused.value)


TEXTS = st.text(max_size=80) | st.sampled_from(["POST", "GET", "/cb/", f"/cb/{UUID}", SIGNATURE, "r1"])


@given(
    TEXTS, TEXTS, st.lists(st.tuples(st.sampled_from(["requestid", "signature", "x"]), TEXTS), max_size=4), st.binary()
)
def test_nothing_but_a_refusal_escapes(method, target, headers, body):
    with suppress(CallbackRejected):
        verify_callback(Message(method, target, tuple(headers), body), at=AT, receiver=RECEIVER)


@given(st.binary(max_size=80).map(bytes.hex) | st.text(alphabet="0123456789abcdefABCDEF g", max_size=150))
def test_no_forged_signature_is_accepted(signature):
    assert refusal(with_headers(GOOD, signature=signature)).startswith("callback.signature")


@given(st.binary(min_size=1).map(lambda rest: b"{" + rest))
def test_no_signed_body_raises_anything_else(body):
    with suppress(CallbackRejected):
        verify_callback(received(PAYMENT_URL, body), at=AT, receiver=RECEIVER)
