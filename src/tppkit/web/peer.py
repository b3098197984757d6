"""The certificate of the connection: where it is read, and whether it is a trusted QWAC."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from tppkit._clock import as_utc
from tppkit.certificates import EidasCertificate, OrganizationPolicy, Use
from tppkit.errors import CertificateRejected, FormatError
from tppkit.trust import PathVerifier, TrustedPath
from tppkit.web.proxies import TrustedProxy, address_headers, unproven_headers
from tppkit.web.sources import UNIX, Source, require_length_announced

MAX_CHAIN = 10
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
        ignored: headers of the request that claim a certificate without a right to, lower case.
    """

    chain_pem: tuple[str, ...]
    tls_error: str | None
    source: str
    ignored: tuple[str, ...] = ()


def peer_certificate(
    source: Source, *, trusted_proxies: Sequence[TrustedProxy] = (), address_is_raw: bool = False
) -> PeerCertificate:
    """Read the peer's certificate from the server that ended the TLS connection, or from the trusted proxy that did.

    On a connection from a trusted proxy only the proxy's header counts, elsewhere only the ASGI TLS extension (0.2). The server must
    give the address of the connection itself. Servers can be configured to take it from `X-Forwarded-For`, `Forwarded` or
    `X-Real-IP`, so a request with one of these headers is not attributed to a proxy, unless `address_is_raw`. A request of a proxy
    must announce its length: some servers (uvicorn with httptools) append trailers to the headers, and a body with a length
    has none.

    Args:
        source: the request as the server hands it over: `AsgiSource(scope)` or `WsgiSource(environ)`.
        trusted_proxies: the first that has the connection's address is used.
        address_is_raw: the server was started so that it reads the address from no header and no PROXY protocol.

    Raises:
        CertificateRejected: `certificate.missing`; the message names ignored headers.
        FormatError: the trusted proxy's header cannot be read: `certificate.malformed`, `certificate.too-large`; or the client may
            have sent it: `message.no-length`.

    Source: RFC 9110 section 6.5, Trailer Fields; RFC 9112 section 7.1.2.
    """
    address = source.address()
    is_certain = not trusted_proxies or address_is_raw or address == UNIX
    doubts = () if is_certain else address_headers(source)
    proxy = None if doubts else next((one for one in trusted_proxies if one.has(address)), None)
    taken = frozenset[str]() if proxy is None else proxy.headers
    ignored = unproven_headers(source, proxies=trusted_proxies, taken=taken)
    if proxy is not None:
        require_length_announced(source)
        found = PeerCertificate(proxy.chain(source)[:MAX_CHAIN], None, proxy.form.value, ignored)
    else:
        tls = source.extensions.get("tls", {})
        chain = tuple(tls.get("client_cert_chain") or ())[:MAX_CHAIN]
        found = PeerCertificate(chain, tls.get("client_cert_error"), "asgi-tls", ignored)
    if not found.chain_pem:
        where = "TLS connection" if proxy is None else f"{proxy.form.value} proxy"
        spoofed = f"; ignored: {', '.join(ignored)} from {address}" if ignored else ""
        if ignored and doubts:
            spoofed += f", an address that may come from {doubts[0]}: see address_is_raw"
        raise CertificateRejected(
            "certificate.missing",
            f"the {where} carries no client certificate{spoofed}",
            clause="PSD2 document A.5 rules 1 and 3",
        )
    return found


class QwacPolicy:
    """Judge QWACs; the last 512 trusted ones are remembered, each with the chain that was last sent with it.

    Args:
        paths: verifies certificates.
        organizations: the organizationIdentifiers that are accepted; give the same to `SealPolicy`.
    """

    def __init__(self, paths: PathVerifier, *, organizations: OrganizationPolicy = _ORGANIZATIONS) -> None:
        self.paths = paths
        self.organizations = organizations
        self._believed: dict[str, tuple[tuple[str, ...], TrustedPath]] = {}  # by the QWAC, the latest last

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
        chain, known = self._believed.get(peer.chain_pem[0], ((), None))
        if known is not None and chain == peer.chain_pem and known.window.not_before <= at <= known.window.not_after:
            return known
        qwac = _read(peer.chain_pem[0])
        path = self.paths.verify_use(qwac, as_=Use.QWAC, at=at, intermediates=_authorities(peer.chain_pem[1:]))
        self.organizations.require(qwac)
        self._remember(peer.chain_pem, path)
        return path

    def _remember(self, chain: tuple[str, ...], path: TrustedPath) -> None:
        """Replace the chain of the QWAC: other certificates that a peer sends must not push other QWACs out."""
        self._believed.pop(chain[0], None)
        while len(self._believed) >= _REMEMBERED:
            # Another thread may have removed it.
            self._believed.pop(next(iter(tuple(self._believed)), ""), None)
        self._believed[chain[0]] = (chain, path)


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
