"""Deterministic CBOR, the few types that a record has: the bytes that are hashed.

Source: RFC 8949 section 4.2.1 (shortest heads, definite lengths, map keys in the order of their encoded bytes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

_MAX_REMEMBERED = 64  # letters; records of others may have longer names
_BYTES = tuple(bytes((number,)) for number in range(256))

Value = None | bool | int | bytes | str | Sequence["Value"] | Mapping[str, "Value"]


def encode_cbor(value: Value) -> bytes:
    """The one deterministic encoding of a value made of None, bool, int (64 bit), bytes, str, sequences and text-keyed maps."""
    match value:
        case str():  # first, as most values are
            raw = value.encode("utf-8")
            return _head(3, len(raw)) + raw
        case None:
            return b"\xf6"
        case bool():
            return b"\xf5" if value else b"\xf4"
        case int():
            return _head(0, value) if value >= 0 else _head(1, -1 - value)
        case bytes():
            return _head(2, len(value)) + value
        case Mapping():
            pairs = sorted([(_name(name), encode_cbor(item)) for name, item in value.items()])
            return _head(5, len(pairs)) + b"".join([part for pair in pairs for part in pair])
        case _:
            return _head(4, len(value)) + b"".join(map(encode_cbor, value))


def _name(name: str) -> bytes:
    return _short_name(name) if len(name) <= _MAX_REMEMBERED else encode_cbor(name)


@lru_cache(maxsize=256)
def _short_name(name: str) -> bytes:
    return encode_cbor(name)


def _head(major: int, argument: int) -> bytes:
    if argument < 24:
        return _BYTES[major << 5 | argument]
    if argument < 256:
        return _BYTES[major << 5 | 24] + _BYTES[argument]
    for size, code in ((2, 25), (4, 26), (8, 27)):
        if argument < 1 << (8 * size):
            return _BYTES[major << 5 | code] + argument.to_bytes(size, "big")
    raise OverflowError(f"{argument} does not fit 64 bits")
