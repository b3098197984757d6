"""A record of any dialect is verified by that dialect, and an archive of an earlier release verifies again."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from sealing import AT, REQUEST_ID, TARGET, policy_of, request_for, seal_of

from refusals import refused
from tppkit.errors import SignatureRejected
from tppkit.evidence import EvidenceArchive, EvidenceRecord, Verdict, audit_archive, make_record
from tppkit.evidence.exhibit import examine, write_bundle
from tppkit.evidence.lookup import find_record
from tppkit.evidence.record import BodyState, body_columns
from tppkit.seals import (
    PROFILES,
    Format,
    VerifiedRequest,
    sign_request,
    verify_request,
)
from tppkit.testpki import Pki
from tppkit.trust import PathVerifier, TrustMaterial, make_anchors

KINDS = {"amazon": 2, "open-finance": 5, "ing-jws": 5, "ukob": 5}  # of the formats that are not draft-cavage
DIALECTS = pytest.mark.parametrize(
    "name", [*(name for name, row in PROFILES.items() if row.format is Format.CAVAGE), *KINDS]
)


def bodies_of(name: str) -> tuple[bytes, ...]:
    """A body, and none unless the dialect signs nothing else."""
    return (b'{"a": "\xc3\xa9"}',) if PROFILES[name].covers_body else (b"{}", b"")


def verified_by(name: str, pki: Pki, *, body: bytes = b"{}") -> VerifiedRequest:
    row = PROFILES[name]
    sealed = sign_request(request_for(row, body=body), seal=seal_of(row, pki.qseal), at=AT)
    return verify_request(sealed, qwac=pki.qwac.certificate, at=AT, policy=policy_of(row, pki))


def verdict_on(folder: Path, record: EvidenceRecord, verified: VerifiedRequest, pki: Pki) -> tuple[Verdict, str | None]:
    with EvidenceArchive(folder, stream_id="5a" * 16) as archive:
        archive.append(record, *verified.chain, pki.qwac.certificate, *pki.authorities)
    (row,) = audit_archive(folder, paths=PathVerifier(make_anchors(pki.authorities)))
    return row.verdict, row.code


@DIALECTS
def test_a_stored_seal_of_a_dialect_verifies_again(name, tmp_path, rsa_pki):
    for body in bodies_of(name):
        folder, verified = tmp_path / f"{len(body)}", verified_by(name, rsa_pki, body=body)
        record = make_record(verified)
        assert (record.kind, record.method, record.profile) == (KINDS.get(name, 1), "POST" if body else "GET", name)
        assert record.target == TARGET
        assert b"Tenant" not in record.header_block
        assert verdict_on(folder, record, verified, rsa_pki) == (Verdict.PASSED, None)
        line = (folder / "records.jsonl").read_bytes()
        assert EvidenceRecord.from_line(line).to_line() == line


def test_after_redaction_a_seal_over_the_body_is_unproved_not_disproved(tmp_path, rsa_pki):
    verified = verified_by("ukob", rsa_pki)
    redacted = replace(make_record(verified), body=None, body_state=BodyState.REDACTED)
    assert verdict_on(tmp_path, redacted, verified, rsa_pki) == (Verdict.INDETERMINATE, "record.body-redacted")
    material = TrustMaterial(make_anchors(rsa_pki.authorities))
    exhibit = examine(find_record(tmp_path, "0"), paths=material)
    with refused(SignatureRejected, "signature.uncovered"):
        write_bundle(exhibit, tmp_path / "bundle", paths=material)


@pytest.mark.slow
@DIALECTS
def test_a_bundle_of_a_record_of_a_dialect_is_verified_by_openssl(name, tmp_path, rsa_pki):
    material = TrustMaterial(make_anchors(rsa_pki.authorities))
    for body in bodies_of(name):
        folder, verified = tmp_path / f"bundle-{len(body)}", verified_by(name, rsa_pki, body=body)
        with EvidenceArchive(tmp_path / f"archive-{len(body)}", stream_id="5a" * 16) as archive:
            archive.append(make_record(verified), *verified.chain, rsa_pki.qwac.certificate, *rsa_pki.authorities)
        exhibit = examine(find_record(archive.folder, "0"), paths=material)
        write_bundle(exhibit, folder, paths=material)
        done = subprocess.run(["bash", folder / "verify.sh"], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "OK"), done.stdout


@DIALECTS
def test_a_record_under_the_name_of_another_dialect_fails(name, tmp_path, rsa_pki):
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
    for old, new in (
        (b"application/json", b"application/xml "),
        (b"Atza", b"Btza"),
        (REQUEST_ID[:4].encode(), b"0000"),
    ):
        block = block.replace(old, new)
    signed = {"header_block": block} if record.header_block else body_columns(b"[]")
    for change, code in (
        ({"body": b"[]"}, "record.body"), (signed, "signature.invalid"), ({"kind": 1}, "record.unknown-kind"),
    ):  # fmt: skip
        assert verdict_on(tmp_path / code, replace(record, **change), verified, rsa_pki)[1] == code


@pytest.mark.parametrize("name", ["psd2-v1", "berlin-group", "amazon", "open-finance"])
def test_a_record_with_a_header_that_its_seal_does_not_cover_is_detected(name, tmp_path, rsa_pki):
    verified = verified_by(name, rsa_pki)
    record = make_record(verified)
    added = replace(record, header_block=record.header_block + b"X-Other: added\r\n")
    assert verdict_on(tmp_path, added, verified, rsa_pki) == (Verdict.FAILED, "record.malformed")
