"""Who is on the other end of the TLS connection: the QWAC, and whether it is believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tppkit.certificates import EidasCertificate, Use
from tppkit.errors import CertificateRejected, FormatError
from tppkit.trust import PathVerifier

MAX_CHAIN = 10
_REMEMBERED = 512


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """The certificates that the peer proved or sent in the TLS handshake.

    Attributes:
        chain_pem: PEM of each, the peer's own first; TLS proved possession of its key.
        tls_error: what the TLS library's own verification said against it, or None.
        source: where it was read: `asgi-tls`, the ASGI TLS extension.
    """

    chain_pem: tuple[str, ...]
    tls_error: str | None
    source: str


def peer_certificate(scope: Mapping[str, Any]) -> PeerCertificate:
    """The peer's certificate as the server put it into the ASGI scope (TLS extension 0.2).

    Raises:
        CertificateRejected: `certificate.missing`.
    """
    tls = scope.get("extensions", {}).get("tls", {})
    chain = tuple(tls.get("client_cert_chain") or ())
    if not chain:
        raise CertificateRejected(
            "certificate.missing",
            "the TLS connection carries no client certificate",
            clause="PSD2 document A.5 rules 1 and 3",
        )
    return PeerCertificate(chain[:MAX_CHAIN], tls.get("client_cert_error"), "asgi-tls")


class QwacPolicy:
    """Believes QWACs; remembers the PEM texts that it has read (at most 512).

    Args:
        paths: believes certificates.
    """

    def __init__(self, paths: PathVerifier) -> None:
        self.paths = paths
        self._read: dict[str, EidasCertificate] = {}

    def verify(self, peer: PeerCertificate, *, at: datetime) -> EidasCertificate:
        """The peer's QWAC, which fits its profile and chains to an anchor at the time.

        Args:
            peer: the peer's certificates.
            at: the time to judge at, aware.

        Raises:
            FormatError: `certificate.*`, `pem.malformed`.
            CertificateRejected: `certificate.*`, `qcstatements.*`, `organization-identifier.missing`, `trust.no-path`.
        """
        qwac, *others = [self._certificate(pem) for pem in peer.chain_pem]
        self.paths.verify_use(qwac, as_=Use.QWAC, at=at, intermediates=[c for c in others if c.extensions.is_ca])
        return qwac

    def _certificate(self, pem: str) -> EidasCertificate:
        certificate = self._read.get(pem)
        if certificate is None:
            if len(pem) > 2 * 64 * 1024:
                raise FormatError("certificate.too-large", "the peer's certificate is too long")
            certificate = EidasCertificate.from_pem(pem)
            if len(self._read) >= _REMEMBERED:
                self._read.clear()
            self._read[pem] = certificate
        return certificate
