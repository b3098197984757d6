"""Base64 and JSON in their one canonical form, and untrusted text in messages."""

from __future__ import annotations

import base64
import json
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tppkit._encoding import (
    MAX_JSON_DEPTH,
    decode_base64,
    decode_base64url,
    encode_base64,
    encode_base64url,
    parse_json,
    shown,
)
from tppkit.errors import FormatError

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=20,
)


def refusal(read, *args, **kwargs) -> str:
    with pytest.raises(FormatError) as refused:
        read(*args, **kwargs)
    return refused.value.code


@given(st.binary())
def test_encoded_bytes_are_decoded_again(raw):
    assert decode_base64(encode_base64(raw), what="a value") == raw


@given(st.binary() | st.text(max_size=60))
@example("é")
@example("\ud800")
def test_only_format_error_escapes_from_decoding_base64(text):
    with suppress(FormatError):
        decode_base64(text, what="a value")


@given(st.binary(max_size=12).map(base64.b64encode) | st.from_regex(rb"[A-D=\n]{0,12}", fullmatch=True))
def test_decoded_bytes_have_exactly_one_base64_text(text):
    with suppress(FormatError):
        assert encode_base64(decode_base64(text, what="a value")).encode() == text


@pytest.mark.parametrize(
    "text", ["QQ", "QQ=", "Q", "QQ==\n", " QQ==", "QQ==QQ==", "Q=Q=", "====", "QQ-_", b"\xff\xff\xff\xff"]
)
def test_text_that_is_not_padded_standard_base64_is_malformed(text):
    assert refusal(decode_base64, text, what="a value") == "base64.malformed"


def test_non_zero_trailing_bits_are_refused():
    assert refusal(decode_base64, "QR==", what="a value") == "base64.noncanonical"


@given(st.binary())
def test_base64url_is_decoded_again_and_equals_that_of_python(raw):
    text = encode_base64url(raw)
    assert decode_base64url(text, what="a value") == raw
    assert text == base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@given(st.text(max_size=60) | st.from_regex(r"[A-D_=+\n-]{0,12}", fullmatch=True))
def test_decoded_bytes_have_exactly_one_base64url_text(text):
    with suppress(FormatError):
        assert encode_base64url(decode_base64url(text, what="a value")) == text


@pytest.mark.parametrize("text", ["QQ==", "Q", "QQ+/", "QQ\n", " QQ", "QQé", "Q Q"])
def test_text_that_is_not_unpadded_base64url_is_malformed(text):
    assert refusal(decode_base64url, text, what="a value") == "base64.malformed"


def test_non_zero_trailing_bits_in_base64url_are_refused():
    assert refusal(decode_base64url, "QR", what="a value") == "base64.noncanonical"


def test_the_message_names_the_value():
    with pytest.raises(FormatError, match="the Digest header"):
        decode_base64("?", what="the Digest header")


@given(JSON_VALUES)
def test_written_json_is_parsed_again(value):
    assert parse_json(json.dumps(value).encode(), what="a value", max_bytes=1 << 20) == value


@given(st.binary() | st.text('{}[]",:0123456789.eE+-truefalsn\\ud', max_size=40).map(str.encode))
@example(b'"\\ud800"')
@example(b"[" * 100_000)
@example(b'{"":' * 100_000)
@example(b"-" + b"9" * 5000)
def test_only_format_error_escapes_from_reading_json(raw):
    with suppress(FormatError):
        parse_json(raw, what="a value", max_bytes=1 << 20)


@given(JSON_VALUES.map(json.dumps) | st.text('[],0123456789.eE+-"\\ud8', max_size=40))
@example("[1e999]")
def test_parsed_json_can_be_written_again(text):
    with suppress(FormatError):
        value = parse_json(text.encode(), what="a value", max_bytes=1 << 20)
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "json.malformed"),
        (b"[1,]", "json.malformed"),
        (b"{} {}", "json.malformed"),
        (b"NaN", "json.malformed"),
        (b"-Infinity", "json.malformed"),
        (b"1e400", "json.malformed"),
        (b"9" * 401, "json.malformed"),
        (b'"\xff"', "json.malformed"),
        (b"\xef\xbb\xbf{}", "json.malformed"),
        (b'"\\udc00"', "json.malformed"),
        (b'{"a": 1, "a": 1}', "json.duplicate-name"),
        (b'{"a": 1, "\\u0061": 1}', "json.duplicate-name"),
        (b'[{"b": {"a": 1, "a": 2}}]', "json.duplicate-name"),
        (b"[" * (MAX_JSON_DEPTH + 1) + b"]" * (MAX_JSON_DEPTH + 1), "json.too-deep"),
        (b'"' + b"x" * 999 + b'"', "json.too-large"),
    ],
)
def test_json_that_is_not_strict_or_too_big_is_refused(raw, code):
    assert refusal(parse_json, raw, what="a value", max_bytes=1000) == code


def test_json_of_exactly_the_greatest_size_and_depth_is_read():
    raw = b"[" * MAX_JSON_DEPTH + b"]" * MAX_JSON_DEPTH
    assert parse_json(raw, what="a value", max_bytes=len(raw)) is not None


def test_brackets_inside_strings_do_not_count_as_depth():
    text = '[{"\\"": "' + "[{" * 50 + '\\""}]'
    assert parse_json(text.encode(), what="a value", max_bytes=1000) == [{'"': "[{" * 50 + '"'}]


@given(st.text() | st.binary(), st.integers(1, 50))
def test_shown_text_is_printable_and_quoted(value, limit):
    text = shown(value, limit=limit)
    assert text.isprintable()
    assert text[0] == text[-1] == '"'


def test_shown_text_is_shortened():
    assert shown("a" * 100, limit=5) == '"aaaa…"'
