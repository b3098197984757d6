"""Hashes that senders take, those that nobody should among them: one row each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from cryptography.hazmat.primitives import hashes


class KnownHash(NamedTuple):
    """One hash.

    Attributes:
        name: as in a Digest header.
        size: in bytes.
        function: of hashlib.
        digest_info: what stands before the hash in a PKCS#1 signature (RFC 8017 section 9.2).
        signed: the same for ECDSA and PSS; None for a hash that no such signature is looked for with.
    """

    name: str
    size: int
    function: Callable[..., hashlib._Hash]
    digest_info: bytes
    signed: hashes.HashAlgorithm | None = None

    def digest(self, data: bytes) -> bytes:
        """The hash of data."""
        return self.function(data, usedforsecurity=False).digest()


def _row(
    name: str, function: Callable[..., hashlib._Hash], digest_info: str, signed: hashes.HashAlgorithm | None = None
) -> KnownHash:
    prefix = bytes.fromhex(digest_info)
    return KnownHash(name, prefix[-1], function, prefix, signed)


# The likeliest first.
KNOWN: Mapping[str, KnownHash] = MappingProxyType(
    {
        row.name: row
        for row in (
            _row("SHA-256", hashlib.sha256, "3031300d060960864801650304020105000420", hashes.SHA256()),
            _row("SHA-512", hashlib.sha512, "3051300d060960864801650304020305000440", hashes.SHA512()),
            _row("SHA-384", hashlib.sha384, "3041300d060960864801650304020205000430", hashes.SHA384()),
            _row("SHA-1", hashlib.sha1, "3021300906052b0e03021a05000414", hashes.SHA1()),  # noqa: S303
            _row("SHA-224", hashlib.sha224, "302d300d06096086480165030402040500041c"),
            _row("MD5", hashlib.md5, "3020300c06082a864886f70d020505000410"),
        )
    }
)
BY_SIZE: Mapping[int, KnownHash] = MappingProxyType({row.size: row for row in KNOWN.values()})
SIGNED: tuple[KnownHash, ...] = tuple([row for row in KNOWN.values() if row.signed is not None])
