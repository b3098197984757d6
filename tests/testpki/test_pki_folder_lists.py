"""Revoking, holding and renewing in a folder: the lists and the manifest follow."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from folder_contents import contents

from tppkit._clock import parse_time
from tppkit.certificates import EidasCertificate
from tppkit.errors import CertificateRejected, ConfigurationError
from tppkit.testpki import Pki, make_pki, write_pki
from tppkit.testpki.certificate import Draft
from tppkit.testpki.crl import REASONS, Revocation
from tppkit.testpki.folder import open_pki
from tppkit.testpki.ocsp import answer_ocsp
from tppkit.trust import (
    PathVerifier,
    RevocationChecker,
    RevocationEvidence,
    load_anchors,
    load_revocation,
    load_trusted_lists,
)
from tppkit.trust.revocation.revocation_list import parse_crl

DAY = timedelta(days=1)
CRLS = ("root.crl", "issuing-ca-qwac.crl", "issuing-ca-qseal.crl")
LISTS = ("trusted-lists/eu-lotl.xml", "trusted-lists/LT.xml")
HOLD = "certificateHold"


def crl_of(folder: Path, name: str = CRLS[1]) -> x509.CertificateRevocationList:
    return x509.load_der_x509_crl((folder / name).read_bytes())


def revoked_in(folder: Path, name: str = CRLS[1]) -> set[int]:
    return {entry.serial_number for entry in crl_of(folder, name)}


def number_of(folder: Path, name: str = CRLS[1]) -> int:
    return crl_of(folder, name).extensions.get_extension_for_class(x509.CRLNumber).value.crl_number


def listed(folder: Path) -> dict[str, dict]:
    files = json.loads((folder / "manifest.json").read_text())["files"]
    return {entry["path"]: entry for entry in files if entry["kind"] in ("crl", "trusted-list")}


def ends(folder: Path) -> dict[str, object]:
    return {name: parse_time(entry["not_after"]) for name, entry in listed(folder).items()}


def refusal(act) -> str:
    with pytest.raises(ConfigurationError) as refused:
        act()
    return refused.value.code


def judge(folder: Path, issued, at, *lists: bytes) -> str | None:
    """The code of our own verifier with the lists of the folder and others, or None."""
    evidence = RevocationEvidence(tuple(map(parse_crl, lists))) + load_revocation(folder.glob("*.crl"))
    paths = PathVerifier(load_anchors(folder), revocation=RevocationChecker(evidence=evidence))
    try:
        paths.verify(issued.certificate, at=at, intermediates=[one.certificate for one in open_pki(folder).pki.issuers])
    except CertificateRejected as e:
        return e.code
    return None


def ocsp_status(pki: Pki, at) -> ocsp.OCSPCertStatus:
    request = ocsp.OCSPRequestBuilder().add_certificate(
        pki.qwac.certificate.x509, pki.qwac_ca.certificate.x509, hashes.SHA256()
    )
    answer = answer_ocsp(pki, request.build().public_bytes(Encoding.DER), at=at)
    return ocsp.load_der_ocsp_response(answer).certificate_status


@pytest.mark.parametrize("reason", [reason for reason in REASONS if reason != "removeFromCRL"])
def test_a_revoked_certificate_is_in_the_list_of_its_authority_with_its_reason(folder, pki, reason):
    at = pki.not_before + timedelta(hours=5)
    after = open_pki(folder).revoke(pki.qwac.certificate, at=at, reason=reason)
    crl = crl_of(folder)
    assert crl.get_revoked_certificate_by_serial_number(pki.qwac.certificate.serial).revocation_date_utc == at
    assert crl.is_signature_valid(pki.qwac_ca.certificate.x509.public_key())
    assert revoked_in(folder) == {pki.qwac.certificate.serial}
    assert not revoked_in(folder, CRLS[2])
    assert open_pki(folder).pki.revocations == after.pki.revocations
    assert after.revocation_of(pki.qwac.certificate) == Revocation(pki.qwac.certificate.serial, at, reason)


@pytest.mark.parametrize(
    ("what", "options", "code"),
    [
        ("revoked", {}, "pki.already-revoked"),
        ("held", {"reason": HOLD}, "pki.already-revoked"),
        ("foreign", {}, "pki.not-issued-here"),
        ("forged", {}, "pki.not-issued-here"),
        ("root", {}, "pki.not-issued-here"),
        ("qseal", {"reason": "because"}, "pki.reason"),
        ("qseal", {"reason": "removeFromCRL"}, "pki.reason"),
        ("qseal", {"now": -DAY}, "pki.revocation-time"),
        ("qseal", {"at": -DAY}, "pki.revocation-time"),
        ("qseal", {"now": 4000 * DAY}, "pki.ended"),
    ],
)
def test_an_impossible_revocation_changes_nothing(folder, pki, what, options, code):
    forged = EidasCertificate.from_der(
        Draft.of(pki.qwac.certificate).sign(pki.qseal_ca.key)
    )  # the right names, another key
    chosen = {
        "revoked": pki.qwac, "held": pki.other_qwac, "root": pki.root, "qseal": pki.qseal,
        "foreign": make_pki(at=pki.not_before, seed=99).qwac, "forged": replace(pki.qwac, certificate=forged),
    }[what]  # fmt: skip
    open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before)
    open_pki(folder).revoke(pki.other_qwac.certificate, at=pki.not_before, reason=HOLD)
    before, times = contents(folder), {key: pki.not_before + options[key] for key in ("at", "now") if key in options}
    given = {"at": pki.not_before, **options, **times}
    assert refusal(lambda: open_pki(folder).revoke(chosen.certificate, **given)) == code
    assert contents(folder) == before


def test_each_revocation_keeps_those_of_another_process(folder, pki):
    stale = open_pki(folder)  # two programs opened the folder before either of them revoked
    open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before)
    stale.revoke(pki.other_qwac.certificate, at=pki.not_before)
    assert revoked_in(folder) == {pki.qwac.certificate.serial, pki.other_qwac.certificate.serial}


def test_after_the_clock_was_set_back_behind_a_revocation_nothing_is_signed(folder, pki):
    open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before + DAY)
    before, now = contents(folder), pki.not_before + DAY - timedelta(minutes=6)
    assert refusal(lambda: open_pki(folder).renew(now=now)) == "pki.unusable"
    assert refusal(lambda: open_pki(folder).revoke(pki.qseal.certificate, at=now)) == "pki.unusable"
    assert contents(folder) == before


def test_a_lifted_hold_is_absent_from_list_and_ocsp_responses(folder, pki):
    at = pki.not_before + DAY
    held = open_pki(folder).revoke(pki.qwac.certificate, at=at, reason=HOLD)
    kept = (folder / CRLS[1]).read_bytes()
    assert (judge(folder, pki.qwac, at), ocsp_status(held.pki, at)) == (
        "revocation.revoked", ocsp.OCSPCertStatus.REVOKED,
    )  # fmt: skip
    lifted = open_pki(folder).lift(pki.qwac.certificate, now=at)
    assert lifted.revocation_of(pki.qwac.certificate) is None
    assert ocsp_status(open_pki(folder).pki, at) is ocsp.OCSPCertStatus.GOOD
    # Both lists are of one second; OpenSSL rejects a list that is dated in the next one.
    assert (judge(folder, pki.qwac, at, kept), crl_of(folder).last_update_utc) == (None, at)
    open_pki(folder).revoke(pki.qwac.certificate, at=at + DAY, reason="superseded")
    assert judge(folder, pki.qwac, at + DAY) == "revocation.revoked"


def test_a_hold_is_made_final_since_it_began(folder, pki):
    open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before, reason=HOLD)
    final = open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before + DAY, reason="superseded")
    # X.509, reason code extension: the date is that of the hold, and there is one entry.
    expected = Revocation(pki.qwac.certificate.serial, pki.not_before, "superseded")
    assert (final.revocation_of(pki.qwac.certificate), len(list(crl_of(folder)))) == (expected, 1)


@pytest.mark.parametrize("reason", ["superseded", None])
def test_only_a_hold_is_lifted(folder, pki, reason):
    if reason:
        open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before, reason=reason)
    before = contents(folder)
    assert refusal(lambda: open_pki(folder).lift(pki.qwac.certificate, now=pki.not_before)) == "pki.not-on-hold"
    assert contents(folder) == before


def test_a_certificate_without_key_identifier_is_recognised_by_its_signature(folder, pki):
    draft = replace(Draft.of(pki.qwac.certificate).without_extension("2.5.29.35"), serial=77)
    bare = EidasCertificate.from_der(draft.sign(pki.qwac_ca.key))
    assert open_pki(folder).revoke(bare, at=pki.not_before).revocation_of(bare).serial == 77


@pytest.mark.parametrize("name", [CRLS[1], "manifest.json"])
def test_a_failed_write_is_reported_and_finished_by_the_next_renewal(folder, pki, name, monkeypatch):
    monkeypatch.setattr(Path, "replace", _failing_for(name))
    assert refusal(lambda: open_pki(folder).revoke(pki.qwac.certificate, at=pki.not_before)) == "file.unwritable"
    monkeypatch.undo()
    assert bool(revoked_in(folder)) == (name == "manifest.json")
    open_pki(folder).renew(now=pki.not_before, only_due=True)
    assert listed(folder)[CRLS[1]]["sha256"] == hashlib.sha256((folder / CRLS[1]).read_bytes()).hexdigest()
    assert open_pki(folder).renew(now=pki.not_before, only_due=True) == ()


def _failing_for(name: str):
    replace_ = Path.replace

    def fail(path: Path, target: Path) -> Path:
        if Path(target).name == name:
            raise OSError(28, "No space left on device")
        return replace_(path, target)

    return fail


def test_every_list_is_renewed_and_trusted(folder, pki):
    at = pki.not_before + 300 * DAY
    assert open_pki(folder).renew(now=at) == (*CRLS, *LISTS)
    assert ends(folder) == dict.fromkeys(CRLS, at + 365 * DAY) | dict.fromkeys(LISTS, at + 180 * DAY)
    assert (crl_of(folder).last_update_utc, crl_of(folder).next_update_utc) == (at, at + 365 * DAY)
    assert b"<TSLSequenceNumber>2<" in (folder / "trusted-lists/LT.xml").read_bytes()
    lists, issuers = load_trusted_lists(folder / "trusted-lists"), [one.certificate for one in pki.issuers]
    status = lists.status(pki.qwac.certificate, at=at + DAY, intermediates=issuers)
    assert (status.qualified_for, list(lists.failures)) == (("web",), [])


def test_numbers_only_rise_and_a_list_dated_in_the_future_does_not_delay_the_next(folder, pki):
    acts = (
        lambda opened: opened.renew(now=pki.not_before + 300 * DAY),
        lambda opened: opened.revoke(pki.qwac.certificate, at=pki.not_before, reason=HOLD),
        lambda opened: opened.renew(now=pki.not_before + 10 * DAY),
        lambda opened: opened.lift(pki.qwac.certificate, now=pki.not_before + 10 * DAY),
    )
    numbers = [number_of(folder), *(act(open_pki(folder)) and number_of(folder) for act in acts)]
    assert numbers == [1, 2, 3, 4, 5]
    assert crl_of(folder).last_update_utc == pki.not_before + 10 * DAY


def test_only_lists_that_end_soon_are_renewed(folder, pki):
    assert open_pki(folder).renew(now=pki.not_before + 130 * DAY, only_due=True) == ()
    assert open_pki(folder).renew(now=pki.not_before + 140 * DAY, only_due=True) == LISTS
    assert open_pki(folder).renew(now=pki.not_before + 280 * DAY, only_due=True) == (*CRLS, *LISTS)
    assert open_pki(folder).renew(now=pki.root.certificate.not_after, only_due=True) == ()


def test_the_lists_of_a_short_lived_pki_are_renewed_in_time(tmp_path):
    pki = make_pki(at=parse_time("2026-06-01"), days=8, seed=1)
    write_pki(pki, tmp_path / "pki")
    assert open_pki(tmp_path / "pki").renew(now=pki.not_before + 5 * DAY, only_due=True) == ()
    assert open_pki(tmp_path / "pki").renew(now=pki.not_before + 7 * DAY, only_due=True) == CRLS


def test_a_list_that_is_missing_is_made_again(folder, pki):
    (folder / "root.crl").unlink()
    assert open_pki(folder).renew(now=pki.not_before, only_due=True) == ("root.crl",)
    assert number_of(folder, "root.crl") == 2


def test_nothing_is_written_outside_the_folder(folder, pki):
    outside = folder.parent / "outside"
    (folder / "trusted-lists").rename(outside)
    os.symlink(outside, folder / "trusted-lists")
    before = contents(outside)
    assert refusal(lambda: open_pki(folder).renew(now=pki.not_before)) == "pki.foreign-key"
    assert contents(outside) == before
