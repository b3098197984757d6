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
from tppkit.client.tls_deadline import LimitedSocket
from tppkit.errors import ConfigurationError

MINIMUM_VERSION = ssl.TLSVersion.TLSv1_2
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"

Adjust = Callable[[ssl.SSLContext], object]

_PROC = "/proc/self/fd"
_NO_EFFECT = (
    "this setting would have no effect on the connections of an identity: set it for a bank with make_client(adjust_tls=...) or"
    " tls_context_with(...)"
)


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
        self._made: dict[tuple[str, ...], ssl.SSLContext] = {}
        self._lock = Lock()

    def offering(self, protocols: tuple[str, ...]) -> ssl.SSLContext:
        """Return the context that offers these protocols; each call returns the same one."""
        with self._lock:
            if protocols not in self._made:
                self._made[protocols] = self._spare.pop() if self._spare else self._make()
                if protocols:
                    self._made[protocols].set_alpn_protocols(protocols)
        return self._made[protocols]

    def adjusted(self, protocols: tuple[str, ...], adjust: Adjust) -> ssl.SSLContext:
        """Return a new context."""
        context = self._make()
        if protocols:
            context.set_alpn_protocols(protocols)
        adjust(context)
        return context


class _NoEffect(ConfigurationError, NotImplementedError):
    """A changed setting. Libraries that try a setting catch the second class."""


class IdentityContext(ssl.SSLContext):
    """Makes each new connection with the current certificate; an open connection keeps its certificate.

    It has no key and no authority itself, so code that bypasses it cannot connect. Changing a setting on it raises. Protocols are
    offered on its connections, but not on those of other contexts of the identity.

    Args:
        present: returns the contexts of the current certificate.
        adjust: changes the settings of each context of a certificate before its first connection; None: does not.

    Raises:
        ConfigurationError: `identity.tls`, from every change of a setting.
    """

    def __init__(self, present: Callable[[], IdentityContexts], adjust: Adjust | None = None) -> None:
        _harden(self, super().__setattr__)
        self._protocols: tuple[str, ...] = ()
        self._present, self._adjust = present, adjust
        self._last: tuple[object, ssl.SSLContext] | None = None

    def __new__(cls, *_: object) -> IdentityContext:
        """See `ssl.SSLContext`, whose constructor takes the protocol."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    @property
    def _current(self) -> ssl.SSLContext:
        contexts, protocols = self._present(), self._protocols
        if self._adjust is None:
            return contexts.offering(protocols)
        last = self._last
        if last is None or last[0] != (contexts, protocols):
            self._last = last = (contexts, protocols), contexts.adjusted(protocols, self._adjust)
        return last[1]

    def __setattr__(self, name: str, value: Any) -> None:
        """Accept a library's confirmation of a setting; raise for a change, which would have no effect."""
        if name.startswith("_"):
            super().__setattr__(name, value)
        elif getattr(self, name) != value:
            raise _NoEffect("identity.tls", f"{name}: {_NO_EFFECT}")

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise _NoEffect("identity.tls", _NO_EFFECT)

    load_cert_chain = load_default_certs = load_dh_params = load_verify_locations = set_ciphers = (
        set_default_verify_paths
    ) = _refuse
    set_ecdh_curve = set_npn_protocols = set_servername_callback = set_psk_client_callback = _refuse

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

    @without_locals
    def __init__(self, *, server_anchors: CertificateSource | None = None) -> None:
        anchors = None if server_anchors is None else read_certificates(server_anchors, what="server_anchors")
        self._contexts = IdentityContexts((), None, server_anchors=anchors)

    @property
    def tls_context(self) -> ssl.SSLContext:
        """A TLS context for an HTTP library. Read it again for each client."""
        return self.tls_context_with(None)

    def tls_context_with(self, adjust: Adjust | None) -> ssl.SSLContext:
        """See `Identity.tls_context_with`."""
        return IdentityContext(lambda: self._contexts, adjust)


def _harden(context: ssl.SSLContext, assign: Callable[[str, Any], None]) -> None:
    assign("hostname_checks_common_name", False)  # RFC 9525 section 6.3: names in subjectAltName only
    assign("minimum_version", MINIMUM_VERSION)
    # The default since Python 3.13.
    assign("verify_flags", context.verify_flags | ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN)


@without_locals
def make_context(
    chain: Sequence[EidasCertificate],
    key: PrivateKeyTypes | None,
    *,
    server_anchors: Sequence[EidasCertificate] | None,
) -> ssl.SSLContext:
    """Make a client's context with a certificate and trusted authorities.

    Args:
        chain: the client certificate, and the authorities to send with it.
        key: its private key; None: no client certificate.
        server_anchors: authorities that the server's certificate must chain to; None: the system's.

    Raises:
        ConfigurationError: `identity.tls`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # verifies the server's certificate and name
    context.sslsocket_class = LimitedSocket
    _harden(context, partial(setattr, context))
    context.set_ciphers(CIPHERS)
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
