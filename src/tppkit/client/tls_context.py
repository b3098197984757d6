"""The TLS contexts of an identity: a client keeps the same context object when certificates are renewed.

TLS 1.2 and 1.3. In TLS 1.2 only ephemeral elliptic-curve key exchange with authenticated encryption, as always in TLS 1.3.
Source: RFC 9325 sections 3.1.1 and 4.2 (BCP 195); RFC 8446 appendix B.4.
"""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from threading import Lock
from typing import Any

from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from tppkit._locals import without_locals
from tppkit.certificates import EidasCertificate
from tppkit.certificates.files import CertificateSource, read_certificates
from tppkit.client.tls_sessions import ResumingContext
from tppkit.errors import ConfigurationError

MINIMUM_VERSION = ssl.TLSVersion.TLSv1_2
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"

_PROC = "/proc/self/fd"


class IdentityContexts:
    """The contexts of one certificate: one for each list of protocols (ALPN).

    Args:
        chain: see `make_context`.
        key: see `make_context`.
        server_anchors: see `make_context`.

    Raises:
        ConfigurationError: see `make_context`.
    """

    def __init__(
        self,
        chain: Sequence[EidasCertificate],
        key: PrivateKeyTypes | None,
        *,
        server_anchors: Sequence[EidasCertificate] | None,
    ) -> None:
        self._make = partial(make_context, chain, key, server_anchors=server_anchors)
        self._spare = [self._make()]  # at once, so that a certificate or key that TLS rejects raises here
        self._made: dict[tuple[str, ...], ResumingContext] = {}
        self._lock = Lock()

    def offering(self, protocols: tuple[str, ...]) -> ResumingContext:
        """Return the context that offers these protocols; each call returns the same one, with its sessions."""
        with self._lock:
            context = self._made.get(protocols)
            if context is None:
                context = self._spare.pop() if self._spare else self._make()
                if protocols:
                    context.set_alpn_protocols(protocols)
                self._made[protocols] = context
        return context


class IdentityContext(ssl.SSLContext):
    """Makes each new connection with the current certificate; an open connection keeps its certificate.

    It has no key and no authority itself, so code that bypasses it cannot connect. Settings of an HTTP library on it (authorities,
    verification) do not affect its connections. Protocols are offered on its connections, but not on those of other contexts of
    the identity.

    Args:
        present: returns the contexts of the current certificate.
    """

    def __init__(self, present: Callable[[], IdentityContexts]) -> None:
        self.minimum_version = MINIMUM_VERSION
        self._protocols: tuple[str, ...] = ()
        self._present = present

    def __new__(cls, _: Callable[[], IdentityContexts]) -> IdentityContext:
        """See `ssl.SSLContext`, whose constructor takes the protocol."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    @property
    def _current(self) -> ResumingContext:
        return self._present().offering(self._protocols)

    def wrap_socket(self, *args: Any, **options: Any) -> Any:
        """See `ssl.SSLContext`."""
        return self._current.wrap_socket(*args, **options)

    def wrap_bio(self, *args: Any, **options: Any) -> Any:
        """See `ssl.SSLContext`."""
        return self._current.wrap_bio(*args, **options)

    def set_alpn_protocols(self, alpn_protocols: Any) -> None:
        """See `ssl.SSLContext`; applies to later certificates too."""
        self._protocols = tuple(alpn_protocols)

    def get_ca_certs(self, binary_form: bool = False) -> Any:
        """See `ssl.SSLContext`."""
        return self._current.get_ca_certs(binary_form)

    def get_ciphers(self) -> Any:
        """See `ssl.SSLContext`."""
        return self._current.get_ciphers()


class NoCertificate:
    """TLS without a client certificate, for interfaces that authenticate by key. Use it in place of an `Identity`.

    Args:
        server_anchors: path, PEM or DER bytes, or certificates of the server's authorities; None: the system's.

    Raises:
        ConfigurationError, FormatError: `trust.no-anchors`, `server_anchors` is empty; `certificate.*`, `file.*`.

    Example:
        make_client(NoCertificate())
    """

    def __init__(self, *, server_anchors: CertificateSource | None = None) -> None:
        anchors = None if server_anchors is None else read_certificates(server_anchors, what="server_anchors")
        self._contexts = IdentityContexts((), None, server_anchors=anchors)

    @property
    def tls_context(self) -> IdentityContext:
        """A TLS context for an HTTP library. Read it again for each client."""
        return IdentityContext(lambda: self._contexts)


@without_locals
def make_context(
    chain: Sequence[EidasCertificate],
    key: PrivateKeyTypes | None,
    *,
    server_anchors: Sequence[EidasCertificate] | None,
) -> ResumingContext:
    """Make a client's context with a certificate and trusted authorities.

    Args:
        chain: the client certificate, and the authorities to send with it.
        key: its private key; None: no client certificate.
        server_anchors: authorities that the server's certificate must chain to; None: the system's.

    Raises:
        ConfigurationError: `identity.tls`.
    """
    context = ResumingContext()  # PROTOCOL_TLS_CLIENT verifies the server's certificate and name
    context.hostname_checks_common_name = False  # RFC 9525 section 6.3: names in subjectAltName only
    context.minimum_version = MINIMUM_VERSION
    context.set_ciphers(CIPHERS)
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN  # the default since Python 3.13
    if server_anchors is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    else:
        context.load_verify_locations(cadata="".join(ssl.DER_cert_to_PEM_cert(anchor.der) for anchor in server_anchors))
    if key is None:
        return context
    with _as_file(chain, key) as (path, password):
        try:
            context.load_cert_chain(path, password=password)
        except ssl.SSLError as e:
            raise ConfigurationError("identity.tls", f"TLS rejects this certificate and key: {e.reason}") from e
    return context


@contextmanager
def _as_file(
    chain: Sequence[EidasCertificate], key: PrivateKeyTypes, *, in_memory: bool = os.path.isdir(_PROC)
) -> Iterator[tuple[str, bytes]]:
    """Write certificates and key to a file, because `ssl` reads them only from files.

    The file is in memory if the system supports and allows it (Linux), else it is temporary. The key in it is encrypted with a
    random password.
    """
    password = secrets.token_bytes(32).hex().encode()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password))
    pem += b"".join(certificate.x509.public_bytes(Encoding.PEM) for certificate in chain)
    with ExitStack() as stack:
        try:
            descriptor, path = (_open_in_memory() if in_memory else None) or _open_temporary(stack)
            file = stack.enter_context(os.fdopen(descriptor, "wb"))
            file.write(pem)
            file.flush()
        except OSError as e:
            raise ConfigurationError(
                "identity.tls", f"no file for the key can be created, in memory or temporary: {e.strerror}"
            ) from e
        yield path, password


def _open_in_memory() -> tuple[int, str] | None:
    if hasattr(os, "memfd_create"):
        with suppress(OSError):  # a filter of system calls may forbid it
            descriptor = os.memfd_create("tppkit")
            return descriptor, f"{_PROC}/{descriptor}"
    return None


def _open_temporary(stack: ExitStack) -> tuple[int, str]:
    descriptor, name = tempfile.mkstemp(prefix="tppkit-")
    stack.callback(os.unlink, name)
    return descriptor, name
