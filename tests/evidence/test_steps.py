"""Each of the seven checks of a record fails alone on a record of its own, so that no other check hides behind it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from tppkit.evidence import AuditPlan, EvidenceArchive, Verdict, audit_archives, make_record
from tppkit.evidence.record import BodyState
from tppkit.evidence.verdicts import step_of
from tppkit.seals import KeySigner, Message, Seal, SealPolicy, sign_request, verify_request
from tppkit.testpki import make_pki, make_provider
from tppkit.trust import PathVerifier, make_anchors

RECEIVED = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
TARGET = "/psd2/v1/payments/sepa-credit-transfers"
ENDPOINTS = (("POST", TARGET, "PSP_PI"),)


def paths_of(pki):
    return PathVerifier(make_anchors(pki.authorities))


def make_verified(pki):
    message = Message("POST", TARGET, (("X-Request-ID", str(UUID(int=1))),), b'{"payment":1}')
    sealed = sign_request(message, seal=Seal(pki.qseal.certificate, KeySigner(pki.qseal.key)))
    return verify_request(sealed, qwac=pki.qwac.certificate, at=RECEIVED, policy=SealPolicy(paths_of(pki)))


@pytest.mark.parametrize(
    ("step", "code", "verdict", "changes"),
    [
        (1, "record.leaf", Verdict.FAILED, {}),
        (2, "record.body", Verdict.FAILED, {"body_len": 99}),
        (2, "record.body-redacted", Verdict.INDETERMINATE, {"body": None, "body_state": BodyState.REDACTED}),
        (3, "trust.no-path", Verdict.INDETERMINATE, {}),
        (3, "record.no-qwac", Verdict.INDETERMINATE, {"qwac_cert": None}),
        (4, "signature.invalid", Verdict.FAILED, {}),
        (5, "record.malformed", Verdict.FAILED, {"x_request_id": str(UUID(int=2))}),
        (5, "record.signing-input", Verdict.FAILED, {"signing_input_sha256": "00" * 32}),
        (6, "role.missing", Verdict.FAILED, {}),
        (7, "record.algorithm-ended", Verdict.INDETERMINATE, {}),
    ],
)
def test_each_step_fails_alone(step, code, verdict, changes, pki, tmp_path):
    now = RECEIVED + timedelta(days=1)
    if code == "role.missing":
        pki = make_pki(at=RECEIVED, seed=8, provider=make_provider(roles=["PSP_AI"]))
    if step == 7:
        pki, now = make_pki(at=RECEIVED, seal_key="rsa2048"), datetime(2029, 1, 1, tzinfo=UTC)
    verified = make_verified(pki)
    record = make_record(verified, http_status=201)
    if code == "signature.invalid":
        end = record.signature_raw.rindex(b'"')
        changes = {"signature_raw": record.signature_raw[: end - 8] + b"AAAAAAA=" + record.signature_raw[end:]}
    with EvidenceArchive(tmp_path / "archive", stream_id="5a" * 16) as archive:
        archive.append(replace(record, **changes), *verified.chain, verified.qwac)
    if step == 1:
        file = tmp_path / "archive/records.jsonl"
        file.write_bytes(file.read_bytes().replace(b'"http_status":201', b'"http_status":200'))
    paths = paths_of(make_pki(at=RECEIVED, seed=9) if code == "trust.no-path" else pki)
    result = audit_archives([tmp_path / "archive"], AuditPlan(now=now, endpoints=ENDPOINTS), material=paths)
    (row,) = result.first_failures
    found = [failure["code"] for failure in row["failures"]]
    assert set(found) == {code}
    assert {step_of(one) for one in found} == {step}
    assert result.verdicts[verdict] == 1
