"""Certificates from files."""

from __future__ import annotations

from tppkit._files import FilePath, read_bounded
from tppkit.certificates.certificate import EidasCertificate
from tppkit.certificates.sources import MAX_SOURCE_BYTES, read_sources


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
    sources = read_sources(read_bounded(path, max_bytes=MAX_SOURCE_BYTES), password=password)
    return tuple(EidasCertificate.from_der(source.der) for source in sources if source.kind == "certificate")
