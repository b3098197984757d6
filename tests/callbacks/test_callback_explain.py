"""Each usual mistake is found, and nothing that a request holds raises."""

from __future__ import annotations

import base64
import json
from datetime import timedelta

import pytest
from calling import (
    ACCESS,
    ACCESS_URL,
    ADDRESSES,
    AT,
    LIVE,
    LIVE_KEY,
    ORIGIN,
    PAYMENT_URL,
    RECEIVER,
    REQUEST_ID,
    TEST,
    TEST_KEY,
    TRANSACTION,
    UUID,
    header,
    received,
    with_headers,
)
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from hypothesis import given, settings
from hypothesis import strategies as st

from tppkit.callbacks import (
    CallbackAddress,
    CallbackKey,
    CallbackKind,
    CallbackReceiver,
    ReceivedCallback,
    explain_callback,
    make_signature,
    signed_bytes,
)
from tppkit.codes import CODES
from tppkit.errors import Severity

GOOD = received()
DER = bytes.fromhex(header(GOOD, "signature"))
RAW = b"".join(number.to_bytes(32, "big") for number in decode_dss_signature(DER))


def causes(callback: ReceivedCallback, **settings) -> list[str]:
    found = explain_callback(callback, **{"at": AT, "receiver": RECEIVER, **settings})
    assert found.verified is None
    assert found.rejection is not None
    refusal, *likely = found.findings
    assert (refusal.code, refusal.severity) == (found.rejection.code, Severity.ERROR)
    assert all(finding.severity is Severity.WARNING and finding.code in CODES for finding in likely)
    return [finding.code.removeprefix("callback-cause.") for finding in likely]


def with_more(callback: ReceivedCallback, *headers: tuple[str, str]) -> ReceivedCallback:
    return callback._replace(headers=(*callback.headers, *headers))


def test_a_callback_that_holds_needs_no_explanation():
    found = explain_callback(GOOD, at=AT, receiver=RECEIVER)
    assert found.verified is not None
    assert (found.rejection, found.findings) == (None, ())


def test_the_exact_bytes_and_every_key_are_told():
    receiver = CallbackReceiver(
        ADDRESSES, keys=[LIVE_KEY, CallbackKey("old", TEST.public_key(), not_after=AT - timedelta(1))]
    )
    alias = f"{ORIGIN}/a%2Fb/%C5%BEalias/"
    found = explain_callback(received(alias, b"{}", signed_url=ORIGIN), at=AT, receiver=receiver)
    assert [(one.url, one.form) for one in found.candidates] == [
        (alias, "as received"), (f"{ORIGIN}/a/b/žalias/", "percent-decoded"),
    ]  # fmt: skip
    assert found.candidates[0].data == signed_bytes(REQUEST_ID, "POST", alias, b"{}")
    assert found.keys == (("live", True), ("old", False))


@pytest.mark.parametrize(
    ("signed_url", "cause"),
    [
        (f"{ORIGIN}/cb", "url-slash"), ("http://tpp.example/cb/", "url-scheme"), ("tpp.example/cb/", "url-scheme"),
        ("/cb/", "url-scheme"), ("https://tpp.example:443/cb/", "url-port"), ("https://TPP.EXAMPLE/cb/", "url-host"),
        (f"{ORIGIN}/", "url-prefix"), ("https://www.tpp.example/cb/", "url-host"), (f"{ORIGIN}/CB/", "url-case"),
    ],
)  # fmt: skip
def test_another_url_was_signed(signed_url, cause):
    assert causes(received(signed_url=signed_url)) == [cause]


@pytest.mark.parametrize(
    ("name", "value", "signed_url", "cause"),
    [
        ("X-Forwarded-Prefix", "/app", f"{ORIGIN}/app/cb/", "url-prefix"),
        ("X-Original-URI", "/public/cb/", f"{ORIGIN}/public/cb/", "url-prefix"),
        ("X-Forwarded-Host", "public.example", "https://public.example/cb/", "url-host"),
    ],
)
def test_what_a_proxy_changed_is_found_in_its_headers(name, value, signed_url, cause):
    assert causes(with_more(received(signed_url=signed_url), (name, value))) == [cause]


def test_the_host_that_the_request_names_was_signed():
    assert causes(received(signed_url="https://10.0.0.7/cb/")) == ["url-host"]


def test_other_percent_encoding_was_signed():
    alias = f"{ORIGIN}/a%2Fb/%C5%BEalias/"
    assert causes(received(alias, b"{}", signed_url=f"{ORIGIN}/a%2fb/%c5%bealias/")) == ["url-encoding"]


def test_an_address_that_is_not_configured_was_signed():
    assert causes(received(f"{ORIGIN}/other/", ACCESS)) == ["url-unconfigured"]
    assert causes(received(f"{ORIGIN}/cb/?a=1", signed_url=ACCESS_URL)) == ["url-query"]


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (ACCESS + b"\n", "body-changed"), (ACCESS + b"\r\n", "body-changed"), (b"", "body-changed"),
        (json.dumps(json.loads(ACCESS)).encode(), "body-reserialised"),
        (json.dumps(json.loads(ACCESS), sort_keys=True, indent=2).encode(), "none-found"),
        (json.dumps(json.loads(ACCESS), indent=2).encode(), "body-reserialised"),
        (ACCESS.replace(b"12:00", b"13:00"), "none-found"),
    ],
)  # fmt: skip
def test_another_body_was_signed(body, cause):
    assert causes(received(body=body)._replace(body=ACCESS)) == [cause]


@pytest.mark.parametrize(
    "signature",
    [DER.hex().upper(), f" {DER.hex()}", DER.hex(":"), "0x" + DER.hex(), base64.b64encode(DER).decode(), RAW.hex(),
     base64.urlsafe_b64encode(RAW).decode().rstrip("=")],
)  # fmt: skip
def test_the_signature_was_sent_in_another_encoding(signature):
    assert causes(with_headers(GOOD, signature=signature)) == ["signature-encoding"]


@pytest.mark.parametrize("signature", ["", "zz", "30" * 5000, "é"])
def test_a_header_without_signature_is_told(signature):
    assert causes(with_headers(GOOD, signature=signature)) == ["signature-unreadable"]


def test_another_key_signed():
    assert causes(received(key=TEST)) == ["none-found"]
    assert causes(received(key=TEST), other_keys=[TEST_KEY]) == ["key-other"]
    old = CallbackReceiver(ADDRESSES, keys=[CallbackKey("old", LIVE.public_key(), not_after=AT - timedelta(1))])
    assert causes(GOOD, receiver=old) == ["key-validity"]


def test_the_method_was_signed_otherwise():
    assert causes(received(method="post")._replace(method="POST")) == ["method"]
    assert causes(received(method="Post")) == ["other-reading"]
    assert causes(received(method="PUT")._replace(method="POST")) == ["method"]


def test_no_method_was_signed():
    signature = make_signature(LIVE, signed_bytes(REQUEST_ID, "", ACCESS_URL, ACCESS))
    assert causes(with_headers(GOOD, signature=signature)) == ["method"]


@pytest.mark.parametrize(
    ("target", "signed_url"), [("/CB/", ACCESS_URL), (f"/Cb/{UUID}", f"{ORIGIN}/cb/{UUID}"), ("/cb/", f"{ORIGIN}/CB/")]
)
def test_the_path_came_in_other_letters(target, signed_url):
    assert causes(received(signed_url=signed_url)._replace(target=target)) == ["url-case"]


def test_the_host_without_www_was_signed():
    receiver = CallbackReceiver([CallbackAddress("https://www.tpp.example/cb/", CallbackKind.ACCESS)], keys=[LIVE_KEY])
    assert causes(GOOD, receiver=receiver) == ["url-host"]


def test_the_requestid_was_signed_otherwise():
    assert causes(with_headers(GOOD, requestid=REQUEST_ID.upper())) == ["request-id"]


def test_two_mistakes_at_once_are_found():
    callback = received(PAYMENT_URL, TRANSACTION, signed_url=f"http://tpp.example/cb/{UUID}")
    assert causes(callback._replace(body=TRANSACTION + b"\n")) == ["url-scheme", "body-changed"]
    base64_and_test = with_headers(GOOD, signature=base64.b64encode(bytes.fromhex(make_signature(
        TEST, signed_bytes(REQUEST_ID, "POST", ACCESS_URL, ACCESS)))).decode())  # fmt: skip
    assert causes(base64_and_test, other_keys=[TEST_KEY]) == ["signature-encoding", "key-other"]


def test_three_mistakes_at_once_are_not_sought():
    callback = received(PAYMENT_URL, TRANSACTION, signed_url=f"http://tpp.example/cb/{UUID}")
    changed = with_headers(callback, requestid=REQUEST_ID.upper())._replace(body=TRANSACTION + b"\n")
    assert causes(changed) == ["none-found"]


def test_a_forged_callback_is_told_to_be_one():
    signature = make_signature(LIVE, f"r1GEThttps://stranger.example/x?POST{ACCESS_URL}".encode() + ACCESS)
    forged = with_headers(GOOD, requestid="r1GEThttps://stranger.example/x?", signature=signature)
    assert causes(forged) == ["other-reading"]


def test_a_good_signature_over_what_a_rule_refuses_is_told():
    assert causes(received(body=b'{"token":1}')) == ["rule-only"]


def test_without_headers_only_the_rule_is_told():
    assert causes(with_headers(GOOD, signature=None)) == []
    assert causes(with_headers(GOOD, requestid=None)) == []


def test_messages_hold_no_body():
    found = explain_callback(received(body=ACCESS + b"\n")._replace(body=ACCESS), at=AT, receiver=RECEIVER)
    assert "abcdefghijklmnopqrstuvwxyz" not in str(found.findings)


TEXTS = st.text(max_size=40) | st.sampled_from(
    ["POST", "/cb/", "https://", "https://tpp.example", "%", "/a%2Fb/%C5%BEalias/"]
)
NAMES = st.sampled_from(["requestid", "signature", "host", "x-forwarded-prefix", "x-original-uri", "x-forwarded-host"])


@settings(max_examples=20)
@given(TEXTS, TEXTS, st.lists(st.tuples(NAMES, TEXTS | st.just(DER.hex())), max_size=5), st.binary(max_size=60))
def test_nothing_escapes(method, target, headers, body):
    explain_callback(ReceivedCallback(method, target, tuple(headers), body), at=AT, receiver=RECEIVER)


def test_nothing_escapes_from_texts_that_no_wire_carries():
    strange = "\udcff\x00"
    headers = (("requestid", strange), ("signature", DER.hex()), ("host", strange), ("x-forwarded-prefix", strange))
    assert causes(ReceivedCallback(strange, strange, headers, b"\xff")) == ["none-found"]
