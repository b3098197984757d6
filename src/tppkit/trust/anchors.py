"""The certification authorities that are believed, from files the caller chose."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tppkit._files import read_bounded
from tppkit.certificates import EidasCertificate, read_sources
from tppkit.certificates.sources import MAX_SOURCE_BYTES
from tppkit.errors import ConfigurationError, FormatError

CERTIFICATE_SUFFIXES = frozenset({".pem", ".crt", ".cer", ".der"})
MAX_FILES = 10_000


@dataclass(frozen=True, slots=True)
class Anchors:
    """Who is believed.

    Attributes:
        roots: a chain must end at one of these.
        intermediates: certification authorities that may stand between; they are believed only through a root.
    """

    roots: tuple[EidasCertificate, ...]
    intermediates: tuple[EidasCertificate, ...] = ()


def make_anchors(certificates: Iterable[EidasCertificate]) -> Anchors:
    """Sort certification authorities into roots and intermediates.

    Self-issued authorities are roots, other authorities intermediates; when none is self-issued, every authority is a
    root. Certificates that are no authority are passed over.

    Raises:
        ConfigurationError: `trust.no-anchors`, there is no authority among them.
    """
    authorities = [certificate for certificate in certificates if certificate.extensions.is_ca]
    roots = [c for c in authorities if c.subject == c.issuer] or authorities
    if not roots:
        raise ConfigurationError("trust.no-anchors", "no certification authority stands in the trust material")
    return Anchors(tuple(roots), tuple(c for c in authorities if c not in roots))


def load_anchors(path: Path) -> Anchors:
    """Read the authorities of a file, or of the certificate files directly inside a folder.

    Args:
        path: a file in any certificate form, or a folder (files ending in .pem, .crt, .cer, .der; not its subfolders).

    Raises:
        ConfigurationError: `trust.no-anchors`; `trust.unreadable` when the path or a file in it cannot be read.
    """
    try:
        files = (
            [path]
            if not path.is_dir()
            else sorted(p for p in path.iterdir() if p.suffix.lower() in CERTIFICATE_SUFFIXES)
        )
        certificates = [certificate for file in files[:MAX_FILES] for certificate in _read(file)]
    except (FormatError, OSError) as e:
        raise ConfigurationError("trust.unreadable", f"the trust material at {path} cannot be read: {e}") from e
    return make_anchors(certificates)


def _read(file: Path) -> list[EidasCertificate]:
    sources = read_sources(read_bounded(file, max_bytes=MAX_SOURCE_BYTES))
    return [EidasCertificate.from_der(source.der) for source in sources if source.kind == "certificate"]
