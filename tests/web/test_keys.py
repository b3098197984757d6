"""Callers known by a key."""

from __future__ import annotations

import base64
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.errors import ConfigurationError, FormatError, TppkitError, VerificationError
from tppkit.protocol.endpoint import Auth, Endpoint
from tppkit.protocol.wire import Nothing
from tppkit.web import AsgiSource
from tppkit.web.keys import KeyAuthenticator, hash_key

AT = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
KEY = "sk_test_3f9a7c5e1b2d4f60"
KEYS = {"other": hash_key("sk_test_0"), "shop": hash_key(KEY)}


def opened(auth: Auth, *values: bytes, row: Endpoint[None, None] | None = None) -> str:
    """The caller of a request with these Authorization headers."""
    keys = KeyAuthenticator(KEYS, auth=auth, now=lambda: AT, max_body_bytes=3)
    source = AsgiSource({"method": "GET", "raw_path": b"/", "headers": [(b"authorization", value) for value in values]})
    pending = keys.open(source, row)
    pending.update(b"abc")
    caller, body = pending.finish()
    assert (caller.at, caller.seal, caller.qwac_chain, body) == (AT, None, (), b"abc")
    with pytest.raises(FormatError):
        pending.update(b"d")
    return caller.id


def test_every_known_key_is_compared_in_constant_time(monkeypatch):
    compared = []
    monkeypatch.setattr("hmac.compare_digest", lambda *pair: compared.append(pair[0]))
    with pytest.raises(VerificationError, match="the key is unknown"):
        opened(Auth.API_KEY, KEY.encode())
    assert compared == list(KEYS.values())


def basic(text: str, scheme: str = "Basic") -> bytes:
    return f"{scheme} ".encode() + base64.b64encode(text.encode())


@pytest.mark.parametrize(
    ("auth", "value"),
    [
        (Auth.API_KEY, KEY.encode()), (Auth.BASIC, basic(f"{KEY}:")), (Auth.BASIC, basic(f"{KEY}:", "basic")),
    ],
)  # fmt: skip
def test_a_known_key_names_its_caller(auth, value):
    assert opened(auth, value) == "shop"


RAW = KEY.encode()
UNKNOWN = (RAW + b"x", KEY.upper().encode(), hash_key(KEY).hex().encode(), b"\xff\x00", basic(f"{KEY}:"))
MALFORMED = (RAW, *map(basic, (KEY, f"{KEY}:password", ":")), b"Basic " + RAW, b"Bearer " + RAW, b"Basic \xff")


@pytest.mark.parametrize(
    ("auth", "values", "code"),
    [
        (Auth.API_KEY, [], "credentials.missing"),
        (Auth.API_KEY, [b""], "credentials.missing"),
        (Auth.API_KEY, [KEY.encode()] * 2, "header.duplicate"),
        *((Auth.API_KEY, [value], "credentials.unknown") for value in UNKNOWN),
        *((Auth.BASIC, [value], "credentials.malformed") for value in MALFORMED),
    ],
)
def test_anything_else_is_refused_without_showing_it(auth, values, code):
    with pytest.raises(TppkitError) as refused:
        opened(auth, *values)
    assert refused.value.code == code
    assert KEY not in f"{refused.value!r} {refused.value.__cause__!r}"


def test_keys_may_be_added_while_a_request_is_judged(monkeypatch):
    keys = dict(KEYS)

    def compare(one: bytes, other: bytes) -> bool:
        keys[f"new-{len(keys)}"] = hash_key("sk_test_1")
        return one == other

    monkeypatch.setattr("hmac.compare_digest", compare)  # between two keys, where another thread would add one
    source = AsgiSource({"method": "GET", "raw_path": b"/", "headers": [(b"authorization", KEY.encode())]})
    assert KeyAuthenticator(keys, auth=Auth.API_KEY).open(source, None).finish()[0].id == "shop"


@given(st.sampled_from([Auth.API_KEY, Auth.BASIC]), st.binary(), st.sampled_from([b"", b"Basic "]))
def test_only_our_errors_escape(auth, value, scheme):
    with suppress(TppkitError):
        opened(auth, scheme + value)


@pytest.mark.parametrize("required", [auth for auth in Auth if auth is not Auth.API_KEY])
def test_a_key_is_not_another_proof(required):
    row = Endpoint(name="x", method="GET", path="/", source="", auth=required, request=Nothing(), answer=Nothing())
    with pytest.raises(ConfigurationError):
        opened(Auth.API_KEY, KEY.encode(), row=row)


@pytest.mark.parametrize(("keys", "auth"), [({"shop": KEY.encode()}, Auth.API_KEY), (KEYS, Auth.SEAL)])
def test_settings_are_hashes_and_a_kind_with_keys(keys, auth):
    with pytest.raises(ConfigurationError) as refused:
        KeyAuthenticator(keys, auth=auth)
    assert refused.value.code == "web.setting"
    assert KEY not in str(refused.value)
