"""The TLS contexts of an identity: what a client holds stays the same object when certificates are renewed.

TLS 1.2 and 1.3. In TLS 1.2 only ephemeral elliptic-curve key exchange with authenticated encryption.
Source: RFC 9325 sections 3.1.1 and 4.2 (BCP 195); RFC 8446 appendix B.4 for TLS 1.3, whose suites are all of that kind.
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

from tppkit.certificates import EidasCertificate
from tppkit.client.tls_sessions import ResumingContext
from tppkit.errors import ConfigurationError

MINIMUM_VERSION = ssl.TLSVersion.TLSv1_2
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"

_PROC = "/proc/self/fd"


class IdentityContexts:
    """The contexts of one certificate: one for each list of protocols (ALPN), which a context offers on all its connections.

    Args:
        chain: as for `make_context`.
        key: as for `make_context`.
        server_anchors: as for `make_context`.

    Raises:
        ConfigurationError: as `make_context`.
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
        """The context that offers these protocols; the same one each time, with the sessions that it remembers."""
        with self._lock:
            context = self._made.get(protocols)
            if context is None:
                context = self._spare.pop() if self._spare else self._make()
                if protocols:
                    context.set_alpn_protocols(protocols)
                self._made[protocols] = context
        return context


class IdentityContext(ssl.SSLContext):
    """Makes each new connection with the present certificate; a connection that is open keeps its own.

    It holds no key and no authority itself, so whatever connects past it is refused by its own verification. What an HTTP library
    sets on it (authorities, verification) does not weaken the connections it makes; the protocols that it sets are offered on them,
    and on those of no other context of the same identity.

    Args:
        present: gives the contexts of the present certificate.
    """

    def __init__(self, present: Callable[[], IdentityContexts]) -> None:
        self.minimum_version = MINIMUM_VERSION
        self._protocols: tuple[str, ...] = ()
        self._present = present

    def __new__(cls, _: Callable[[], IdentityContexts]) -> IdentityContext:
        """As of `ssl.SSLContext`, which takes its protocol here."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    @property
    def _current(self) -> ResumingContext:
        return self._present().offering(self._protocols)

    def wrap_socket(self, *args: Any, **options: Any) -> Any:
        """As of `ssl.SSLContext`."""
        return self._current.wrap_socket(*args, **options)

    def wrap_bio(self, *args: Any, **options: Any) -> Any:
        """As of `ssl.SSLContext`."""
        return self._current.wrap_bio(*args, **options)

    def set_alpn_protocols(self, alpn_protocols: Any) -> None:
        """As of `ssl.SSLContext`, for later certificates as well."""
        self._protocols = tuple(alpn_protocols)

    def get_ca_certs(self, binary_form: bool = False) -> Any:
        """As of `ssl.SSLContext`."""
        return self._current.get_ca_certs(binary_form)

    def get_ciphers(self) -> Any:
        """As of `ssl.SSLContext`."""
        return self._current.get_ciphers()


class NoCertificate:
    """TLS without a certificate of the client, for interfaces that authenticate by key. Use it in place of an `Identity`.

    Args:
        server_anchors: authorities that the server's certificate must chain to; None takes the system's.

    Raises:
        ConfigurationError: `trust.no-anchors` when `server_anchors` is empty.

    Example:
        make_client(NoCertificate())
    """

    def __init__(self, *, server_anchors: Sequence[EidasCertificate] | None = None) -> None:
        anchors = None if server_anchors is None else tuple(server_anchors)
        self._contexts = IdentityContexts((), None, server_anchors=anchors)

    @property
    def tls_context(self) -> IdentityContext:
        """Give it to an HTTP library; take another one for each client."""
        return IdentityContext(lambda: self._contexts)


def make_context(
    chain: Sequence[EidasCertificate],
    key: PrivateKeyTypes | None,
    *,
    server_anchors: Sequence[EidasCertificate] | None,
) -> ResumingContext:
    """A client's context that shows a certificate and trusts the given authorities.

    Args:
        chain: the certificate to show, and the authorities to send with it.
        key: its private key; None shows no certificate.
        server_anchors: authorities that the server's certificate must chain to; None takes the system's.

    Raises:
        ConfigurationError: `trust.no-anchors`, `identity.tls`.
    """
    if server_anchors is not None and not server_anchors:  # `ssl` would take the system's instead
        raise ConfigurationError("trust.no-anchors", "there is no authority for the bank's server certificate")
    context = ResumingContext()  # of the kind that verifies the server's certificate and name
    context.hostname_checks_common_name = False  # RFC 9525 section 6.3: names in subjectAltName only
    context.minimum_version = MINIMUM_VERSION
    context.set_ciphers(CIPHERS)
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN  # as Python has it from 3.13 on
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
            raise ConfigurationError("identity.tls", f"TLS does not take this certificate and key: {e.reason}") from e
    return context


@contextmanager
def _as_file(
    chain: Sequence[EidasCertificate], key: PrivateKeyTypes, *, in_memory: bool = os.path.isdir(_PROC)
) -> Iterator[tuple[str, bytes]]:
    """Certificates and key as OpenSSL reads them through `ssl`, from a file only.

    It is a file of memory where the system has such (Linux) and lets us, else a temporary one. In both the key stands encrypted under a
    password that exists only here.
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
                "identity.tls", f"there is no file, of memory or temporary, to hand the key to TLS in: {e.strerror}"
            ) from e
        yield path, password


def _open_in_memory() -> tuple[int, str] | None:
    if hasattr(os, "memfd_create"):
        with suppress(OSError):  # a sandbox's filter of system calls may refuse it
            descriptor = os.memfd_create("tppkit")
            return descriptor, f"{_PROC}/{descriptor}"
    return None


def _open_temporary(stack: ExitStack) -> tuple[int, str]:
    descriptor, name = tempfile.mkstemp(prefix="tppkit-")
    stack.callback(os.unlink, name)
    return descriptor, name
