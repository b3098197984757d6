"""The Digest and Content-Digest headers: a hash of the raw body.

    Digest: SHA-256=X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=
    Content-Digest: sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:

A header can have several algorithms; each supported one must fit. Only SHA-256 and SHA-512 are accepted as proof. Their names are
case-insensitive in Digest and in lower case in Content-Digest.
Source: RFC 3230 sections 4.1.1 and 4.3.2; RFC 9530 section 2.
"""

from __future__ import annotations

import hashlib
import hmac
from binascii import b2a_base64
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tppkit._encoding import decode_base64, encode_base64, shown
from tppkit.errors import ConfigurationError, FormatError, SignatureRejected
from tppkit.httpsig.structured import Item, parse_dictionary

MAX_DIGEST_LENGTH = 1024

HASHES: Mapping[str, Callable[..., hashlib._Hash]] = MappingProxyType(
    {"SHA-256": hashlib.sha256, "SHA-512": hashlib.sha512}
)
_LENGTHS: Mapping[str, int] = MappingProxyType({name: function().digest_size for name, function in HASHES.items()})


def make_digest(body: bytes, *, algorithm: str = "SHA-256") -> str:
    """The value of a Digest header for these raw body bytes; no body is the empty byte string.

        message = message.with_headers(("Digest", make_digest(message.body)))

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
        raise _unknown_algorithm(algorithm)
    return hashed


def _unknown_algorithm(algorithm: str) -> ConfigurationError:
    return ConfigurationError(
        "digest.unknown-algorithm",
        f"{shown(algorithm)} is not a supported digest algorithm; use SHA-256 or SHA-512, in lower case for Content-Digest",
    )


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

        verify_digest(message.values("digest")[0], message.body)

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


def make_content_digest(body: bytes, *, algorithm: str = "sha-256") -> str:
    """Return the value of a Content-Digest field for raw bytes; without content, those are empty.

        message = message.with_headers(("Content-Digest", make_content_digest(message.body)))

    Args:
        body: the bytes exactly as they will be sent, after any content coding.
        algorithm: `sha-256` or `sha-512`, in lower case.

    Raises:
        ConfigurationError: `digest.unknown-algorithm`.
    """
    if not algorithm.islower():
        raise _unknown_algorithm(algorithm)
    return f"{algorithm}=:{encode_base64(digest_hash(algorithm)(body).digest())}:"


def parse_content_digest(value: str) -> Mapping[str, bytes]:
    """Parse the value of a Content-Digest field.

    Returns:
        The hashes by algorithm, only those of sha-256 and sha-512; at least one.

    Raises:
        FormatError: `digest.malformed`, `digest.unsupported`, `structured.malformed`, `structured.duplicate` (an algorithm
            appears twice), `base64.*`.
    """
    members = parse_dictionary(value, what="the Content-Digest field")
    hashes: dict[str, bytes] = {}
    for name, member in members.items():
        if not (isinstance(member, Item) and isinstance(member.value, bytes)) or member.parameters:
            raise FormatError("digest.malformed", f"the Content-Digest field's {name} is not one byte sequence")
        if name.upper() in HASHES:
            hashes[name] = require_length(name, member.value)
    if not hashes:
        raise FormatError(
            "digest.unsupported",
            f"the Content-Digest field has {shown(', '.join(members))}, but neither sha-256 nor sha-512",
        )
    return MappingProxyType(hashes)


def verify_content_digest(value: str, body: bytes) -> tuple[str, ...]:
    """Recompute every supported hash of a Content-Digest field over the raw content.

        verify_content_digest(message.values("content-digest")[0], message.body)

    Args:
        value: the field's value.
        body: the content's bytes.

    Returns:
        The algorithms whose hashes were compared and are equal.

    Raises:
        FormatError: see `parse_content_digest`.
        SignatureRejected: `digest.mismatch`.
    """
    return require_digests(parse_content_digest(value), body)
