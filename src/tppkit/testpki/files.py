"""A test PKI as files: certificates, private keys for their owner's eyes, a manifest that names each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tppkit._clock import format_time
from tppkit._files import PRIVATE, new_folder, write_new
from tppkit.certificates import EidasCertificate
from tppkit.testpki.authority import Issued, Pki
from tppkit.testpki.keys import PrivateKey

MANIFEST = "manifest.json"


def certificate_pem(certificate: EidasCertificate) -> bytes:
    """The certificate as PEM."""
    return certificate.x509.public_bytes(Encoding.PEM)


def key_pem(key: PrivateKey) -> bytes:
    """The private key as unencrypted PKCS#8 PEM: for test keys only."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_pki(pki: Pki, directory: Path, *, further: tuple[Issued, ...] = ()) -> dict[str, Any]:
    """Write every certificate and key into a new folder, all or nothing.

    For each: `LABEL.pem`, `LABEL.key` (mode 0600), and for a leaf `LABEL-chain.pem` with the issuing authority behind it.

    Args:
        pki: the PKI.
        directory: absent or an empty folder.
        further: certificates issued besides, written alike.

    Returns:
        The manifest that was written, as CLI.md describes it.

    Raises:
        ConfigurationError: `file.exists`, `file.unwritable`.
    """
    everything = (*pki.issued, *further)
    manifest = {
        "organization_identifier": pki.provider.organization_identifier.text,
        "roles": list(pki.provider.roles),
        "files": [_entry(issued) for issued in everything],
    }
    with new_folder(directory) as folder:
        for issued in everything:
            _write(issued, folder)
        write_new(folder / MANIFEST, (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode())
    return manifest


def _entry(issued: Issued) -> dict[str, Any]:
    return {
        "path": f"{issued.label}.pem",
        "kind": issued.kind,
        "key_path": f"{issued.label}.key",
        "sha256": issued.certificate.sha256,
        "not_after": format_time(issued.certificate.not_after),
        "expected": [],
    }


def _write(issued: Issued, folder: Path) -> None:
    pem = certificate_pem(issued.certificate)
    write_new(folder / f"{issued.label}.pem", pem)
    write_new(folder / f"{issued.label}.key", key_pem(issued.key), mode=PRIVATE)
    if issued.chain:
        write_new(folder / f"{issued.label}-chain.pem", pem + b"".join(map(certificate_pem, issued.chain)))
