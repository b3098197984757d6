"""Trust anchors: the certification authorities that the caller chose to trust."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from tppkit._files import FilePath, as_path, read_bounded
from tppkit.certificates import EidasCertificate
from tppkit.certificates.files import load_readable
from tppkit.certificates.sources import MAX_SOURCE_BYTES, read_pem_blocks
from tppkit.errors import ConfigurationError, Finding, FormatError, Severity
from tppkit.trust.path.strength import is_signed_by

CERTIFICATE_SUFFIXES = frozenset({".pem", ".crt", ".cer", ".der"})
MAX_FILES = 10_000


@dataclass(frozen=True, slots=True)
class Anchors:
    """The authorities that chains may lead to.

        Anchors(roots=(root,), intermediates=(issuing,))
        make_anchors(load_certificates("bundle.pem"))
        load_anchors("pki")

    Attributes:
        roots: a chain must end at one of these.
        intermediates: authorities that may be part of a chain; they are trusted only through a root.
        findings: authorities that were left out, and why.
    """

    roots: tuple[EidasCertificate, ...]
    intermediates: tuple[EidasCertificate, ...] = ()
    findings: tuple[Finding, ...] = ()


def make_anchors(certificates: Iterable[EidasCertificate], *, all_trusted: bool = False) -> Anchors:
    """Sort certification authorities into roots and intermediates.

        paths = PathVerifier(make_anchors(load_certificates("bundle.pem")))

    Self-signed authorities are roots, others intermediates: an intermediate added to a bundle is not trusted by itself.
    Certificates that are no authority are ignored.

    Args:
        certificates: in any order.
        all_trusted: makes every authority a root, self-signed or not. Use it only for certificates that were chosen one by
            one, such as the issuing authorities of a trusted list.

    Raises:
        ConfigurationError: `trust.no-anchors`, none is an authority; `trust.no-root`, no authority is self-signed.
    """
    # A folder often has the same authority in several forms.
    authorities = list({c.sha256: c for c in certificates if c.extensions.is_ca}.values())
    if not authorities:
        raise ConfigurationError(
            "trust.no-anchors", "the trust material has no certification authority: give the certificate of one"
        )
    roots = authorities if all_trusted else [one for one in authorities if _is_self_signed(one)]
    if not roots:
        raise ConfigurationError(
            "trust.no-root",
            f"none of the {len(authorities)} authorities of the trust material is self-signed: add the root",
        )
    anchored = {root.sha256 for root in roots}
    return Anchors(tuple(roots), tuple(c for c in authorities if c.sha256 not in anchored))


def _is_self_signed(certificate: EidasCertificate) -> bool:
    # The name alone is not enough: a rollover certificate has the same name twice, but another key's signature.
    return certificate.subject == certificate.issuer and is_signed_by(certificate, certificate)


def load_anchors(path: FilePath) -> Anchors:
    """Read the authorities of a file, or of the certificate files directly inside a folder.

        anchors = load_anchors("pki")
        anchors.findings  # files that were left out

    Self-signed authorities are roots. In a file without any, every authority is a root, as the caller named that file (an issuing
    authority alone is a common anchor). A folder is a collection, and needs a self-signed authority. What cannot be read is left
    out, with a warning in the findings, if a self-signed authority can be read.

    Args:
        path: a file in any certificate form, or a folder. In a folder, regular files and links to them are read if they end
            in .pem, .crt, .cer or .der; subfolders, FIFOs and devices are ignored.

    Raises:
        ConfigurationError: `trust.no-anchors`, `trust.no-root`; `trust.unreadable`, nothing can be read, or what could be
            the root cannot.
    """
    path = as_path(path)
    try:
        is_folder = path.is_dir()
        files = sorted(filter(is_certificate_file, path.iterdir())) if is_folder else [path]
    except OSError as e:
        raise _unreadable(f"{path} cannot be read: {e.strerror}") from e
    if len(files) > MAX_FILES:
        raise _unreadable(f"{path} holds more than {MAX_FILES} certificate files")
    certificates, faults = load_readable(files)
    has_root = any(c.extensions.is_ca and _is_self_signed(c) for c in certificates)
    if faults and not has_root:
        raise _unreadable("; ".join(fault.message for fault in faults[:3]))
    left_out = (Finding("trust.skipped", Severity.WARNING, f"left out: {fault.message}") for fault in faults)
    return replace(make_anchors(certificates, all_trusted=not (is_folder or has_root)), findings=tuple(left_out))


def load_public_keys(path: FilePath) -> frozenset[str]:
    """Return the SHA-256 of each public key in the PEM files of a file or folder (.pem, .pub), hexadecimal, over its DER form.

        material = TrustMaterial(anchors, keys=load_public_keys("service.pub"))

    Files that cannot be read or have no public key are left out: they may be certificates.
    """
    path = as_path(path)
    files = [path]
    with suppress(OSError):
        if path.is_dir():
            files = [one for one in path.iterdir() if one.suffix.lower() in (".pem", ".pub") and one.is_file()]
    found = set()
    for file in files:
        with suppress(FormatError, ValueError):
            for label, content in read_pem_blocks(read_bounded(file, max_bytes=MAX_SOURCE_BYTES)):
                if label == "PUBLIC KEY":
                    key = load_der_public_key(content)
                    found.add(
                        hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()
                    )
    return frozenset(found)


def _unreadable(why: str) -> ConfigurationError:
    message = f"the trust material {why}; give a certificate file, or a folder of them"
    return ConfigurationError("trust.unreadable", message)


def is_certificate_file(path: Path) -> bool:
    """Whether a path is a regular file with certificates by its suffix: reading a FIFO or a device may block forever."""
    return path.suffix.lower() in CERTIFICATE_SUFFIXES and path.is_file()
