"""PEM of test certificates and test keys."""

from __future__ import annotations

from asn1crypto import pem
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tppkit.certificates import EidasCertificate
from tppkit.testpki.keys import PrivateKey


def pem_block(label: str, content: bytes) -> bytes:
    """Write a PEM block."""
    return bytes(pem.armor(label, content))


def certificate_pem(certificate: EidasCertificate) -> bytes:
    """Write a certificate as PEM."""
    return pem_block("CERTIFICATE", certificate.der)


def key_pem(key: PrivateKey) -> bytes:
    """The private key as unencrypted PKCS#8 PEM: for test keys only."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
