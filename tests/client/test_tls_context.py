"""The context that clients hold: modern, verified, and without a key on the disk."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from rogue_bank import http, rogue_bank, server_context

from tppkit.client import Identity, Psd2Client, make_client
from tppkit.client.tls_context import _as_file
from tppkit.errors import TppkitError, TransportError
from tppkit.testpki import Pki


def test_only_ephemeral_exchange_and_authenticated_encryption_is_offered(identity: Identity) -> None:
    offered = identity.tls_context.get_ciphers()
    names = [row["name"] for row in offered]
    assert all(row["aead"] for row in offered)
    assert all(name.startswith(("TLS_", "ECDHE-")) for name in names)
    assert {"TLS_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"} <= set(names)


@pytest.mark.parametrize(
    ("ciphers", "code"),
    [("ECDHE+AESGCM", "request.refused"), ("ECDHE-ECDSA-AES256-SHA384", "transport.failed")],
    ids=["modern", "CBC"],
)
def test_a_server_with_old_ciphers_gets_no_connection(
    ciphers: str, code: str, identity: Identity, bank_pki_folder: Path
) -> None:
    context = server_context(bank_pki_folder)
    context.set_ciphers(ciphers)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        rogue_bank(context, http(404)) as bank,
        Psd2Client(bank.url, identity=identity) as client,
        pytest.raises(TppkitError) as caught,
    ):
        client.payment_status("1")
    assert caught.value.code == code


def test_the_context_itself_believes_nobody(identity: Identity) -> None:
    assert (identity.tls_context.verify_mode, identity.tls_context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert ssl.SSLContext.get_ca_certs(identity.tls_context) == []


def test_what_a_library_sets_does_not_weaken_its_connections(bank_pki: Pki, bank_pki_folder: Path) -> None:
    other = Identity(bank_pki.qwac.certificate, bank_pki.qwac.key, server_anchors=[bank_pki.qwac.certificate])
    other.tls_context.load_verify_locations(bank_pki_folder / "root.pem")
    other.tls_context.check_hostname = False
    other.tls_context.verify_mode = ssl.CERT_NONE
    with (
        rogue_bank(server_context(bank_pki_folder), http(404)) as bank,
        Psd2Client(bank.url, identity=other) as client,
        pytest.raises(TransportError),
    ):
        client.payment_status("1")
    assert bank.requests == []


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "temporary file"])
def test_a_key_is_never_written_in_the_clear(in_memory: bool, bank_pki: Pki) -> None:
    with _as_file((bank_pki.qwac.certificate,), bank_pki.qwac.key, in_memory=in_memory) as (path, password):
        written = Path(path).read_bytes()
        assert Path(path).stat().st_mode & 0o077 == 0 or in_memory
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in written
    assert b"BEGIN PRIVATE KEY" not in written
    assert load_pem_private_key(written, password).public_key() == bank_pki.qwac.certificate.public_key  # type: ignore[comparison-overlap]
    assert not Path(path).exists()


def test_an_issuing_authority_may_be_believed_by_itself(bank_pki: Pki, bank_pki_folder: Path) -> None:
    qwac, issuing = bank_pki.qwac, bank_pki.server.chain[0]
    identity = Identity(qwac.certificate, qwac.key, server_anchors=[issuing])
    with (
        rogue_bank(server_context(bank_pki_folder), http(200)) as bank,
        make_client(identity) as client,
    ):
        assert client.get(bank.url).status_code == 200
