"""Every public function that takes a path takes it as text too, and every password may be text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat, pkcs12

from tppkit.callbacks import load_callback_key
from tppkit.certificates import EidasCertificate, load_certificates
from tppkit.certificates.sources import read_sources
from tppkit.client import Identity
from tppkit.client.tls_context import NoCertificate
from tppkit.errors import ConfigurationError, TppkitError
from tppkit.evidence import EvidenceArchive, audit_archive
from tppkit.evidence.archive import read_lines
from tppkit.evidence.files import load_certificate
from tppkit.httpsig import load_private_key, parse_pkcs12
from tppkit.sandbox import SandboxSettings
from tppkit.seals import load_profile
from tppkit.testpki import Pki, certificate_pem, key_pem, write_pki
from tppkit.testpki.folder import open_pki
from tppkit.trust import PathVerifier, load_anchors, load_revocation, load_trusted_lists

PASSWORD = "žodis"
PROFILE = b'based_on = "berlin-group"\nname = "our-bank"\nsource = "letter from the bank"\n'


@pytest.fixture(scope="module")
def folder(pki: Pki, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    write_pki(pki, folder / "pki")
    encryption = BestAvailableEncryption(PASSWORD.encode())
    for name in ("qwac", "qseal"):
        issued = getattr(pki, name)
        held = pkcs12.serialize_key_and_certificates(
            b"x", issued.key, issued.certificate.x509, [above.x509 for above in issued.chain], encryption
        )
        (folder / f"{name}.p12").write_bytes(held)
        (folder / f"{name}.key").write_bytes(issued.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    EvidenceArchive(folder / "archive", stream_id="0" * 32).close()
    (folder / "archive" / "certs" / f"{pki.qseal.certificate.sha256}.der").write_bytes(pki.qseal.certificate.der)
    return folder


PATHS: dict[str, Callable[[str, Pki], Any]] = {
    "load_certificates": lambda at, pki: load_certificates(f"{at}/pki/qwac.pem"),
    "load_anchors, file": lambda at, pki: load_anchors(f"{at}/pki/root.pem"),
    "load_anchors, folder": lambda at, pki: load_anchors(f"{at}/pki"),
    "load_revocation": lambda at, pki: load_revocation([f"{at}/pki/issuing-ca-qwac.crl"]),
    "load_trusted_lists": lambda at, pki: load_trusted_lists(f"{at}/pki/trusted-lists"),
    "load_callback_key": lambda at, pki: load_callback_key(f"{at}/pki/callback-live.pub", name="live"),
    "load_profile": lambda at, pki: load_profile(write(f"{at}/own.toml", PROFILE)),
    "Identity.from_files": lambda at, pki: Identity.from_files(qwac=f"{at}/pki/qwac.pem", qwac_key=f"{at}/pki/qwac.key"),
    "Identity.from_pkcs12": lambda at, pki: Identity.from_pkcs12(qwac=f"{at}/pki/qwac.p12", password="test"),
    "open_pki": lambda at, pki: open_pki(f"{at}/pki"),
    "write_pki": lambda at, pki: write_pki(pki, f"{at}/another"),
    "EvidenceArchive": lambda at, pki: EvidenceArchive(f"{at}/new archive", stream_id="0" * 32).close(),
    "read_lines": lambda at, pki: list(read_lines(f"{at}/archive")),
    "load_certificate": lambda at, pki: load_certificate(f"{at}/archive", pki.qseal.certificate.sha256),
    "audit_archive": lambda at, pki: list(
        audit_archive(f"{at}/archive", paths=PathVerifier(load_anchors(f"{at}/pki/root.pem")))
    ),
    "SandboxSettings": lambda at, pki: SandboxSettings(f"{at}/sandbox", pki=f"{at}/pki").directory / "x",
}  # fmt: skip


def write(path: str, data: bytes) -> str:
    Path(path).write_bytes(data)
    return path


@pytest.mark.parametrize("function", PATHS)
def test_a_path_may_be_text(function, folder, pki):
    PATHS[function](str(folder), pki)


@pytest.mark.parametrize("text", ["{key}", "a\0b"], ids=["content", "NUL"])
@pytest.mark.parametrize(
    "call",
    [load_certificates, load_anchors, open_pki, lambda text: Identity.from_files(qwac=text, qwac_key=text)],
    ids=["load_certificates", "load_anchors", "open_pki", "Identity"],
)
def test_text_that_is_not_a_path_is_refused_without_showing_it(call, text, pki):
    with pytest.raises(ConfigurationError) as refused:
        call(text.format(key=key_pem(pki.qwac.key).decode()))
    assert refused.value.code == "file.path"
    assert "BEGIN" not in refused.value.message


PASSWORDS: dict[str, Callable[[Path, Any], Any]] = {
    "load_private_key": lambda at, password: load_private_key((at / "qseal.key").read_bytes(), password=password),
    "load_private_key, PKCS#12": lambda at, password: load_private_key(
        (at / "qseal.p12").read_bytes(), password=password
    ),
    "parse_pkcs12": lambda at, password: parse_pkcs12((at / "qseal.p12").read_bytes(), password=password),
    "load_certificates": lambda at, password: load_certificates(at / "qseal.p12", password=password),
    "read_sources": lambda at, password: read_sources((at / "qseal.p12").read_bytes(), password=password),
    "Identity.from_pkcs12": lambda at, password: Identity.from_pkcs12(
        qwac=at / "qwac.p12", qseal=at / "qseal.p12", password=password
    ),
    "Identity.from_files": lambda at, password: Identity.from_files(
        qwac=at / "pki/qwac.pem", qwac_key=at / "qwac.key", password=password
    ),
    "Identity.from_files, PKCS#12 as the key": lambda at, password: Identity.from_files(
        qwac=at / "pki/qwac.pem", qwac_key=at / "qwac.p12", password=password
    ),
    "Identity.from_files, PKCS#12 twice": lambda at, password: Identity.from_files(
        qwac=at / "qwac.p12", qwac_key=at / "qwac.p12", password=password
    ),
    "Identity.from_memory": lambda at, password: Identity.from_memory(
        qwac=(at / "qwac.p12").read_bytes(), qwac_password=lambda: password
    ),
}


@pytest.mark.parametrize("password", [PASSWORD, PASSWORD.encode()], ids=["text", "bytes"])
@pytest.mark.parametrize("function", PASSWORDS)
def test_a_password_may_be_text(function, password, folder):
    assert PASSWORDS[function](folder, password)
    with pytest.raises(TppkitError) as refused:
        PASSWORDS[function](folder, "wrong\ud800")
    assert refused.value.code in ("key.unreadable", "pkcs12.unreadable")


@pytest.mark.parametrize("password", [lambda: PASSWORD, [PASSWORD]])
@pytest.mark.parametrize("function", ["load_private_key", "parse_pkcs12", "load_certificates", "read_sources"])
def test_a_password_that_is_neither_text_nor_bytes_is_named(function, password, folder):
    with pytest.raises(TppkitError, match=r"password (is|that is) .*text .*bytes"):
        PASSWORDS[function](folder, password)


LOADERS: dict[str, Callable[[Path], Any]] = {
    "load_certificates": load_certificates,
    "from_pem": lambda at: EidasCertificate.from_pem(at.read_bytes()),
    "load_anchors": load_anchors,
    "server_anchors": lambda at: NoCertificate(server_anchors=at),
    "parse_pkcs12": lambda at: parse_pkcs12(at.read_bytes(), password=PASSWORD),
    "load_private_key": lambda at: load_private_key(at.read_bytes()),
    "load_callback_key": lambda at: load_callback_key(at, name="live"),
}


@pytest.mark.parametrize(
    ("convert", "hint"),
    [
        (lambda text: text.replace("\n", "\\n").encode(), "backslash and n: printf %b "),
        (lambda text: text.replace("\n", "\\r\\n").encode(), "backslash and n: printf %b "),
        (lambda text: text.encode("utf-16"), "UTF-16: iconv -f UTF-16 "),
        (lambda text: text.encode("utf-16-le"), "UTF-16: iconv -f UTF-16 "),
    ],
)
@pytest.mark.parametrize("loader", LOADERS)
def test_every_loader_names_a_form_that_tools_have_changed(loader, convert, hint, pki, tmp_path):
    path = tmp_path / "file.pem"
    path.write_bytes(convert(certificate_pem(pki.root.certificate).decode()))
    with pytest.raises(TppkitError, match=hint):
        LOADERS[loader](path)
