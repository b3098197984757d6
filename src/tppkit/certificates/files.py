"""Certificates from files, and in every form in which a caller gives them."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any

from tppkit._files import FilePath, read_bounded
from tppkit.certificates.certificate import EidasCertificate
from tppkit.certificates.sources import MAX_SOURCE_BYTES, read_sources
from tppkit.errors import ConfigurationError, FormatError

CertificateSource = FilePath | bytes | EidasCertificate | Sequence[EidasCertificate]


def load_certificates(path: FilePath, *, password: bytes | str | None = None) -> tuple[EidasCertificate, ...]:
    """Read the certificates of a file in any format of `read_sources`; requests in it are ignored.

    Args:
        path: the file.
        password: for PKCS#12.

    Returns:
        The certificates in the order of the file; empty if it contains only requests.

    Raises:
        ConfigurationError: `file.path`.
        FormatError: `file.unreadable`, `file.too-large`, `certificate.*`, `der.*`, `pem.malformed`, `pkcs12.unreadable`.
    """
    return parse_certificates(read_bounded(path, max_bytes=MAX_SOURCE_BYTES), password)


def parse_certificates(data: bytes, password: bytes | str | None = None) -> tuple[EidasCertificate, ...]:
    """Read the certificates of the bytes of a file; as `load_certificates`."""
    sources = read_sources(data, password=password)
    return tuple(EidasCertificate.from_der(source.der) for source in sources if source.kind == "certificate")


def read_certificates(given: CertificateSource, *, what: str) -> tuple[EidasCertificate, ...]:
    """Return the certificates that a caller gives as an argument.

    Args:
        given: the path of a file, the bytes of one, or certificates. Text is a path.
        what: the name of the argument, for messages.

    Raises:
        ConfigurationError: `certificate.argument`, it is something else; `trust.no-anchors`, it has no certificate; `file.path`.
        FormatError: as `load_certificates`.
    """
    found: Any = (given,) if isinstance(given, EidasCertificate) else given
    try:
        if isinstance(given, str | os.PathLike):
            found = load_certificates(given)
        elif isinstance(given, bytes):
            found = parse_certificates(given)
    except (FormatError, ConfigurationError) as e:
        raise type(e)(e.code, f"{what}: {e.message}") from e
    if not isinstance(found, Collection) or not all(isinstance(one, EidasCertificate) for one in found):
        message = f"{what} must be the path of a file, PEM or DER bytes, or instances of EidasCertificate"
        raise ConfigurationError("certificate.argument", message)
    if not found:  # `ssl` would use the system's authorities instead
        raise ConfigurationError("trust.no-anchors", f"{what} has no certificate")
    return tuple(found)
