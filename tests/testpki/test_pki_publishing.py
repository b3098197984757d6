"""Lists of a folder that end are signed anew: by hand, and by what changes or serves the folder."""

from __future__ import annotations

import json
import os
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from tppkit._clock import parse_time
from tppkit.errors import ConfigurationError
from tppkit.testpki import Pki, make_pki, make_provider, open_pki, write_pki
from tppkit.testpki.publishing import are_crls_current
from tppkit.trust import load_trusted_lists

DAY = timedelta(days=1)
CRLS = ("root.crl", "issuing-ca-qwac.crl", "issuing-ca-qseal.crl")
LISTS = ("trusted-lists/eu-lotl.xml", "trusted-lists/LT.xml")


@pytest.fixture(scope="module")
def kept(pki: Pki, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("kept") / "pki"
    write_pki(pki, path)
    return path


@pytest.fixture
def folder(kept: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(kept, tmp_path / "pki"))


def number_of(folder: Path, name: str = "root.crl") -> int:
    crl = x509.load_der_x509_crl((folder / name).read_bytes())
    return crl.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number


def ends(folder: Path) -> dict[str, object]:
    files = json.loads((folder / "manifest.json").read_text())["files"]
    return {e["path"]: parse_time(e["not_after"]) for e in files if e["kind"] in ("crl", "trusted-list")}


def test_every_list_is_signed_anew_and_the_manifest_says_until_when(folder, pki):
    at = pki.not_before + 300 * DAY
    assert open_pki(folder).renew(now=at) == (*CRLS, *LISTS)
    assert ends(folder) == dict.fromkeys(CRLS, at + 365 * DAY) | dict.fromkeys(LISTS, at + 180 * DAY)
    crl = x509.load_der_x509_crl((folder / "root.crl").read_bytes())
    assert (crl.last_update_utc, crl.next_update_utc) == (at, at + 365 * DAY)
    assert b"<TSLSequenceNumber>2<" in (folder / "trusted-lists/LT.xml").read_bytes()


def test_renewed_trusted_lists_are_believed(folder, pki):
    open_pki(folder).renew(now=pki.not_before + 300 * DAY)
    lists = load_trusted_lists(folder / "trusted-lists")
    status = lists.status(
        pki.qwac.certificate, at=pki.not_before + 301 * DAY, intermediates=[i.certificate for i in pki.issuers]
    )
    assert (status.qualified_for, list(lists.failures)) == (("web",), [])


def test_numbers_only_rise(folder, pki):
    numbers = [number_of(folder)]
    for act in (
        lambda opened: opened.renew(now=pki.not_before),
        lambda opened: opened.revoke(pki.qwac.certificate, at=pki.not_before, reason="certificateHold"),
        lambda opened: opened.renew(now=pki.not_before),
        lambda opened: opened.lift(pki.qwac.certificate, now=pki.not_before),
    ):
        act(open_pki(folder))
        numbers.append(number_of(folder))
    assert numbers == [1, 2, 3, 4, 5]


def test_what_does_not_end_soon_is_left(folder, pki):
    assert open_pki(folder).keep_current(now=pki.not_before + 130 * DAY) == ()


def test_only_what_ends_soon_is_signed_anew(folder, pki):
    assert open_pki(folder).keep_current(now=pki.not_before + 140 * DAY) == LISTS
    assert open_pki(folder).keep_current(now=pki.not_before + 280 * DAY) == (*CRLS, *LISTS)


def test_issuing_and_revoking_renew_what_ends_soon(folder, pki):
    at = pki.not_before + 170 * DAY
    open_pki(folder).issue("qwac", make_provider(), at=at, now=at)
    assert ends(folder)[LISTS[0]] == at + 180 * DAY
    later = pki.not_before + 340 * DAY
    open_pki(folder).revoke(pki.qseal.certificate, at=at, now=later)
    assert ends(folder) == dict.fromkeys(CRLS, later + 365 * DAY) | dict.fromkeys(LISTS, later + 180 * DAY)


def test_nothing_is_renewed_for_authorities_that_have_ended(folder, pki):
    assert open_pki(folder).keep_current(now=pki.root.certificate.not_after) == ()


@pytest.mark.parametrize("content", [None, b"", b"no list"])
def test_a_list_that_is_missing_or_damaged_is_made_again(folder, pki, content):
    (folder / "root.crl").unlink()
    if content is not None:
        (folder / "root.crl").write_bytes(content)
    assert open_pki(folder).keep_current(now=pki.not_before) == CRLS
    assert number_of(folder) == 2


def test_a_list_of_another_authority_is_not_current(folder, pki):
    shutil.copy(folder / "issuing-ca-qseal.crl", folder / "issuing-ca-qwac.crl")
    assert not are_crls_current(folder, pki)


def test_nothing_is_written_outside_the_folder(folder, pki):
    outside = folder.parent / "outside"
    (folder / "trusted-lists").rename(outside)
    os.symlink(outside, folder / "trusted-lists")
    before = {path: path.read_bytes() for path in outside.rglob("*.xml")}
    with pytest.raises(ConfigurationError) as refused:
        open_pki(folder).renew(now=pki.not_before)
    assert refused.value.code == "pki.foreign-key"
    assert {path: path.read_bytes() for path in outside.rglob("*.xml")} == before


def test_the_lists_of_a_short_lived_pki_are_renewed_in_time(tmp_path):
    pki = make_pki(at=parse_time("2026-06-01"), days=8, seed=1)
    write_pki(pki, tmp_path / "pki")
    assert open_pki(tmp_path / "pki").keep_current(now=pki.not_before + 5 * DAY) == ()
    assert open_pki(tmp_path / "pki").keep_current(now=pki.not_before + 7 * DAY) == CRLS


def test_a_list_dated_after_the_present_does_not_hold_up_the_next(folder, pki):
    open_pki(folder).renew(now=pki.not_before + 300 * DAY)
    open_pki(folder).renew(now=pki.not_before + 10 * DAY)
    crl = x509.load_der_x509_crl((folder / "root.crl").read_bytes())
    assert (crl.last_update_utc, number_of(folder)) == (pki.not_before + 10 * DAY, 3)


def test_what_is_revoked_from_a_time_to_come_is_refused_and_nothing_is_written(folder, pki):
    open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before + 30 * DAY)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    now = pki.not_before + 29 * DAY
    for act in (
        lambda opened: opened.renew(now=now),
        lambda opened: opened.revoke(pki.qseal.certificate, at=now),
    ):
        with pytest.raises(ConfigurationError, match="after the present") as refused:
            act(open_pki(folder))
        assert refused.value.code == "pki.unusable"
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_authorities_that_have_ended_sign_nothing_and_nothing_is_written(folder, pki):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    now = pki.root.certificate.not_after + DAY
    for act in (
        lambda opened: opened.renew(now=now),
        lambda opened: opened.revoke(pki.qwac.certificate, at=pki.not_before, now=now),
    ):
        with pytest.raises(ConfigurationError, match="ended on") as refused:
            act(open_pki(folder))
        assert refused.value.code == "pki.ended"
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_fraction_of_a_second_in_the_journal_is_no_other_time(folder, pki):
    open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before)
    journal = folder / "revocations.json"
    journal.write_text(journal.read_text().replace(":00Z", ":00.500000Z"))
    assert ".500000Z" in journal.read_text()
    assert are_crls_current(folder, open_pki(folder).pki)


def test_a_folder_of_trusted_lists_that_was_removed_is_made_again(folder, pki):
    shutil.rmtree(folder / "trusted-lists")
    assert open_pki(folder).renew(now=pki.not_before) == (*CRLS, *LISTS)
    assert list(load_trusted_lists(folder / "trusted-lists").failures) == []
