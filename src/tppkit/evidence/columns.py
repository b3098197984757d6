"""The columns of a record: their types, their form in a line of JSON, and their encoding for the leaf hash.

The leaf hash is over deterministic CBOR of the few types that a record has.
Source: RFC 8949 section 4.2.1 (shortest heads, definite lengths, map keys in the order of their encoded bytes).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any

from tppkit._clock import format_time, parse_time
from tppkit._encoding import decode_base64, parse_json
from tppkit.errors import FormatError

SCHEMA = 1
MAX_LINE_BYTES = 8 * 1024 * 1024

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
UNCERTIFIED = frozenset({3, 6})  # the kinds that are signed without a certificate: callbacks and logins
BYTES = ("header_block", "signature_raw", "body", "public_key")
_BYTES = tuple(bytes((number,)) for number in range(256))

Value = None | bool | int | bytes | str | Sequence["Value"] | Mapping[str, "Value"]


def _read_number(name: str, value: int) -> int:
    if not 0 <= value < 1 << 63:
        raise _malformed(name)
    return value


def _read_bytes(name: str, value: str) -> bytes:
    return decode_base64(value, what=f"the record's {name}")


def _read_time(name: str, value: str) -> datetime:
    at = parse_time(value)
    if format_time(at) != value:
        raise FormatError("time.malformed", f"the record's {name} is not written as {format_time(at)}")
    return at


def _hex(length: int) -> Callable[[str, Any], str]:
    digits = re.compile(f"[0-9a-f]{{{length}}}")

    def read(name: str, value: Any) -> str:
        if not isinstance(value, str) or not digits.fullmatch(value):
            raise FormatError("record.malformed", f"the record's {name} is not {length} lower-case hexadecimal digits")
        return value

    return read


read_stream_id, _HEX_128 = _hex(32), _hex(128)
read_hash = _hex(64)


def _read_chain(name: str, value: list[Any]) -> tuple[str, ...]:
    return tuple([read_hash(name, link) for link in value])


def _malformed(name: str) -> FormatError:
    return FormatError("record.malformed", f"the record's {name} is malformed")


# column: (Python type on the line, whether None is allowed, parser or None)
FORMS: Mapping[str, tuple[type, bool, Callable[[str, Any], Any] | None]] = MappingProxyType({
    "v": (int, False, _read_number), "kind": (int, False, _read_number), "stream_id": (str, False, read_stream_id),
    "seq": (int, False, _read_number), "previous": (str, False, read_hash), "received_at": (str, False, _read_time),
    "clock_source": (str, False, None),
    "session_id": (str, True, None), "x_request_id": (str, False, None), "payment_ref": (str, True, None),
    "method": (str, False, None), "target": (str, False, None), "header_block": (str, False, _read_bytes),
    "signature_raw": (str, False, _read_bytes), "signing_input_sha256": (str, False, read_hash), "body": (str, True, _read_bytes),
    "body_state": (int, False, _read_number), "body_len": (int, False, _read_number), "body_sha256": (str, False, read_hash),
    "body_sha512": (str, False, _HEX_128), "seal_cert": (str, True, read_hash), "qwac_cert": (str, True, read_hash),
    "chain": (list, False, _read_chain), "profile": (str, False, None), "verdict": (str, False, None), "software": (str, False, None),
    "http_status": (int, True, _read_number), "error_code": (str, True, None),
    # Columns that the first records of this schema do not have.
    "answers": (list, True, _read_chain), "lists": (list, True, _read_chain), "consent_ref": (str, True, None),
    "outbox_id": (str, True, None), "key_name": (str, True, None), "public_key": (str, True, _read_bytes), "url_form": (str, True, None),
    "direction": (str, True, None),
})  # fmt: skip


def write_object(values: Mapping[str, Any]) -> bytes:
    """Return compact JSON in UTF-8."""
    return _ENCODER.encode(values).encode()


def parse_object(raw: bytes) -> dict[str, Any]:
    """Parse the JSON object of a line.

    Raises:
        FormatError: `json.*`, `record.malformed`.
    """
    if raw.startswith(b"\xef\xbb\xbf"):
        raise FormatError(
            "json.malformed", "the line begins with a byte-order mark, which an editor added: remove its 3 bytes"
        )
    values = parse_json(raw, what="the record", max_bytes=MAX_LINE_BYTES)
    if not isinstance(values, dict):
        raise FormatError("record.malformed", "the record is not a JSON object")
    return values


def read_columns(values: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the arguments of a record: known columns, and the others as `extra`.

    Raises:
        FormatError: `record.malformed`, `record.version`, `base64.*`, `time.malformed`.
    """
    if values.get("v") != SCHEMA:
        raise FormatError(
            "record.version", f"the record has schema version {str(values.get('v'))[:20]}, this version reads {SCHEMA}"
        )
    known: dict[str, Any] = {}
    for name, (kind, optional, read) in FORMS.items():
        value: Any = values.get(name)
        if type(value) is kind:
            known[name] = value if read is None else read(name, value)
        elif value is None and optional:
            known[name] = None
        elif value is None:
            raise FormatError("record.malformed", f"the record has no {name}")
        else:
            raise _malformed(name)
    if known["seal_cert"] is None and known["kind"] not in UNCERTIFIED:
        raise FormatError("record.malformed", "the record has no seal_cert")
    if values.keys() <= FORMS.keys():
        return {**known, "extra": MappingProxyType({})}
    extra = {name: value for name, value in values.items() if name not in FORMS}
    try:
        encode_cbor(extra)
    except (OverflowError, TypeError) as e:
        message = "an unknown column of the record has a value that cannot be hashed"
        raise FormatError("record.malformed", message) from e
    return {**known, "extra": MappingProxyType(extra)}


def encode_cbor(value: Value) -> bytes:
    """Return the deterministic encoding of None, bool, int (64 bit), bytes, str, sequences and maps with text keys."""
    match value:
        case str():  # first, because most values are texts
            raw = value.encode()
            return (_TEXTS[len(raw)] if len(raw) < 256 else encode_head(3, len(raw))) + raw
        case None:
            return b"\xf6"
        case bool():
            return b"\xf5" if value else b"\xf4"
        case int():
            return encode_head(0, value) if value >= 0 else encode_head(1, -1 - value)
        case bytes():
            return encode_head(2, len(value)) + value
        case Mapping():
            # No encoded name is a prefix of another, so this sorts by the encoded names.
            pairs = sorted(
                [(_NAMES.get(name) or encode_cbor(name)) + encode_cbor(item) for name, item in value.items()]
            )
            return encode_head(5, len(pairs)) + b"".join(pairs)
        case _:
            return encode_head(4, len(value)) + b"".join(map(encode_cbor, value))


def encode_head(major: int, argument: int) -> bytes:
    """Return the head of an item: its major type with a length or value."""
    if argument < 24:
        return _BYTES[major << 5 | argument]
    if argument < 256:
        return _BYTES[major << 5 | 24] + _BYTES[argument]
    for size, code in ((2, 25), (4, 26), (8, 27)):
        if argument < 1 << (8 * size):
            return _BYTES[major << 5 | code] + argument.to_bytes(size, "big")
    raise OverflowError(f"{argument} does not fit 64 bits")


_TEXTS = tuple([encode_head(3, length) for length in range(256)])
_NAMES: Mapping[str, bytes] = {name: encode_cbor(name) for name in FORMS}
