"""The Content-Digest field: a hash of the raw content.

    Content-Digest: sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:

Source: RFC 9530 section 2. Only sha-256 and sha-512 are accepted as proof.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tppkit._encoding import encode_base64, shown
from tppkit.errors import ConfigurationError, FormatError
from tppkit.httpsig.digest import HASHES, require_digests, require_length
from tppkit.httpsig.structured import Item, parse_dictionary

_HASHES = MappingProxyType({name.lower(): function for name, function in HASHES.items()})


def make_content_digest(body: bytes, *, algorithm: str = "sha-256") -> str:
    """Return the value of a Content-Digest field for raw bytes; without content, those are empty.

    Args:
        body: the bytes exactly as they will be sent, after any content coding.
        algorithm: `sha-256` or `sha-512`.

    Raises:
        ConfigurationError: `digest.unknown-algorithm`.
    """
    if algorithm not in _HASHES:
        raise ConfigurationError(
            "digest.unknown-algorithm",
            f"{shown(algorithm)} is not a supported digest algorithm; use sha-256 or sha-512",
        )
    return f"{algorithm}=:{encode_base64(_HASHES[algorithm](body).digest())}:"


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
        if name in _HASHES:
            hashes[name] = require_length(name, member.value)
    if not hashes:
        raise FormatError(
            "digest.unsupported",
            f"the Content-Digest field has {shown(', '.join(members))}, but neither sha-256 nor sha-512",
        )
    return MappingProxyType(hashes)


def verify_content_digest(value: str, body: bytes) -> tuple[str, ...]:
    """Recompute every supported hash of a Content-Digest field over the raw content.

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
