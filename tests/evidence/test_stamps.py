"""Time stamps over heads: what they prove, which are not taken, and records whose algorithm has ended."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from uuid import UUID

import pytest
from asn1crypto import cms, x509
from audits import STAMPED, TSA, authority

from tppkit.certificates import der
from tppkit.errors import FormatError, VerificationError
from tppkit.evidence import AuditPlan, EvidenceArchive, Head, Verdict, audit_archives, make_record
from tppkit.evidence.exhibit import examine
from tppkit.evidence.lookup import find_record
from tppkit.evidence.proofs import stamp_archive
from tppkit.evidence.sealing import seal_archive
from tppkit.evidence.segments import list_segments
from tppkit.evidence.stamps import request_stamp, verify_stamp
from tppkit.seals import KeySigner, Message, Seal, SealPolicy, sign_request, verify_request
from tppkit.testpki import make_pki
from tppkit.testpki.crl import Revocation
from tppkit.testpki.timestamps import answer_timestamp
from tppkit.trust import PathVerifier, RevocationEvidence, TrustMaterial, make_anchors, parse_revocation

RECEIVED = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
AFTER_2029 = datetime(2029, 6, 1, tzinfo=UTC)
HEAD = Head("5a" * 16, 3, "ab" * 32)


@pytest.fixture(scope="module")
def rsa_pki():
    """Seals with RSA-2048, and everything else P-256; the certificates are valid in 2029."""
    return make_pki(at=RECEIVED, seal_key="rsa2048", days=1500)


@pytest.fixture(scope="module")
def rsa_paths(rsa_pki):
    return PathVerifier(make_anchors(rsa_pki.authorities))


@pytest.fixture(scope="module")
def rsa_sealed_once(rsa_pki, rsa_paths, tmp_path_factory):
    """Two sealed parts of one record each, sealed with PKCS#1 v1.5."""
    folder, pki = tmp_path_factory.mktemp("rsa") / "archive", rsa_pki
    seal, policy = Seal(pki.qseal.certificate, KeySigner(pki.qseal.key)), SealPolicy(rsa_paths)
    with EvidenceArchive(folder, stream_id="5a" * 16) as archive:
        for number in (1, 2):
            message = Message("POST", "/psd2/v1/payments/x", (("X-Request-ID", str(UUID(int=number))),), b"{}")
            sent = sign_request(message, seal=seal)
            verified = verify_request(sent, qwac=pki.qwac.certificate, at=RECEIVED, policy=policy)
            archive.append(make_record(verified, http_status=201), *verified.chain, verified.qwac)
            archive.rotate(now=STAMPED)
    assert len(list(seal_archive(folder))) == 2
    return folder


@pytest.fixture
def rsa_sealed(rsa_sealed_once, tmp_path):
    return shutil.copytree(rsa_sealed_once, tmp_path / "archive")


def codes(result):
    return [failure["code"] for row in result.first_failures for failure in row["failures"]]


def test_a_record_is_not_proven_after_the_end_of_its_algorithm_unless_a_stamp_is_older(rsa_sealed, rsa_pki, rsa_paths):
    def audit(**times):
        return audit_archives([rsa_sealed], AuditPlan(**times), material=rsa_paths)

    assert (audit(now=STAMPED).exit_code, audit(now=STAMPED).totals.ends) == (0, {"2029-01-01": 2})  # announced
    for times in ({"now": AFTER_2029}, {"now": STAMPED, "at": AFTER_2029}):
        result = audit(**times)
        assert (result.exit_code, codes(result)) == (3, ["record.algorithm-ended"] * 2), times
        assert result.first_failures[0]["sub_indication"] == "CRYPTO_CONSTRAINTS_FAILURE_NO_POE"
    assert examine(find_record(rsa_sealed, "0"), paths=rsa_paths, now=AFTER_2029).steps[6].state == "undecided"
    assert list(stamp_archive(rsa_sealed, TSA, fetch=authority(rsa_pki))) == [
        "segments/2026-06-000000000000.tsr",
        "segments/2026-06-000000000001.tsr",
    ]
    assert list(stamp_archive(rsa_sealed, TSA, fetch=authority(rsa_pki))) == []
    for times in ({"now": AFTER_2029}, {"now": STAMPED, "at": AFTER_2029}):
        result = audit(**times)
        assert (result.exit_code, [stamp.status for stamp in result.stamps]) == (0, ["holds"] * 2), times
        assert result.totals.ends == {"": 2}
    assert examine(find_record(rsa_sealed, "0"), paths=rsa_paths, now=AFTER_2029).verdict.code is None
    (rsa_sealed / "segments/2026-06-000000000000.tsr").unlink()  # the later stamp covers both
    assert audit(now=AFTER_2029).exit_code == 0


def test_a_stamp_proves_nothing_about_records_that_its_head_does_not_have(rsa_sealed, rsa_pki, rsa_paths):
    list(stamp_archive(rsa_sealed, TSA, fetch=authority(rsa_pki)))
    one, two = (segment.path for segment in list_segments(rsa_sealed)[:2])
    shutil.copy(two, one)  # the manifest stays
    result = audit_archives([rsa_sealed], AuditPlan(now=AFTER_2029), material=rsa_paths)
    assert (result.exit_code, result.verdicts[Verdict.INDETERMINATE], result.verdicts[Verdict.PASSED]) == (4, 1, 1)


def test_a_stamp_with_an_algorithm_that_ended_proves_nothing(rsa_sealed, rsa_paths):
    other = make_pki(at=RECEIVED, key="rsa2048", days=1500)
    list(stamp_archive(rsa_sealed, TSA, fetch=authority(other)))
    paths = PathVerifier(make_anchors([*rsa_paths.anchors.roots, *rsa_paths.anchors.intermediates, *other.authorities]))
    assert audit_archives([rsa_sealed], AuditPlan(now=STAMPED), material=paths).totals.unstamped == 0
    for now, exit_code, status in ((STAMPED, 0, "holds"), (AFTER_2029, 3, "not-checked")):
        result = audit_archives([rsa_sealed], AuditPlan(now=now), material=paths)
        assert (result.exit_code, result.stamps[0].status) == (exit_code, status)
    assert "ended on 2029-01-01" in result.stamps[0].message


def test_a_stamp_of_an_unknown_authority_is_not_checked_and_one_that_is_wrong_is_a_finding(
    rsa_sealed, rsa_pki, rsa_paths
):
    file = rsa_sealed / "segments/2026-06-000000000001.tsr"
    manifest = list_segments(rsa_sealed)[1].manifest
    head = Head(manifest.stream_id, manifest.end, manifest.root)
    good = request_stamp(head, TSA, fetch=authority(rsa_pki))
    stranger = make_pki(at=RECEIVED, seed=5)
    for raw, exit_code, status, words in (
        (request_stamp(head, TSA, fetch=authority(stranger)), 0, "not-checked", "no chain leads"),
        (request_stamp(replace(head, records=1), TSA, fetch=authority(rsa_pki)), 4, "fails", "another head"),
        (
            request_stamp(head, TSA, fetch=authority(rsa_pki, RECEIVED - timedelta(hours=1))),
            4,
            "fails",
            "was received at",
        ),
        (
            request_stamp(head, TSA, fetch=authority(rsa_pki, STAMPED + timedelta(days=9))),
            4,
            "fails",
            "after the audit",
        ),
        (good[:-1] + bytes([good[-1] ^ 1]), 4, "fails", "does not hold"),
        (good[:-1], 4, "fails", "not a time-stamp response"),
        (b"", 4, "fails", "not a time-stamp response"),
        (b"x" * 70_000, 4, "fails", "more than 65536"),
    ):
        file.write_bytes(raw)
        result = audit_archives([rsa_sealed], AuditPlan(now=STAMPED), material=rsa_paths)
        (stamp,) = result.stamps
        assert (result.exit_code, stamp.status) == (exit_code, status), (words, stamp)
        assert words in stamp.message, stamp
    late = request_stamp(head, TSA, fetch=authority(rsa_pki, RECEIVED + timedelta(days=41)))
    file.write_bytes(late)
    result = audit_archives([rsa_sealed], AuditPlan(now=AFTER_2029), material=rsa_paths)
    assert (result.exit_code, result.by_code["log.stamp-late"]) == (0, 1)


def test_a_token_of_one_authority_is_not_taken_as_that_of_another(rsa_pki):
    stranger = make_pki(at=RECEIVED, seed=5)
    raw = request_stamp(HEAD, TSA, fetch=authority(stranger))
    trusted = PathVerifier(make_anchors([*rsa_pki.authorities, *stranger.authorities]))
    assert verify_stamp(raw, HEAD, paths=trusted).authority.der == stranger.tsa.certificate.der
    signed_by_seal = replace(rsa_pki, members={**rsa_pki.members, "tsa": rsa_pki.other_qseal})
    for token, words in (
        (with_signer(raw, rsa_pki.tsa.certificate), "names"),
        (with_signer(raw, rsa_pki.qseal.certificate), "names"),
        (request_stamp(HEAD, TSA, fetch=authority(signed_by_seal)), "certificate for time stamps"),
    ):
        with pytest.raises(VerificationError, match=words) as failed:
            verify_stamp(token, HEAD, paths=trusted)
        assert failed.value.code == "stamp.signature"


def test_no_changed_bit_of_a_stamp_is_taken_for_an_unknown_authority(rsa_pki, rsa_paths):
    raw = request_stamp(HEAD, TSA, fetch=authority(rsa_pki))
    for bit in range(0, 8 * len(raw), 61):
        changed = bytearray(raw)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises((FormatError, VerificationError)) as failed:
            verify_stamp(bytes(changed), HEAD, paths=rsa_paths)
        assert failed.value.code.startswith("stamp."), bit


def with_signer(raw, certificate):
    """The token with another certificate, which its signer's issuer and number name, too."""
    status, token = der.read_children(raw, der.read_whole(raw, tag=der.SEQUENCE))
    info = cms.ContentInfo.load(raw[token.offset : token.end])
    loaded = x509.Certificate.load(certificate.der)
    info["content"]["certificates"] = [cms.CertificateChoices("certificate", loaded)]
    name = {"issuer": loaded.issuer, "serial_number": loaded.serial_number}
    info["content"]["signer_infos"][0]["sid"] = cms.SignerIdentifier("issuer_and_serial_number", name)
    return der.write_sequence(raw[status.offset : status.end], info.dump(force=True))


def test_an_authority_that_answers_another_request_or_none_is_refused(rsa_pki):
    recorded = request_stamp(HEAD, TSA, fetch=authority(rsa_pki))
    refusal = answer_timestamp(rsa_pki, b"?", at=STAMPED, serial=1)
    for answer, code in ((recorded, "stamp.refused"), (refusal, "stamp.refused"), (b"<html>", "stamp.malformed")):
        with pytest.raises(FormatError) as failed:
            request_stamp(HEAD, TSA, fetch=lambda *_, answer=answer, **__: answer)
        assert failed.value.code == code


def test_a_revocation_between_receipt_and_stamp_is_a_warning(rsa_sealed, rsa_pki):
    list(stamp_archive(rsa_sealed, TSA, fetch=authority(rsa_pki)))
    for hours, expected in ((1, 2), (30, 0), (None, 0)):  # the stamp is 24 hours later
        serial = rsa_pki.qseal.certificate.x509.serial_number
        revoked = () if hours is None else (Revocation(serial, RECEIVED + timedelta(hours=hours)),)
        news = replace(rsa_pki, revocations=MappingProxyType({rsa_pki.qseal_ca.label: revoked}))
        lists = [rsa_pki.crl(issuer, at=RECEIVED) for issuer in rsa_pki.issuers]
        lists += [news.crl(issuer, at=RECEIVED + timedelta(hours=40)) for issuer in news.issuers]
        answers = sum((parse_revocation(one, name="crl") for one in lists), RevocationEvidence())
        material = TrustMaterial(make_anchors(rsa_pki.authorities)).with_answers(answers, now=AFTER_2029)
        result = audit_archives([rsa_sealed], AuditPlan(now=AFTER_2029), material=material)
        assert (result.exit_code, result.by_code["revocation.after-receipt"]) == (0, expected), hours
