"""Each usual mistake is found, and nothing that a request holds raises."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from itertools import repeat

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
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from hypothesis import given, settings
from hypothesis import strategies as st

from tppkit.callbacks import CallbackAddress, CallbackKey, CallbackKind, CallbackReceiver, explain_callback
from tppkit.callbacks.explain import MAX_HASHED, MAX_TRIALS, affordable
from tppkit.callbacks.signature import make_signature, signed_bytes
from tppkit.codes import CODES
from tppkit.errors import Severity
from tppkit.message import Message

GOOD = received()
DER = bytes.fromhex(header(GOOD, "signature"))
RAW = b"".join(number.to_bytes(32, "big") for number in decode_dss_signature(DER))


def causes(callback: Message, **settings) -> list[str]:
    found = explain_callback(callback, **{"at": AT, "receiver": RECEIVER, **settings})
    assert found.verified is None
    assert found.rejection is not None
    refusal, *likely = found.findings
    assert (refusal.code, refusal.severity) == (found.rejection.code, Severity.ERROR)
    assert all(finding.severity is Severity.WARNING and finding.code in CODES for finding in likely)
    return [finding.code.removeprefix("callback-cause.") for finding in likely]


def with_more(callback: Message, *headers: tuple[str, str]) -> Message:
    return callback._replace(headers=(*callback.headers, *headers))


def test_a_callback_that_holds_needs_no_explanation():
    found = explain_callback(GOOD, at=AT, receiver=RECEIVER)
    assert found.verified is not None
    assert (found.rejection, found.findings) == (None, ())


def test_the_exact_bytes_and_every_key_are_reported():
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


URLS = [
    *(
        (f"{ORIGIN}{path}", cause)
        for path, cause in {"/cb": "url-slash", "/": "url-prefix", "/CB/": "url-case"}.items()
    ),
    *((url, "url-scheme") for url in ("http://tpp.example/cb/", "tpp.example/cb/", "/cb/")),
    *(
        (f"https://{host}/cb/", "url-host") for host in ("TPP.EXAMPLE", "www.tpp.example", "10.0.0.7")
    ),  # the last is the Host
    *((f"{ORIGIN}:{port}/cb/", "url-port") for port in (443, 8443, 8080)),
]
PROXIED = [
    (f"{ORIGIN}/app/cb/", ("X-Forwarded-Prefix", "/app"), "url-prefix"),
    (f"{ORIGIN}/public/cb/", ("X-Original-URI", "/public/cb/"), "url-prefix"),
    ("https://public.example/cb/", ("X-Forwarded-Host", "public.example"), "url-host"),
    (f"{ORIGIN}:7001/cb/", ("X-Forwarded-Port", "7001"), "url-port"),
    (f"{ORIGIN}:7002/cb/", ("Host", "10.0.0.7:7002"), "url-port"),
]


def test_another_url_was_signed():
    for signed, cause in URLS:
        assert causes(received(signed_url=signed)) == [cause], signed
    for signed, field, cause in PROXIED:
        assert causes(with_more(received(signed_url=signed), field)) == [cause], signed
    alias = f"{ORIGIN}/a%2Fb/%C5%BEalias/"
    assert causes(received(alias, b"{}", signed_url=f"{ORIGIN}/a%2fb/%c5%bealias/")) == ["url-encoding"]
    www = CallbackReceiver([CallbackAddress("https://www.tpp.example/cb/", CallbackKind.ACCESS)], keys=[LIVE_KEY])
    assert causes(GOOD, receiver=www) == ["url-host"]


PREFIXED = CallbackReceiver(
    [
        CallbackAddress(f"{ORIGIN}/app/cb/", CallbackKind.ACCESS),
        CallbackAddress(f"{ORIGIN}/app/cb/{{token}}", CallbackKind.PAYMENT),
        CallbackAddress(f"{ORIGIN}/app/ž/{{token}}", CallbackKind.OTHER),
        CallbackAddress(f"{ORIGIN}/app/q?form=1", CallbackKind.OTHER),
        CallbackAddress(f"{ORIGIN}/app/t?u={{token}}", CallbackKind.OTHER),
    ],
    keys=[LIVE_KEY],
)


def sent(path: str, target: str) -> Message:
    """What was signed for one path of the receiver and came to another target."""
    return received(body=b"{}", signed_url=ORIGIN + path)._replace(target=target)


@pytest.mark.parametrize(
    ("path", "target"),
    [("/app/cb/", "/cb/"), ("/app/cb/", "/"), (f"/app/cb/{UUID}", f"/cb/{UUID}"), (f"/app/%C5%BE/{UUID}", f"/%c5%be/{UUID}"),
     (f"/app/ž/{UUID}", f"/%C5%BE/{UUID}"), (f"/app/t?u={UUID}", f"/t?u={UUID}"), ("/app/q?form=1", "/q?form=1")],
)  # fmt: skip
def test_a_proxy_took_the_prefix_off(path, target):
    (_, likely) = explain_callback(sent(path, target), at=AT, receiver=PREFIXED).findings
    assert likely.code == "callback-cause.url-prefix"
    taken = "/app/cb" if target == "/" else "/app"
    assert f'a proxy stripped "{taken}" from the path, so set stripped_prefix="{taken}"' in likely.message


def test_a_prefix_that_was_not_removed_is_reported():
    receiver = CallbackReceiver(PREFIXED.book.addresses, keys=[LIVE_KEY], stripped_prefix="/app")
    (_, likely) = explain_callback(sent("/app/cb/", "/app/cb/"), at=AT, receiver=receiver).findings
    assert likely.code == "callback-cause.url-prefix"
    assert "remove the setting stripped_prefix" in likely.message


@pytest.mark.parametrize(
    ("path", "target", "cause"),
    [
        ("/app/cb/", "/proxy/app/cb/", "url-prefix"), (f"/app/cb/{UUID}", f"/hooks?id={UUID}", "url-prefix"),
        ("/app/q?form=1", "/app/q", "url-query"), (f"/app/t?u={UUID}", "/app/t", "url-query"), ("/app/cb/", "/app/cb", "url-slash"),
        (f"/app/cb/{UUID}", f"/app/cb/{UUID}?a=1", "url-query"), ("/app/cb/", "https://other.example/app/cb/", "url-host"),
        ("/app/cb/", "/elsewhere", "url-prefix"), ("/not/mine", "/elsewhere", "none-found"),
    ],
)  # fmt: skip
def test_a_target_that_is_not_an_address_is_compared_with_every_address(path, target, cause):
    assert causes(sent(path, target), receiver=PREFIXED) == [cause]


def test_the_path_lost_its_prefix_and_the_body_was_changed():
    changed = sent("/app/cb/", "/cb/")._replace(body=b"{}\n")
    assert causes(changed, receiver=PREFIXED) == ["url-prefix", "body-changed"]


@pytest.mark.parametrize("signed", ["https://[::1]/cb/", "https://[::1]:443/cb/"])
def test_the_port_behind_an_address_of_numbers_was_not_signed(signed):
    receiver = CallbackReceiver([CallbackAddress("https://[::1]:8443/cb/", CallbackKind.ACCESS)], keys=[LIVE_KEY])
    assert causes(received(signed_url=signed), receiver=receiver) == ["url-port"]


def test_a_usual_mistake_is_found_among_many_addresses():
    many = [CallbackAddress(f"https://h{n}.example/p{n}/{{token}}", CallbackKind.PAYMENT) for n in range(1000)]
    receiver = CallbackReceiver([*many, *ADDRESSES], keys=[LIVE_KEY])
    assert causes(received(signed_url="http://tpp.example/cb/"), receiver=receiver) == ["url-scheme"]


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


def test_a_body_that_is_gone_is_named():
    assert causes(GOOD._replace(body=b"")) == ["body-empty"]
    assert causes(received(body=b"")) == ["other-reading"]


@pytest.mark.parametrize(
    "signature",
    [DER.hex().upper(), f" {DER.hex()}", DER.hex(":"), "0x" + DER.hex(), base64.b64encode(DER).decode(), RAW.hex(),
     base64.urlsafe_b64encode(RAW).decode().rstrip("=")],
)  # fmt: skip
def test_the_signature_was_sent_in_another_encoding(signature):
    assert causes(with_headers(GOOD, signature=signature)) == ["signature-encoding"]


@pytest.mark.parametrize("signature", ["", "zz", "30" * 5000, "é"])
def test_a_header_without_signature_is_reported(signature):
    assert causes(with_headers(GOOD, signature=signature)) == ["signature-unreadable"]


def test_another_key_signed():
    assert causes(received(key=TEST)) == ["none-found"]
    assert causes(received(key=TEST), other_keys=[TEST_KEY]) == ["key-other"]
    old = CallbackReceiver(ADDRESSES, keys=[CallbackKey("old", LIVE.public_key(), not_after=AT - timedelta(1))])
    assert causes(GOOD, receiver=old) == ["key-validity"]


def test_the_method_or_the_requestid_was_signed_otherwise():
    assert causes(received(method="post")._replace(method="POST")) == ["method"]
    assert causes(received(method="Post")) == ["other-reading"]
    assert causes(received(method="PUT")._replace(method="POST")) == ["method"]
    signature = make_signature(LIVE, signed_bytes(REQUEST_ID, "", ACCESS_URL, ACCESS))
    assert causes(with_headers(GOOD, signature=signature)) == ["method"]
    assert causes(with_headers(GOOD, requestid=REQUEST_ID.upper())) == ["request-id"]


@pytest.mark.parametrize(
    ("target", "signed_url"), [("/CB/", ACCESS_URL), (f"/Cb/{UUID}", f"{ORIGIN}/cb/{UUID}"), ("/cb/", f"{ORIGIN}/CB/")]
)
def test_the_path_came_in_other_letters(target, signed_url):
    assert causes(received(signed_url=signed_url)._replace(target=target)) == ["url-case"]


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


@pytest.mark.parametrize("keys", [1, 8, 16])
def test_trials_are_bounded_by_comparisons_and_by_what_is_hashed(keys):
    """However long the body is and however many keys there are: an endless number of trials is offered."""
    assert keys * len(list(affordable(repeat((b"{}", ())), keys=keys))) == MAX_TRIALS
    long = [len(data) for data, _ in affordable(repeat((bytes(65536), ())), keys=keys)]
    assert sum(long) <= MAX_HASHED
    assert keys * len(long) <= MAX_TRIALS


@pytest.mark.parametrize(
    ("method", "signed_url", "sent", "cause"),
    [
        ("POST", "https://TPP.EXAMPLE/cb/", b"", "url-host"), ("DELETE", ACCESS_URL, b"", "method"),
        ("POST", ACCESS_URL, b" ", "body-changed"),
    ],
)  # fmt: skip
def test_each_mistake_alone_is_tried_with_the_longest_body_and_many_keys(method, signed_url, sent, cause):
    body = json.dumps({"a": [0] * 21_800}).encode()
    assert 65_000 < len(body) < 65_536
    strangers = [CallbackKey(f"k{n}", ec.derive_private_key(n, ec.SECP256R1()).public_key()) for n in range(1, 16)]
    receiver = CallbackReceiver(ADDRESSES, keys=[*strangers[:7], LIVE_KEY])
    callback = received(body=body, signed_url=signed_url, method=method)._replace(method="POST", body=body + sent)
    assert causes(callback, receiver=receiver, other_keys=strangers[7:]) == [cause]


def test_what_only_a_rule_rejects_is_reported_also_as_forged():
    assert causes(received(body=b'{"token":1}')) == ["rule-only"]
    signature = make_signature(LIVE, f"r1GEThttps://stranger.example/x?POST{ACCESS_URL}".encode() + ACCESS)
    forged = with_headers(GOOD, requestid="r1GEThttps://stranger.example/x?", signature=signature)
    assert causes(forged) == ["other-reading"]


def test_without_headers_only_the_rule_is_reported():
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
    explain_callback(Message(method, target, tuple(headers), body), at=AT, receiver=RECEIVER)


def test_nothing_escapes_from_texts_that_no_wire_carries():
    strange = "\udcff\x00"
    headers = (("requestid", strange), ("signature", DER.hex()), ("host", strange), ("x-forwarded-prefix", strange))
    assert causes(Message(strange, strange, headers, b"\xff")) == ["none-found"]
