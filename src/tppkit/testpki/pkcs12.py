"""Writing deterministic PKCS#12 files: `cryptography` takes its salts only from the machine.

Key and certificates are encrypted by AES-256-CBC with PBKDF2, and protected by HMAC-SHA-256, as OpenSSL 3 and Java do.

Sources: RFC 7292 section 4 and appendix B, RFC 8018 (PBES2).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence

from asn1crypto import algos, cms, core, pkcs12
from asn1crypto import x509 as asn1_x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.padding import PKCS7
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tppkit.certificates import EidasCertificate
from tppkit.testpki.keys import PrivateKey

ROUNDS = 2048
_BLOCK = 64  # of SHA-256

Random = Callable[[str, int], bytes]


def write_pkcs12(
    key: PrivateKey, chain: Sequence[EidasCertificate], *, name: str, password: str, random: Random
) -> bytes:
    """Write a PKCS#12 file, as DER.

    Args:
        key: The private key.
        chain: Its certificate, then the authorities above it.
        name: Friendly name of key and certificate.
        password: ASCII.
        random: Returns salts and initialisation vectors for a label and a number of bytes.
    """
    own = hashlib.sha1(chain[0].der, usedforsecurity=False).digest()
    attributes = [{"type": "friendly_name", "values": [name]}, {"type": "local_key_id", "values": [own]}]
    certificates = pkcs12.SafeContents([
        {"bag_id": "cert_bag", "bag_value": _certificate(certificate), "bag_attributes": None if number else attributes}
        for number, certificate in enumerate(chain)
    ])  # fmt: skip
    private = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    algorithm, encrypted = _encrypt(private, password, random(f"{name} p12 key", 24))
    shrouded = {"encryption_algorithm": algorithm, "encrypted_data": encrypted}
    bag = {"bag_id": "pkcs8_shrouded_key_bag", "bag_value": shrouded, "bag_attributes": attributes}
    safes = pkcs12.AuthenticatedSafe([
        _encrypted_safe(certificates.dump(), password, random(f"{name} p12 certificates", 24)),
        {"content_type": "data", "content": pkcs12.SafeContents([bag]).dump()},
    ]).dump()  # fmt: skip
    mac = _mac(safes, password, random(f"{name} p12 mac", 8))
    pfx = {"version": 3, "auth_safe": {"content_type": "data", "content": safes}, "mac_data": mac}
    return bytes(pkcs12.Pfx(pfx).dump())


def _certificate(certificate: EidasCertificate) -> dict[str, object]:
    return {"cert_id": "x509", "cert_value": asn1_x509.Certificate.load(certificate.der)}


def _encrypted_safe(data: bytes, password: str, random: bytes) -> cms.ContentInfo:
    algorithm, encrypted = _encrypt(data, password, random)
    info = {"content_type": "data", "content_encryption_algorithm": algorithm, "encrypted_content": encrypted}
    content = {"version": 0, "encrypted_content_info": info}
    return cms.ContentInfo({"content_type": "encrypted_data", "content": content})


def _encrypt(data: bytes, password: str, random: bytes) -> tuple[algos.EncryptionAlgorithm, bytes]:
    """Return the algorithm with its parameters, and the ciphertext."""
    salt, vector = random[:8], random[8:]
    key = PBKDF2HMAC(hashes.SHA256(), 32, salt, ROUNDS).derive(password.encode("ascii"))
    padder, encryptor = PKCS7(128).padder(), Cipher(algorithms.AES256(key), modes.CBC(vector)).encryptor()
    encrypted = encryptor.update(padder.update(data) + padder.finalize()) + encryptor.finalize()
    derivation = {
        "salt": algos.Pbkdf2Salt("specified", salt), "iteration_count": ROUNDS,
        "prf": {"algorithm": "sha256", "parameters": core.Null()},
    }  # fmt: skip
    parameters = {
        "key_derivation_func": {"algorithm": "pbkdf2", "parameters": derivation},
        "encryption_scheme": {"algorithm": "aes256_cbc", "parameters": vector},
    }
    return algos.EncryptionAlgorithm({"algorithm": "pbes2", "parameters": parameters}), encrypted


def _mac(data: bytes, password: str, salt: bytes) -> dict[str, object]:
    """Return the MacData; its key is that of RFC 7292 appendix B.2 for purpose 3, where one block of output is enough."""

    def filled(text: bytes) -> bytes:
        size = _BLOCK * -(-len(text) // _BLOCK)
        return (text * (size // len(text) + 1))[:size]

    key = b"\x03" * _BLOCK + filled(salt) + filled(password.encode("utf-16-be") + b"\x00\x00")
    for _ in range(ROUNDS):
        key = hashlib.sha256(key).digest()
    digest = {"digest_algorithm": {"algorithm": "sha256"}, "digest": hmac.digest(key, data, "sha256")}
    return {"mac": digest, "mac_salt": salt, "iterations": ROUNDS}
