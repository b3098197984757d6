"""Records as values, lines and hashed bytes: the forms are equal, other bytes are rejected; what the leaf hash covers."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.errors import FormatError
from tppkit.evidence import EvidenceRecord, make_record
from tppkit.evidence.columns import FORMS, MAX_LINE_BYTES, encode_cbor
from tppkit.evidence.record import BodyState
from tppkit.seals import VerifiedRequest
from tppkit.seals.profiles import PSD2_V1

HEX = "0123456789abcdef"
TEXT = st.text(max_size=60)
NUMBER = st.integers(0, (1 << 63) - 1)


def hexadecimal(length: int) -> st.SearchStrategy[str]:
    return st.text(HEX, min_size=length, max_size=length)


# Any JSON but floating point numbers, which cannot be hashed.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 64), (1 << 64) - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=10,
)
COLUMNS = frozenset(EvidenceRecord.__slots__) - {"extra", "kept_leaf", "files", "_written"}
OPTIONAL = frozenset(name for name, (_, optional, _) in FORMS.items() if optional and name != "seal_cert")
RECORDS = st.builds(
    EvidenceRecord,
    v=st.just(1), kind=NUMBER, stream_id=hexadecimal(32), seq=NUMBER, previous=hexadecimal(64),
    received_at=st.datetimes(timezones=st.just(UTC)), clock_source=TEXT, session_id=st.none() | TEXT, x_request_id=TEXT,
    payment_ref=st.none() | TEXT, method=TEXT, target=TEXT, header_block=st.binary(max_size=200),
    signature_raw=st.binary(max_size=200), signing_input_sha256=hexadecimal(64), body=st.none() | st.binary(max_size=200),
    body_state=NUMBER, body_len=NUMBER, body_sha256=hexadecimal(64), body_sha512=hexadecimal(128), seal_cert=hexadecimal(64),
    qwac_cert=st.none() | hexadecimal(64), chain=st.lists(hexadecimal(64), max_size=4).map(tuple), profile=TEXT, verdict=TEXT,
    software=TEXT, http_status=st.none() | NUMBER, error_code=st.none() | TEXT,
    answers=st.none() | st.lists(hexadecimal(64), max_size=2).map(tuple), lists=st.none() | st.just(()),
    consent_ref=st.none() | TEXT, key_name=st.none() | TEXT, public_key=st.none() | st.binary(max_size=100), direction=st.none() | TEXT,
    extra=st.dictionaries(TEXT.filter(lambda name: name not in COLUMNS), JSON, max_size=3).map(MappingProxyType),
)  # fmt: skip


@pytest.fixture(scope="session")
def line(make_verified: Callable[..., VerifiedRequest]) -> bytes:
    """The line of a real record."""
    return make_record(make_verified(7), http_status=201, payment_ref="p-7").to_line()


def changed(line: bytes, **columns: Any) -> bytes:
    return json.dumps(json.loads(line) | columns).encode()


@given(RECORDS)
def test_one_line_reads_back_as_the_record(record):
    line = record.to_line()
    read = EvidenceRecord.from_line(line)
    assert (read, read.leaf, read.kept_leaf) == (record, record.leaf, record.leaf)
    assert (line.endswith(b"\n"), line.count(b"\n")) == (True, 1)


@given(record=RECORDS)
def test_only_format_error_escapes_when_the_message_is_made(record, pki):
    with suppress(FormatError):
        record.to_message(pki.qseal.certificate, profile=PSD2_V1)


@given(RECORDS)
def test_an_unplaced_record_is_read_without_its_place(record):
    raw, known = record.unplaced(outbox_id="1")
    line = known.placed(stream_id=record.stream_id, seq=record.seq, previous=record.previous).to_line()
    again = EvidenceRecord.from_unplaced(raw, outbox_id="1")
    assert (raw, known) == (record.unplaced()[0], again)
    placed = replace(record, outbox_id="1")
    assert (EvidenceRecord.from_line(line), json.loads(line)) == (placed, json.loads(placed.to_line()))
    read = EvidenceRecord.from_unplaced(raw)
    assert read.placed(stream_id=record.stream_id, seq=record.seq, previous=record.previous) == record
    assert (read.stream_id, read.seq, read.previous) == ("0" * 32, 0, "0" * 64)


@given(st.binary(max_size=2000))
def test_only_format_error_escapes_from_random_bytes(raw):
    with suppress(FormatError):
        EvidenceRecord.from_line(raw)


@given(data=st.data())
def test_only_format_error_escapes_from_flipped_bytes(data, line):
    mutated = bytearray(line)
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
    with suppress(FormatError):
        EvidenceRecord.from_line(bytes(mutated))


@given(name=st.sampled_from(sorted(COLUMNS)), value=st.floats() | st.integers(-(10**380), 10**380) | JSON)
def test_only_format_error_escapes_from_columns_of_any_value(name, value, line, pki):
    with suppress(FormatError):
        EvidenceRecord.from_line(changed(line, **{name: value})).to_message(pki.qseal.certificate, profile=PSD2_V1)


@pytest.mark.parametrize("name", sorted(OPTIONAL))
def test_an_optional_column_that_is_absent_or_null_is_none(name, line):
    absent = {column: value for column, value in json.loads(line).items() if column != name}
    for columns in (absent, absent | {name: None}):
        assert getattr(EvidenceRecord.from_line(json.dumps(columns).encode()), name) is None


@pytest.mark.parametrize("name", sorted(COLUMNS - OPTIONAL))
def test_every_other_column_is_needed(name, line):
    columns = json.loads(line)
    del columns[name]
    with refused(FormatError, ("record.version" if name == "v" else "record.malformed")):
        EvidenceRecord.from_line(json.dumps(columns).encode())


NO_TIMES = (
    "yesterday",
    "0001-01-01T00:00:00+01:00",
    "2026-06-01 12:00:07Z",
    "2026-06-01T12:00:07",
    "2026-06-01T14:00:07+02:00",
    "20260601T120007Z",
)


@pytest.mark.parametrize(
    ("column", "value", "code"),
    [
        ("v", 2, "record.version"),
        *(("v", value, "record.malformed") for value in (True, 1.0)),
        *(("seq", value, "record.malformed") for value in (-1, True, 1 << 63, "0")),
        ("http_status", 201.0, "record.malformed"),
        *(("previous", value, "record.malformed") for value in ("A" * 64, "a" * 63)),
        ("stream_id", None, "record.malformed"),
        *(("chain", value, "record.malformed") for value in (["a" * 64, 7], "a" * 64)),
        ("body", "e30", "base64.malformed"),
        ("header_block", "e31=", "base64.noncanonical"),
        *(("received_at", value, "time.malformed") for value in NO_TIMES),
        *(("later", value, "record.malformed") for value in (1.5, [1.5], {"a": 1e300}, 1 << 64)),  # cannot be hashed
    ],
)
def test_a_column_that_is_not_in_its_form_is_refused(column, value, code, line):
    with refused(FormatError, code):
        EvidenceRecord.from_line(changed(line, **{column: value}))


def test_a_line_that_is_no_record_or_too_long_or_has_a_column_twice_is_refused(line):
    for raw in (b"", b"[]", b"null", b'"v"', b"{}"):
        with pytest.raises(FormatError):
            EvidenceRecord.from_line(raw)
    with refused(FormatError, "json.too-large"):
        EvidenceRecord.from_line(line.ljust(MAX_LINE_BYTES + 1))
    with refused(FormatError, "json.duplicate-name"):
        EvidenceRecord.from_line(line.replace(b'{"v":1', b'{"v":1,"v":1'))


def test_further_columns_survive(line):
    later = {"status": ["ab" * 32], "trust_snapshot": None, "depth": {"a": [1, -1, True]}}
    record = EvidenceRecord.from_line(changed(line, **later))
    assert record.extra == later
    assert EvidenceRecord.from_line(record.to_line()).extra == later


@pytest.mark.parametrize(
    "block", [b"digest: x", b"digest: x\r\nx-request-id: y", b"digest\r\n", b"\r\n", b"digest:x\r\n"]
)
def test_a_header_block_that_is_not_whole_header_lines_is_refused(block, line, pki):
    record = replace(EvidenceRecord.from_line(line), header_block=block)
    with refused(FormatError, "record.malformed"):
        record.to_message(pki.qseal.certificate, profile=PSD2_V1)


STORAGE = ("body", "body_state", "kept_leaf", "files", "_written")
COVERED = [field.name for field in fields(EvidenceRecord) if field.name not in STORAGE]


@pytest.fixture
def record(make_verified: Callable[..., VerifiedRequest]) -> EvidenceRecord:
    return make_record(make_verified(3), http_status=201, error_code=None, payment_ref="p-3", session_id="tls-3")


def another(value: Any) -> Any:
    """A value of the same kind that is not this one."""
    match value:
        case None:
            return "now there is one"
        case int():
            return value + 1
        case str():
            return value[:-1] + ("0" if value[-1:] != "0" else "1")
        case bytes():
            return value + b"x"
        case tuple():
            return value[:-1]
        case datetime():
            return value + timedelta(microseconds=1)
        case _:
            return {"later": None}


@pytest.mark.parametrize("column", COVERED)
def test_every_covered_column_changes_the_leaf(column, record):
    assert replace(record, **{column: another(getattr(record, column))}).leaf != record.leaf


def test_every_value_changes_the_leaf_but_a_redacted_body_does_not(record):
    assert replace(record, session_id=None).leaf != replace(record, session_id="").leaf
    leaves = {
        replace(record, extra=extra).leaf for extra in ({}, {"a": None}, {"a": 0}, {"a": False}, {"a": []}, {"b": 0})
    }
    assert len(leaves) == 6
    redacted = replace(record, body=None, body_state=int(BodyState.REDACTED))
    assert redacted.leaf == record.leaf
    assert EvidenceRecord.from_line(redacted.to_line()).leaf == record.leaf


def test_a_record_has_the_values_that_were_signed_and_no_others(make_verified, pki):
    verified = make_verified(3)
    message = make_record(verified).to_message(pki.qseal.certificate, profile=PSD2_V1)
    assert (message.method, message.target, message.body) == (verified.method, verified.target, verified.body)
    assert sorted(message.headers) == sorted(verified.unverified_message.headers)
    sent = verified._replace(unverified_message=verified.unverified_message.with_headers(("Cookie", "secret")))
    assert b"secret" not in make_record(sent).to_line()
    record = make_record(make_verified(3, body=b""))
    assert (record.body_state, record.body_len) == (BodyState.NONE, 0)


SCALARS = (
    st.none() | st.booleans() | st.integers(-(1 << 64), (1 << 64) - 1) | st.binary(max_size=300) | st.text(max_size=300)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=40), inner, max_size=30)
)

# RFC 8949 appendix A: both sides of each length of a head, and each type that a record has.
EXAMPLES = [
    (23, "17"),
    (24, "1818"),
    (1000, "1903e8"),
    (1000000, "1a000f4240"),
    (18446744073709551615, "1bffffffffffffffff"),
    (-18446744073709551616, "3bffffffffffffffff"),
    (-1, "20"),
    (False, "f4"),
    (None, "f6"),
    (bytes.fromhex("01020304"), "4401020304"),
    ("\U00010151", "64f0908591"),
    (list(range(1, 26)), "98190102030405060708090a0b0c0d0e0f101112131415161718181819"),
    ({"a": 1, "b": [2, 3]}, "a26161016162820203"),
]


@pytest.mark.parametrize(("value", "encoded"), EXAMPLES, ids=[encoded[:20] for _, encoded in EXAMPLES])
def test_examples_of_the_standard(value, encoded):
    assert encode_cbor(value).hex() == encoded


@given(VALUES)
def test_an_independent_implementation_gives_the_same_bytes_and_reads_the_value_back(value):
    assert encode_cbor(value) == cbor2.dumps(value, canonical=True)
    assert cbor2.loads(encode_cbor(value)) == value


@pytest.mark.parametrize(
    ("value", "error"),
    [(1 << 64, OverflowError), (-(1 << 64) - 1, OverflowError), (1.5, TypeError), ([1.5], TypeError), ({"a": 1.5}, TypeError)],
)  # fmt: skip
def test_integers_beyond_64_bits_and_floating_point_numbers_are_refused(value, error):
    with pytest.raises(error):
        encode_cbor(value)
