"""Seals in other formats than draft-cavage are stored and audited like all others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tppkit.evidence import EvidenceArchive, EvidenceRecord, Verdict, audit_archive, make_record
from tppkit.httpsig.algorithms import ALGORITHMS
from tppkit.seals import PROFILES, KeySigner, Message, Seal, SealPolicy, VerifiedRequest, sign_request, verify_request
from tppkit.testpki import Pki
from tppkit.trust import PathVerifier, make_anchors

AT = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
HEADERS = (
    ("Content-Type", "application/json"),
    ("X-Request-ID", "99391c7e-ad88-49ec-a2ad-99ddcb1f7721"),
    ("x-amz-access-token", "Atza|token"),
    ("X-Other", "nobody signed this"),
)
Kept = Callable[[EvidenceRecord], tuple[Verdict, str | None]]
KINDS = {"amazon": 2, "open-finance": 5, "ing-jws": 5}


@pytest.fixture(params=KINDS)
def verified(request: pytest.FixtureRequest, rsa_pki: Pki) -> VerifiedRequest:
    """A request of each dialect, sealed with an RSA key."""
    profile = PROFILES[request.param]
    algorithm = next(ours for _, ours in profile.algorithms if ALGORITHMS[ours].key == "rsa")
    certificate = rsa_pki.qseal.certificate
    signer = KeySigner(rsa_pki.qseal.key, algorithm=algorithm)
    seal = Seal(certificate, signer, profile=profile, key_id="key-1" if request.param == "amazon" else None)
    message = sign_request(Message("POST", "/v1/payments?x=1", HEADERS, b"{}"), seal=seal, at=AT)
    paths = PathVerifier(make_anchors(rsa_pki.authorities))
    policy = SealPolicy(paths, profile=profile, certificates={seal.key_id: certificate})
    return verify_request(message, qwac=rsa_pki.qwac.certificate, at=AT, policy=policy)


@pytest.fixture
def kept(tmp_path: Path, rsa_pki: Pki, verified: VerifiedRequest) -> Kept:
    """Keeps one record and gives the verdict on it."""

    def verdict_on(record: EvidenceRecord) -> tuple[Verdict, str | None]:
        with EvidenceArchive(tmp_path, stream_id="5a" * 16) as archive:
            archive.append(record, *verified.chain, rsa_pki.qwac.certificate, *rsa_pki.authorities)
        (row,) = audit_archive(tmp_path, paths=PathVerifier(make_anchors(rsa_pki.authorities)))
        return row.verdict, row.code

    return verdict_on


def test_a_stored_seal_verifies_again(kept: Kept, verified: VerifiedRequest) -> None:
    record = make_record(verified)
    assert (record.kind, b"X-Other" in record.header_block) == (KINDS[verified.profile.name], False)
    assert kept(record) == (Verdict.PASSED, None)


def test_a_kept_body_that_was_changed_is_detected(kept: Kept, verified: VerifiedRequest) -> None:
    record = replace(make_record(verified), body=b"[]")
    assert kept(record)[0] is Verdict.FAILED


def test_a_kept_header_that_was_changed_is_detected(kept: Kept, verified: VerifiedRequest) -> None:
    record = make_record(verified)
    block = record.header_block.replace(b"application/json", b"application/xml ").replace(b"Atza", b"Btza")
    block = block.replace(b"99391c7e", b"00391c7e")
    assert kept(replace(record, header_block=block)) == (Verdict.FAILED, "signature.invalid")


def test_a_record_of_another_kind_than_its_profile_is_not_verified(kept: Kept, verified: VerifiedRequest) -> None:
    record = replace(make_record(verified), kind=1)
    assert kept(record)[1] == "record.unknown-kind"


def test_a_record_is_read_as_it_was_written(tmp_path: Path, kept: Kept, verified: VerifiedRequest) -> None:
    kept(make_record(verified))
    (line,) = [
        line for file in sorted(tmp_path.glob("*.jsonl")) for line in file.read_bytes().splitlines(keepends=True)
    ]
    assert EvidenceRecord.from_line(line).to_line() == line
