"""PEM, and the files of a test PKI."""

from __future__ import annotations

import base64
from typing import NamedTuple

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tppkit._files import PUBLIC
from tppkit.certificates import EidasCertificate
from tppkit.testpki.keys import PrivateKey


class PkiFile(NamedTuple):
    """A file of a test PKI: its name in the folder, its content, and its mode."""

    name: str
    content: bytes
    mode: int = PUBLIC


def pem_block(label: str, content: bytes) -> bytes:
    """Write a PEM block."""
    encoded = base64.b64encode(content).decode()
    lines = "\n".join(encoded[start : start + 64] for start in range(0, len(encoded), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n".encode()


def certificate_pem(certificate: EidasCertificate) -> bytes:
    """Write a certificate as PEM."""
    return pem_block("CERTIFICATE", certificate.der)


def key_pem(key: PrivateKey) -> bytes:
    """The private key as unencrypted PKCS#8 PEM: for test keys only."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
