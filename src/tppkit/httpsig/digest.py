"""The Digest header: a hash of the raw body.

    Digest: SHA-256=X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=

A header can have several algorithms; each supported one must fit. Their names are case-insensitive.
Source: RFC 3230 sections 4.1.1 and 4.3.2. Only SHA-256 and SHA-512 are accepted as proof.
"""

from __future__ import annotations

import hashlib
import hmac
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tppkit._encoding import decode_base64, encode_base64, shown
from tppkit.errors import ConfigurationError, FormatError, SignatureRejected

MAX_DIGEST_LENGTH = 1024

# Content-Digest has the same algorithms in lower case.
HASHES: Mapping[str, Callable[..., hashlib._Hash]] = MappingProxyType(
    {"SHA-256": hashlib.sha256, "SHA-512": hashlib.sha512}
)
_LENGTHS: Mapping[str, int] = MappingProxyType({name: function().digest_size for name, function in HASHES.items()})


def make_digest(body: bytes, *, algorithm: str = "SHA-256") -> str:
    """The value of a Digest header for these raw body bytes; no body is the empty byte string.

    Args:
        body: the bytes exactly as they will be sent.
        algorithm: `SHA-256` or `SHA-512` in the case to write (some banks require `sha-512`); separate several by commas.

    Raises:
        ConfigurationError: `digest.unknown-algorithm`.
    """
    if algorithm == "SHA-256":
        return f"SHA-256={b2a_base64(hashlib.sha256(body).digest(), newline=False).decode('ascii')}"
    return ",".join([f"{name}={encode_base64(digest_hash(name)(body).digest())}" for name in algorithm.split(",")])


def digest_hash(algorithm: str) -> Callable[..., hashlib._Hash]:
    """Return the hash function of a Digest algorithm; its name is case-insensitive.

    Raises:
        ConfigurationError: `digest.unknown-algorithm`.
    """
    hashed = HASHES.get(algorithm.upper())
    if hashed is None:
        raise ConfigurationError(
            "digest.unknown-algorithm",
            f"{shown(algorithm)} is not a supported digest algorithm; use SHA-256 or SHA-512",
        )
    return hashed


def parse_digest(value: str) -> Mapping[str, bytes]:
    """Parse the value of a Digest header.

    Returns:
        The hashes by algorithm in upper case, only those of SHA-256 and SHA-512; at least one.

    Raises:
        FormatError: `digest.malformed`, `digest.duplicate-algorithm`, `digest.unsupported`, `base64.*`.
    """
    if len(value) > MAX_DIGEST_LENGTH:
        raise FormatError("digest.malformed", f"a Digest header of {len(value)} characters is too long")
    hashes: dict[str, bytes] = {}
    seen: set[str] = set()
    for part in value.split(","):
        algorithm, separator, encoded = part.strip(" \t").partition("=")
        name = algorithm.upper()
        if not separator or not name or name != name.strip():
            raise FormatError("digest.malformed", f"the Digest header {shown(value)} is not algorithm=base64")
        if name in seen:
            raise FormatError("digest.duplicate-algorithm", f"the Digest header has {shown(name)} twice")
        seen.add(name)
        if name in HASHES:
            hashes[name] = require_length(name, decode_base64(encoded, what=f"the {name} digest"))
    if not hashes:
        raise FormatError(
            "digest.unsupported",
            f"the Digest header has {shown(', '.join(sorted(seen)))}, but neither SHA-256 nor SHA-512",
        )
    return hashes


def require_length(name: str, raw: bytes) -> bytes:
    """Return a hash from a header if its length is that of its algorithm.

    Raises:
        FormatError: `digest.malformed`.
    """
    length = _LENGTHS[name.upper()]
    if len(raw) != length:
        raise FormatError("digest.malformed", f"the {name} digest has {len(raw)} bytes, not {length}")
    return raw


def verify_digest(value: str, body: bytes) -> tuple[str, ...]:
    """Recompute every supported hash of a Digest header over the raw body.

    Args:
        value: the header's value.
        body: the body's bytes.

    Returns:
        The algorithms whose hashes were compared and are equal.

    Raises:
        FormatError: see `parse_digest`.
        SignatureRejected: `digest.mismatch`.
    """
    return require_digests(parse_digest(value), body)


def require_digests(hashes: Mapping[str, bytes], body: bytes) -> tuple[str, ...]:
    """Compare the hashes of a digest header with the whole body; names of algorithms are case-insensitive.

    Returns:
        The algorithms whose hashes were compared and are equal.

    Raises:
        SignatureRejected: `digest.mismatch`.
    """
    for name, expected in hashes.items():
        if not hmac.compare_digest(digest_hash(name)(body).digest(), expected):
            raise SignatureRejected(
                "digest.mismatch",
                f"the body's {name} differs from the one in the digest header (body of {len(body)} bytes)",
                clause="PSD2 document A.5 rule 4",
            )
    return tuple(hashes)
