"""Revoking, holding and releasing in a folder: the journal, the lists and the manifest follow."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp

from tppkit._clock import format_time
from tppkit.certificates import EidasCertificate
from tppkit.errors import CertificateRejected, ConfigurationError
from tppkit.testpki import Pki, make_pki, open_pki, write_pki
from tppkit.testpki.crl import REASONS, Revocation
from tppkit.testpki.draft import Draft
from tppkit.testpki.services import answer_ocsp
from tppkit.trust import (
    PathVerifier,
    RevocationChecker,
    RevocationEvidence,
    load_anchors,
    load_revocation,
    parse_crl,
)

DAY = timedelta(days=1)
FINAL = [reason for reason in REASONS if reason not in ("certificateHold", "removeFromCRL")]


@pytest.fixture(scope="module")
def kept(pki: Pki, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("kept") / "pki"
    write_pki(pki, path)
    return path


@pytest.fixture
def folder(kept: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(kept, tmp_path / "pki"))


def everything(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def crl_of(folder: Path, label: str = "issuing-ca-qwac") -> x509.CertificateRevocationList:
    return x509.load_der_x509_crl((folder / f"{label}.crl").read_bytes())


def entry_of(folder: Path, issued) -> x509.RevokedCertificate | None:
    return crl_of(folder).get_revoked_certificate_by_serial_number(issued.certificate.serial)


def ocsp_status(pki: Pki, at) -> ocsp.OCSPCertStatus:
    request = ocsp.OCSPRequestBuilder().add_certificate(
        pki.qwac.certificate.x509, pki.qwac_ca.certificate.x509, hashes.SHA256()
    )
    answer = answer_ocsp(pki, request.build().public_bytes(Encoding.DER), at=at)
    return ocsp.load_der_ocsp_response(answer).certificate_status


@pytest.mark.parametrize("reason", [reason for reason in REASONS if reason != "removeFromCRL"])
def test_what_is_revoked_stands_in_the_list_of_its_authority(folder, pki, reason):
    at = pki.not_before + timedelta(hours=5)
    revoked = open_pki(folder).revoke(pki.qwac.certificate, at=at, reason=reason).pki
    crl = x509.load_der_x509_crl((folder / "issuing-ca-qwac.crl").read_bytes())
    entry = crl.get_revoked_certificate_by_serial_number(pki.qwac.certificate.serial)
    assert entry.revocation_date_utc == at
    assert crl.is_signature_valid(pki.qwac_ca.certificate.x509.public_key())
    assert crl.get_revoked_certificate_by_serial_number(pki.other_qwac.certificate.serial) is None
    assert not list(x509.load_der_x509_crl((folder / "issuing-ca-qseal.crl").read_bytes()))
    assert open_pki(folder).pki.revocations == revoked.revocations
    assert revoked.revocations["issuing-ca-qwac"][0].reason == reason


@pytest.mark.parametrize(
    ("what", "reason", "code"),
    [
        ("twice", "superseded", "pki.already-revoked"),
        ("foreign", "superseded", "pki.not-issued-here"),
        ("root", "superseded", "pki.not-issued-here"),
        ("qseal", "because", "pki.reason"),
        ("qseal", "removeFromCRL", "pki.reason"),
    ],
)
def test_a_revocation_that_cannot_be_changes_nothing(folder, pki, what, reason, code):
    foreign = make_pki(at=pki.not_before, seed=99)
    chosen = {"twice": pki.qwac, "foreign": foreign.qwac, "root": pki.root, "qseal": pki.qseal}[what]
    open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before)
    before = everything(folder)
    with pytest.raises(ConfigurationError) as refused:
        open_pki(folder).revoke(chosen.certificate, at=pki.not_before, reason=reason)
    assert refused.value.code == code
    assert everything(folder) == before


def test_a_revocation_of_an_earlier_day_forgets_no_other(pki, tmp_path):
    write_pki(pki, tmp_path / "certs")
    folder, later = open_pki(tmp_path / "certs"), pki.not_before + timedelta(days=20)
    folder = folder.revoke(pki.qwac.certificate, at=later)
    folder.revoke(pki.other_qwac.certificate, at=pki.not_before, now=later)
    crl = x509.load_der_x509_crl((tmp_path / "certs" / "issuing-ca-qwac.crl").read_bytes())
    assert {one.serial_number for one in crl} == {pki.qwac.certificate.serial, pki.other_qwac.certificate.serial}
    assert crl.last_update_utc >= later


def test_a_hold_is_lifted_and_gone_from_list_and_answers(folder, pki):
    at = pki.not_before
    held = open_pki(folder).revoke(pki.qwac.certificate, at=at, reason="certificateHold")
    assert entry_of(folder, pki.qwac) is not None
    assert ocsp_status(held.pki, at + DAY) is ocsp.OCSPCertStatus.REVOKED
    lifted = open_pki(folder).lift(pki.qwac.certificate, now=at + DAY)
    assert entry_of(folder, pki.qwac) is None
    assert lifted.revocation_of(pki.qwac.certificate) is None
    assert ocsp_status(open_pki(folder).pki, at + DAY) is ocsp.OCSPCertStatus.GOOD
    number = crl_of(folder).extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    assert (number, crl_of(folder).last_update_utc) == (3, at + DAY)  # neither ever goes back


def test_what_was_lifted_can_be_revoked_again(folder, pki):
    open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before, reason="certificateHold")
    open_pki(folder).lift(pki.qwac.certificate, now=pki.not_before + DAY)
    open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before + 2 * DAY, reason="superseded")
    assert entry_of(folder, pki.qwac).revocation_date_utc == pki.not_before + 2 * DAY


@pytest.mark.parametrize("reason", FINAL)
def test_a_hold_is_made_final_since_it_began(folder, pki, reason):
    open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before, reason="certificateHold")
    final = open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before + DAY, reason=reason)
    # X.509, reason code extension: the date is that of the hold, and one entry stands for both.
    assert final.revocation_of(pki.qwac.certificate) == Revocation(pki.qwac.certificate.serial, pki.not_before, reason)
    assert entry_of(folder, pki.qwac).revocation_date_utc == pki.not_before
    assert len(list(crl_of(folder))) == 1


@pytest.mark.parametrize("reason", ["superseded", None])
def test_only_a_hold_is_lifted(folder, pki, reason):
    if reason:
        open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before, reason=reason)
    before = everything(folder)
    with pytest.raises(ConfigurationError) as refused:
        open_pki(folder).lift(pki.qwac.certificate, now=pki.not_before)
    assert refused.value.code == "pki.not-on-hold"
    assert everything(folder) == before


def test_a_hold_upon_a_hold_is_refused(folder, pki):
    open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before, reason="certificateHold")
    with pytest.raises(ConfigurationError, match=r"since 2026-06-01T00:00:00Z \(certificateHold\)") as refused:
        open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before + DAY, reason="certificateHold")
    assert refused.value.code == "pki.already-revoked"


def test_nothing_is_revoked_from_a_time_to_come(folder, pki):
    before = everything(folder)
    with pytest.raises(ConfigurationError) as refused:
        open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before + DAY, now=pki.not_before)
    assert refused.value.code == "pki.revocation-time"
    assert everything(folder) == before


def test_nothing_is_revoked_from_before_it_is_valid(folder, pki):
    before = everything(folder)
    with pytest.raises(ConfigurationError, match="is valid from 2026-06-01") as refused:
        open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before - DAY, now=pki.not_before)
    assert refused.value.code == "pki.revocation-time"
    assert everything(folder) == before


def judge(folder: Path, issued, at, *lists: bytes) -> str | None:
    """What our own verifier says with lists that were kept besides those in the folder."""
    evidence = load_revocation(folder.glob("*.crl"))
    for kept in lists:
        evidence += RevocationEvidence((parse_crl(kept),))
    paths = PathVerifier(load_anchors(folder), revocation=RevocationChecker(evidence=evidence))
    try:
        paths.verify(issued.certificate, at=at, intermediates=[one.certificate for one in open_pki(folder).pki.issuers])
    except CertificateRejected as e:
        return e.code
    return None


def test_a_hold_lifted_within_the_same_second_is_over(folder, pki):
    open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before + DAY, reason="certificateHold")
    held = (folder / "issuing-ca-qwac.crl").read_bytes()
    assert judge(folder, pki.qwac, pki.not_before + DAY) == "revocation.revoked"
    open_pki(folder).lift(pki.qwac.certificate, now=pki.not_before + DAY)
    assert crl_of(folder).last_update_utc == pki.not_before + DAY  # OpenSSL refuses a list from the next second
    assert judge(folder, pki.qwac, pki.not_before + DAY, held) is None


@contextmanager
def unwritable(file: Path) -> Iterator[None]:
    """A folder stands where the file belongs, so it cannot be replaced; then the file is there again as it was."""
    aside = file.with_name("aside")
    file.rename(aside)
    file.mkdir()
    yield
    file.rmdir()
    aside.rename(file)


@pytest.mark.parametrize("label", ["root", "issuing-ca-qwac", "issuing-ca-qseal"])
@pytest.mark.parametrize("way", ["again", "another", "renewal"])
def test_a_revocation_that_was_cut_short_is_finished(folder, pki, label, way):
    at = pki.not_before + DAY
    with unwritable(folder / f"{label}.crl"), pytest.raises(ConfigurationError) as refused:
        open_pki(folder).revoke(pki.qwac.certificate, at=at, reason="superseded")
    assert refused.value.code == "file.unwritable"
    if way == "again":
        open_pki(folder).revoke(pki.qwac.certificate, at=at, reason="superseded")
    elif way == "another":
        open_pki(folder).revoke(pki.other_qwac.certificate, at=at)
    else:
        assert open_pki(folder).keep_current(now=at)
    assert entry_of(folder, pki.qwac).revocation_date_utc == at
    assert judge(folder, pki.qwac, at) == "revocation.revoked"
    told = {entry["path"]: entry["sha256"] for entry in json.loads((folder / "manifest.json").read_text())["files"]}
    assert told["issuing-ca-qwac.crl"] == hashlib.sha256((folder / "issuing-ca-qwac.crl").read_bytes()).hexdigest()
    assert not open_pki(folder).keep_current(now=at)
    with pytest.raises(ConfigurationError) as refused:
        open_pki(folder).revoke(pki.qwac.certificate, at=at, reason="superseded")
    assert refused.value.code == "pki.already-revoked"


def test_a_lifting_that_was_cut_short_is_finished(folder, pki):
    open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before, reason="certificateHold")
    with unwritable(folder / "root.crl"), pytest.raises(ConfigurationError):
        open_pki(folder).lift(pki.qwac.certificate, now=pki.not_before + DAY)
    assert entry_of(folder, pki.qwac) is not None
    open_pki(folder).lift(pki.qwac.certificate, now=pki.not_before + DAY)
    assert entry_of(folder, pki.qwac) is None


def test_lists_that_were_put_back_are_found_and_written_anew(folder, pki):
    old = (folder / "issuing-ca-qwac.crl").read_bytes()
    open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before, reason="superseded")
    (folder / "issuing-ca-qwac.crl").write_bytes(old)
    with pytest.raises(ConfigurationError, match="superseded") as refused:
        open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before, reason="keyCompromise")
    assert refused.value.code == "pki.already-revoked"
    assert entry_of(folder, pki.qwac) is not None


def test_a_certificate_that_only_names_the_authority_is_not_its_own(folder, pki):
    # Issuer, authority key identifier and serial number are right; another key signed.
    forged = EidasCertificate.from_der(Draft.of(pki.qwac.certificate).sign(pki.qseal_ca.key))
    assert forged.issuer == pki.qwac.certificate.issuer
    with pytest.raises(ConfigurationError) as refused:
        open_pki(folder).revoke(forged, at=pki.not_before)
    assert refused.value.code == "pki.not-issued-here"


def test_a_certificate_without_key_identifier_is_known_by_its_signature(folder, pki):
    draft = replace(Draft.of(pki.qwac.certificate).without_extension("2.5.29.35"), serial=77)
    bare = EidasCertificate.from_der(draft.sign(pki.qwac_ca.key))
    assert open_pki(folder).revoke(bare, at=pki.not_before).revocation_of(bare).serial == 77


def test_the_manifest_follows_the_lists(folder, pki):
    def told() -> dict[str, tuple[str, str]]:
        files = json.loads((folder / "manifest.json").read_text())["files"]
        return {entry["path"]: (entry["sha256"], entry["not_after"]) for entry in files if entry["kind"] == "crl"}

    def found() -> dict[str, tuple[str, str]]:
        lists = {f"{label}.crl": crl_of(folder, label) for label in ("root", "issuing-ca-qwac", "issuing-ca-qseal")}
        return {
            name: (hashlib.sha256((folder / name).read_bytes()).hexdigest(), format_time(crl.next_update_utc))
            for name, crl in lists.items()
        }

    first = told()
    assert first == found()
    open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before + DAY)
    assert told() == found()
    assert first.keys() == told().keys()
    assert not set(first.values()) & set(told().values())
