"""Mutual TLS in front of uvicorn: who is let in, and what is negotiated with real TLS clients over loopback sockets."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from cryptography.hazmat.bindings.openssl.binding import Binding
from OpenSSL import SSL
from tls_server import (
    LAST_GET,
    Running,
    eventually,
    log,
    parties,
    pems,
    read_all,
    serving,
    soft,
    soft_server,
    strict,
    strict_server,
)

from refusals import refused
from tppkit.errors import ConfigurationError
from tppkit.sandbox import tls as tls_module
from tppkit.sandbox.tls import TlsMode, make_http_protocol
from tppkit.testpki import key_pem

__all__ = ["log", "parties", "soft", "soft_server", "strict", "strict_server"]

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.slow]

BOTH = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
VERSIONS = pytest.mark.parametrize("version", BOTH, ids=["1.2", "1.3"])
EXPIRED = "certificate has expired (X509 error 10 at depth 0)"
FORGED = "certificate signature failure (X509 error 7 at depth 0)"
PURPOSE = "unsuitable certificate purpose (X509 error 26 at depth 0)"
UNKNOWN = "unable to get local issuer certificate (X509 error 20 at depth 0)"


@VERSIONS
def test_the_application_sees_the_certificate(parties, soft, version):
    with soft.tls_connect(parties.client("good", version)) as connection:
        connection.sendall(LAST_GET)
        assert b"200 OK" in read_all(connection)
    (scope,) = soft.bank.scopes
    assert scope["scheme"] == "https"
    assert scope["extensions"]["tls"] == {"client_cert_chain": pems(parties.clients["good"]), "client_cert_error": None}


@pytest.mark.parametrize(
    ("who", "error"),
    [
        (None, None),
        ("leaf-only", None),
        ("expired", EXPIRED),
        ("future", "certificate is not yet valid (X509 error 9 at depth 0)"),
        ("unknown-ca", f"{UNKNOWN}; unable to verify the first certificate (X509 error 21 at depth 0)"),
        ("other-root", "self-signed certificate in certificate chain (X509 error 19 at depth 2)"),
        ("self-signed", "self-signed certificate (X509 error 18 at depth 0)"),
        ("server-auth", PURPOSE),
        ("forged", FORGED),
        ("two-faults", f"{PURPOSE}; {EXPIRED}"),
    ],
)
def test_a_client_with_a_faulty_certificate_or_none_is_accepted_and_recognised(parties, soft, who, error):
    assert b"200 OK" in soft.ask(parties.client(who))
    seen = soft.bank.scopes[0]["extensions"]["tls"]
    assert seen["client_cert_chain"] == (pems(parties.clients[who]) if who else ())
    assert seen["client_cert_error"] == error


def test_a_certificate_that_only_openssl_reads_is_passed_on(parties, soft):
    good = parties.clients["good"]
    der = bytearray(good.certificate.der)
    der[der.index(b"\xa0\x03\x02\x01\x02") + 4] = 7  # "version 8"
    odd = ssl.DER_cert_to_PEM_cert(bytes(der))
    context, path = parties.client(), parties.folder / "odd.pem"
    path.write_bytes(key_pem(good.key) + odd.encode())
    context.load_cert_chain(path)
    assert b"200 OK" in soft.ask(context)
    seen = soft.bank.scopes[0]["extensions"]["tls"]
    assert seen["client_cert_chain"] == (odd,)
    assert "X509 error" in seen["client_cert_error"]


@pytest.mark.parametrize(
    ("beside", "error"), [(False, None), (True, "unable to get issuer certificate (X509 error 2 at depth 1)")]
)
def test_an_intermediate_is_trusted_by_itself_unless_there_is_a_root(parties, beside, error):
    anchors = parties.issuing + (parties.other_root if beside else "")
    with serving(parties.tls(client_anchors_pem=anchors.encode())) as running:
        running.ask(parties.client("leaf-only"))
    assert running.bank.scopes[0]["extensions"]["tls"]["client_cert_error"] == error


def test_the_server_sends_its_intermediates(parties):
    with serving(parties.tls(client_anchors_pem=parties.other_root.encode())) as running:
        assert b"200 OK" in running.ask(parties.client())  # which knows the root only


@VERSIONS
def test_strict_accepts_a_good_certificate(parties, strict, version):
    assert b"200 OK" in strict.ask(parties.client("good", version))
    seen = strict.bank.scopes[0]["extensions"]["tls"]
    assert (seen["client_cert_chain"], seen["client_cert_error"]) == (pems(parties.clients["good"]), None)


REFUSALS = [
    (None, "peer did not return a certificate", ("HANDSHAKE_FAILURE", "CERTIFICATE_REQUIRED")),
    ("expired", EXPIRED, ("CERTIFICATE_EXPIRED",) * 2),
    ("unknown-ca", UNKNOWN, ("UNKNOWN_CA",) * 2),
    ("server-auth", PURPOSE, ("UNSUPPORTED_CERTIFICATE",) * 2),
    ("forged", FORGED, ("DECRYPT_ERROR",) * 2),
]


@pytest.mark.parametrize(("who", "reason", "alerts"), REFUSALS, ids=[str(row[0]) for row in REFUSALS])
@VERSIONS
def test_strict_refuses_with_the_alert_and_one_log_line(parties, strict, log, who, reason, alerts, version):
    with pytest.raises(ssl.SSLError) as refused:
        strict.ask(parties.client(who, version))
    eventually(lambda: strict.live == 0)
    assert str(refused.value.reason).endswith("ALERT_" + alerts[version is ssl.TLSVersion.TLSv1_3])
    (line,) = log()
    assert line.startswith("TLS connection from 127.0.0.1 port ")
    assert reason in line
    assert strict.bank.scopes == []


def test_the_alert_survives_a_client_that_is_still_sending(parties, strict):
    with strict.tls_connect(parties.client(version=ssl.TLSVersion.TLSv1_3)) as connection:
        for _ in range(20):
            connection.sendall(bytes(20_000))
            time.sleep(0.005)
        with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
            connection.recv(1)


def test_a_refused_client_that_stays_is_cut_off(strict):
    with strict.connect() as connection:
        eventually(lambda: strict.live == 1)
        connection.sendall(b"\x16\x03\x01garbage")
        assert read_all(connection)[:1] == b"\x15"  # the alert, and the end
        eventually(lambda: strict.live == 0)


@pytest.mark.parametrize(
    ("offer", "chosen"), [((), None), (("h2", "http/1.1"), "http/1.1"), (("http/1.1",), "http/1.1")]
)
def test_alpn_is_http_1_1(parties, soft, offer, chosen):
    with soft.tls_connect(parties.client(alpn=offer)) as connection:
        assert connection.selected_alpn_protocol() == chosen


def test_a_client_that_wants_only_http_2_gets_an_alert(parties, soft, log):
    with pytest.raises(ssl.SSLError, match=r"(?i)alert.no.application.protocol"):
        soft.tls_connect(parties.client(alpn=("h2",)))
    assert log()[0].endswith("no application protocol in common")


def test_tls_1_1_is_refused(soft, log):
    hello = b"\x03\x02" + bytes(32) + b"\x00" + b"\x00\x04\xc0\x09\xc0\x13" + b"\x01\x00"
    message = b"\x01" + len(hello).to_bytes(3, "big") + hello
    with soft.connect() as connection:
        connection.sendall(b"\x16\x03\x01" + len(message).to_bytes(2, "big") + message)
        alert = read_all(connection)
    assert (alert[0], alert[5:]) == (21, b"\x02\x46")  # fatal, protocol_version (70)
    assert log()[0].endswith("unsupported protocol")


@pytest.mark.parametrize("suite", ["ECDHE-ECDSA-AES128-SHA256", "ECDHE-ECDSA-AES128-SHA", "AES128-SHA"])
def test_weak_tls_1_2_suites_are_refused(parties, soft, suite):
    context = parties.client(version=ssl.TLSVersion.TLSv1_2)
    context.set_ciphers(suite)
    with pytest.raises(ssl.SSLError, match="HANDSHAKE_FAILURE"):
        soft.tls_connect(context)


@VERSIONS
def test_no_session_is_resumed(parties, soft, version):
    context = parties.client("good", version)
    with soft.tls_connect(context) as first:
        first.sendall(LAST_GET)
        read_all(first)
        session = first.session
    if version is ssl.TLSVersion.TLSv1_2:
        assert session is None or (not session.has_ticket and session.id == b"")
    with soft.tls_connect(context, session=session) as second:
        assert not second.session_reused
        second.sendall(LAST_GET)
        read_all(second)
    chains = [scope["extensions"]["tls"]["client_cert_chain"] for scope in soft.bank.scopes]
    assert chains == [pems(parties.clients["good"])] * 2


@contextmanager
def openssl_client(running: Running, version: int) -> Iterator[SSL.Connection]:
    """A client of pyOpenSSL, for what the ssl module does not show."""
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_min_proto_version(version)
    context.set_max_proto_version(version)
    with running.connect() as raw:
        raw.settimeout(None)
        connection = SSL.Connection(context, raw)
        connection.set_connect_state()
        yield connection


def test_renegotiation_is_refused(soft):
    with openssl_client(soft, SSL.TLS1_2_VERSION) as connection:
        connection.do_handshake()
        connection.renegotiate()
        with pytest.raises(SSL.Error, match="no renegotiation"):
            connection.do_handshake()


@pytest.mark.parametrize("mode", [TlsMode.SOFT, TlsMode.STRICT])
@pytest.mark.parametrize("version", [SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION])
def test_no_list_of_issuers_is_sent(soft, strict, mode, version):
    with openssl_client(soft if mode is TlsMode.SOFT else strict, version) as connection:
        with suppress(SSL.Error):
            connection.do_handshake()
        assert connection.get_peer_certificate() is not None
        assert connection.get_client_ca_list(as_cryptography=True) == []


def test_the_private_key_is_not_in_the_repr(parties):
    assert "PRIVATE KEY" in parties.tls().private_key_pem.decode()
    assert "PRIVATE KEY" not in repr(parties.tls())


@pytest.mark.parametrize(
    ("setting", "content", "code"),
    [
        ("certificate_pem", b"no PEM", "tls.certificate"),
        ("private_key_pem", b"no PEM", "tls.private-key"),
        ("private_key_pem", None, "tls.private-key"),  # the key of another certificate
        ("client_anchors_pem", b"no PEM", "tls.anchors"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(parties, setting, content, code):
    changed = {setting: content or key_pem(parties.pki.root.key)}
    with refused(ConfigurationError, code):
        make_http_protocol(parties.tls(**changed))


def test_a_private_key_that_a_tool_has_damaged_is_named_as_such(parties):
    for data, fault in (
        (b"-----BEGIN PRIVATE KEY-----\\nAA", "backslash and n"),
        ("-----BEGIN".encode("utf-16"), "UTF-16"),
    ):
        with pytest.raises(ConfigurationError, match=fault):
            make_http_protocol(parties.tls(private_key_pem=data))


def test_the_texts_of_x509_errors_are_those_of_openssl():
    binding = Binding()
    for number, text in tls_module._X509_ERRORS.items():
        theirs = binding.ffi.string(binding.lib.X509_verify_cert_error_string(number)).decode()
        assert theirs.startswith(text), number
