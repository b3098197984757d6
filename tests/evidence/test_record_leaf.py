"""The leaf hash covers every column except the body and its state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tppkit.evidence import EvidenceRecord, make_record
from tppkit.evidence.record import BodyState
from tppkit.seals import PSD2_V1, VerifiedRequest
from tppkit.testpki import Pki

STORAGE = ("body", "body_state", "kept_leaf", "_written")
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
def test_every_covered_column_changes_the_leaf(column: str, record: EvidenceRecord) -> None:
    assert replace(record, **{column: another(getattr(record, column))}).leaf != record.leaf


def test_a_further_column_and_an_empty_value_change_the_leaf(record: EvidenceRecord) -> None:
    assert replace(record, session_id=None).leaf != replace(record, session_id="").leaf
    leaves = {
        replace(record, extra=extra).leaf for extra in ({}, {"a": None}, {"a": 0}, {"a": False}, {"a": []}, {"b": 0})
    }
    assert len(leaves) == 6


def test_the_redacted_record_has_the_same_leaf_also_when_it_is_read_back(record: EvidenceRecord) -> None:
    redacted = replace(record, body=None, body_state=int(BodyState.REDACTED))
    assert redacted.leaf == record.leaf
    assert EvidenceRecord.from_line(redacted.to_line()).leaf == record.leaf


def test_a_record_has_the_values_that_were_signed_and_no_others(
    make_verified: Callable[..., VerifiedRequest], pki: Pki
) -> None:
    verified = make_verified(3)
    message = make_record(verified).to_message(pki.qseal.certificate, profile=PSD2_V1)
    assert (message.method, message.target, message.body) == (verified.method, verified.target, verified.body)
    assert sorted(message.headers) == sorted(verified.unverified_message.headers)
    sent = verified._replace(unverified_message=verified.unverified_message.with_headers(("Cookie", "secret")))
    assert b"secret" not in make_record(sent).to_line()
    record = make_record(make_verified(3, body=b""))
    assert (record.body_state, record.body_len) == (BodyState.NONE, 0)
