"""Writing deterministic PKCS#12 files: `cryptography` takes its salts only from the machine.

Key and certificates are encrypted by AES-256-CBC with PBKDF2, and protected by HMAC-SHA-256, as OpenSSL 3 and Java do.

Sources: RFC 7292 section 4 and appendix B, RFC 8018 (PBES2).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.padding import PKCS7
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tppkit.certificates import EidasCertificate, der
from tppkit.testpki.certificate import write_attribute
from tppkit.testpki.keys import PrivateKey

ROUNDS = 2048
_DATA, _ENCRYPTED_DATA = "1.2.840.113549.1.7.1", "1.2.840.113549.1.7.6"
_SHROUDED_KEY, _CERTIFICATE = "1.2.840.113549.1.12.10.1.2", "1.2.840.113549.1.12.10.1.3"
_X509 = "1.2.840.113549.1.9.22.1"
_FRIENDLY_NAME, _LOCAL_KEY_ID = "1.2.840.113549.1.9.20", "1.2.840.113549.1.9.21"
_PBES2, _PBKDF2 = "1.2.840.113549.1.5.13", "1.2.840.113549.1.5.12"
_HMAC_SHA256, _AES_256_CBC, _SHA256 = "1.2.840.113549.2.9", "2.16.840.1.101.3.4.1.42", "2.16.840.1.101.3.4.2.1"
_BMP_STRING, _NULL = 0x1E, b"\x05\x00"
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
    attributes = _attributes(name, own)
    certificates = [
        _bag(_CERTIFICATE, _typed(_X509, der.write_octets(c.der)), attributes if c is chain[0] else b"") for c in chain
    ]
    private = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    algorithm, encrypted = _encrypt(private, password, random(f"{name} p12 key", 24))
    shrouded = der.write_sequence(algorithm, der.write_octets(encrypted))
    safes = der.write_sequence(
        _encrypted_safe(der.write_sequence(*certificates), password, random(f"{name} p12 certificates", 24)),
        _content(der.write_sequence(_bag(_SHROUDED_KEY, shrouded, attributes))),
    )
    mac = _mac(safes, password, random(f"{name} p12 mac", 8))
    return der.write_sequence(der.write_integer(3), _content(safes), mac)


def _typed(oid: str, content: bytes) -> bytes:
    return der.write_sequence(der.write_oid(oid), der.write_element(0xA0, content))


def _content(data: bytes) -> bytes:
    return _typed(_DATA, der.write_octets(data))


def _encrypted_safe(data: bytes, password: str, random: bytes) -> bytes:
    algorithm, encrypted = _encrypt(data, password, random)
    info = der.write_sequence(der.write_oid(_DATA), algorithm, der.write_element(0x80, encrypted))
    return _typed(_ENCRYPTED_DATA, der.write_sequence(der.write_integer(0), info))


def _bag(kind: str, value: bytes, attributes: bytes) -> bytes:
    return der.write_sequence(der.write_oid(kind), der.write_element(0xA0, value), attributes)


def _attributes(name: str, key_id: bytes) -> bytes:
    friendly = write_attribute(_FRIENDLY_NAME, der.write_text(name, tag=_BMP_STRING))
    return der.write_element(der.SET, *sorted((friendly, write_attribute(_LOCAL_KEY_ID, der.write_octets(key_id)))))


def _encrypt(data: bytes, password: str, random: bytes) -> tuple[bytes, bytes]:
    """Return the AlgorithmIdentifier and the ciphertext."""
    salt, vector = random[:8], random[8:]
    key = PBKDF2HMAC(hashes.SHA256(), 32, salt, ROUNDS).derive(password.encode("ascii"))
    padder, encryptor = PKCS7(128).padder(), Cipher(algorithms.AES256(key), modes.CBC(vector)).encryptor()
    encrypted = encryptor.update(padder.update(data) + padder.finalize()) + encryptor.finalize()
    parameters = der.write_sequence(
        der.write_octets(salt),
        der.write_integer(ROUNDS),
        _algorithm(_HMAC_SHA256, _NULL),
    )
    scheme = _algorithm(_AES_256_CBC, der.write_octets(vector))
    return _algorithm(_PBES2, der.write_sequence(_algorithm(_PBKDF2, parameters), scheme)), encrypted


def _algorithm(oid: str, parameters: bytes) -> bytes:
    return der.write_sequence(der.write_oid(oid), parameters)


def _mac(data: bytes, password: str, salt: bytes) -> bytes:
    key = _derive_mac_key(password.encode("utf-16-be") + b"\x00\x00", salt)
    value = der.write_octets(hmac.digest(key, data, "sha256"))
    digest = der.write_sequence(_algorithm(_SHA256, _NULL), value)
    return der.write_sequence(digest, der.write_octets(salt), der.write_integer(ROUNDS))


def _derive_mac_key(password: bytes, salt: bytes) -> bytes:
    """Derive the MAC key by RFC 7292 appendix B.2 for SHA-256 and purpose 3, where one block of output is enough."""

    def filled(text: bytes) -> bytes:
        size = _BLOCK * -(-len(text) // _BLOCK)
        return (text * (size // len(text) + 1))[:size]

    value = b"\x03" * _BLOCK + filled(salt) + filled(password)
    for _ in range(ROUNDS):
        value = hashlib.sha256(value).digest()
    return value
