"""The addresses that a sandbox publishes in links, codes and the ready file, and the server certificate for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from cryptography import x509

from tppkit._encoding import shown
from tppkit._files import read_bounded
from tppkit.certificates import EidasCertificate
from tppkit.certificates.files import parse_certificates
from tppkit.certificates.general_names import is_dns_name
from tppkit.errors import ConfigurationError, FormatError
from tppkit.httpsig.components import parse_origin
from tppkit.testpki import certificate_pem, key_pem
from tppkit.testpki.certificate import Draft
from tppkit.testpki.folder import open_pki

PSD2, APPROVAL, GATEWAY, CONTROL, VAULT, LEGACY, LEGACY_LIVE = range(7)  # offsets from the first port
_MAX_PEM_BYTES = 1024 * 1024
_LOCAL = ("localhost", "127.0.0.1", "::1")


class PublicAddress(NamedTuple):
    """The address at which clients reach the sandbox.

    Attributes:
        host: name or IP address, without brackets.
        first_port: the port of the PSD2 host as clients see it; None: the listening port.
    """

    host: str
    first_port: int | None = None

    def url(self, scheme: str, offset: int, *, port: int) -> str:
        """Return the address of one host.

        Args:
            scheme: `https` or `http`.
            offset: the host: `PSD2`, `APPROVAL`, `GATEWAY`, `VAULT`, `LEGACY`, `LEGACY_LIVE`.
            port: its listening port.
        """
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{port if self.first_port is None else self.first_port + offset}"


def local_address(host: str, bound: str, loopback: str) -> PublicAddress:
    """Return the address of a listening socket for this machine; `loopback` for 127.0.0.1 and wildcards such as 0.0.0.0.

    Args:
        host: the configured host.
        bound: the address that the socket is bound to, without a port.
        loopback: the name or address of this machine.
    """
    is_local = ip_address(bound).is_unspecified or bound == "127.0.0.1"
    return PublicAddress(loopback if is_local else host.lower())


def parse_public_url(text: str) -> PublicAddress:
    """Read `--public-url`: https and the port of the PSD2 host, or http and that of the approval pages.

    Raises:
        ConfigurationError: `sandbox.public-url`.
    """
    message = (
        f"{shown(text)} is not an address at which clients reach the PSD2 host (https) or the approval pages (http)"
    )
    try:
        parse_origin(text.removesuffix("/"))  # nothing but scheme, host and port
        parts = urlsplit(text.lower())
        host, port = parts.hostname or "", parts.port
    except (FormatError, ValueError) as e:
        raise ConfigurationError("sandbox.public-url", message) from e
    first = None if port is None else port - (APPROVAL if parts.scheme == "http" else PSD2)
    if (not _is_name(host) and not _is_ip(host)) or (first is not None and not 0 < first <= 65535 - LEGACY_LIVE):
        raise ConfigurationError("sandbox.public-url", message)
    return PublicAddress(host, first)


def server_identity(pki: Path, names: Sequence[str], *, at: datetime) -> tuple[bytes, bytes]:
    """Return certificate chain and key of the server, PEM: those of the folder, or new ones if these lack a name.

    Args:
        pki: folder of a test PKI.
        names: DNS names and IP addresses that clients connect to, in lower case.
        at: the present, aware.

    Raises:
        ConfigurationError: `pki.unusable`; what `open_pki` raises if a new certificate is needed.
    """
    try:
        certificate = read_bounded(pki / "server-chain.pem", max_bytes=_MAX_PEM_BYTES)
        key = read_bounded(pki / "server.key", max_bytes=_MAX_PEM_BYTES)
    except FormatError as e:
        raise ConfigurationError("pki.unusable", f"{pki} is no test PKI with a server certificate: {e.message}") from e
    if set(names) <= _names_in(certificate):
        return certificate, key
    authority = open_pki(pki).pki.issuing_from(at)
    issued = authority.issue_server(*dict.fromkeys((*_LOCAL, *names)), label="sandbox")
    return b"".join(map(certificate_pem, (issued.certificate, *issued.chain))), key_pem(issued.key)


def expired_certificate(pki: Path, chain_pem: bytes) -> bytes:
    """Return a certificate chain of the server as it was issued for 90 days that ended the day before it began, PEM.

    Args:
        pki: folder of a test PKI, whose authority signs it.
        chain_pem: the valid chain, its leaf first.

    Raises:
        ConfigurationError: what `open_pki` raises.
    """
    leaf, *issuers = parse_certificates(chain_pem)
    day = timedelta(days=1)
    draft = replace(Draft.of(leaf), not_before=leaf.not_before - 91 * day, not_after=leaf.not_before - day)
    expired = EidasCertificate.from_der(draft.sign(open_pki(pki).pki.qwac_ca.key))
    return b"".join(map(certificate_pem, (expired, *issuers)))


def parse_server_name(text: str) -> str:
    """Parse a name for the server certificate: a DNS name, also `*.bank.example`, or an IP address; returns lower case.

    Raises:
        ConfigurationError: `pki.dns-name`.
    """
    name = text.lower()
    if not _is_name(name) and not _is_ip(name):
        message = f"{shown(text)} is neither a DNS name nor an IP address that clients can connect to"
        raise ConfigurationError("pki.dns-name", message)
    return name


def _names_in(pem: bytes) -> set[str]:
    try:
        certificate = x509.load_pem_x509_certificates(pem)[0]
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return {"localhost"}  # the error is reported when the certificate is used
    return {str(name.value) for name in names}


def _is_name(text: str) -> bool:
    return is_dns_name(text.removeprefix("*.").replace("_", "x"))  # containers have names with underscores


def _is_ip(text: str) -> bool:
    """Whether a text is an IP address that clients can connect to, which excludes `0.0.0.0` and `::`."""
    try:
        return not ip_address(text).is_unspecified
    except ValueError:
        return False
