"""Certificates on the folder's revocation lists are rejected, from the next request on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from raw_provider import PAYMENTS, OpenBank, assert_refused

from refusals import refused
from tppkit._clock import utc_now
from tppkit.errors import ConfigurationError
from tppkit.sandbox import SandboxServer
from tppkit.sandbox.revocations import FolderRevocations
from tppkit.testpki import Pki, write_pki
from tppkit.testpki.folder import open_pki

pytestmark = pytest.mark.slow

TARGET = f"{PAYMENTS}/unknown/status"


@pytest.fixture
def folder(bank_pki: Pki, tmp_path: Path) -> Path:
    """The PKI in a folder of its own, as these tests revoke."""
    write_pki(bank_pki, tmp_path / "pki")
    return tmp_path / "pki"


@pytest.fixture
def watched_bank(folder: Path, open_bank: OpenBank) -> Iterator[SandboxServer]:
    with open_bank(pki=folder) as server:
        yield server


def test_a_qwac_that_is_revoked_while_the_sandbox_runs_is_refused_until_its_hold_is_lifted(
    watched_bank, folder, bank_pki, connect
):
    caller = connect(watched_bank)
    assert caller.request("GET", TARGET).status_code == 403  # trusted: only the payment is unknown
    open_pki(folder).revoke(bank_pki.qwac.certificate, at=utc_now(), reason="certificateHold")
    for one in (caller, connect(watched_bank)):
        assert_refused(one.request("GET", TARGET), 401, "CERTIFICATE_REVOKED")
    open_pki(folder).lift(bank_pki.qwac.certificate, now=utc_now())
    assert connect(watched_bank).request("GET", TARGET).status_code == 403


def test_a_qsealc_that_is_revoked_while_the_sandbox_runs_is_refused(watched_bank, folder, bank_pki, connect):
    caller = connect(watched_bank)
    assert caller.initiate().status_code == 201
    open_pki(folder).revoke(bank_pki.qseal.certificate, at=utc_now())
    assert_refused(caller.initiate(), 401, "CERTIFICATE_REVOKED")
    assert caller.request("GET", TARGET).status_code == 403


@pytest.mark.parametrize("has_lists", [True, False])
def test_a_certificate_that_was_revoked_before_the_start_is_rejected_if_the_folder_has_lists(
    has_lists, folder, open_bank, bank_pki, connect
):
    open_pki(folder).revoke(bank_pki.qwac.certificate, at=utc_now(), reason="keyCompromise")
    for path in () if has_lists else folder.glob("*.crl"):
        path.unlink()
    with open_bank(pki=folder) as server:
        answer = connect(server).request("GET", TARGET)
    if has_lists:
        assert_refused(answer, 401, "CERTIFICATE_REVOKED")
    else:
        assert answer.status_code == 403


def test_a_folder_with_a_list_that_cannot_be_read_is_refused(folder):
    (folder / "root.crl").write_bytes(b"no list")
    with refused(ConfigurationError, "pki.unusable", match=r"root\.crl"):
        FolderRevocations(folder)


def test_while_a_list_cannot_be_read_its_earlier_contents_are_used_and_the_error_is_logged_once(
    watched_bank, folder, bank_pki, connect, caplog
):
    open_pki(folder).revoke(bank_pki.other_qwac.certificate, at=utc_now())
    assert connect(watched_bank).request("GET", TARGET).status_code == 403
    (folder / "issuing-ca-qwac.crl").write_bytes(b"no list")
    (folder / "root.crl").write_bytes(b"")
    for _ in range(2):
        assert connect(watched_bank).request("GET", TARGET).status_code == 403
        other = connect(watched_bank, qwac=bank_pki.other_qwac)
        assert_refused(other.request("GET", TARGET), 401, "CERTIFICATE_REVOKED")
    messages = [record.getMessage() for record in caplog.records if record.name == "tppkit.sandbox.revocations"]
    assert [("root.crl" in line, "issuing-ca-qwac.crl" in line) for line in messages] == [(False, True), (True, False)]


def test_a_list_that_was_never_read_is_reported_as_unavailable(watched_bank, folder, connect):
    (folder / "further.crl").write_bytes(b"no list")
    answer = connect(watched_bank).request("GET", TARGET)
    assert_refused(answer, 503, "SERVICE_UNAVAILABLE")
    assert "further.crl" in answer.text


def test_the_latest_readable_list_of_each_file_is_used_and_a_removed_one_no_longer(folder, bank_pki):
    revocations, lists = FolderRevocations(folder), sorted(folder.glob("*.crl"))
    for _ in range(5):
        open_pki(folder).revoke(bank_pki.qwac.certificate, at=utc_now(), reason="certificateHold")
        revocations.refresh()
        open_pki(folder).lift(bank_pki.qwac.certificate, now=utc_now())
        revocations.refresh()
    assert len(revocations.checker._evidence.crls) == len(lists)
    for content in (b"no list", (folder / "root.crl").read_bytes()):
        (folder / "root.crl").write_bytes(content)
        revocations.refresh()
    assert len(revocations.checker._evidence.crls) == len(lists)
    for path in lists:
        path.unlink()
    revocations.refresh()
    assert revocations.checker._evidence.crls == ()


def test_a_list_that_is_added_within_one_tick_of_the_file_systems_clock_is_read(folder, bank_pki):
    late = folder / "issuing-ca-qwac.crl"
    content = late.read_bytes()
    late.unlink()
    watched, changed = FolderRevocations(folder), folder.stat()
    chain = (bank_pki.qwac.certificate, *bank_pki.qwac.chain, bank_pki.root.certificate)
    without = watched.checker.check(chain, at=utc_now())
    late.write_bytes(content)
    os.utime(folder, ns=(changed.st_atime_ns, changed.st_mtime_ns))
    watched.refresh()
    assert watched.checker.check(chain, at=utc_now()) != without
