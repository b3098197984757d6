"""What an auditor meets, from the kept records to the exit code of the command, by number."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tppkit.evidence import EvidenceArchive, EvidenceRecord, make_record
from tppkit.evidence.log import check_log
from tppkit.seals import KeySigner, Message, Seal, SealPolicy, sign_request, verify_request
from tppkit.testpki import Pki, make_pki, make_provider
from tppkit.testpki.pem import certificate_pem
from tppkit.trust import PathVerifier, make_anchors

RECEIVED = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
STREAM = "5a" * 16
# What is tested elsewhere, by number.
ELSEWHERE = {
    1: "evidence/test_exhibit.py a_thousand_payments_and_consents_have_the_same_verdicts_without_this_project",
    2: "evidence/test_flipped_bits.py no_flipped_bit_of_any_file_passes",
    5: "evidence/test_answers.py a_seal_revoked_between_two_requests_disproves_the_second_alone",
    6: "evidence/test_exhibit.py a_redacted_body_is_not_checked_and_the_rest_holds",
    10: "evidence/test_pool.py an_audit_whose_processes_were_killed_names_what_is_missing_and_can_be_resumed",
    11: "evidence/test_stamps.py a_record_is_not_proven_after_the_end_of_its_algorithm_unless_a_stamp_is_older",
    12: "cli/test_cli_audit_processes.py rate_and_remaining_time_are_shown_on_a_terminal",  # memory: benchmarks/evidence.py
    13: "evidence/test_callback_records.py callbacks_and_logins_are_verified_under_the_keys_that_were_valid_then",
    15: "sandbox/test_kills.py a_commit_for_which_the_disk_is_full_is_answered_503_and_leaves_nothing",
}
_HEAD = "9c6585167089953db21372d0de076ec85e2073eeaa134a395b89444cf66be9b5"  # of the archive of November 2026
PAYMENT, CONSENT = "/psd2/v1/payments/sepa-credit-transfers", "/psd2/v1/consents"


class Bank:
    """A bank that keeps what a provider sends, and the auditor's command."""

    def __init__(self, folder: Path, pki: Pki, tppkit: Callable[..., Any]) -> None:
        self.folder, self.pki, self._tppkit = folder, pki, tppkit
        self.policy = SealPolicy(PathVerifier(make_anchors(pki.authorities)))
        self.trust = folder / "trust.pem"
        folder.mkdir()
        self.trust.write_bytes(b"".join(map(certificate_pem, pki.authorities)))

    def keep(
        self, name: str, *seconds: float, stream: str = STREAM, target: str = PAYMENT, bodies: tuple[bytes, ...] = (), **columns: Any
    ) -> Path:  # fmt: skip
        """Append a request for each second after RECEIVED; requests with the same body differ in their ids."""
        with EvidenceArchive(self.folder / name, stream_id=stream) as archive:
            for number, second in enumerate(seconds):
                body = bodies[number] if bodies else b'{"at":%d}' % second
                headers = (("X-Request-ID", str(UUID(int=1 if bodies else int(second * 1000)))),)
                seal = Seal(self.pki.qseal.certificate, KeySigner(self.pki.qseal.key))
                sealed = sign_request(Message("POST", target, headers, body), seal=seal)
                at = RECEIVED + timedelta(seconds=second)
                verified = verify_request(sealed, qwac=self.pki.qwac.certificate, at=at, policy=self.policy)
                archive.append(make_record(verified, http_status=201, **columns), *verified.chain, verified.qwac)
        return self.folder / name

    def audit(self, *arguments: object) -> tuple[int, dict[str, Any]]:
        """Run `audit verify`; return its exit code and JSON."""
        result = self._tppkit("audit", "verify", *arguments, "--trust", self.trust, "--json")
        return result.exit_code, result.json


@pytest.fixture
def make_bank(tmp_path: Path, pki: Pki, tppkit: Callable[..., Any]) -> Callable[..., Bank]:
    def made(roles: list[str] | None = None) -> Bank:
        used = pki if roles is None else make_pki(at=RECEIVED, provider=make_provider(roles=roles), seed=2)
        return Bank(tmp_path / ("bank" if roles is None else roles[0]), used, tppkit)

    return made


@pytest.fixture
def bank(make_bank: Callable[..., Bank]) -> Bank:
    return make_bank()


def lines_of(folder: Path) -> list[bytes]:
    return (folder / "records.jsonl").read_bytes().splitlines(keepends=True)


def test_every_number_has_its_test():
    here = {int(name[5:7]) for name in globals() if name[:7].startswith("test_") and name[5:7].isdigit()}
    assert sorted([*here, *ELSEWHERE]) == list(range(1, 16))
    for place in ELSEWHERE.values():
        file, name = place.split()
        assert f"def test_{name}(" in (Path(__file__).parents[1] / file).read_text("utf-8"), place


def test_03_a_cut_end_is_named_with_a_head_and_said_to_be_unknown_without(bank):
    archive = bank.keep("archive", *range(20))
    head = bank.folder / "head.txt"
    head.write_text(check_log(archive, now=RECEIVED + timedelta(days=1)).head.text)
    (archive / "records.jsonl").write_bytes(b"".join(lines_of(archive)[:10]))
    exit_code, result = bank.audit(archive, "--expect-head", head)
    assert (exit_code, result["by_code"]) == (4, {"log.head": 1})
    assert "records were cut off the end" in result["findings"][0]["message"]
    report = bank.folder / "report.html"
    assert bank.audit(archive, "--report", report)[0] == 0
    assert "cannot know whether records were cut off the end" in report.read_text("utf-8")


def test_04_a_record_that_was_swapped_repeated_or_inserted_is_named_apart(bank):
    archive, other = bank.keep("archive", 0, 1, 2), bank.keep("other", 0, 1, 2, stream="c3" * 16)
    lines, foreign = lines_of(archive), lines_of(other)
    first, second = map(EvidenceRecord.from_line, lines[:2])
    inserted = replace(second, x_request_id=str(UUID(int=9))).placed(stream_id=STREAM, seq=1, previous=first.leaf)
    for code, changed in {
        "log.other-stream": [lines[0], foreign[1], lines[2]],
        "log.repeated": [lines[0], lines[1], lines[1], lines[2]],
        "record.malformed": [lines[0], inserted.to_line(), lines[2]],  # its id is not the one that was signed
        "log.chain-broken": [lines[0], inserted.to_line(), lines[2]],  # the record after it still names the old leaf
    }.items():
        (archive / "records.jsonl").write_bytes(b"".join(changed))
        exit_code, result = bank.audit(archive)
        assert exit_code == 4, code
        assert code in result["by_code"], code


def test_07_one_request_id_answered_with_two_bodies_within_the_hour_is_the_banks_fault(bank):
    archive = bank.keep("archive", 0, 1800, bodies=(b"one", b"another"))
    exit_code, result = bank.audit(archive)
    assert (exit_code, result["passed"], result["by_code"]) == (0, 2, {"record.id-reused": 1})


def test_08_a_role_that_the_qwac_lacks_is_named_for_each_record(make_bank):
    for role, target in (("PSP_AI", PAYMENT), ("PSP_PI", CONSENT)):
        bank = make_bank([role])
        exit_code, result = bank.audit(bank.keep("archive", 0, 1, target=target))
        assert (exit_code, result["by_code"]) == (1, {"role.missing": 2}), role
        assert role in result["first_failures"][0]["message"]


def test_09_a_clock_that_was_set_back_is_reported_with_both_times(bank):
    exit_code, result = bank.audit(bank.keep("archive", 7200, 0))
    assert (exit_code, result["by_code"]) == (4, {"log.time-back": 1})
    message = result["first_failures"][0]["log_message"]
    assert all(time in message for time in ("2026-06-01T12:00:00Z", "2026-06-01T14:00:00Z"))


def test_14_an_archive_of_the_first_version_has_the_same_leaves_and_verdicts(tmp_path, tppkit):
    kept = Path(__file__).parents[1] / "evidence/kept-archive"
    archive = shutil.copytree(kept, tmp_path / "archive")
    for line in lines_of(archive):
        record = EvidenceRecord.from_line(line)
        assert record.leaf == record.kept_leaf
    result = tppkit("audit", "verify", archive, "--trust", f"{kept}-root.pem", "--expect-head", _HEAD, "--json")
    assert (result.exit_code, result.json["passed"]) == (0, 2)
