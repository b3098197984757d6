"""Payments of a ledger against those that records name, and ledgers that are not one."""

from __future__ import annotations

import os

import pytest

from tppkit.errors import FormatError
from tppkit.evidence import AuditPlan, EvidenceArchive, audit_archives, make_record
from tppkit.evidence.ledger import Ledger

ENDPOINTS = (("POST", "/psd2/v1/payments/sepa-credit-transfers", "PSP_PI"), ("POST", "/psd2/v1/consents", "PSP_AI"))


def write(tmp_path, content):
    raw = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "ledger.csv").write_bytes(raw)
    return tmp_path / "ledger.csv"


def compared(tmp_path, content, *named):
    return {finding.code: finding.message for finding in Ledger(write(tmp_path, content)).compare(named)}


def test_payments_and_records_are_compared_in_both_directions(tmp_path):
    for content in (
        "payment_id\na\nb\nb\n", "\ufeffpayment_id\na\nb\n", 'x,payment_id,y\n1,a,\n,"b","1,\n2"\n\n', "payment_id\r\na\r\nb",
    ):  # fmt: skip
        assert compared(tmp_path, content, "a", "b", "a") == {}
        found = compared(tmp_path, content, "c", "a", "c", "d")
        assert "2 payments accepted by records are not in" in found["ledger.unknown-payment"]
        assert found["ledger.unknown-payment"].endswith(": c, d")
        assert found["ledger.no-record"].endswith("ledger.csv is in no accepted record: b")


def test_only_the_first_payments_are_listed_and_what_they_contain_is_escaped(tmp_path):
    ids = ["\x1b[31m", "=1+1", *(f"p{number}" for number in range(98))]
    found = compared(tmp_path, "payment_id\n" + "\n".join(ids), *(f"q{number}" for number in range(100)))
    assert ": \\x1b[31m, =1+1, p0, " in found["ledger.no-record"]
    for message in found.values():
        assert ("100 payments" in message, message.count(", "), message[-1]) == (True, 20, "…")


def test_what_is_not_a_ledger_is_rejected(tmp_path):
    for content, code in (
        (b"", "ledger.malformed"), (b"payment\na\n", "ledger.malformed"), (b"payment_id;amount\na;1\n", "ledger.malformed"),
        (b"payment_id,payment_id\na,b\n", "ledger.malformed"), (b"payment_id,amount\na\n", "ledger.malformed"),
        (b"payment_id,amount\n,1\n", "ledger.malformed"), (b"payment_id\n\xff\n", "ledger.malformed"),
        (b'payment_id\n"a\n', "ledger.malformed"), (b'payment_id\n"a"b\n', "ledger.malformed"),
        (b"payment_id\n" + b"a" * 70_000, "ledger.malformed"), (b'payment_id\n"' + b"a\n" * 100_000, "ledger.malformed"),
    ):  # fmt: skip
        with pytest.raises(FormatError) as error:
            Ledger(write(tmp_path, content))
        assert error.value.code == code, content[:20]
    with pytest.raises(FormatError, match=r"cannot be read: No such file"):
        Ledger(tmp_path / "absent.csv")


def test_accepted_records_of_payments_count(tmp_path, make_verified, paths):
    verified = make_verified(1)
    with EvidenceArchive(tmp_path / "archive", stream_id="5a" * 16) as archive:
        for status, payment in ((201, "accepted"), (400, "rejected"), (201, None), (201, "x" * 200_000)):
            record = make_record(verified, http_status=status, payment_ref=payment)
            archive.append(record, *verified.chain, verified.qwac)
    ledger = write(tmp_path, "payment_id\naccepted\nrejected\n")
    for role, codes in (
        ("PSP_PI", {"ledger.no-record": 1, "ledger.unknown-payment": 1}),
        ("PSP_AI", {"ledger.no-record": 1}),
    ):
        endpoints = ((*ENDPOINTS[0][:2], role),)
        plan = AuditPlan(now=verified.at, endpoints=endpoints)
        result = audit_archives([tmp_path / "archive"], plan, ledger=ledger, material=paths)
        found = {code: count for code, count in result.by_code.items() if code.startswith("ledger.")}
        assert (result.exit_code, found) == (4, codes)


@pytest.mark.slow
def test_a_ledger_whose_line_does_not_end_is_not_read_whole(tmp_path):
    path = write(tmp_path, "payment_id\n")
    os.truncate(path, 1 << 36)  # zeros
    with pytest.raises(FormatError, match="a line of more than"):
        Ledger(path)
