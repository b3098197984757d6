"""A test PKI as files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from tppkit._clock import format_time, parse_time
from tppkit.certificates import EidasCertificate, read_sources
from tppkit.errors import ConfigurationError
from tppkit.testpki import write_pki
from tppkit.testpki.trusted_lists import LIST_DAYS, LIST_FILES

LABELS = [
    "root", "issuing-ca-qwac", "issuing-ca-qseal", "qwac", "qseal", "other-qwac", "other-qseal", "server",
    "ocsp-qwac", "ocsp-qseal", "tsa", "lotl-signer", "list-signer",
]  # fmt: skip
KINDS = [
    "root", "issuing-ca", "issuing-ca", "qwac", "qseal", "qwac", "qseal", "server", "ocsp", "ocsp", "tsa", "list-signer",
    "list-signer",
]  # fmt: skip
LEAVES = LABELS[3:8]
KEYS = {"path", "kind", "key_path", "sha256", "not_after", "expected", "further_paths"}


@pytest.fixture(scope="module")
def folder(pki, tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "pki"
    write_pki(pki, path)
    return path


def public_bytes(key) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def files_in(path) -> set[str]:
    return {str(p.relative_to(path)) for p in path.rglob("*") if p.is_file()}


def everything(path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() if p.is_file() else b"" for p in path.rglob("*")}


def test_the_folder_holds_what_was_promised_and_nothing_else(folder):
    expected = {f"{label}{suffix}" for label in LABELS for suffix in (".pem", ".der", ".key")}
    expected |= {f"{label}{suffix}" for label in LEAVES for suffix in ("-chain.pem", ".p12", ".csr", ".b64")}
    expected |= {f"callback-{use}.{suffix}" for use in ("test", "live") for suffix in ("key", "pub")}
    expected |= {f"{label}.crl" for label in LABELS[:3]} | {"manifest.json", "README.md"}
    expected |= {f"trusted-lists/{name}" for name in ("eu-lotl.xml", "LT.xml", "lotl-signers/lotl-signer.pem")}
    assert files_in(folder) == expected


def test_the_manifest_names_every_file_and_no_other(folder):
    entries = json.loads((folder / "manifest.json").read_text())["files"]
    named = [name for e in entries for name in (e["path"], e["key_path"], *e["further_paths"]) if name]
    assert len(named) == len(set(named))
    assert set(named) == files_in(folder) - {"manifest.json", "README.md"}


@pytest.mark.parametrize("with_faults", [False, True])
def test_the_readme_names_every_file_and_no_other(pki, tmp_path, with_faults):
    write_pki(pki, tmp_path / "pki", with_faults=with_faults)
    readme = (tmp_path / "pki" / "README.md").read_text()
    named = set(re.findall(r"`([a-z][a-z-]+(?:\.[a-z]+|/))`", readme))
    assert {name for name in named if name.endswith(".pem")} == {f"{label}.pem" for label in LABELS}
    assert {"manifest.json", "callback-test.key", "callback-live.key", "trusted-lists/"} <= named
    assert all((tmp_path / "pki" / name).exists() for name in named)
    assert ("faults/" in named) == with_faults
    for ending in (".der", ".key", "-chain.pem", ".p12", ".csr", ".b64", "*.crl", ".pub"):
        assert f"`{ending}`" in readme


def test_only_the_owner_can_read_keys(folder):
    modes = {name: stat.S_IMODE((folder / name).stat().st_mode) for name in files_in(folder)}
    private = {name for name, mode in modes.items() if mode == 0o600}
    assert private == {name for name in modes if name.endswith((".key", ".p12"))}
    assert {mode for name, mode in modes.items() if name not in private} == {0o644}


@pytest.mark.parametrize("label", LABELS)
def test_a_key_loads_again_and_fits_its_certificate(folder, label):
    key = load_pem_private_key((folder / f"{label}.key").read_bytes(), password=None)
    certificate = EidasCertificate.from_pem((folder / f"{label}.pem").read_bytes())
    assert public_bytes(key.public_key()) == public_bytes(certificate.public_key)


@pytest.mark.parametrize("label", LEAVES)
def test_a_chain_is_the_leaf_with_its_authority_behind_it(pki, folder, label):
    issued = pki.members[label]
    chain = [source.der for source in read_sources((folder / f"{label}-chain.pem").read_bytes())]
    assert chain == [issued.certificate.der, *(authority.der for authority in issued.chain)]
    assert len(chain) == 2


def test_the_manifest_names_the_provider(pki, folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert set(manifest) == {"organization_identifier", "roles", "files"}
    assert manifest["organization_identifier"] == "PSDLT-BL-LB000000"
    assert manifest["roles"] == ["PSP_PI", "PSP_AI"]


def test_the_manifest_names_every_certificate_as_it_is(folder):
    files = json.loads((folder / "manifest.json").read_text())["files"]
    files, others = files[: len(LABELS)], files[len(LABELS) :]
    assert [entry["path"] for entry in files] == [f"{label}.pem" for label in LABELS]
    assert [entry["kind"] for entry in files] == KINDS
    assert [entry["kind"] for entry in others] == ["callback-key"] * 2 + ["crl"] * 3 + ["trusted-list"] * 2
    assert all(set(entry) == KEYS for entry in others)
    for entry in files:
        assert set(entry) == KEYS
        certificate = EidasCertificate.from_pem((folder / entry["path"]).read_bytes())
        assert entry["sha256"] == certificate.sha256
        assert parse_time(entry["not_after"]) == certificate.not_after
        assert entry["key_path"] == entry["path"].replace(".pem", ".key")
        assert entry["expected"] == []


def test_the_manifest_names_every_other_file_as_it_is(pki, folder):
    entries = json.loads((folder / "manifest.json").read_text())["files"][len(LABELS) :]
    for entry in entries:
        assert entry["sha256"] == hashlib.sha256((folder / entry["path"]).read_bytes()).hexdigest()
    ends = {entry["kind"]: entry["not_after"] and parse_time(entry["not_after"]) for entry in entries}
    crl = x509.load_der_x509_crl((folder / "root.crl").read_bytes())
    assert ends == {
        "callback-key": None,
        "crl": crl.next_update_utc,
        "trusted-list": pki.not_before + timedelta(days=LIST_DAYS),
    }
    end = format_time(ends["trusted-list"])
    assert all(f"<dateTime>{end}</dateTime>" in (folder / "trusted-lists" / name).read_text() for name in LIST_FILES)


def test_further_certificates_are_written_alike(pki, tmp_path):
    third = pki.issue_qseal(pki.provider, label="third-qseal")
    manifest = write_pki(pki, tmp_path / "pki", further=(third,))
    (entry,) = (entry for entry in manifest["files"] if entry["path"] == "third-qseal.pem")
    assert entry["sha256"] == third.certificate.sha256
    for name in ("third-qseal.pem", "third-qseal.key", "third-qseal-chain.pem", "third-qseal.p12"):
        assert (tmp_path / "pki" / name).is_file()


@pytest.mark.parametrize("target", ["a file", "a full folder", "a pki"])
def test_nothing_that_exists_is_written_over(pki, tmp_path, target):
    path = tmp_path / "pki"
    match target:
        case "a file":
            path.write_bytes(b"old")
        case "a full folder":
            path.mkdir()
            (path / "old").write_bytes(b"old")
        case _:
            write_pki(pki, path)
    before = everything(tmp_path)
    with pytest.raises(ConfigurationError) as refused:
        write_pki(pki, path)
    assert refused.value.code == "file.exists"
    assert everything(tmp_path) == before


def test_a_folder_below_a_file_cannot_be_made(pki, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigurationError) as refused:
        write_pki(pki, tmp_path / "file" / "pki")
    assert refused.value.code == "file.unwritable"


def test_what_fails_half_way_leaves_nothing_behind(pki, tmp_path):
    with pytest.raises(ConfigurationError) as refused:
        write_pki(pki, tmp_path / "pki", further=(pki.qwac,))  # its files are written already
    assert refused.value.code == "file.exists"
    assert everything(tmp_path) == {}


def test_every_folder_is_for_its_owner_to_change_whatever_the_umask(pki, tmp_path):
    before = os.umask(0)
    try:
        write_pki(pki, tmp_path / "pki", with_faults=True)
    finally:
        os.umask(before)
    folders = [path for path in (tmp_path / "pki", *(tmp_path / "pki").rglob("*")) if path.is_dir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o755}
    assert len(folders) == 4
