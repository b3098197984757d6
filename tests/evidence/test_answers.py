"""The answers about revocation and the trusted lists by which a bank trusted a provider are kept with the record, and judge it later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

import pytest

from tppkit.certificates import Use
from tppkit.evidence import AuditPlan, AuditResult, EvidenceArchive, EvidenceRecord, audit_archives, make_record
from tppkit.evidence.sealing import seal_archive
from tppkit.seals import Message, Seal, SealPolicy, sign_request, verify_request
from tppkit.testpki import Pki
from tppkit.testpki.crl import Revocation
from tppkit.trust import (
    PathVerifier,
    RevocationChecker,
    RevocationEvidence,
    TrustMaterial,
    make_anchors,
    parse_revocation,
)
from tppkit.trust.path import verifier

RECEIVED = datetime(2026, 6, 1, 12, tzinfo=UTC)
STREAM, TARGET = "5a" * 16, "/psd2/v1/payments/sepa-credit-transfers"
NOW = RECEIVED + timedelta(days=400)  # the lists of the time of receipt have ended
Receive = Callable[..., EvidenceRecord]


def crls(pki: Pki, at: datetime) -> tuple[bytes, ...]:
    return tuple(pki.crl(issuer, at=at) for issuer in pki.issuers)


def read(*answers: bytes) -> RevocationEvidence:
    return sum((parse_revocation(one, name="crl") for one in answers), RevocationEvidence())


@pytest.fixture
def receive(pki: Pki, seal: Seal) -> Receive:
    """Receives the request of a number as a bank does that checks revocation, and makes its record."""

    def receive(number: int, *, at: datetime = RECEIVED, answers: tuple[bytes, ...] | None = None) -> EvidenceRecord:
        checker = RevocationChecker(evidence=read(*(crls(pki, RECEIVED) if answers is None else answers)))
        paths = PathVerifier(make_anchors(pki.authorities), revocation=checker if answers != () else None)
        qwac_path = paths.verify_use(pki.qwac.certificate, as_=Use.QWAC, at=at)
        message = Message("POST", TARGET, (("X-Request-ID", str(UUID(int=number))),), b'{"n":%d}' % number)
        signed, qwac = sign_request(message, seal=seal), qwac_path.chain[0]
        verified = verify_request(signed, qwac=qwac, at=at, policy=SealPolicy(paths))
        return make_record(verified, http_status=201, qwac_path=qwac_path)

    return receive


def archive_of(folder: Path, *records: EvidenceRecord, is_sealed: bool = False) -> Path:
    with EvidenceArchive(folder / "archive", stream_id=STREAM) as archive:
        for record in records:
            archive.append(record)
        if is_sealed:
            assert archive.rotate(now=NOW)
            list(seal_archive(folder / "archive"))
    return folder / "archive"


def audit(folder: Path, pki: Pki, *given: bytes, at: datetime | None = None) -> AuditResult:
    material = TrustMaterial(make_anchors(pki.authorities))
    if given:
        material = material.with_answers(read(*given), now=NOW)
    return audit_archives([folder], AuditPlan(now=NOW, at=at), material=material)


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("answers/*/*"))


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_record_is_judged_by_the_answers_of_its_receipt(is_sealed, receive, pki, tmp_path):
    folder = archive_of(tmp_path, receive(0), receive(1), receive(2, answers=()), is_sealed=is_sealed)
    assert {path.parent.name for path in kept(folder)} == {"2026-06"}
    assert (
        len(kept(folder)) == len({file.read_bytes() for file in kept(folder)}) == 3
    )  # of QWACs, of seals, of the root
    result = audit(folder, pki)
    assert (result.exit_code, result.records, result.totals.without_revocation) == (0, 3, 1)
    assert audit(folder, pki, at=RECEIVED).totals.without_revocation == 3  # judged at another time, by what is given


@pytest.mark.parametrize("damage", ["missing", "damaged", "other", "link"])
def test_an_answer_that_is_not_there_leaves_its_records_undecided(damage, receive, pki, tmp_path):
    folder = archive_of(tmp_path, receive(0), receive(1, answers=()))
    names = EvidenceRecord.from_line((folder / "records.jsonl").read_bytes().splitlines()[0]).answers or ()
    for name in names:
        file = folder / "answers" / "2026-06" / f"{name}.der"
        if damage == "damaged":
            file.write_bytes(file.read_bytes()[:-1])
        elif damage == "other":
            file.write_bytes(crls(pki, RECEIVED + timedelta(days=1))[0])
        else:
            file.rename(tmp_path / file.name)
            if damage == "link":
                file.symlink_to(tmp_path / file.name)
    for given in ((), crls(pki, RECEIVED)):  # also if other answers would prove it
        result = audit(folder, pki, *given)
        assert (result.exit_code, result.totals.by_code) == (3, {"record.answer": 1})


def test_a_seal_revoked_between_two_requests_disproves_the_second_alone(receive, pki, tmp_path):
    later = RECEIVED + timedelta(hours=2)
    records = receive(0), receive(1, at=later)  # by a list that was made before the revocation
    folder = archive_of(tmp_path, *records)
    assert audit(folder, pki).exit_code == 0
    revoked = Revocation(pki.qseal.certificate.x509.serial_number, RECEIVED + timedelta(hours=1))
    news = replace(pki, revocations=MappingProxyType({pki.qseal_ca.label: (revoked,)}))
    result = audit(folder, pki, news.crl(pki.qseal_ca, at=later))
    assert (result.exit_code, result.by_code["revocation.revoked"]) == (1, 1)
    assert result.first_failures[0]["seq"] == 1
    assert result.first_failures[0]["sub_indication"] == "REVOKED"


def test_a_record_whose_status_nobody_states_is_undecided_and_never_revoked(receive, pki, tmp_path):
    folder = archive_of(tmp_path, receive(0, answers=()))
    assert audit(folder, pki).exit_code == 0
    result = audit(folder, pki, pki.crl(pki.root, at=RECEIVED))
    assert (result.exit_code, result.by_code) == (3, {"revocation.unknown": 1})


def test_a_record_may_not_name_any_number_of_answers(receive, pki, tmp_path):
    record = replace(receive(0), answers=(receive(0).answers or ())[:1] * 65)
    result = audit(archive_of(tmp_path, record), pki)
    assert result.by_code == {"record.answer": 1}
    assert "more than 64" in result.first_failures[0]["message"]


def test_answers_that_do_not_prove_both_certificates_are_not_named(seal, pki):
    paths = PathVerifier(
        make_anchors(pki.authorities), revocation=RevocationChecker(evidence=read(*crls(pki, RECEIVED)))
    )
    message = sign_request(Message("POST", TARGET, (("X-Request-ID", str(UUID(int=1))),), b"{}"), seal=seal)
    verified = verify_request(message, qwac=pki.qwac.certificate, at=RECEIVED, policy=SealPolicy(paths))
    assert make_record(verified).answers is None  # the QWAC's path is not given


def test_the_trusted_lists_of_the_receipt_are_kept_once(seal, pki, paths, tmp_path):
    lists = MappingProxyType({sha256(b"<list/>").hexdigest(): b"<list/>"})
    qwac_path = replace(paths.verify_use(pki.qwac.certificate, as_=Use.QWAC, at=RECEIVED), lists=lists)
    message = sign_request(Message("POST", TARGET, (("X-Request-ID", str(UUID(int=1))),), b"{}"), seal=seal)
    verified = verify_request(message, qwac=pki.qwac.certificate, at=RECEIVED, policy=SealPolicy(paths))
    record = make_record(verified, qwac_path=qwac_path)
    folder = archive_of(tmp_path, record, record)
    assert record.lists == tuple(lists)
    assert [file.read_bytes() for file in (folder / "lists").iterdir()] == [b"<list/>"]
    assert audit(folder, pki).exit_code == 0


def test_an_audit_that_is_resumed_sees_a_restored_answer(receive, pki, tmp_path):
    folder, work = archive_of(tmp_path, receive(0)), tmp_path / "work"
    (folder / "answers").rename(tmp_path / "lost")
    material, plan = TrustMaterial(make_anchors(pki.authorities)), AuditPlan(now=NOW)
    assert audit_archives([folder], plan, material=material, work=work, resume=True).exit_code == 3
    (tmp_path / "lost").rename(folder / "answers")
    assert audit_archives([folder], plan, material=material, work=work, resume=True).exit_code == 0


def test_a_path_holds_a_short_answer_but_no_long_list_that_was_replaced(pki, monkeypatch):
    for most, held in ((verifier.MAX_HELD, 2), (0, 0)):
        monkeypatch.setattr(verifier, "MAX_HELD", most)
        checker = RevocationChecker(evidence=read(*crls(pki, RECEIVED)))
        paths = PathVerifier(make_anchors([pki.root.certificate]), revocation=checker)
        path = paths.verify_use(
            pki.qwac.certificate, as_=Use.QWAC, at=RECEIVED, intermediates=[pki.qwac_ca.certificate]
        )
        assert len(path.answers) == 2
        checker.replace(RevocationEvidence())
        assert len(path.answers) == held
