"""The authenticated caller of a request: the certificate of its connection, and the check that it is a trusted QWAC.

The protocols of authenticators are here too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from tppkit._cache import Cache
from tppkit._clock import as_utc
from tppkit.certificates import EidasCertificate, OrganizationPolicy, Use
from tppkit.errors import CertificateRejected, ConfigurationError, FormatError
from tppkit.protocol.endpoint import Endpoint
from tppkit.seals import Paths, VerifiedRequest
from tppkit.trust import TrustedPath
from tppkit.web.proxies import CERTIFICATE_HEADERS, TrustedProxy, address_headers
from tppkit.web.sources import KEY, UNIX, Source, require_length_announced

MAX_CHAIN = 10
_MAX_NAME = 256
_REMEMBERED = 512
_MAX_PEM = 2 * 64 * 1024
_ORGANIZATIONS = OrganizationPolicy()


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """The certificates that the peer sent in the TLS handshake.

    Attributes:
        chain_pem: PEM of each, the peer's own first; TLS proved possession of its key.
        tls_error: the result of the TLS library's own verification, or None.
        source: where it was read: `asgi-tls`, the ASGI TLS extension, or the form of the trusted proxy: `nginx`, `haproxy`,
            `envoy`, `rfc9440`.
        ignored: certificate headers of the request that do not come from a trusted proxy, lower case.

    Example:
        peer = peer_certificate(AsgiSource(scope))
        certificate = EidasCertificate.from_pem(peer.chain_pem[0])
    """

    chain_pem: tuple[str, ...]
    tls_error: str | None
    source: str
    ignored: tuple[str, ...] = ()


class Caller(NamedTuple):
    """An authenticated caller. A named tuple, because it is the fastest to create.

    Attributes:
        id: the name of the owner of requests, payments and evidence; with a QWAC its organizationIdentifier. Never a key.
        at: when the request was verified, aware UTC.
        roles: its PSD2 roles.
        qwac_path: the chain of its QWAC, or None if the interface requires no certificate.
        peer: the certificates as received, or None.
        seal: the verified request, or None if no seal was required.
        repeated: the same request was received before, and its handler may have run.

    Example:
        caller = caller_of(scope)
        caller.id, caller.roles, caller.seal
    """

    id: str
    at: datetime
    roles: tuple[str, ...] = ()
    qwac_path: TrustedPath | None = None
    peer: PeerCertificate | None = None
    seal: VerifiedRequest | None = None
    repeated: bool = False

    @property
    def qwac_chain(self) -> tuple[EidasCertificate, ...]:
        """The chain of the QWAC, the QWAC first; empty if there is none."""
        return () if self.qwac_path is None else self.qwac_path.chain

    @property
    def name(self) -> str | None:
        """The organisation's name in its QWAC, or None."""
        name = None if self.qwac_path is None else self.qwac_path.chain[0].organization_name
        return name and name[:_MAX_NAME]


class Pending(Protocol):
    """A request whose head was accepted and whose body has not arrived yet."""

    @property
    def caller(self) -> Caller:
        """The caller that the head proves."""

    def update(self, chunk: bytes) -> None:
        """Add the next bytes of the body.

        Raises:
            FormatError: `message.too-large`.
        """

    def finish(self) -> tuple[Caller, bytes]:
        """Return the caller and the whole body, after the last `update`.

        Raises:
            FormatError: `message.malformed`, the body is not as long as its Content-Length.
            SignatureRejected: `digest.mismatch`, `signature.uncovered`.
            TransportError: `transport.timeout`, a sealed body took longer than 60 seconds.
        """


class Authenticator(Protocol):
    """Judges the head of a request; one object for each kind of `Auth`."""

    def open(self, source: Source, row: Endpoint[Any, Any] | None) -> Pending:
        """Judge the head of a request.

        Args:
            source: the request as the server passes it.
            row: the endpoint; None to authenticate the caller only.

        Raises:
            TppkitError: the request is rejected.
        """


def peer_certificate(
    source: Source, *, trusted_proxies: Sequence[TrustedProxy] = (), address_is_raw: bool = False
) -> PeerCertificate:
    """Read the peer's certificate from the server that ended the TLS connection, or from the trusted proxy that did.

    On a connection from a trusted proxy only the proxy's header is used, otherwise only the ASGI TLS extension (0.2). A request by HTTP/2
    from the address of a proxy without `http2` has no certificate. The server must
    pass the address of the connection itself. Servers can be configured to take it from `X-Forwarded-For`, `Forwarded` or
    `X-Real-IP`, so a request with one of these headers is not attributed to a proxy, unless `address_is_raw`. A request of a proxy
    must announce its length: some servers (uvicorn with httptools) append trailers to the headers, and a body with a length
    has none.

    Args:
        source: the request as the server passes it: `AsgiSource(scope)` or `WsgiSource(environ)`.
        trusted_proxies: the first that has the connection's address, and may speak this version of HTTP, is used.
        address_is_raw: the server was started so that it reads the address from no header and no PROXY protocol.

    Raises:
        CertificateRejected: `certificate.missing`; the message names ignored headers.
        FormatError: the trusted proxy's header cannot be read: `certificate.malformed`, `certificate.too-large`; or the client may
            have sent it: `message.no-length`.

    Example:
        peer = peer_certificate(AsgiSource(scope), trusted_proxies=[TrustedProxy("10.0.0.5", form=ProxyForm.NGINX)])

    Source: RFC 9110 section 6.5, Trailer Fields; RFC 9112 section 7.1.2.
    """
    address = source.address()
    is_certain = not trusted_proxies or address_is_raw or address == UNIX
    doubts = () if is_certain else address_headers(source)
    proxy = None if doubts else next((one for one in trusted_proxies if one.forwards(source)), None)
    taken = frozenset[str]() if proxy is None else proxy.headers
    ignored = _unproven_headers(source, proxies=trusted_proxies, taken=taken)
    if proxy is not None:
        require_length_announced(source)
        found = PeerCertificate(proxy.chain(source)[:MAX_CHAIN], None, proxy.form.value, ignored)
    else:
        is_upgraded = not source.is_http1 and any(one.has(address) for one in trusted_proxies)
        tls = {} if is_upgraded else source.extensions.get("tls", {})
        chain = tuple(tls.get("client_cert_chain") or ())[:MAX_CHAIN]
        found = PeerCertificate(chain, tls.get("client_cert_error"), "asgi-tls", ignored)
    if not found.chain_pem:
        where = "TLS connection" if proxy is None else f"{proxy.form.value} proxy"
        spoofed = f"; ignored: {', '.join(ignored)} from {address}" if ignored else ""
        if ignored and doubts:
            spoofed += f", an address that may come from {doubts[0]}: see address_is_raw"
        elif ignored and not source.is_http1:
            spoofed += ", by HTTP/2: see http2 of TrustedProxy"
        raise CertificateRejected(
            "certificate.missing",
            f"the {where} has no client certificate{spoofed}",
            clause="PSD2 document A.5 rules 1 and 3",
        )
    return found


def _unproven_headers(source: Source, *, proxies: Sequence[TrustedProxy], taken: frozenset[str]) -> tuple[str, ...]:
    """Headers that claim a certificate and are ignored, lower case.

    Args:
        source: the request.
        proxies: the configured proxies.
        taken: the headers that were used.
    """
    seen, names = source.header_names(), CERTIFICATE_HEADERS
    if proxies:
        names = CERTIFICATE_HEADERS.union(*(proxy.headers for proxy in proxies)) - taken
    if names.isdisjoint(seen) and "_" not in "".join(seen):
        return ()
    # Names with underscores too: the application may read both as one header.
    return tuple(sorted(name for name in seen if name in names or ("_" in name and name.replace("_", "-") in names)))


class QwacPolicy:
    """Verify QWACs; the last 512 trusted ones are cached, each with the chain that was last sent with it.

    Args:
        paths: verifies certificates: a `trust.PathVerifier`, or `trust.TrustMaterial` to require qualified ones.
        organizations: the accepted organizationIdentifiers; pass the same to `SealPolicy`.

    Example:
        qwacs = QwacPolicy(PathVerifier(load_anchors("anchors")))
    """

    def __init__(self, paths: Paths, *, organizations: OrganizationPolicy = _ORGANIZATIONS) -> None:
        self.paths = paths
        self.organizations = organizations
        # By the QWAC alone: other certificates that a peer sends must not push other QWACs out.
        self._verified_paths = Cache[str, tuple[tuple[str, ...], TrustedPath]](_REMEMBERED)

    def verify(self, peer: PeerCertificate, *, at: datetime) -> TrustedPath:
        """Verify the peer's QWAC: it fits its profile, chains to an anchor at the time, and names an accepted organisation.

        Args:
            peer: the peer's certificates.
            at: the time to judge at, aware.

        Returns:
            The chain, the QWAC first.

        Raises:
            FormatError: the QWAC cannot be read: `certificate.*`, `der.*`, `pem.malformed`.
            CertificateRejected: `certificate.*`, `qcstatements.*`, `organization-identifier.*`, `trust.no-path`,
                `path.*`, `key.*`, `revocation.*`.
        """
        at = as_utc(at)
        chain, known = self._verified_paths.get(peer.chain_pem[0]) or ((), None)
        if known is not None and chain == peer.chain_pem and known.window.not_before <= at <= known.window.not_after:
            return known
        qwac = _read(peer.chain_pem[0])
        path = self.paths.verify_use(qwac, as_=Use.QWAC, at=at, intermediates=_authorities(peer.chain_pem[1:]))
        self.organizations.require(qwac)
        self._verified_paths.put(peer.chain_pem[0], (peer.chain_pem, path))
        return path


def _read(pem: str) -> EidasCertificate:
    if len(pem) > _MAX_PEM:
        raise FormatError("certificate.too-large", "the peer's certificate is too long")
    return EidasCertificate.from_pem(pem)


def _authorities(chain_pem: tuple[str, ...]) -> list[EidasCertificate]:
    """The authorities among the other certificates that the peer sent; unreadable ones are ignored."""
    authorities = []
    for pem in chain_pem:
        with suppress(FormatError):
            certificate = _read(pem)
            if certificate.extensions.is_ca:
                authorities.append(certificate)
    return authorities


def caller_of(request: Mapping[str, Any]) -> Caller:
    """Return the caller of a request that passed the seal middleware.

    Args:
        request: the ASGI scope or the WSGI environ.

    Raises:
        ConfigurationError: `web.unverified`, the request did not pass a middleware.

    Example:
        owner = caller_of(request.scope).id
    """
    found = request.get(KEY)
    if not isinstance(found, Caller):
        raise ConfigurationError("web.unverified", "the request did not pass a seal middleware")
    return found


def verified_request(request: Mapping[str, Any]) -> VerifiedRequest:
    """Return the verified request behind the seal middleware.

    Args:
        request: the ASGI scope or the WSGI environ.

    Raises:
        ConfigurationError: `web.unverified`, the request did not pass a middleware, or the endpoint requires no seal.

    Example:
        payment = PaymentInitiation.from_wire(verified_request(request.scope).body)
    """
    seal = caller_of(request).seal
    if seal is None:
        raise ConfigurationError(
            "web.unverified", "the endpoint requires no seal, so nothing of the request is verified"
        )
    return seal
