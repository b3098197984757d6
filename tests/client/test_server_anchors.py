"""`server_anchors` is a path, PEM or DER bytes, or certificates, in every client and identity. All is checked at construction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rogue_bank import http, rogue_bank, server_context

from refusals import refused
from tppkit._clock import utc_now
from tppkit.certificates import load_certificates
from tppkit.client import (
    AsyncGatewayClient,
    AsyncLegacyClient,
    AsyncVaultClient,
    GatewayClient,
    Identity,
    LegacyClient,
    VaultClient,
    make_client,
)
from tppkit.client.tls_context import NoCertificate
from tppkit.errors import ConfigurationError, FormatError
from tppkit.testpki import Pki, certificate_pem, key_pem

FORMS: dict[str, Callable[[Path], Any]] = {
    "path": lambda file: file,
    "text of a path": str,
    "PEM": Path.read_bytes,
    "DER": lambda file: load_certificates(file)[0].der,
    "certificates": load_certificates,
    "list": lambda file: list(load_certificates(file)),
    "one certificate": lambda file: load_certificates(file)[0],
}
WRONG: dict[str, tuple[Callable[[Path], Any], type[Exception], str]] = {
    "absent file": (lambda file: file.with_name("absent.pem"), FormatError, "file.unreadable"),
    "PEM as text": (Path.read_text, ConfigurationError, "file.path"),
    "no certificate": (lambda _: b"none", FormatError, "certificate.not-found"),
    "empty": (lambda _: [], ConfigurationError, "trust.no-anchors"),
    "paths": (lambda file: [file], ConfigurationError, "certificate.argument"),
    "another library's": (lambda file: [c.x509 for c in load_certificates(file)], ConfigurationError, "certificate.argument"),
    "a number": (lambda _: 7, ConfigurationError, "certificate.argument"),
}  # fmt: skip


def identity_of(pki: Pki, anchors: Any) -> Identity:
    return Identity(pki.qwac.certificate, pki.qwac.key, server_anchors=anchors)


def identity_from_files(folder: Path, anchors: Any) -> Identity:
    return Identity.from_files(qwac=folder / "qwac-chain.pem", qwac_key=folder / "qwac.key", server_anchors=anchors)


def identity_from_memory(pki: Pki, anchors: Any) -> Identity:
    parts = {"qwac": certificate_pem(pki.qwac.certificate), "qwac_key": key_pem(pki.qwac.key)}
    return Identity.from_memory(**parts, server_anchors=anchors)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["no certificate", "identity", "from files", "from memory"])
def test_every_form_trusts_the_server(form, kind, bank_pki, bank_pki_folder):
    anchors = FORMS[form](bank_pki_folder / "root.pem")
    made: dict[str, Callable[[], Any]] = {
        "no certificate": lambda: NoCertificate(server_anchors=anchors),
        "identity": lambda: identity_of(bank_pki, anchors),
        "from files": lambda: identity_from_files(bank_pki_folder, anchors),
        "from memory": lambda: identity_from_memory(bank_pki, anchors),
    }
    with rogue_bank(server_context(bank_pki_folder), http(200)) as bank, make_client(made[kind]()) as client:
        assert client.get(bank.url).status_code == 200


@pytest.mark.parametrize("wrong", WRONG)
def test_another_value_is_a_typed_error_at_construction(wrong, bank_pki, bank_pki_folder):
    value, error, code = WRONG[wrong]
    anchors = value(bank_pki_folder / "root.pem")
    clients = (GatewayClient, AsyncGatewayClient, LegacyClient, AsyncLegacyClient, VaultClient, AsyncVaultClient)
    constructors: list[Callable[[], Any]] = [
        lambda: NoCertificate(server_anchors=anchors),
        lambda: identity_of(bank_pki, anchors),
        lambda: identity_from_files(bank_pki_folder, anchors),
        lambda: identity_from_memory(bank_pki, anchors),
        *(lambda made=client: made("https://bank.example", api_key="k", server_anchors=anchors) for client in clients),
    ]
    for construct in constructors:
        with refused(error, code, match="(?i)^server_anchors"):
            construct()


@pytest.mark.parametrize("form", ["path", "PEM"])
def test_what_cannot_be_read_of_a_bundle_is_left_out_with_a_warning(form, tmp_path, bank_pki, bank_pki_folder, caplog):
    bundle = tmp_path / "bundle.pem"
    good = certificate_pem(bank_pki.root.certificate)
    bundle.write_bytes(certificate_pem(bank_pki.qwac.chain[0]).replace(b"MII", b"AAA", 1) + good)
    anchors = FORMS[form](bundle)
    with rogue_bank(server_context(bank_pki_folder), http(200)) as bank:
        for made in (NoCertificate(server_anchors=anchors), identity_from_memory(bank_pki, anchors)):
            with make_client(made) as client:
                assert client.get(bank.url).status_code == 200
    for record in caplog.records:
        assert record.name == "tppkit.certificates"
        assert f"{bundle if form == 'path' else ''} near line 1 cannot be read: " in record.getMessage()
    assert len(caplog.records) == 2


@pytest.mark.parametrize("value", [None, 7, ["k"], b"k"])
def test_an_address_or_key_of_another_type_is_a_typed_error(value):
    for made in (GatewayClient, AsyncGatewayClient, LegacyClient, AsyncLegacyClient, VaultClient, AsyncVaultClient):
        with refused(ConfigurationError, "credentials.malformed"):
            made("https://bank.example", api_key=value)
        with refused(ConfigurationError, "client.base-url"):
            made(value, api_key="k")


def test_reload_reads_the_file_again_and_keeps_given_certificates(tmp_path, bank_pki, bank_pki_folder):
    root = tmp_path / "root.pem"
    root.write_bytes((bank_pki_folder / "root.pem").read_bytes())
    by_path, by_value = (identity_from_files(bank_pki_folder, anchors) for anchors in (root, load_certificates(root)))
    root.write_bytes(certificate_pem(bank_pki.qwac.chain[0]))
    assert (by_path.reload(at=utc_now()), by_value.reload(at=utc_now())) == (True, False)
