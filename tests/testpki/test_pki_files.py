"""A test PKI as files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from folder_contents import contents

from refusals import refused
from tppkit._clock import format_time, parse_time
from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError
from tppkit.testpki import write_pki
from tppkit.testpki.trusted_lists import LIST_DAYS, LIST_FILES

KINDS = {
    "root": "root", "issuing-ca-qwac": "issuing-ca", "issuing-ca-qseal": "issuing-ca", "qwac": "qwac", "qseal": "qseal",
    "other-qwac": "qwac", "other-qseal": "qseal", "server": "server", "bank-seal": "bank-seal", "ocsp-qwac": "ocsp",
    "ocsp-qseal": "ocsp", "tsa": "tsa", "lotl-signer": "list-signer", "list-signer": "list-signer",
}  # fmt: skip
LEAVES = [label for label, kind in KINDS.items() if kind in ("qwac", "qseal", "server", "bank-seal")]


def manifest_of(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_text())


def test_the_folder_and_the_manifest_name_the_promised_files_and_no_other(kept):
    expected = {f"{label}{suffix}" for label in KINDS for suffix in (".pem", ".key")}
    expected |= {f"{label}{suffix}" for label in LEAVES for suffix in ("-chain.pem", ".p12")}
    expected |= {f"callback-{use}.{suffix}" for use in ("test", "live") for suffix in ("key", "pub")}
    expected |= {f"{label}.crl" for label in list(KINDS)[:3]}
    expected |= {f"trusted-lists/{name}" for name in ("eu-lotl.xml", "LT.xml", "lotl-signers/lotl-signer.pem")}
    assert contents(kept).keys() == expected | {"manifest.json", "README.md"}
    entries = manifest_of(kept)["files"]
    named = [name for e in entries for name in (e["path"], e["key_path"], *e["further_paths"]) if name]
    assert sorted(named) == sorted(expected)


@pytest.mark.parametrize("with_faults", [False, True])
def test_the_readme_names_every_file_and_no_other(pki, tmp_path, with_faults):
    write_pki(pki, tmp_path / "pki", with_faults=with_faults)
    readme = (tmp_path / "pki" / "README.md").read_text()
    named = set(re.findall(r"`([a-z][a-z-]+(?:\.[a-z]+|/))`", readme))
    assert {name for name in named if name.endswith(".pem")} == {f"{label}.pem" for label in KINDS}
    assert {"manifest.json", "callback-test.key", "callback-live.key", "trusted-lists/"} <= named
    assert all((tmp_path / "pki" / name).exists() for name in named)
    assert ("faults/" in named) == with_faults
    for ending in (".key", "-chain.pem", ".p12", "*.crl", ".pub"):
        assert f"`{ending}`" in readme


def test_only_the_owner_can_read_keys_and_change_folders_whatever_the_umask(pki, tmp_path):
    before = os.umask(0)
    try:
        write_pki(pki, tmp_path / "pki", with_faults=True)
    finally:
        os.umask(before)
    for path in (tmp_path / "pki", *(tmp_path / "pki").rglob("*")):
        expected = 0o755 if path.is_dir() else 0o600 if path.suffix in (".key", ".p12") else 0o644
        assert stat.S_IMODE(path.stat().st_mode) == expected, path


def test_the_manifest_describes_the_provider_and_every_certificate(kept):
    manifest = manifest_of(kept)
    assert set(manifest) == {"organization_identifier", "roles", "files"}
    assert (manifest["organization_identifier"], manifest["roles"]) == ("PSDLT-BL-LB000000", ["PSP_PI", "PSP_AI"])
    for entry, (label, kind) in zip(manifest["files"], KINDS.items(), strict=False):
        certificate = EidasCertificate.from_pem((kept / f"{label}.pem").read_bytes())
        further = ["-chain.pem", ".p12"] if label in LEAVES else []
        assert entry == {
            "path": f"{label}.pem", "kind": kind, "key_path": f"{label}.key", "sha256": certificate.sha256,
            "not_after": format_time(certificate.not_after), "expected": [],
            "further_paths": [f"{label}{ending}" for ending in further],
        }  # fmt: skip


def test_the_manifest_describes_every_other_file(pki, kept):
    entries = manifest_of(kept)["files"][len(KINDS) :]
    assert [entry["kind"] for entry in entries] == ["callback-key"] * 2 + ["crl"] * 3 + ["trusted-list"] * 2
    for entry in entries:
        assert set(entry) == {"path", "kind", "key_path", "sha256", "not_after", "expected", "further_paths"}
        assert entry["sha256"] == hashlib.sha256((kept / entry["path"]).read_bytes()).hexdigest()
    ends = {entry["kind"]: entry["not_after"] and parse_time(entry["not_after"]) for entry in entries}
    next_update, end = (
        x509.load_der_x509_crl((kept / "root.crl").read_bytes()).next_update_utc,
        timedelta(days=LIST_DAYS),
    )
    assert ends == {"callback-key": None, "crl": next_update, "trusted-list": pki.not_before + end}
    stated = f"<dateTime>{format_time(ends['trusted-list'])}</dateTime>"
    assert all(stated in (kept / "trusted-lists" / name).read_text() for name in LIST_FILES)


def test_further_certificates_are_written_in_the_same_forms(pki, tmp_path):
    third = pki.issue_qseal(pki.provider, label="third-qseal")
    manifest = write_pki(pki, tmp_path / "pki", further=(third,))
    (entry,) = (entry for entry in manifest["files"] if entry["path"] == "third-qseal.pem")
    assert entry["sha256"] == third.certificate.sha256
    assert all((tmp_path / "pki" / name).is_file() for name in (entry["key_path"], *entry["further_paths"]))


@pytest.mark.parametrize(
    ("target", "code"),
    [("file", "file.exists"), ("full", "file.exists"), ("pki", "file.exists"), ("file/pki", "file.unwritable")],
)
def test_nothing_that_exists_is_overwritten(pki, tmp_path, target, code):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "old").write_bytes(b"old")
    if target == "pki":
        write_pki(pki, tmp_path / "pki")
    before = contents(tmp_path)
    with pytest.raises(ConfigurationError) as refused:
        write_pki(pki, tmp_path / target)
    assert (refused.value.code, contents(tmp_path)) == (code, before)


def test_a_failed_write_leaves_no_file(pki, tmp_path):
    with refused(ConfigurationError, "file.exists"):
        write_pki(pki, tmp_path / "pki", further=(pki.qwac,))  # its files are written already
    assert list(tmp_path.iterdir()) == []
