"""The verdict on one record: failed, indeterminate, or passed; and the summary of many."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType

import pytest
from audits import audit_of
from sealing import COVERED, REQUEST, issue_for, seal_by_hand, without

from refusals import refused
from tppkit._encoding import encode_base64
from tppkit.certificates import OrganizationPolicy, Use
from tppkit.errors import ConfigurationError
from tppkit.evidence import (
    EvidenceArchive,
    EvidenceRecord,
    RecordVerdict,
    Verdict,
    audit_archive,
    make_record,
)
from tppkit.evidence.archive import read_lines
from tppkit.evidence.record import BodyState
from tppkit.evidence.stream import AcceptedRequests
from tppkit.seals import SealPolicy, VerifiedRequest, verify_request
from tppkit.testpki import Pki, make_pki, make_provider
from tppkit.testpki.certificate import Drafted, for_key, sign_draft
from tppkit.trust import PathVerifier, make_anchors

STREAM = "5a" * 16
RECEIVED = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def audit_one(
    tmp_path: Path, paths: PathVerifier, pki: Pki, make_verified: Callable[..., VerifiedRequest]
) -> Callable[..., RecordVerdict]:
    """Store one record, with some of its columns changed, and return the verdict on it."""

    def audited(
        change: dict[str, object] | None = None, *, at: datetime | None = None, paths: PathVerifier = paths
    ) -> RecordVerdict:
        verified = make_verified(0)
        with EvidenceArchive(tmp_path / "one", stream_id=STREAM) as archive:
            archive.append(replace(make_record(verified), **(change or {})), *verified.chain, pki.qwac.certificate)
        (row,) = audit_archive(tmp_path / "one", paths=paths, at=at)
        return row

    return audited


def test_every_record_of_an_archive_in_order_passes_and_an_empty_one_proves_nothing(filled, paths, pki, tmp_path):
    rows = list(audit_archive(filled, paths=paths))
    assert [(row.line, row.seq, row.verdict, row.code, row.place and row.place.code) for row in rows] == [
        (seq + 1, seq, Verdict.PASSED, None, None) for seq in range(3)
    ]
    assert {row.organization_identifier for row in rows} == {pki.provider.organization_identifier.text}
    assert [row.at for row in rows] == [RECEIVED + timedelta(seconds=number) for number in range(3)]
    EvidenceArchive(tmp_path, stream_id=STREAM).close()
    assert list(audit_archive(tmp_path, paths=paths)) == []
    assert audit_of(tmp_path, paths).exit_code == 3


def test_a_time_without_a_zone_is_refused(filled, paths):
    with refused(ConfigurationError, "time.naive"):
        list(audit_archive(filled, paths=paths, at=datetime(2026, 6, 1)))


DISPROVED: list[tuple[dict[str, object], str]] = [
    ({"body": b'{"payment":9}'}, "record.body"),
    ({"body": None}, "record.body"),
    ({"body": b"", "body_state": int(BodyState.NONE)}, "record.body"),
    ({"body_state": int(BodyState.NONE)}, "record.body"),
    ({"body_state": 1}, "record.body"),
    ({"body_state": int(BodyState.REDACTED)}, "record.body"),
    ({"body_len": 3}, "record.body"),
    ({"body_sha256": "0" * 64}, "record.body"),
    ({"body_sha512": "0" * 128}, "record.body"),
    ({"signing_input_sha256": "0" * 64}, "record.signing-input"),
    ({"verdict": "fails"}, "record.malformed"),
    ({"x_request_id": "00000000-0000-0000-0000-000000000001"}, "record.malformed"),
    ({"target": "/psd2/v1/payments/instant-sepa-credit-transfers"}, "signature.invalid"),
    ({"method": "PUT"}, "signature.invalid"),
    ({"header_block": b""}, "signature.missing"),
    ({"header_block": b"no header"}, "record.malformed"),
    ({"signature_raw": b"nothing"}, "signature.malformed"),
    ({"target": "/caf\u00e9"}, "message.malformed"),
]
UNPROVED: list[tuple[dict[str, object], str]] = [
    ({"body": None, "body_state": int(BodyState.REDACTED)}, "record.body-redacted"),
    ({"kind": 2}, "record.unknown-kind"),
    ({"profile": "another-bank"}, "record.unknown-profile"),
    ({"qwac_cert": None}, "record.no-qwac"),
    ({"seal_cert": "0" * 64}, "file.unreadable"),
    ({"qwac_cert": "0" * 64}, "file.unreadable"),
    ({"received_at": RECEIVED + timedelta(days=400)}, "certificate.expired"),
    ({"received_at": RECEIVED - timedelta(days=1)}, "certificate.not-yet-valid"),
]


@pytest.mark.parametrize(
    ("verdict", "change", "code"),
    [
        *((Verdict.FAILED, *row) for row in DISPROVED),
        *((Verdict.INDETERMINATE, *row) for row in UNPROVED),
        (Verdict.PASSED, {"extra": MappingProxyType({"trust_snapshot": "00"})}, None),  # a column of a later version
    ],
)
def test_a_record_that_was_changed_is_disproved_and_one_that_cannot_be_proved_is_indeterminate(
    verdict, change, code, audit_one
):
    row = audit_one(change)
    assert (row.verdict, row.code, bool(row.message)) == (verdict, code, code is not None)


def test_a_redacted_body_leaves_the_chain_whole(filled, paths):
    lines = [line for _, line in read_lines(filled)]
    redacted = replace(EvidenceRecord.from_line(lines[1]), body=None, body_state=int(BodyState.REDACTED))
    lines[1] = redacted.to_line().strip()
    (filled / "records.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    rows = list(audit_archive(filled, paths=paths))
    assert [row.code for row in rows] == [None, "record.body-redacted", None]
    assert [row.place and row.place.code for row in rows] == [None] * 3


def test_a_record_verified_after_its_certificate_expired_is_indeterminate(audit_one):
    later = RECEIVED + timedelta(days=400)
    row = audit_one(at=later)
    assert (row.verdict, row.code, row.at) == (Verdict.INDETERMINATE, "certificate.expired", later)


@pytest.mark.parametrize(
    ("accepted", "verdict", "code"),
    [
        (OrganizationPolicy(), Verdict.FAILED, "organization-identifier.authority-mismatch"),
        (OrganizationPolicy(match_authority=False), Verdict.PASSED, None),
    ],
)
@pytest.mark.parametrize("changed", ["qwac", "qseal"])
def test_an_organization_that_is_not_accepted_is_disproved(changed, accepted, verdict, code, pki, tmp_path):
    statements = {"qwac": "GB-OB", "qseal": "GB-OB", changed: "GB-FCA"}
    qwac, qseal = (issue_for(pki, kind, "PSDGB-OB-0015800001", nca_id) for kind, nca_id in statements.items())
    paths = PathVerifier(make_anchors(pki.authorities))
    policy = SealPolicy(paths, organizations=OrganizationPolicy(match_authority=False))
    verified = verify_request(seal_by_hand(REQUEST, qseal), qwac=qwac.certificate, at=RECEIVED, policy=policy)
    with EvidenceArchive(tmp_path / "uk", stream_id=STREAM) as archive:
        archive.append(make_record(verified), *verified.chain, qwac.certificate)
    (row,) = audit_archive(tmp_path / "uk", paths=paths, organizations=accepted)
    assert (row.verdict, row.code) == (verdict, code)


@pytest.mark.parametrize(
    ("column", "kind", "code"),
    [
        ("qwac_cert", "other", "seal.other-organisation"),
        ("qwac_cert", "qseal", "qcstatements.not-web"),
        ("seal_cert", "other_qseal", "key-id.mismatch"),
        ("seal_cert", "renewed", "key-id.mismatch"),  # of the same key
    ],
)
def test_a_record_that_names_another_certificate_is_disproved(
    column, kind, code, audit_one, pki, other_qseal, tmp_path
):
    other = pki.issue_qwac(make_provider(organization_identifier="PSDDE-BAFIN-999999"), label="other-qwac")
    draft = for_key(pki.draft("qseal", pki.provider, label="renewed").draft, pki.qseal.key.public_key())
    renewed = sign_draft(Drafted(draft, pki.qseal.key), pki.qseal_ca, "renewed", "qseal")
    named = {"other": other, "qseal": pki.qseal, "other_qseal": other_qseal, "renewed": renewed}[kind].certificate
    (tmp_path / "one" / "certs").mkdir(parents=True)
    (tmp_path / "one" / "certs" / f"{named.sha256}.der").write_bytes(named.der)
    row = audit_one({column: named.sha256})
    assert (row.verdict, row.code) == (Verdict.FAILED, code)


@pytest.fixture
def root_only(pki: Pki) -> PathVerifier:
    """Trusts only what leads to the root by authorities that an archive has kept."""
    return PathVerifier(make_anchors([pki.root.certificate]))


@pytest.fixture
def with_chains(
    tmp_path: Path, pki: Pki, root_only: PathVerifier, make_verified: Callable[..., VerifiedRequest]
) -> Path:
    """An archive of one record that keeps the authorities of seal and QWAC."""
    verified = make_verified(0)
    path = PathVerifier(make_anchors(pki.authorities)).verify_use(pki.qwac.certificate, as_=Use.QWAC, at=RECEIVED)
    with EvidenceArchive(tmp_path / "chains", stream_id=STREAM) as archive:
        archive.append(make_record(verified, qwac_path=path))
    return tmp_path / "chains"


def test_stored_authorities_complete_the_path_to_a_trusted_root_alone(with_chains, root_only):
    assert audit_of(with_chains, root_only).exit_code == 0
    others = PathVerifier(make_anchors([make_pki(at=RECEIVED, seed=2).root.certificate]))
    assert audit_of(with_chains, others).by_code == {"trust.no-path": 1}


@pytest.mark.parametrize("damage", ["absent", "another", "flipped", "empty", "no certificate"])
def test_without_its_authorities_a_record_is_indeterminate(damage, with_chains, root_only, paths, pki):
    der = pki.qwac_ca.certificate.der
    content = {"another": pki.qseal_ca.certificate.der, "flipped": der[:-1] + bytes([der[-1] ^ 1]), "empty": b""}
    file = with_chains / "certs" / f"{pki.qwac_ca.certificate.sha256}.der"
    file.unlink()
    if damage != "absent":
        file.write_bytes(content.get(damage, b"no certificate"))
    counted = audit_of(with_chains, root_only)
    assert (counted.exit_code, counted.by_code["archive.damaged-file"]) == (3, int(damage != "absent"))
    assert counted.by_code["trust.no-path"] == 1
    counted = audit_of(with_chains, paths)  # the trust material has it
    assert (counted.exit_code, counted.verdicts[Verdict.PASSED]) == (0 if damage == "absent" else 3, counted.records)


def test_a_seal_that_covers_its_own_certificate_header_passes(pki, paths, tmp_path):
    # No profile of ours asks for it, but a provider may cover more than it must.
    certificate = ("TPP-Signature-Certificate", encode_base64(pki.qseal.certificate.der))
    covered = (*COVERED, certificate[0].lower())
    doubled = seal_by_hand(REQUEST.with_headers(certificate), pki.qseal, covered=covered)
    sent = without(doubled, certificate[0]).with_headers(certificate)
    verified = verify_request(sent, qwac=pki.qwac.certificate, at=RECEIVED, policy=SealPolicy(paths))
    with EvidenceArchive(tmp_path, stream_id=STREAM) as archive:
        archive.append(make_record(verified), *verified.chain, pki.qwac.certificate)
    (row,) = audit_archive(tmp_path, paths=paths)
    assert (row.verdict, row.message) == (Verdict.PASSED, None)


def test_the_message_for_an_unreadable_line_has_the_reason_and_no_content(filled, paths):
    lines = (filled / "records.jsonl").read_bytes().splitlines(keepends=True)
    (filled / "records.jsonl").write_bytes(lines[0] + json.dumps({"v": 2}).encode() + b"\n" + lines[2])
    row = list(audit_archive(filled, paths=paths))[1]
    assert (row.verdict, row.code, row.seq, row.at) == (Verdict.UNREADABLE, "record.version", None, None)


def test_a_byte_order_mark_makes_the_first_record_unreadable_and_no_other(filled, paths):
    file = filled / "records.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    result = audit_of(filled, paths)
    assert (result.exit_code, result.verdicts[Verdict.UNREADABLE], result.verdicts[Verdict.PASSED]) == (5, 1, 2)
    assert "byte-order mark" in result.first_failures[0]["message"]


def test_a_record_that_was_received_after_the_audit_is_inconsistent(filled, paths):
    # The records were received 0, 1 and 2 seconds after RECEIVED.
    for now, codes in ((RECEIVED - timedelta(minutes=5), ["log.time-future"] * 2), (RECEIVED, [])):
        rows = audit_archive(filled, paths=paths, at=RECEIVED, now=now)
        assert [row.place.code for row in rows if row.place] == codes


@pytest.mark.parametrize(
    ("body", "later", "status", "codes"),
    [
        (b"other", timedelta(minutes=59), 201, ["record.id-reused"]),
        (b"other", timedelta(hours=1), 201, []),
        (b"other", timedelta(minutes=1), 409, []),
        (b"first", timedelta(minutes=1), 201, []),
    ],
)
def test_a_request_id_that_was_accepted_with_two_bodies_is_reported(
    body, later, status, codes, tmp_path, paths, pki, make_verified
):
    with EvidenceArchive(tmp_path / "reused", stream_id=STREAM) as archive:
        for content, at, answer in ((b"first", RECEIVED, 201), (body, RECEIVED + later, status)):
            verified = make_verified(0, body=content)
            record = replace(make_record(verified, http_status=answer), received_at=at)
            archive.append(record, *verified.chain, pki.qwac.certificate)
    rows = list(audit_archive(tmp_path / "reused", paths=paths))
    assert [finding.code for row in rows for finding in row.findings] == codes
    assert {row.verdict for row in rows} == {Verdict.PASSED}


def test_the_hour_of_a_request_id_begins_with_its_first_request():
    first = RecordVerdict(
        1, Verdict.PASSED, None, (), received_at=0, x_request_id="a", http_status=201, organization_identifier="PSDLT-X", content="one"
    )  # fmt: skip
    other = first._replace(content="another", x_request_id="A")
    for last, reported in ((3700, False), (3500, True)):
        accepted, found = AcceptedRequests(), []
        for row, seconds in ((first, 0), (first, 3000), (other, last)):
            found.append(accepted.add(row._replace(received_at=seconds * 1_000_000)))
        assert [finding is not None for finding in found] == [False, False, reported]
