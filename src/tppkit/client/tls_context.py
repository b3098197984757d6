"""The TLS context of an identity: what clients hold stays the same object when certificates are renewed.

TLS 1.2 and 1.3. In TLS 1.2 only ephemeral elliptic-curve key exchange with authenticated encryption.
Source: RFC 9325 sections 3.1.1 and 4.2 (BCP 195); RFC 8446 appendix B.4 for TLS 1.3, whose suites are all of that kind.
"""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from tppkit.certificates import EidasCertificate
from tppkit.client.tls_sessions import ResumingContext
from tppkit.errors import ConfigurationError

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"

_PROC = "/proc/self/fd"


class IdentityContext(ssl.SSLContext):
    """Makes each new connection with the present certificate; a connection that is open keeps its own.

    It holds no key and no authority itself, so whatever connects past it is refused by its own verification. What HTTP libraries
    set on it (authorities, verification) does not weaken the connections it makes.

    Args:
        current: makes the connections at first.
    """

    def __init__(self, current: ssl.SSLContext) -> None:
        self.minimum_version = current.minimum_version
        self._protocols: list[str] | None = None
        self._current = current

    def __new__(cls, _: ssl.SSLContext) -> IdentityContext:
        """As of `ssl.SSLContext`, which takes its protocol here."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def renew(self, current: ssl.SSLContext) -> None:
        """Make connections with another context from now on."""
        if self._protocols is not None:
            current.set_alpn_protocols(self._protocols)
        self._current = current

    def wrap_socket(self, *args: Any, **options: Any) -> Any:
        """As of `ssl.SSLContext`."""
        return self._current.wrap_socket(*args, **options)

    def wrap_bio(self, *args: Any, **options: Any) -> Any:
        """As of `ssl.SSLContext`."""
        return self._current.wrap_bio(*args, **options)

    def set_alpn_protocols(self, alpn_protocols: Any) -> None:
        """As of `ssl.SSLContext`, for later certificates as well."""
        self._protocols = list(alpn_protocols)
        self._current.set_alpn_protocols(self._protocols)

    def get_ca_certs(self, binary_form: bool = False) -> Any:
        """As of `ssl.SSLContext`."""
        return self._current.get_ca_certs(binary_form)

    def get_ciphers(self) -> Any:
        """As of `ssl.SSLContext`."""
        return self._current.get_ciphers()


def make_context(
    chain: Sequence[EidasCertificate],
    key: PrivateKeyTypes,
    *,
    server_anchors: Sequence[EidasCertificate] | None,
) -> ResumingContext:
    """A client's context that shows a certificate and believes the given authorities.

    Args:
        chain: the certificate to show, and the authorities to send with it.
        key: its private key.
        server_anchors: authorities that the server's certificate must chain to; None takes the system's.

    Raises:
        ConfigurationError: `trust.no-anchors`, `identity.tls`.
    """
    if server_anchors is not None and not server_anchors:  # `ssl` would take the system's instead
        raise ConfigurationError("trust.no-anchors", "there is no authority for the bank's server certificate")
    context = ResumingContext()  # of the kind that verifies the server's certificate and name
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN  # as Python has it from 3.13 on
    if server_anchors is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        context.load_verify_locations(cadata="".join(ssl.DER_cert_to_PEM_cert(anchor.der) for anchor in server_anchors))
    with _as_file(chain, key) as (path, password):
        try:
            context.load_cert_chain(path, password=password)
        except ssl.SSLError as e:
            raise ConfigurationError("identity.tls", f"TLS does not take this certificate and key: {e.reason}") from e
    return context


@contextmanager
def _as_file(
    chain: Sequence[EidasCertificate], key: PrivateKeyTypes, *, in_memory: bool = os.path.isdir(_PROC)
) -> Iterator[tuple[str, bytes]]:
    """Certificates and key as OpenSSL reads them through `ssl`, from a file only.

    It is a file of memory where the system has such (Linux), else a temporary one. In both the key stands encrypted under a
    password that exists only here.
    """
    password = secrets.token_bytes(32).hex().encode()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password))
    pem += b"".join(certificate.x509.public_bytes(Encoding.PEM) for certificate in chain)
    if in_memory and hasattr(os, "memfd_create"):
        descriptor, name = os.memfd_create("tppkit"), None
        path = f"{_PROC}/{descriptor}"
    else:
        descriptor, name = tempfile.mkstemp(prefix="tppkit-")
        path = name
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
            file.flush()
            yield path, password
    finally:
        if name is not None:
            os.unlink(name)
