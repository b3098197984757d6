"""Certificates from files, and in every form in which a caller gives them."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, islice, pairwise
from typing import Any

from tppkit._files import FilePath, read_bounded
from tppkit._locals import without_locals
from tppkit.certificates.certificate import EidasCertificate
from tppkit.certificates.sources import (
    MAX_CERTIFICATES,
    MAX_SOURCE_BYTES,
    PEM_BLOCK,
    is_der,
    read_pem_sources,
    read_sources,
)
from tppkit.errors import ConfigurationError, FormatError

_LOG = logging.getLogger("tppkit.certificates")
CertificateSource = FilePath | bytes | EidasCertificate | Sequence[EidasCertificate]


@without_locals
def load_certificates(path: FilePath, *, password: bytes | str | None = None) -> tuple[EidasCertificate, ...]:
    """Read the certificates of a file in any format of `read_sources`; requests in it are ignored.

        leaf, *chain = load_certificates("qwac-chain.pem")
        leaf, *_ = load_certificates("qwac.p12", password=password)

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
    """Return the certificates that a caller gives as an argument. Those of a file or bytes that cannot be read are left out and logged.

    Args:
        given: the path of a file, the bytes of one, or certificates.
        what: the name of the argument, for messages.

    Raises:
        ConfigurationError: `certificate.argument`, it is something else; `trust.no-anchors`, it has no certificate; `file.path`.
        FormatError: as `load_certificates`, if no certificate can be read.
    """
    found: Any = (given,) if isinstance(given, EidasCertificate) else given
    if isinstance(given, str | os.PathLike | bytes):
        found, faults = load_readable([given])
        for fault in faults:
            if not found:
                raise type(fault)(fault.code, f"{what}: {fault.message}")
            _LOG.warning("%s: left out: %s [trust.skipped]", what, fault.message)
    if not isinstance(found, Collection) or not all(isinstance(one, EidasCertificate) for one in found):
        raise ConfigurationError("certificate.argument", f"{what} is no path, PEM or DER bytes, or EidasCertificate")
    if not found:  # `ssl` would use the system's authorities instead
        raise ConfigurationError("trust.no-anchors", f"{what} has no certificate")
    return tuple(found)


def load_readable(
    files: Iterable[FilePath | bytes],
) -> tuple[tuple[EidasCertificate, ...], list[FormatError | ConfigurationError]]:
    """Read the certificates of a trust store that can be read.

    Do not use it for a chain: an unreadable leaf would be skipped.

    Args:
        files: paths of files, or their bytes.

    Returns:
        The certificates in the order of the files; why files, or parts of them, cannot be read.
    """
    found, faults = list[EidasCertificate](), list[FormatError | ConfigurationError]()
    for file in files:
        try:
            data = file if isinstance(file, bytes) else read_bounded(file, max_bytes=MAX_SOURCE_BYTES)
        except (FormatError, ConfigurationError) as e:
            faults.append(e)
            continue
        # The blocks, and the texts between them, in which a block may be damaged.
        blocks = () if is_der(data) else islice(PEM_BLOCK.finditer(data), MAX_CERTIFICATES)
        ends = [0, *chain.from_iterable(block.span() for block in blocks), len(data)]
        for start, end in pairwise(ends):
            try:
                sources = read_pem_sources(data[start:end]) if len(ends) > 2 else read_sources(data)
                found += [EidasCertificate.from_der(source.der) for source in sources if source.kind == "certificate"]
            except FormatError as e:
                name, line = "the input" if isinstance(file, bytes) else file, data.count(b"\n", 0, start) + 1
                faults.append(FormatError(e.code, f"{name} near line {line} cannot be read: {e.message}"))
    return tuple(found), faults
