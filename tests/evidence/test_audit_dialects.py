"""A record of any dialect is verified by that dialect, in whichever format its seal is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tppkit.evidence import EvidenceArchive, EvidenceRecord, Verdict, audit_archive, make_record
from tppkit.httpsig.algorithms import key_kind
from tppkit.seals import (
    PROFILES,
    Format,
    KeyIdForm,
    KeySigner,
    Message,
    Seal,
    SealPolicy,
    VerifiedRequest,
    sign_request,
    verify_request,
)
from tppkit.testpki import Pki
from tppkit.trust import PathVerifier, make_anchors

AT = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
HEADERS = (
    ("Content-Type", "application/json"),
    ("Date", "Mon, 01 Jun 2026 12:00:00 GMT"),
    ("X-Request-ID", "99391c7e-ad88-49ec-a2ad-99ddcb1f7721"),
    ("TPP-Request-ID", "99391c7e-ad88-49ec-a2ad-99ddcb1f7721"),
    ("TPP-Redirect-URI", "https://tpp.example/back"),
    ("x-amz-access-token", "Atza|token"),
    ("X-Other", "nobody signed this"),
)
KEY_IDS = {KeyIdForm.CLIENT_ID: "client-1", KeyIdForm.URL: "https://tpp.example/seal.pem"}
KINDS = {"amazon": 2, "open-finance": 5, "ing-jws": 5}  # of the formats that are not draft-cavage
DIALECTS = pytest.mark.parametrize(
    "name", [*(name for name, row in PROFILES.items() if row.format is Format.CAVAGE), *KINDS]
)


def verified_by(name: str, pki: Pki, *, body: bytes = b"{}") -> VerifiedRequest:
    row, key_id = PROFILES[name], "key-1" if name == "amazon" else KEY_IDS.get(PROFILES[name].key_id.form)
    algorithm = next(iter(row.algorithms_of(key_kind(pki.qseal.key)).values()))
    signer = KeySigner(pki.qseal.key, algorithm=algorithm.name)
    seal = Seal(pki.qseal.certificate, signer, profile=row, key_id=key_id)
    sealed = sign_request(Message("POST" if body else "GET", "/v1/payments?x=1", HEADERS, body), seal=seal, at=AT)
    paths = PathVerifier(make_anchors(pki.authorities))
    policy = SealPolicy(paths, profile=row, certificates={seal.key_id: pki.qseal.certificate})
    return verify_request(sealed, qwac=pki.qwac.certificate, at=AT, policy=policy)


def verdict_on(folder: Path, record: EvidenceRecord, verified: VerifiedRequest, pki: Pki) -> tuple[Verdict, str | None]:
    with EvidenceArchive(folder, stream_id="5a" * 16) as archive:
        archive.append(record, *verified.chain, pki.qwac.certificate, *pki.authorities)
    (row,) = audit_archive(folder, paths=PathVerifier(make_anchors(pki.authorities)))
    return row.verdict, row.code


@DIALECTS
@pytest.mark.parametrize("body", [b"{}", b""], ids=["body", "no body"])
def test_a_stored_seal_of_a_dialect_verifies_again(name: str, body: bytes, tmp_path: Path, rsa_pki: Pki) -> None:
    verified = verified_by(name, rsa_pki, body=body)
    record = make_record(verified)
    assert (record.kind, record.method, record.profile) == (KINDS.get(name, 1), "POST" if body else "GET", name)
    assert record.target == "/v1/payments?x=1"
    assert b"X-Other" not in record.header_block
    assert verdict_on(tmp_path, record, verified, rsa_pki) == (Verdict.PASSED, None)
    line = (tmp_path / "records.jsonl").read_bytes()
    assert EvidenceRecord.from_line(line).to_line() == line


@DIALECTS
def test_a_record_under_the_name_of_another_dialect_fails(name: str, tmp_path: Path, rsa_pki: Pki) -> None:
    verified = verified_by(name, rsa_pki)
    other = "rabobank" if name != "rabobank" else "cavage-12"
    verdict, code = verdict_on(tmp_path, replace(make_record(verified), profile=other), verified, rsa_pki)
    assert (
        (verdict, code) == (Verdict.INDETERMINATE, "record.unknown-kind")
        if name in KINDS
        else verdict is Verdict.FAILED
    )


@pytest.mark.parametrize("name", KINDS)
def test_a_record_of_another_format_than_draft_cavage_that_was_changed_is_detected(name, tmp_path, rsa_pki):
    verified = verified_by(name, rsa_pki)
    record = make_record(verified)
    block = record.header_block
    for old, new in ((b"application/json", b"application/xml "), (b"Atza", b"Btza"), (b"99391c7e", b"00391c7e")):
        block = block.replace(old, new)
    for change, code in (
        ({"body": b"[]"}, "record.body"), ({"header_block": block}, "signature.invalid"), ({"kind": 1}, "record.unknown-kind"),
    ):  # fmt: skip
        assert verdict_on(tmp_path / code, replace(record, **change), verified, rsa_pki)[1] == code


@pytest.mark.parametrize("name", ["psd2-v1", "berlin-group", "amazon", "open-finance"])
def test_a_record_with_a_header_that_its_seal_does_not_cover_is_detected(name, tmp_path, rsa_pki):
    verified = verified_by(name, rsa_pki)
    record = make_record(verified)
    added = replace(record, header_block=record.header_block + b"X-Other: added\r\n")
    assert verdict_on(tmp_path, added, verified, rsa_pki) == (Verdict.FAILED, "record.malformed")
