"""Sealed answers of banks as evidence: verified again alone, with what they cover of the request."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tppkit.certificates import Use
from tppkit.evidence import (
    AuditPlan,
    AuditResult,
    EvidenceArchive,
    EvidenceRecord,
    audit_archives,
    make_answer_record,
    make_record,
)
from tppkit.evidence.exhibit import FAILS, HOLDS, examine, write_bundle
from tppkit.evidence.lookup import find_record
from tppkit.evidence.retention import redact
from tppkit.evidence.sealing import seal_archive
from tppkit.seals import (
    ANSWER_PROFILES,
    Answer,
    Message,
    Seal,
    SealPolicy,
    VerifiedAnswer,
    sign_answer,
    sign_request,
    verify_answer,
)
from tppkit.trust import TrustMaterial, make_anchors

RECEIVED, NOW = datetime(2026, 6, 1, 12, tzinfo=UTC), datetime(2026, 6, 2, 12, tzinfo=UTC)
REQUEST_ID = str(UUID(int=7))
BODY = b'{"transactionStatus":"RCVD"}'
JSON = ("Content-Type", "application/json")


@pytest.fixture(params=["rfc9421", "cavage"])
def form(request) -> str:
    return request.param


@pytest.fixture
def answered(form, pki, seal, paths):
    """Makes a verified answer to a sealed payment, or to a request without a seal."""
    bank = Seal.for_key(pki.bank_seal.certificate, pki.bank_seal.key, profile=ANSWER_PROFILES[form])

    def make(status: int = 201, body: bytes = BODY, method: str = "POST", at: datetime = RECEIVED) -> VerifiedAnswer:
        request = Message(method, "/psd2/v1/payments?x=1", (("X-Request-ID", REQUEST_ID), ("Accept", "*/*")))
        if method == "POST":
            request = sign_request(request._replace(body=b"{}"), seal=seal)
        own = (JSON, ("Cache-Control", "no-store"), ("X-Request-ID", REQUEST_ID))
        answer = sign_answer(Answer(status, own, body), request=request, seal=bank, at=at)
        policy = SealPolicy(paths, profile=ANSWER_PROFILES[form])
        return verify_answer(answer, request=request, policy=policy, at=at)

    return make


def archived(folder: Path, *records: EvidenceRecord, sealed: bool = False) -> Path:
    with EvidenceArchive(folder / "archive", stream_id="5a" * 16) as archive:
        for record in records:
            archive.append(record)
        archive.rotate(now=NOW)
    if sealed:
        list(seal_archive(folder / "archive"))
    return folder / "archive"


def audit(folder: Path, paths: Any, **plan: Any) -> AuditResult:
    return audit_archives([folder], AuditPlan(now=NOW, **plan), material=paths)


@pytest.mark.parametrize("sealed", [False, True])
def test_answers_and_refusals_are_verified_again_beside_their_request(
    sealed, answered, form, make_verified, paths, tmp_path
):
    given = (answered(), answered(403, b"{}"), answered(204, b"", "DELETE"), answered(200, BODY, "GET"), answered())
    records = [make_answer_record(one, payment_ref="p1") for one in given]
    assert {(one.kind, one.profile, one.qwac_cert, one.x_request_id) for one in records} == {
        (4, form, None, REQUEST_ID)
    }
    request = make_record(make_verified(0), http_status=201)
    folder = archived(tmp_path, request, *records, sealed=sealed)
    endpoints = (("POST", "/psd2/v1/payments", "PSP_PI"),)
    result = audit(folder, paths, endpoints=endpoints)
    # The bank answered one request several times, which is not a reuse of its id.
    assert (result.exit_code, result.records, result.by_code) == (0, 6, {})
    counts = {name: number for (name,), number in result.totals.by("endpoint").items()}
    assert counts["answer to POST /psd2/v1/payments"] == 3
    assert result.totals.by("claimed_by")[("PSDLT-BL-LB900000",)] == 5


def test_a_record_of_rfc_9421_has_the_covered_lines_of_the_request_and_no_others(answered, form):
    own, _, asked = make_answer_record(answered()).header_block.decode().partition("\r\n\r\n")
    names = [line.partition(":")[0].lower() for line in asked.split("\r\n") if line]
    if form == "cavage":
        assert (names, "X-Request-ID: " in own, "Cache-Control" in own) == (["x-request-id"], True, False)
    else:
        assert sorted(names) == ["digest", "signature", "x-request-id"]
        assert ("Content-Type: " in own, "Cache-Control" in own) == (True, False)


TAMPERED: tuple[tuple[str, dict[str, Any], dict[str, str]], ...] = (
    ("status", {"http_status": 200}, {"rfc9421": "signature.invalid"}),
    ("method", {"method": "PUT"}, {"rfc9421": "signature.invalid"}),
    ("target", {"target": "/psd2/v1/payments?x=2"}, {"rfc9421": "signature.invalid"}),
    ("id", {"x_request_id": str(UUID(int=8))}, dict.fromkeys(ANSWER_PROFILES, "record.malformed")),
    ("signing input", {"signing_input_sha256": "0" * 64}, dict.fromkeys(ANSWER_PROFILES, "record.signing-input")),
    ("body", {"body": b"{}"}, dict.fromkeys(ANSWER_PROFILES, "record.body")),
    ("dialect", {"profile": "psd2-v1"}, dict.fromkeys(ANSWER_PROFILES, "record.unknown-profile")),
    ("kind", {"kind": 1}, {"rfc9421": "record.unknown-profile", "cavage": "record.unknown-profile"}),
    ("connection", {"qwac_cert": "0" * 64}, dict.fromkeys(ANSWER_PROFILES, "record.malformed")),
    ("no heads", {"header_block": b"Date: x\r\n"}, dict.fromkeys(ANSWER_PROFILES, "record.malformed")),
    ("verdict", {"verdict": "fails"}, dict.fromkeys(ANSWER_PROFILES, "record.malformed")),
)


@pytest.mark.parametrize(("what", "changes", "codes"), TAMPERED, ids=[one[0] for one in TAMPERED])
def test_a_record_that_was_rewritten_with_a_new_leaf_does_not_hold(
    what, changes, codes, answered, form, paths, tmp_path
):
    folder = archived(tmp_path, replace(make_answer_record(answered()), **changes))
    result = audit(folder, paths)
    if form in codes:
        assert codes[form] in result.by_code
        assert result.exit_code != 0
    else:  # in draft-cavage, the seal does not prove it
        assert result.by_code == {}


def test_a_line_that_the_seal_does_not_cover_is_found(answered, paths, tmp_path):
    record = make_answer_record(answered())
    for place, block in enumerate((b"Age: 1\r\n" + record.header_block, record.header_block + b"Age: 1\r\n")):
        folder = archived(tmp_path / str(place), replace(record, header_block=block))
        assert audit(folder, paths).by_code == {"record.malformed": 1}


def test_a_seal_of_a_provider_is_no_seal_of_a_bank(form, answered, pki, paths, tmp_path, verify):
    theirs = Seal.for_key(pki.qseal.certificate, pki.qseal.key, profile=ANSWER_PROFILES[form])
    real = answered()
    plain = Answer(201, (JSON, ("X-Request-ID", REQUEST_ID)), BODY)
    forged = sign_answer(plain, request=real.request, seal=theirs, at=RECEIVED)
    record = make_answer_record(real._replace(seal=pki.qseal.certificate, unverified_answer=forged))
    folder = archived(tmp_path, record)
    assert audit(folder, paths).by_code["role.missing"] == 1
    write_bundle(examine(find_record(folder, REQUEST_ID), paths=paths), tmp_path / "bundle", paths=paths)
    lines = verify(tmp_path / "bundle")[1].splitlines()
    assert "FAILS        the certificate of the seal is one of a bank" in lines
    assert f"seal of      {pki.provider.organization_identifier}" in lines


def test_the_answers_about_revocation_of_a_bank_seal_are_kept(answered, checked, pki, tmp_path):
    verified = answered()
    record = make_answer_record(verified._replace(path=checked.verify_use(verified.seal, as_=Use.QSEALC, at=RECEIVED)))
    assert len(record.answers or ()) == 2
    result = audit(archived(tmp_path, record), TrustMaterial(make_anchors(pki.authorities)))
    assert (result.exit_code, result.totals.without_revocation) == (0, 0)


def test_a_redacted_answer_keeps_all_but_its_body(answered, paths, tmp_path):
    folder = archived(tmp_path, make_answer_record(answered()), sealed=True)
    redact(folder, [0], ground="erasure", by="dpo", now=NOW)
    result = audit(folder, paths)
    assert (result.exit_code, result.by_code) == (3, {"record.body-redacted": 1})


@pytest.mark.slow
def test_a_bundle_proves_an_answer_with_openssl_alone(answered, form, paths, tmp_path, verify):
    folder = archived(tmp_path, make_answer_record(answered()))
    exhibit = examine(find_record(folder, REQUEST_ID), paths=paths)
    assert FAILS not in {step.state for step in exhibit.steps}
    assert exhibit.steps[3].state == HOLDS
    write_bundle(exhibit, tmp_path / "bundle", paths=paths)
    code, text = verify(tmp_path / "bundle")
    assert (code, text.splitlines()[-1], "connection" in text) == (0, "OK", False)
    (tmp_path / "bundle" / "body.bin").write_bytes(b"{}")
    code, text = verify(tmp_path / "bundle")
    assert (code, "FAILS        the record names the body" in text) == (1, True)
