"""A test PKI opened again: issuing, revoking, and what it refuses to sign with."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from folder_contents import contents
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit._files import locked
from tppkit.certificates import Use, load_certificates, oids
from tppkit.certificates.certificate import EidasRequest
from tppkit.errors import ConfigurationError, TppkitError
from tppkit.testpki import certificate_pem, key_pem, make_pki, make_provider, write_pki
from tppkit.testpki.certificate import Attribute
from tppkit.testpki.folder import open_pki
from tppkit.testpki.keys import KeySource
from tppkit.testpki.requests import make_request
from tppkit.trust import PathVerifier, load_anchors

pytestmark = pytest.mark.slow

AT = datetime(2026, 6, 1, 12, tzinfo=UTC)  # on the first day of `pki`


def manifest_of(path: Path) -> dict:
    return json.loads((path / "manifest.json").read_text())


def change_entry(folder: Path, name: str, **changes: object) -> None:
    manifest = manifest_of(folder)
    for entry in manifest["files"]:
        if entry["path"] == name:
            entry.update(changes)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def refusal(folder: Path) -> str:
    with pytest.raises(ConfigurationError) as refused:
        open_pki(folder)
    return refused.value.code


def test_an_opened_folder_has_what_was_written(pki, kept):
    opened = open_pki(kept).pki
    assert [i.certificate for i in opened.issued] == [i.certificate for i in pki.issued]
    assert (opened.qwac.chain, opened.other_qseal.chain) == (pki.qwac.chain, pki.other_qseal.chain)
    assert (opened.provider, opened.other_provider) == (pki.provider, pki.other_provider)
    assert (opened.not_before, opened.days, any(opened.revocations.values())) == (pki.not_before, pki.days, False)


def test_further_certificates_are_like_the_first(tmp_path, pki):
    options = {"policy": "ev", "qscd": True, "seal_key": "ed25519", "services_url": "http://localhost:8448/pki"}
    write_pki(make_pki(at=pki.not_before, key="p384", seed=4, days=40, **options), tmp_path / "pki")
    opened = open_pki(tmp_path / "pki")
    qwac = opened.issue("qwac", opened.pki.provider, at=pki.not_before).certificate
    qseal = opened.issue("qseal", opened.pki.provider, at=pki.not_before).certificate
    assert qwac.extensions.policies == opened.pki.qwac.certificate.extensions.policies
    assert qwac.extensions.ocsp_urls == ("http://localhost:8448/pki/ocsp",)
    assert qwac.not_after == opened.pki.qwac.certificate.not_after
    assert (qwac.key.curve, qseal.key.type, qseal.qc.sscd) == ("P-384", opened.pki.qseal.certificate.key.type, True)


@pytest.mark.parametrize(("kind", "use"), [("qwac", Use.QWAC), ("qseal", Use.QSEALC), ("server", None)])
def test_one_more_certificate_is_written_in_every_form_and_trusted(folder, pki, kind, use):
    before = contents(folder)
    provider = make_provider(
        organization_identifier="PSDFI-FINFSA-1234567-8", name="Äyrin TEST", dns_name="a.example.org"
    )
    issued = open_pki(folder).issue(kind, provider, at=pki.not_before)
    added = contents(folder).keys() - before.keys()
    assert added == {f"{kind}-2{e}" for e in (".pem", ".key", "-chain.pem", ".p12")}
    assert all(stat.S_IMODE((folder / f"{kind}-2{e}").stat().st_mode) == 0o600 for e in (".key", ".p12"))
    entry = manifest_of(folder)["files"][-1]
    assert (entry["path"], entry["kind"], entry["sha256"]) == (f"{kind}-2.pem", kind, issued.certificate.sha256)
    paths = PathVerifier(load_anchors(folder))
    leaf, *others = load_certificates(folder / f"{kind}-2-chain.pem")
    assert paths.verify(leaf, at=pki.not_before, intermediates=others).chain[-1] == pki.root.certificate
    if use is not None:
        assert paths.verify_use(leaf, as_=use, at=pki.not_before)
        assert leaf.organization_identifier.text == "PSDFI-FINFSA-1234567-8"
    assert open_pki(folder).pki.members[f"{kind}-2"].certificate == issued.certificate


def test_options_and_day_apply_to_the_further_certificate_only(folder):
    opened = open_pki(folder)
    qwac = opened.issue("qwac", opened.pki.provider, at=AT + timedelta(days=400), days=30, policy="ev").certificate
    qseal = opened.issue("qseal", opened.pki.provider, at=AT, qscd=True).certificate
    begin = opened.pki.not_before + timedelta(days=400)
    assert (qwac.not_before, qwac.not_after) == (begin, begin + timedelta(days=30, seconds=-1))
    assert (qwac.extensions.policies[0], qseal.qc.sscd) == ("2.23.140.1.1", True)
    again = open_pki(folder).pki
    assert (again.not_before, again.days, again.policy, again.qscd) == (opened.pki.not_before, 365, "gen", False)


def test_a_further_certificate_ends_with_its_authority_unless_stated_otherwise(folder):
    opened = open_pki(folder)
    end = opened.pki.root.certificate.not_after
    assert opened.issue("qwac", make_provider(), at=end - timedelta(days=9)).certificate.not_after == end
    for asked in ({"at": end - timedelta(days=9), "days": 11}, {"at": AT - timedelta(days=1)}, {"at": AT, "days": 0}):
        with refused(ConfigurationError, "pki.days", match="not within that of the authorities"):
            opened.issue("qwac", make_provider(), **asked)
    with refused(ConfigurationError, "pki.ended", match="ended on"):
        opened.issue("qwac", make_provider(), at=end + timedelta(days=1), days=1)


def test_labels_are_given_or_numbered(folder):
    opened = open_pki(folder)
    at, provider = opened.pki.not_before, opened.pki.provider
    labels = [opened.issue("qwac", provider, at=at, label=label).label for label in (None, "mine", None, "a.b_c-1")]
    assert labels == ["qwac-2", "mine", "qwac-3", "a.b_c-1"]


@pytest.mark.parametrize("label", ["../evil", "/tmp/evil", "a/b", "", ".hidden", "a b", "x" * 65, "a\n", "ä", "a\0"])
def test_a_label_that_is_no_file_name_is_rejected(folder, label):
    before = contents(folder.parent)
    with refused(ConfigurationError, "pki.label"):
        open_pki(folder).issue("qwac", make_provider(), at=AT, label=label)
    assert contents(folder.parent) == before


@pytest.mark.parametrize("ending", [".pem", ".key", "-chain.pem", ".p12"])
def test_an_existing_file_is_kept_and_nothing_is_written(folder, ending):
    (folder / f"mine{ending}").write_bytes(b"precious")
    before = contents(folder)
    with refused(ConfigurationError, "file.exists"):
        open_pki(folder).issue("qwac", make_provider(), at=AT, label="mine")
    assert contents(folder) == before


@pytest.mark.parametrize("kind", ["qwac", "server"])
def test_ed25519_is_for_seals_only(folder, kind):
    opened, before = open_pki(folder), contents(folder)
    with refused(ConfigurationError, "pki.key-kind"):
        opened.issue(kind, make_provider(), at=AT, key="ed25519")
    assert contents(folder) == before
    assert opened.issue("qseal", make_provider(), at=AT, key="ed25519").certificate.key.type == "ed25519"


@pytest.mark.parametrize(("kind", "use"), [("qwac", Use.QWAC), ("qseal", Use.QSEALC)])
def test_a_requested_certificate_is_issued_without_a_key(folder, pki, kind, use):
    key = KeySource().make_key("theirs")
    provider = make_provider(organization_identifier="PSDDE-BAFIN-123456", name="Zahlgut", roles=["PSP_AI"])
    entry = open_pki(folder).issue_requested(
        EidasRequest.from_der(make_request(provider, kind, key)), at=AT, label="theirs"
    )
    leaf, issuer = load_certificates(folder / "theirs-chain.pem")
    assert (entry["kind"], entry["key_path"], entry["sha256"]) == (kind, None, leaf.sha256)
    assert manifest_of(folder)["files"][-1] == entry
    assert leaf.public_key == key.public_key()
    assert (leaf.roles, leaf.organization_identifier.text) == (("PSP_AI",), "PSDDE-BAFIN-123456")
    assert PathVerifier(load_anchors(folder)).verify_use(leaf, as_=use, at=pki.not_before, intermediates=[issuer])
    assert not (folder / "theirs.key").exists()
    assert open_pki(folder).pki.requested == (leaf,)


@pytest.mark.parametrize("way", ["symlink", "absolute", "dots", "subfolder"])
def test_a_key_outside_the_folder_is_not_used(folder, way):
    outside = folder.parent / "outside.key"
    shutil.copy(folder / "issuing-ca-qwac.key", outside)
    (folder / "sub").mkdir()
    shutil.copy(outside, folder / "sub" / "inner.key")
    if way == "symlink":
        (folder / "issuing-ca-qwac.key").unlink()
        (folder / "issuing-ca-qwac.key").symlink_to(outside)
    else:
        name = {"absolute": str(outside), "dots": "../outside.key", "subfolder": "sub/inner.key"}[way]
        change_entry(folder, "issuing-ca-qwac.pem", key_path=name)
    assert refusal(folder) == "pki.foreign-key"


# Neither another unit nor another kind in the manifest makes it a test authority.
@pytest.mark.parametrize("kind", ["issuing-ca", "qwac"])
@pytest.mark.parametrize("name", ["Real CA", "ATTESTATION CA", "GREATEST CA", "Protest", "TESTING", "test CA"])
def test_an_authority_that_does_not_say_test_does_not_sign(folder, pki, name, kind):
    subject = (Attribute(oids.COMMON_NAME, name), Attribute("2.5.4.11", "TEST"))
    real = pki.issue(pki.root, "real", "issuing-ca", subject, [(x509.BasicConstraints(True, 0), True)])
    (folder / "issuing-ca-qwac.pem").write_bytes(certificate_pem(real.certificate))
    (folder / "issuing-ca-qwac.key").write_bytes(key_pem(real.key))
    change_entry(folder, "issuing-ca-qwac.pem", kind=kind)
    assert refusal(folder) == "pki.not-test"


@pytest.mark.parametrize("label", ["issuing-ca-qwac", "issuing-ca-qseal", "ocsp-qwac", "ocsp-qseal", "tsa"])
def test_a_signer_of_another_hierarchy_does_not_sign(folder, pki, label):
    other = make_pki(at=pki.not_before, seed=77).members[label]  # with the same names
    (folder / f"{label}.pem").write_bytes(certificate_pem(other.certificate))
    (folder / f"{label}.key").write_bytes(key_pem(other.key))
    assert refusal(folder) == "pki.foreign-key"


def test_a_key_of_another_certificate_is_not_used(folder):
    shutil.copy(folder / "qseal.key", folder / "issuing-ca-qwac.key")
    assert refusal(folder) == "pki.foreign-key"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("manifest.json", b""), ("manifest.json", b"{"), ("manifest.json", b"[]"), ("manifest.json", b'{"files": {}}'),
        ("manifest.json", b'{"files": [1]}'), ("manifest.json", b'{"files": [{"path": "qwac.pem"}]}'),
        ("manifest.json", b'{"files": []}'), ("manifest.json", b"\xff\xfe"), ("manifest.json", b"[" * 100_000),
        ("manifest.json", b'{"files": [{"path": "a\\u0000.pem", "kind": "qwac", "key_path": "qwac.key"}]}'),
        ("manifest.json", b'{"files": [{"path": "\\ud800.pem", "kind": "qwac", "key_path": "qwac.key"}]}'),
        ("manifest.json", b'{"files": [{"path": "qwac.pem", "kind": "qwac", "key_path": "a\\u0000"}]}'),
        ("root.pem", b""), ("root.pem", b"no certificate"), ("qwac-chain.pem", b"\x30\x00"), ("tsa.key", b""), ("tsa.key", b"x" * 99),
        ("root.crl", b""), ("issuing-ca-qwac.crl", b"\x30\x00"),
    ],
)  # fmt: skip
def test_a_damaged_folder_is_rejected(folder, name, content):
    (folder / name).write_bytes(content)
    assert refusal(folder) == "pki.unusable"


def test_a_revocation_list_of_another_authority_is_rejected(folder):
    shutil.copy(folder / "issuing-ca-qseal.crl", folder / "issuing-ca-qwac.crl")
    assert refusal(folder) == "pki.unusable"


@pytest.mark.parametrize("name", ["root.pem", "issuing-ca-qwac.key", "callback-test.key", "manifest.json"])
def test_a_file_that_is_missing_is_named(folder, name):
    (folder / name).unlink()
    with refused(ConfigurationError, "pki.unusable", match=name):
        open_pki(folder)


def test_a_loop_of_links_is_rejected(folder):
    (folder / "tsa.key").unlink()
    (folder / "tsa.key").symlink_to(folder / "tsa.key")
    assert refusal(folder) in ("pki.unusable", "pki.foreign-key")


@given(st.data())
def test_only_typed_errors_escape_from_a_mutated_folder(kept, tmp_path_factory, data):
    folder = Path(shutil.copytree(kept, tmp_path_factory.mktemp("mutated") / "pki"))
    name = data.draw(st.sampled_from(["manifest.json", "qwac.pem", "root.pem", "tsa.key", "root.crl"]))
    whole = (folder / name).read_bytes()
    start = data.draw(st.integers(0, len(whole)))
    changed = whole[:start] + data.draw(st.binary(max_size=6)) + whole[start + data.draw(st.integers(0, 40)) :]
    (folder / name).write_bytes(changed)
    with suppress(TppkitError):
        open_pki(folder)


def start(*arguments: object) -> subprocess.Popen[bytes]:
    command = [str(Path(sys.executable).with_name("tppkit")), "pki", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_processes_that_change_the_folder_at_once_lose_nothing(folder, pki):
    with locked(folder):  # all of them are started before one can begin
        running = [start("issue", "qwac", folder) for _ in range(3)]
        running += [start("revoke", folder / f"{label}.pem") for label in ("qwac", "qseal", "other-qwac")]
        running += [start("issue", "qseal", folder, "--label", "same") for _ in range(2)]
    output = [process.communicate(timeout=60)[1] for process in running]
    assert [process.returncode for process in running[:6]] == [0] * 6, output
    assert sorted(process.returncode for process in running[6:]) == [0, 2]
    opened = open_pki(folder).pki
    assert {"qwac-2", "qwac-3", "qwac-4", "same"} <= opened.members.keys()
    revoked = {revocation.serial for revocations in opened.revocations.values() for revocation in revocations}
    assert revoked == {i.certificate.serial for i in (pki.qwac, pki.qseal, pki.other_qwac)}
    crl = x509.load_der_x509_crl((folder / "issuing-ca-qwac.crl").read_bytes())
    assert {entry.serial_number for entry in crl} == revoked - {pki.qseal.certificate.serial}
    assert not [name for name in os.listdir(folder) if name.startswith(".")]
