"""`audit show`, `export`, `redact`, `prune` and `hold`: what they print, and their exit codes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tppkit.evidence import EvidenceArchive, make_answer_record, make_record
from tppkit.evidence.sealing import seal_archive
from tppkit.seals import (
    ANSWER_PROFILES,
    Answer,
    Message,
    Seal,
    SealPolicy,
    sign_answer,
    sign_request,
    verify_answer,
    verify_request,
)
from tppkit.testpki import Pki, certificate_pem
from tppkit.trust import PathVerifier

AT = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
Tppkit = Callable[..., Any]
TRUST = ("--trust", "trust.pem")


@pytest.fixture
def archive(tmp_path: Path, pki: Pki, seal: Seal, paths: PathVerifier) -> Path:
    """Two sealed records of consents, and an open one whose payment id controls terminals; all of one X-Request-ID."""
    (tmp_path / "trust.pem").write_bytes(b"".join(certificate_pem(each) for each in pki.authorities))
    message = Message("POST", "/psd2/v1/consents", (("X-Request-ID", str(UUID(int=1))),), b'{"n":1}')
    sent = sign_request(message, seal=seal)
    verified = verify_request(sent, qwac=pki.qwac.certificate, at=AT, policy=SealPolicy(paths))
    with EvidenceArchive(tmp_path / "archive", stream_id="5a" * 16) as archive:
        for name in ("p0", "p1", "\x1b]0;p2\x07"):
            if name not in ("p0", "p1"):
                archive.rotate(now=AT + timedelta(days=1))
            record = make_record(verified, http_status=201, payment_ref=name)
            archive.append(record, *verified.chain, pki.qwac.certificate)
    list(seal_archive(tmp_path / "archive"))
    return tmp_path / "archive"


@pytest.mark.usefixtures("archive")
def test_a_record_is_shown_with_its_checks_and_its_place(tppkit):
    text = tppkit("audit", "show", "archive", "p1", *TRUST)
    assert text.exit_code == 0
    assert text.stdout.startswith(
        "record 1: holds\nreceived 2026-06-01T12:00:00Z (clock: system)\n"
    )  # no connection is known
    for line in ("  POST /psd2/v1/consents", '  {"n":1}', "answered 201", "  head    2 records, root "):
        assert line in text.stdout
    assert text.stdout.count(" holds        ") == 7
    shown = tppkit("audit", "show", "archive", "1", *TRUST, "--json").json
    assert (shown["verdict"], shown["seq"], shown["payment_id"], shown["head"]["records"]) == ("holds", 1, "p1", 2)
    assert [step["state"] for step in shown["steps"]] == ["holds"] * 7
    hostile = tppkit("audit", "show", "archive", "2", *TRUST)
    assert (hostile.exit_code, "\x1b" in hostile.stdout, "\\x1b]0;p2" in hostile.stdout) == (0, False, True)


@pytest.mark.parametrize(("form", "proven"), [("rfc9421", True), ("cavage", False)])
def test_an_answer_is_shown_with_what_it_covers_of_its_request(form, proven, tppkit, tmp_path, pki, seal, paths):
    (tmp_path / "trust.pem").write_bytes(b"".join(certificate_pem(each) for each in pki.authorities))
    profile = ANSWER_PROFILES[form]
    bank = Seal.for_key(pki.bank_seal.certificate, pki.bank_seal.key, profile=profile)
    sent = sign_request(Message("POST", "/psd2/v1/consents", (("X-Request-ID", str(UUID(int=1))),)), seal=seal)
    answer = sign_answer(Answer(403, (), b"{}"), request=sent, seal=bank, at=AT)
    verified = verify_answer(answer, request=sent, policy=SealPolicy(paths, profile=profile), at=AT)
    with EvidenceArchive(tmp_path / "archive", stream_id="5a" * 16) as archive:
        archive.append(make_answer_record(verified))
    shown = tppkit("audit", "show", "archive", "0", *TRUST)
    assert shown.exit_code == 0
    assert f"\ncovered of the request\n  X-Request-ID: {UUID(int=1)}\n" in shown.stdout
    assert "\nanswered 403\n" in shown.stdout
    assert ("the seal holds for the answer and its request" in shown.stdout) is proven
    assert ("and proves neither status, method nor target" in shown.stdout) is not proven
    assert "certificate of the connection" not in shown.stdout
    refused = tppkit("seal", "verify", "archive", *TRUST)
    assert (refused.exit_code, "audit show" in refused.stderr) == (3, True)


@pytest.mark.usefixtures("archive")
def test_without_trust_material_nothing_is_claimed_about_certificates(tppkit):
    shown = tppkit("audit", "show", "archive", "0", "--json")
    assert (shown.exit_code, shown.json["steps"][2]["state"], shown.json["code"]) == (
        3,
        "not checked",
        "trust.no-anchors",
    )
    assert tppkit("audit", "show", "archive", "0").stderr == "no trust material: give --trust or --trusted-lists\n"
    assert tppkit("audit", "show", "archive", "0", "--trust", "absent.pem").exit_code == 7


@pytest.mark.usefixtures("archive")
def test_an_id_of_several_records_or_none_is_an_error_that_lists_them(tppkit):
    several = tppkit("audit", "show", "archive", str(UUID(int=1)))
    assert several.exit_code == 3
    assert (
        f"is in 3 records; choose one: {'5a' * 16}/0 (segments/2026-06-000000000000.parquet line 1)" in several.stderr
    )
    for wanted in ("3", "nobody", "b4" * 16 + "/0"):
        assert tppkit("audit", "show", "archive", wanted).exit_code == 3
    assert tppkit("audit", "show", "absent", "0").exit_code == 5


def test_a_bundle_goes_into_a_new_folder(archive, tmp_path, tppkit):
    done = tppkit("audit", "export", "archive", "1", "--out", "bundle", *TRUST)
    assert (done.exit_code, done.stdout.splitlines()[0], done.stderr) == (
        0, "record 1: holds", "verify it on any machine: bash bundle/verify.sh\n",
    )  # fmt: skip
    assert (tmp_path / "bundle/body.bin").read_bytes() == b'{"n":1}'
    assert tppkit("audit", "export", "archive", "1", "--out", "bundle").exit_code == 2
    assert tppkit("audit", "export", "archive", "1", "--out", "archive/certs/bundle").exit_code == 2
    assert not [path for path in archive.rglob("*") if path.name == "bundle"]


def test_what_is_removed_has_a_receipt_and_a_hold_refuses(archive, tppkit):
    case, ada = ("--ground", "case 7"), ("--ground", "erasure", "--by", "Ada")
    assert tppkit("audit", "hold", "archive", *case).stdout == "held: archive\n"
    held = tppkit("audit", "redact", "archive", "0", *ada)
    assert (held.exit_code, "archive is held: 'case 7' [archive.held]" in held.stderr) == (1, True)
    assert tppkit("audit", "prune", "archive", "--before", "2026-07-01").exit_code == 1
    assert tppkit("audit", "hold", "archive", *case, "--release").exit_code == 0
    assert tppkit("audit", "redact", "archive", "2", *ada).exit_code == 3  # not sealed
    done = tppkit("audit", "redact", "archive", "0", *ada)
    assert done.stdout == "written without bodies: segments/2026-06-000000000000.parquet\n"
    shown = tppkit("audit", "show", "archive", "0", *TRUST)
    assert (shown.exit_code, "(no body in the record: the body was redacted" in shown.stdout) == (3, True)
    assert "not in the bundle: the body" in tppkit("audit", "export", "archive", "0", "--out", "b", *TRUST).stdout
    pruned = tppkit("audit", "prune", "archive", "--before", "2026-07-01", "--json").json
    assert pruned == {"changed": ["segments/2026-06-000000000000.parquet"]}
    assert "was pruned, or its part is missing" in tppkit("audit", "show", "archive", "0").stderr
    assert len((archive / "operations.jsonl").read_bytes().splitlines()) == 4
