"""The server side of mutual TLS for the sandbox, as a protocol class for uvicorn's `http=` setting.

A bank requests the QWAC of every client, so the application needs the client certificate. uvicorn does not pass it on, and asyncio
closes a rejected handshake without an alert. So uvicorn listens on plain TCP, and `tls_connection` runs TLS (pyOpenSSL over the memory
buffers of `tls_session`) between the socket and uvicorn's HTTP protocol. In soft mode, every client completes the handshake and the
application verifies the certificate in `scope["extensions"]["tls"]`. In strict mode, the handshake rejects an invalid certificate with
an alert. In both modes, TLS proves that the client has the private key of its certificate.

Source: ASGI TLS extension 0.2 (two of its values); RFC 8446 (TLS 1.3); RFC 5246 and RFC 5289 (TLS 1.2, its AEAD suites).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, cast

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL, crypto

from tppkit._encoding import pem_fault
from tppkit.errors import ConfigurationError
from tppkit.sandbox.http1 import BoundedHttp
from tppkit.sandbox.tls_connection import Listener, TlsConnection
from tppkit.sandbox.tls_session import NoCommonProtocol

_ALPN = b"http/1.1"
_TLS_1_3 = b"TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"
# ECDHE with AEAD (RFC 9325).
_TLS_1_2 = (
    b"ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384:"
    b"ECDHE-RSA-CHACHA20-POLY1305:ECDHE-ECDSA-CHACHA20-POLY1305"
)

# OpenSSL, X509_verify_cert_error_string(3): the errors that can occur in a client's chain.
_X509_ERRORS: Mapping[int, str] = {
    2: "unable to get issuer certificate",
    6: "unable to decode issuer public key",
    7: "certificate signature failure",
    9: "certificate is not yet valid",
    10: "certificate has expired",
    13: "format error in certificate's notBefore field",
    14: "format error in certificate's notAfter field",
    18: "self-signed certificate",
    19: "self-signed certificate in certificate chain",
    20: "unable to get local issuer certificate",
    21: "unable to verify the first certificate",
    22: "certificate chain too long",
    25: "path length constraint exceeded",
    26: "unsuitable certificate purpose",
    32: "key usage does not include certificate signing",
    34: "unhandled critical extension",
    41: "invalid or inconsistent certificate extension",
    47: "permitted subtree violation",
    48: "excluded subtree violation",
    66: "EE certificate key too weak",
    67: "CA certificate key too weak",
    68: "CA signature digest algorithm too weak",
    79: "invalid CA certificate",
    94: "Certificate public key has explicit ECC parameters",
}


class TlsMode(StrEnum):
    """Whether the application (soft) or the handshake (strict) verifies client certificates, or none are requested."""

    SOFT = "soft"
    STRICT = "strict"
    NO_CERTIFICATES = "no-certificates"


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The server's identity, its trust anchors and its limits.

    Attributes:
        certificate_pem: the server certificate, leaf first, then intermediates; PEM.
        private_key_pem: the leaf's private key, PEM, not encrypted; never part of the repr.
        client_anchors_pem: CA certificates, PEM. A client's chain must end at a self-issued one, the others may be
            intermediates; if none is self-issued, each one is a trust anchor.
        mode: whether and where client certificates are verified.
        handshake_timeout_s: time limit for the handshake in seconds; also the maximum time without a decrease of
            the bytes that wait for the client.
    """

    certificate_pem: bytes
    private_key_pem: bytes = field(repr=False)
    client_anchors_pem: bytes
    mode: TlsMode = TlsMode.SOFT
    handshake_timeout_s: float = 10.0


def make_http_protocol(
    tls: ServerTls, *, inner: type[BoundedHttp] = BoundedHttp, instead: Callable[[], ServerTls | None] | None = None
) -> type[asyncio.Protocol]:
    """Make the class to pass to `uvicorn.Config(app, http=...)`.

    Args:
        tls: identity, trust and limits.
        inner: the HTTP protocol class that gets the decrypted bytes.
        instead: called for each handshake; returns what it shows and trusts instead of `tls`, or None.

    Raises:
        ConfigurationError: `tls.certificate` or `tls.anchors`, no PEM certificates; `tls.private-key`, not
            an unencrypted PEM key, or not the certificate's.
    """
    context, other = _make_context(tls), cache(_make_context)

    def choose() -> SSL.Context:
        found = None if instead is None else instead()
        return context if found is None else other(found)

    class TlsHttpProtocol(TlsConnection):
        """uvicorn's HTTP protocol over mutual TLS."""

        listener = Listener(handshake_timeout_s=tls.handshake_timeout_s, context=context, choose=choose, inner=inner)

    return TlsHttpProtocol


def _read_certificates(pem: bytes, code: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise ConfigurationError(code, f"no PEM certificates can be read from {len(pem)} bytes") from error


def _make_context(tls: ServerTls) -> SSL.Context:
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    _set_protocol(context)
    _set_identity(context, _read_certificates(tls.certificate_pem, "tls.certificate"), tls.private_key_pem)
    _set_trust(context, _read_certificates(tls.client_anchors_pem, "tls.anchors"), tls.mode)
    return context


def _set_protocol(context: SSL.Context) -> None:
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_tls13_ciphersuites(_TLS_1_3)
    context.set_cipher_list(_TLS_1_2)
    context.set_alpn_select_callback(_select_alpn)
    context.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_TICKET)
    # A resumed session would have no certificate chain. pyOpenSSL cannot prevent tickets in TLS 1.3, but with
    # OP_NO_TICKET they only name entries of the session cache, which is off.
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)


def _set_identity(context: SSL.Context, certificates: list[x509.Certificate], private_key_pem: bytes) -> None:
    try:
        key = cast("Any", load_pem_private_key(private_key_pem, password=None))
        context.use_certificate(certificates[0])
        context.use_privatekey(key)  # OpenSSL compares it with the certificate
    except (ValueError, TypeError, UnsupportedAlgorithm, SSL.Error) as error:
        message = pem_fault(private_key_pem) or "it is not unencrypted PEM, or not the one of its certificate"
        raise ConfigurationError("tls.private-key", f"the server's private key: {message}") from error
    for certificate in certificates[1:]:
        context.add_extra_chain_cert(certificate)


def _set_trust(context: SSL.Context, anchors: list[x509.Certificate], mode: TlsMode) -> None:
    # No list of accepted issuers is sent, because a client without a matching certificate would send none: soft mode could not
    # report it, and strict mode would answer "certificate required" instead of "unknown CA".
    store = cast("crypto.X509Store", context.get_cert_store())
    for anchor in anchors:
        store.add_cert(crypto.X509.from_cryptography(anchor))
    if not any(anchor.subject == anchor.issuer for anchor in anchors):
        store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
    if mode is TlsMode.NO_CERTIFICATES:
        context.set_verify(SSL.VERIFY_NONE)
    elif mode is TlsMode.STRICT:
        context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, _verify_strict)
    else:
        context.set_verify(SSL.VERIFY_PEER, _verify_soft)


def _verify_strict(connection: SSL.Connection, _: crypto.X509, number: int, depth: int, holds: int) -> bool:
    if not holds:
        text = _X509_ERRORS.get(number, "certificate verification failure")
        connection.get_app_data().append(f"{text} (X509 error {number} at depth {depth})")
    return bool(holds)


def _verify_soft(connection: SSL.Connection, _: crypto.X509, number: int, depth: int, holds: int) -> bool:
    _verify_strict(connection, _, number, depth, holds)
    return True


def _select_alpn(_: SSL.Connection, offered: list[bytes]) -> bytes:
    if _ALPN not in offered:
        raise NoCommonProtocol("no application protocol in common")  # RFC 7301 section 3.2: a fatal alert
    return _ALPN
