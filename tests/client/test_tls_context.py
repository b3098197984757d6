"""The context that clients hold: modern, verified, and without a key on the disk."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import ssl
import struct
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtensionOID, NameOID
from rogue_bank import http, rogue_bank, server_context

from refusals import refused
from tppkit._clock import utc_now
from tppkit.certificates import EidasCertificate
from tppkit.client import Identity, Psd2Client, make_client
from tppkit.client.tls_context import _as_file
from tppkit.errors import ConfigurationError, TppkitError, TransportError
from tppkit.testpki import certificate_pem
from tppkit.testpki.certificate import Draft, attribute_of


def test_the_context_is_modern_and_verifies_and_trusts_no_certificate_by_itself(identity):
    offered = identity.tls_context.get_ciphers()
    names = [row["name"] for row in offered]
    assert all(row["aead"] for row in offered)
    assert all(name.startswith(("TLS_", "ECDHE-")) for name in names)
    assert {"TLS_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"} <= set(names)
    context = identity.tls_context
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert ssl.SSLContext.get_ca_certs(context) == []


@pytest.mark.parametrize(
    ("ciphers", "code"),
    [("ECDHE+AESGCM", "request.refused"), ("ECDHE-ECDSA-AES256-SHA384", "transport.failed")],
    ids=["modern", "CBC"],
)
def test_a_server_with_old_ciphers_gets_no_connection(ciphers, code, identity, bank_pki_folder):
    context = server_context(bank_pki_folder)
    context.set_ciphers(ciphers)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        rogue_bank(context, http(404)) as bank,
        Psd2Client(bank.url, identity=identity) as client,
        refused(TppkitError, code),
    ):
        client.payment_status("1")


CHANGES = {
    "options": lambda c: setattr(
        c, "options", c.options | 4
    ),  # ssl.OP_LEGACY_SERVER_CONNECT, which Python has from 3.12 on
    "maximum_version": lambda c: setattr(c, "maximum_version", ssl.TLSVersion.TLSv1_2),
    "minimum_version": lambda c: setattr(c, "minimum_version", ssl.TLSVersion.TLSv1_3),
    "verify_flags": lambda c: setattr(c, "verify_flags", c.verify_flags & ~ssl.VERIFY_X509_STRICT),
    "check_hostname": lambda c: setattr(c, "check_hostname", False),
    "keylog_filename": lambda c: setattr(c, "keylog_filename", os.devnull),
    "post_handshake_auth": lambda c: setattr(c, "post_handshake_auth", True),
    "sni_callback": lambda c: setattr(c, "sni_callback", print),
    "set_ciphers": lambda c: c.set_ciphers("ECDHE-ECDSA-AES256-SHA384"),
    "load_cert_chain": lambda c: c.load_cert_chain("absent.pem"),
    "load_default_certs": lambda c: c.load_default_certs(),
    "set_default_verify_paths": lambda c: c.set_default_verify_paths(),
    "set_ecdh_curve": lambda c: c.set_ecdh_curve("secp384r1"),
}


def only_tls_1_2(context: ssl.SSLContext) -> None:
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES256-SHA384:ECDHE-RSA-AES256-SHA384")
    context.options |= 4
    context.post_handshake_auth = True


def test_settings_of_one_bank_take_effect_also_after_a_renewal(bank_pki, bank_pki_folder):
    names = ("qwac", "qwac_key", "server_anchors")
    paths = {
        name: bank_pki_folder / file for name, file in zip(names, ("qwac.pem", "qwac.key", "root.pem"), strict=True)
    }
    identity, context = Identity.from_files(**paths), server_context(bank_pki_folder)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES256-SHA384:ECDHE-RSA-AES256-SHA384")
    with (
        rogue_bank(context, http(404)) as bank,
        make_client(identity, adjust_tls=only_tls_1_2) as adjusted,
        make_client(identity) as usual,
    ):
        assert adjusted.get(bank.url).status_code == 404
        identity.renew(Identity.from_files(**paths), at=utc_now())
        with make_client(identity, adjust_tls=only_tls_1_2) as again:
            assert again.get(bank.url).status_code == 404
        with pytest.raises(httpx.ConnectError):
            usual.get(bank.url)


def test_a_failed_handshake_names_ciphers_and_key(identity, bank_pki_folder):
    context = server_context(bank_pki_folder)
    context.set_ciphers("ECDHE-ECDSA-AES256-SHA384")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        rogue_bank(context, http(404)) as bank,
        Psd2Client(bank.url, identity=identity) as client,
        pytest.raises(TransportError, match="none of our ciphers"),
    ):
        client.payment_status("1")


def test_what_a_library_sets_does_not_weaken_its_connections(bank_pki, bank_pki_folder):
    other = Identity(bank_pki.qwac.certificate, bank_pki.qwac.key, server_anchors=[bank_pki.qwac.certificate])
    context = other.tls_context
    for change in CHANGES.values():
        with refused(ConfigurationError, "identity.tls", match="adjust_tls"):
            change(context)
    with pytest.raises(NotImplementedError):  # which libraries catch that try a setting
        context.load_verify_locations(bank_pki_folder / "root.pem")
    context.check_hostname, context.verify_mode = True, ssl.CERT_REQUIRED  # as they are
    with (
        rogue_bank(server_context(bank_pki_folder), http(404)) as bank,
        httpx.Client(verify=context, trust_env=False) as client,
        pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"),
    ):
        client.get(bank.url)
    assert bank.requests == []


@pytest.mark.parametrize("in_memory", [True, False], ids=["memory", "temporary file"])
def test_a_key_is_never_written_in_the_clear(in_memory, bank_pki):
    with _as_file((bank_pki.qwac.certificate,), bank_pki.qwac.key, in_memory=in_memory) as (path, password):
        written = Path(path).read_bytes()
        assert Path(path).stat().st_mode & 0o077 == 0 or in_memory
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in written
    assert b"BEGIN PRIVATE KEY" not in written
    assert load_pem_private_key(written, password).public_key() == bank_pki.qwac.certificate.public_key  # type: ignore[comparison-overlap]
    assert not Path(path).exists()


def refuse_memory_files() -> None:
    """Has the kernel refuse memfd_create to this thread from now on, as the sandbox of a container may."""
    number = {"x86_64": 319, "aarch64": 279}[platform.machine()]
    refused = 0x00050000 | errno.EPERM  # SECCOMP_RET_ERRNO
    filters = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, refused), (0x06, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in filters))
    program = ctypes.create_string_buffer(struct.pack("HP", len(filters), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((38, 1, 0, 0, 0), (22, 2, program, 0, 0)):  # PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP with a filter
        assert libc.prctl(*arguments) == 0, os.strerror(ctypes.get_errno())


@pytest.mark.skipif(platform.machine() not in {"x86_64", "aarch64"}, reason="the numbers of system calls are of these")
def test_if_the_system_refuses_a_file_in_memory_a_temporary_one_is_used(bank_pki, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def make() -> tuple[Path, bool]:
        refuse_memory_files()
        with pytest.raises(PermissionError):
            os.memfd_create("refused")
        with _as_file((bank_pki.qwac.certificate,), bank_pki.qwac.key) as (path, _):
            found, encrypted = Path(path), b"BEGIN ENCRYPTED PRIVATE KEY" in Path(path).read_bytes()
        Identity(bank_pki.qwac.certificate, bank_pki.qwac.key)
        return found, encrypted

    with ThreadPoolExecutor(1) as thread:  # the filter ends with it
        path, encrypted = thread.submit(make).result(30)
    assert (path.parent, encrypted) == (tmp_path, True)
    assert list(tmp_path.iterdir()) == []


def test_where_there_is_not_a_file_at_all_the_error_is_ours(bank_pki, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", "/nowhere/at/all")
    held = _as_file((bank_pki.qwac.certificate,), bank_pki.qwac.key, in_memory=False)
    with refused(ConfigurationError, "identity.tls"), held:
        pass


def test_an_issuing_authority_may_be_trusted_by_itself(bank_pki, bank_pki_folder):
    qwac, issuing = bank_pki.qwac, bank_pki.server.chain[0]
    identity = Identity(qwac.certificate, qwac.key, server_anchors=[issuing])
    with (
        rogue_bank(server_context(bank_pki_folder), http(200)) as bank,
        make_client(identity) as client,
    ):
        assert client.get(bank.url).status_code == 200


def test_a_server_certificate_without_alternative_name_is_refused(
    driver, bank_pki, bank_pki_folder, identity, tmp_path
):
    draft = Draft.of(bank_pki.server.certificate).without_extension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME.dotted_string)
    draft = replace(draft, subject=(attribute_of(NameOID.COMMON_NAME.dotted_string, "localhost"),))
    made = EidasCertificate.from_der(draft.sign(bank_pki.qwac_ca.key))
    (tmp_path / "server-chain.pem").write_bytes(b"".join(map(certificate_pem, (made, *bank_pki.server.chain))))
    (tmp_path / "server.key").write_bytes((bank_pki_folder / "server.key").read_bytes())
    text = "has no subjectAltName for 'localhost'; the common name is not used"
    with (
        rogue_bank(server_context(tmp_path), http(200)) as bank,
        refused(TransportError, "transport.failed", match=text),
    ):
        driver.run(bank.url, identity, lambda client: client.payment_status("1"))
    assert bank.requests == []


def test_no_temporary_file_is_left_when_tls_refuses_the_key(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    key = rsa.generate_private_key(65537, 1024)  # TLS libraries do not take it
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "weak TEST")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 7, utc_now(), utc_now() + timedelta(days=1))
    weak = EidasCertificate.from_der(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER))
    with refused(ConfigurationError, "identity.tls"):
        Identity(weak, key)
    assert list(tmp_path.iterdir()) == []
