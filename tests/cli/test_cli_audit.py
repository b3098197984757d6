"""`audit verify`: which failures are listed, and what is reported about heads, gaps and unusable archives."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tppkit.evidence import EvidenceArchive, EvidenceRecord, make_record
from tppkit.seals import Message, Seal, SealPolicy, sign_request, verify_request
from tppkit.testpki import Pki, certificate_pem, write_pki
from tppkit.testpki.trusted_lists import make_trusted_lists
from tppkit.trust import PathVerifier

RECEIVED = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
MESSAGE = Message("POST", "/psd2/v1/payments/x", (("X-Request-ID", str(UUID(int=1))),), b"{}")
Fill = Callable[..., list[str]]
Tppkit = Callable[..., Any]


@pytest.fixture
def fill(tmp_path: Path, pki: Pki, seal: Seal, paths: PathVerifier) -> Fill:
    """Appends records to the archive `archive` and gives their leaves; `trust.pem` has the authorities."""
    (tmp_path / "trust.pem").write_bytes(b"".join(certificate_pem(each) for each in pki.authorities))
    sealed = sign_request(MESSAGE, seal=seal)
    verified = verify_request(sealed, qwac=pki.qwac.certificate, at=RECEIVED, policy=SealPolicy(paths))

    def append(count: int) -> list[str]:
        with EvidenceArchive(tmp_path / "archive", stream_id="5a" * 16) as archive:
            record, certificates = make_record(verified), (*verified.chain, pki.qwac.certificate)
            return [archive.append(record, *certificates).leaf for _ in range(count)]

    return append


@pytest.fixture
def lines(tmp_path: Path, fill: Fill) -> list[bytes]:
    """The lines of an archive of thirty records."""
    fill(30)
    return (tmp_path / "archive" / "records.jsonl").read_bytes().splitlines(keepends=True)


def keep(folder: Path, lines: list[bytes]) -> None:
    (folder / "archive" / "records.jsonl").write_bytes(b"".join(lines))


AUDIT = ("audit", "verify", "archive", "--trust", "trust.pem")


@pytest.mark.parametrize(
    ("options", "listed"), [((), 20), (("--failures", "all"), 30), (("--failures", "0"), 0), (("--failures", "29"), 29)]
)
def test_failures_that_are_not_listed_are_counted(options, listed, tmp_path, lines, tppkit):
    keep(tmp_path, [line.replace(b'"body":"e30="', b'"body":"W10="') for line in lines])
    result = tppkit(*AUDIT, *options)
    assert (result.exit_code, result.stdout.count("[record.body]")) == (1, listed)
    assert (f"{30 - listed} more are not listed; list them with --failures all" in result.stdout) == (listed < 30)
    as_json = tppkit(*AUDIT, *options, "--json").json
    assert (len(as_json["first_failures"]), as_json["not_listed"]) == (listed, 30 - listed)


def test_a_head_or_number_in_another_form_is_wrong_usage_and_a_head_may_be_in_capitals(fill, tppkit):
    (leaf,) = fill(1)
    heads = ("", "5a", "g" * 64, "0" * 63, "0" * 65, "\uff10" * 64, " " + "0" * 64)
    numbers = ("-1", "some", "", "1.5", "9" * 4301)
    for option, value in [
        *(("--expect-head", head) for head in heads),
        *(("--failures", number) for number in numbers),
    ]:
        result = tppkit(*AUDIT, f"{option}={value}")
        assert (result.exit_code, result.stdout, option in result.stderr) == (2, "", True), value
    assert tppkit(*AUDIT, "--expect-head", leaf.upper()).exit_code == 0


def test_records_with_findings_only_are_listed(tmp_path, pki, seal, paths, fill, tppkit):
    fill(0)
    sealed = sign_request(MESSAGE, seal=seal)
    with EvidenceArchive(tmp_path / "archive", stream_id="5a" * 16) as archive:
        for second in (1, 0):
            at = RECEIVED + timedelta(seconds=second)
            verified = verify_request(sealed, qwac=pki.qwac.certificate, at=at, policy=SealPolicy(paths))
            archive.append(make_record(verified), *verified.chain, pki.qwac.certificate)
    text, limited = tppkit(*AUDIT), tppkit(*AUDIT, "--failures", "0")
    line = "  archive line 2: notice: received at 2026-06-01T12:00:00Z, 0:00:01 before an earlier record"
    assert (text.exit_code, line in text.stdout, line in limited.stdout) == (0, True, False)
    (row,) = tppkit(*AUDIT, "--json").json["first_failures"]
    assert (row["verdict"], row["line"], row["findings"][0]["code"]) == ("holds", 2, "log.time-back")


def test_a_head_that_was_cut_off_is_reported_with_the_one_that_was_found(tmp_path, fill, tppkit):
    leaves = fill(3)
    records = tmp_path / "archive" / "records.jsonl"
    keep(tmp_path, records.read_bytes().splitlines(keepends=True)[:2])
    result = tppkit(*AUDIT, "--expect-head", leaves[2])
    assert result.exit_code == 4
    assert (
        f"the expected head {leaves[2]} is not in any archive (found: archive ends with record 1, leaf {leaves[1]}):"
        " records were cut off the end, the archive was rewritten, or it is another archive [log.head]\n"
    ) in result.stdout


def test_a_head_of_an_archive_that_has_grown_is_reported_as_that(fill, tppkit):
    (head,), leaves = fill(1), fill(2)
    result = tppkit(*AUDIT, "--expect-head", head, "--json")
    assert result.exit_code == 4
    (finding,) = result.json["findings"]
    assert (finding["code"], finding["message"]) == (
        "log.head",
        f"the expected head {head} is record 0 of archive, which now ends with record 2, leaf {leaves[-1]}:"
        " records were added after the head was kept",
    )


def test_an_archive_that_cannot_be_read_is_not_called_empty(tmp_path, fill, tppkit):
    fill(1)
    (tmp_path / "archive" / "records.jsonl").unlink()
    os.mkfifo(tmp_path / "archive" / "records.jsonl")
    result = tppkit(*AUDIT, "absent", "--json")
    assert (result.exit_code, result.json["by_code"]) == (5, {"archive.unreadable": 2})
    assert (
        "archive/records.jsonl cannot be read: it is not a regular file (links are not followed) [archive.unreadable]"
        in result.stderr
    )
    assert "absent cannot be read: No such file or directory [archive.unreadable]" in result.stderr
    for command in (("log", "head"), ("log", "verify")):
        result = tppkit("audit", *command, "absent", "--json")
        assert (result.exit_code, result.json["error"]["code"]) == (5, "archive.unreadable")


def test_a_folder_that_is_no_archive_is_said_to_be_none_with_the_archives_in_it(fill, tppkit):
    fill(1)
    result = tppkit("audit", "verify", ".", "--trust", "trust.pem")
    assert result.exit_code == 5
    assert (
        '. is not an archive: it has no records.jsonl; archives in it: "archive" [archive.unreadable]' in result.stderr
    )
    assert "revocation" not in result.stdout


def test_one_record_is_not_several(fill, tppkit):
    (leaf,) = fill(1)
    assert f"head of archive: 1 record, leaf {leaf}\n" in tppkit(*AUDIT).stdout
    assert "\nhead: 1 record, leaf" in tppkit("audit", "log", "verify", "archive").stdout


def test_a_forged_list_beside_a_good_one_is_counted(tmp_path, pki, fill, tppkit):
    fill(2)
    write_pki(pki, tmp_path / "pki")
    lists = [tmp_path / "pki" / f"{name}.crl" for name in ("issuing-ca-qwac", "issuing-ca-qseal", "root")]
    good = lists[1].read_bytes()
    (tmp_path / "forged.crl").write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    options = [option for path in (*lists, tmp_path / "forged.crl") for option in ("--crl", str(path))]
    result = tppkit(*AUDIT, *options, "--json")
    assert (result.exit_code, result.json["passed"], result.json["by_code"]) == (0, 2, {"crl.signature": 2})


def test_records_are_judged_by_trusted_lists(tmp_path, pki, fill, tppkit):
    fill(2)
    lists = tmp_path / "lists"
    (lists / "lotl-signers").mkdir(parents=True)
    (lists / "lotl-signers" / "signer.pem").write_bytes(certificate_pem(pki.members["lotl-signer"].certificate))
    for name, content in make_trusted_lists(pki, at=RECEIVED).items():
        (lists / name).write_bytes(content)
    for trust, codes in (((), {"trust.no-anchors"}), (("--trust", "trust.pem"), set())):
        verify = ("audit", "verify", "archive", *trust, "--json", "--trusted-lists", "lists")
        good = tppkit(*verify)
        assert (good.exit_code, good.json["passed"], good.json["not_checked"]) == (0, 2, ["revocation"])
        stale = tppkit(*verify, "--at", "2027-02-01")
        assert (stale.exit_code, stale.json["indeterminate"], stale.json["by_code"].keys()) == (
            3, 2, codes | {"trusted-list.expired"},
        )  # fmt: skip
    assert tppkit(*AUDIT, "--json").json["not_checked"] == ["revocation", "trusted_lists"]


@pytest.mark.parametrize(
    ("change", "is_rehashed", "code"),
    [
        ({"payment_ref": "another"}, False, "record.leaf"),
        ({"verdict": "fails"}, True, "record.malformed"),
        ({"body_sha256": "0" * 64}, True, "record.body"),
        ({"qwac_cert": None}, True, "record.no-qwac"),
    ],
    ids=str,
)
def test_a_changed_record_neither_passes_the_audit_nor_holds_alone(change, is_rehashed, code, tmp_path, fill, tppkit):
    fill(1)
    verify = ("seal", "verify", "archive", "--entry", "1", "--trust", "trust.pem", "--at", "2026-06-01")
    assert tppkit(*verify).exit_code == 0
    record = EvidenceRecord.from_line((tmp_path / "archive" / "records.jsonl").read_bytes())
    changed = replace(record, **change)
    keep(tmp_path, [changed.to_line(leaf=None if is_rehashed else record.leaf)])
    assert tppkit(*AUDIT, "--json").json["by_code"] == {code: 1}
    result = tppkit(*verify)
    assert (result.exit_code in (1, 3), f"[{code}]" in result.stdout + result.stderr) == (True, True)


def test_archives_of_one_stream_are_inconsistent(tmp_path, fill, tppkit):
    fill(1)
    shutil.copytree(tmp_path / "archive", tmp_path / "fork")
    for grown in (0, 1):
        fill(grown)
        result = tppkit(*AUDIT, "fork", "--json")
        assert (result.exit_code, result.json["by_code"], result.json["inconsistent"]) == (4, {"log.same-stream": 1}, 1)


def test_an_archive_that_is_given_twice_is_wrong_usage(tmp_path, fill, tppkit):
    fill(1)
    (tmp_path / "link").symlink_to("archive")
    for again in ("archive/", "link"):
        result = tppkit(*AUDIT, again)
        assert (result.exit_code, result.stdout) == (2, "")


def test_the_certificates_of_an_archive_are_no_proof_of_its_connection(tppkit, fill):
    fill(1)
    verify = ("seal", "verify", "archive", "--entry", "1", "--trust", "trust.pem", "--at", "2026-06-01")
    assert "not compared" in tppkit(*verify).stdout


@pytest.mark.parametrize(
    ("target", "role", "status", "code"),
    [
        ("payments/x", "PSP_AI", 201, "role.missing"),
        ("payments/x", "PSP_AI", None, "role.missing"),
        ("payments/x", "PSP_AI", 403, None),
        ("payments/x", "PSP_PI", 201, None),
        ("consents", "PSP_PI", 201, "role.missing"),
        ("consents", "PSP_AI", 201, None),
        ("another", "PSP_AI", 201, None),
    ],
)
def test_a_request_without_the_role_of_its_endpoint_fails(
    target: str, role: str, status: int | None, code: str | None, tmp_path: Path, pki: Pki, seal: Seal,
    paths: PathVerifier, fill: Fill, tppkit: Tppkit,
) -> None:  # fmt: skip
    fill(0)
    qwac = pki.issue_qwac(replace(pki.provider, roles=(role,)), label=f"qwac-{role}").certificate
    message = MESSAGE._replace(target=f"/psd2/v1/{target}")
    verified = verify_request(sign_request(message, seal=seal), qwac=qwac, at=RECEIVED, policy=SealPolicy(paths))
    with EvidenceArchive(tmp_path / "archive", stream_id="5a" * 16) as archive:
        archive.append(make_record(verified, http_status=status), *verified.chain, qwac)
    result = tppkit(*AUDIT, "--json")
    assert (result.exit_code, result.json["by_code"]) == ((1, {code: 1}) if code else (0, {}))


def test_shares_are_verified_alone_and_joined_by_resume(tmp_path, fill, tppkit):
    fill(3)
    for options in (
        ("--shard", "0/2"), ("--shard", "2/2", "--work", "w"), ("--shard", "1", "--work", "w"), ("--shard", "0/0", "--work", "w"),
        ("--shard", "0/2", "--work", "w", "--report", "r.html"), ("--workers", "0"), ("--engine", "dask"), ("--resume",),
        ("--work", "archive"), ("--work", "archive/new"),
    ):  # fmt: skip
        assert tppkit(*AUDIT, *options).exit_code == 2, options
    whole = tppkit(*AUDIT, "--json").json
    assert (whole["engine"], whole["workers"]) == ("local", len(os.sched_getaffinity(0)))
    shares = [tppkit(*AUDIT, "--work", "w", "--shard", f"{i}/2", "--json") for i in range(2)]
    assert [(one.exit_code, one.json["records"], one.json["heads"]) for one in shares] == [(0, 3, []), (3, 0, [])]
    joined = tppkit(*AUDIT, "--work", "w", "--resume", "--workers", "1", "--json").json
    assert (joined["report_hash"], joined["workers"]) == (whole["report_hash"], 1)


def test_payments_without_a_record_make_the_archive_inconsistent(tmp_path, fill, tppkit):
    fill(1)
    (tmp_path / "ledger.csv").write_text("payment_id\nabsent\n")
    result = tppkit(*AUDIT, "--ledger", "ledger.csv")
    assert result.exit_code == 4
    assert "1 payment of ledger.csv is in no accepted record: absent [ledger.no-record]\n" in result.stdout
    (tmp_path / "ledger.csv").write_text("payment;amount\nabsent;1\n")
    result = tppkit(*AUDIT, "--ledger", "ledger.csv")
    assert (result.exit_code, "[ledger.malformed]" in result.stderr) == (5, True)
