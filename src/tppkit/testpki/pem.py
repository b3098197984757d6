"""PEM, the files of a test PKI, and their entries in the manifest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from asn1crypto import pem
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tppkit._clock import format_time
from tppkit._files import PUBLIC
from tppkit.certificates import EidasCertificate
from tppkit.testpki.keys import PrivateKey


class PkiFile(NamedTuple):
    """A file of a test PKI: its name in the folder, its content, and its mode."""

    name: str
    content: bytes
    mode: int = PUBLIC


Entry = dict[str, Any]


def make_entry(
    path: str,
    kind: str,
    sha256: str,
    not_after: datetime | None,
    *,
    further: Sequence[str] = (),
    key_path: str | None = None,
) -> Entry:
    """Return an entry of the manifest.

    Args:
        path: The file.
        kind: The kind of file, as CLI.md names it.
        sha256: SHA-256 of a certificate's DER, or of any other file's bytes, in hexadecimal.
        not_after: The time at which it ends, aware UTC, or None.
        further: Its other files.
        key_path: The file of its private key.
    """
    return {
        "path": path, "kind": kind, "key_path": key_path, "sha256": sha256,
        "not_after": format_time(not_after) if not_after else None, "expected": [], "further_paths": list(further),
    }  # fmt: skip


def pem_block(label: str, content: bytes) -> bytes:
    """Write a PEM block."""
    return bytes(pem.armor(label, content))


def certificate_pem(certificate: EidasCertificate) -> bytes:
    """Write a certificate as PEM."""
    return pem_block("CERTIFICATE", certificate.der)


def key_pem(key: PrivateKey) -> bytes:
    """The private key as unencrypted PKCS#8 PEM: for test keys only."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
