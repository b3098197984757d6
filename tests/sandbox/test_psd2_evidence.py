"""The bank's evidence: every verified seal with its answer, and no unverified request."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from raw_provider import INSTANT, PAYMENT, advance, altered, approval_link, assert_refused

from tppkit._clock import utc_now
from tppkit.evidence import AuditPlan, AuditResult, EvidenceRecord, audit_archive, audit_archives
from tppkit.evidence.archive import read_lines
from tppkit.httpsig.http_date import format_http_date
from tppkit.sandbox import SandboxServer
from tppkit.seals import Seal, sign_request
from tppkit.seals.profiles import PSD2_V1
from tppkit.trust import PathVerifier, load_anchors

pytestmark = pytest.mark.slow


def folder(server: SandboxServer) -> Path:
    return server.sandbox.settings.directory / "archive"


def wait_for_archive(server: SandboxServer) -> None:
    """Until the outbox is empty."""
    with closing(sqlite3.connect(server.sandbox.settings.directory / "sandbox.sqlite")) as database:
        for _ in range(500):
            if not database.execute("SELECT count(*) FROM evidence_outbox").fetchone()[0]:
                return
            time.sleep(0.01)
    raise AssertionError("the outbox is not emptied")


def kept(server: SandboxServer) -> list[EvidenceRecord]:
    wait_for_archive(server)
    return [EvidenceRecord.from_line(line) for _, line in read_lines(folder(server))]


def audit(server: SandboxServer) -> AuditResult:
    wait_for_archive(server)
    return audit_archives([folder(server)], AuditPlan(now=utc_now(), trust=str(server.sandbox.pki)))


def test_every_verified_request_is_kept_with_its_status_and_code(caller, fresh_bank):
    request_id, much = str(uuid4()), {"instructedAmount": {"currency": "EUR", "amount": "999999.00"}}
    sent: tuple[tuple[object, dict[str, object], int, str | None], ...] = (
        (PAYMENT, {"request_id": request_id}, 201, None),
        ({**PAYMENT, "creditorName": "Another"}, {"request_id": request_id}, 409, "REQUEST_ID_REUSE"),
        (b"{}", {}, 400, "FORMAT_ERROR"),
        (b"", {}, 400, "FORMAT_ERROR"),
        ({**PAYMENT, **much}, {"product": INSTANT}, 400, "PRODUCT_INVALID"),
        (PAYMENT, {"product": "unknown-product"}, 404, "PRODUCT_UNKNOWN"),
        (PAYMENT, {"headers": [("TPP-Redirect-URI", "ftp://x")]}, 400, "FORMAT_ERROR"),
    )
    for body, options, *_ in sent:
        caller.initiate(body, **options)
    assert [(record.http_status, record.error_code) for record in kept(fresh_bank)] == [one[2:] for one in sent]
    assert (audit(fresh_bank).exit_code, audit(fresh_bank).records) == (0, len(sent))


@pytest.mark.parametrize(
    ("body", "unsigned", "answer"),
    [
        (PAYMENT, (), 201),
        (b"{}", (), 400),
        (PAYMENT, (("TPP-Redirect-URI", "ftp://x"),), 201),
        (PAYMENT, (("Content-Type", "text/plain"),), 201),
    ],
    ids=["accepted", "refused", "another redirect address", "another content type"],
)
def test_a_captured_request_sent_many_times_does_not_fill_the_archive(
    body, unsigned, answer, caller, fresh_bank, caplog
):
    caplog.set_level("INFO", logger="tppkit.sandbox.evidence")
    captured = caller.sealed(caller.message(body))
    caller.send(captured)
    names = {name.lower() for name, _ in unsigned}
    signed = tuple(header for header in captured.headers if header[0].lower() not in names)
    for _ in range(20):
        caller.send(altered(captured, headers=(*signed, *unsigned)))
    assert [record.http_status for record in kept(fresh_bank)] == [answer]
    assert audit(fresh_bank).exit_code == 0
    counted = [record.getMessage() for record in caplog.records if record.name == "tppkit.sandbox.evidence"]
    assert counted[-1].endswith(f"was answered 21 times with {answer}")


def test_a_repetition_under_another_seal_is_kept_once_more(caller, fresh_bank, bank_pki):
    profile = replace(PSD2_V1, covered=(*PSD2_V1.covered, "date"))
    dated = Seal.for_key(bank_pki.qseal.certificate, bank_pki.qseal.key, profile=profile)
    message = caller.message(PAYMENT).with_headers(("Date", format_http_date(utc_now())))
    for _ in range(3):
        caller.send(caller.sealed(message))
        caller.send(sign_request(message, seal=dated))
    first, second = kept(fresh_bank)
    assert first.payment_ref == second.payment_ref
    assert first.signing_input_sha256 != second.signing_input_sha256


def test_an_old_covered_date_repeats_an_answer_but_makes_no_payment_and_no_record(caller, fresh_bank, bank_pki):
    profile = replace(PSD2_V1, covered=(*PSD2_V1.covered, "date"))
    seal = Seal.for_key(bank_pki.qseal.certificate, bank_pki.qseal.key, profile=profile)
    request_id, old = str(uuid4()), utc_now() - timedelta(minutes=6)

    def send(at: datetime, **options: Any) -> httpx.Response:
        message = caller.message(PAYMENT, **options).with_headers(("Date", format_http_date(at)))
        return caller.send(sign_request(message, seal=seal))

    assert_refused(send(old, request_id=request_id), 401, "SIGNATURE_INVALID")
    first = send(utc_now(), request_id=request_id)
    for _ in range(2):
        again = send(old, request_id=request_id)
        assert (again.status_code, again.content) == (201, first.content)
    assert_refused(send(old, request_id=request_id, product=INSTANT), 401, "SIGNATURE_INVALID")
    assert [record.http_status for record in kept(fresh_bank)] == [201]
    assert audit(fresh_bank).exit_code == 0


def test_the_same_id_of_another_payment_is_kept_again_after_the_hour(caller, fresh_bank):
    request_id = str(uuid4())
    for _ in range(2):
        caller.initiate(request_id=request_id)
        caller.initiate(request_id=request_id)
        advance(fresh_bank, 3600)
    assert [record.http_status for record in kept(fresh_bank)] == [201, 201]


def test_an_unverified_request_is_not_stored(caller, fresh_bank, connect, second_provider):
    sealed = caller.sealed(caller.message())
    caller.send(caller.message())
    caller.send(altered(sealed, body=sealed.body + b" "))
    connect(fresh_bank, qseal=second_provider[1]).initiate()
    caller.request("GET", sealed.target + "/any/status")
    assert kept(fresh_bank) == []


def test_requests_of_several_providers_pass_the_audit(caller, fresh_bank, connect, second_provider):
    other = connect(fresh_bank, qwac=second_provider[0], qseal=second_provider[1])
    for provider in (caller, other, caller):
        provider.new_payment()
    assert audit(fresh_bank).exit_code == 0
    rows = audit_archive(folder(fresh_bank), paths=PathVerifier(load_anchors(fresh_bank.sandbox.pki)))
    names = ["PSDLT-BL-LB000000", "PSDDE-BAFIN-999999", "PSDLT-BL-LB000000"]
    assert [row.organization_identifier for row in rows] == names


def test_the_time_of_receipt_is_real_time(caller, fresh_bank):
    before = utc_now()
    advance(fresh_bank, 410 * 86_400)
    caller.new_payment()
    (record,) = kept(fresh_bank)
    assert before <= record.received_at <= utc_now()
    assert record.clock_source == "system"
    assert audit(fresh_bank).exit_code == 0


def test_a_restart_on_the_same_folder_keeps_payments_and_continues_with_the_archive(open_bank, connect):
    request_id = str(uuid4())
    with open_bank() as server:
        before = connect(server).new_payment(request_id=request_id)
    with open_bank() as server:
        caller = connect(server)
        assert caller.status(before) == "RCVD"
        assert caller.new_payment(request_id=request_id) == before
        caller.new_payment()
        assert [record.seq for record in kept(server)] == [0, 1]
        assert len({record.stream_id for record in kept(server)}) == 1
        assert audit(server).exit_code == 0


def test_the_same_seed_gives_the_same_ids_in_a_new_folder_and_new_ones_after_a_restart(open_bank, connect):
    def run(folder: str, seed: int) -> list[tuple[str, str]]:
        with open_bank(folder, seed=seed) as server:
            payments = [connect(server).new_payment() for _ in range(2)]
        return [(payment["paymentId"], approval_link(payment).rpartition("/")[2]) for payment in payments]

    first = run("first", 7)
    assert run("second", 7) == first
    assert not set(run("third", 8)) & set(first)
    assert len({*first, *run("first", 7), *run("first", 7)}) == 6


def test_while_the_archive_fails_sealed_requests_are_rejected_and_no_record_is_lost(open_bank, connect):
    with open_bank(checked=False) as server:
        server.sandbox.archive.close()
        caller = connect(server)
        payment = caller.new_payment()  # its record waits in the database
        for _ in range(100):
            response = caller.initiate()
            if response.status_code == 503:
                break
            time.sleep(0.02)
        assert_refused(response, 503, "SERVICE_UNAVAILABLE")
        assert caller.status(payment) == "RCVD"
    with open_bank() as server:
        assert payment["paymentId"] in {record.payment_ref for record in kept(server)}
        assert connect(server).initiate().status_code == 201
        assert audit(server).exit_code == 0
