"""Strict parsers of base64 and JSON, and a safe way to show untrusted text.

Only the canonical form is accepted: if two texts decode to the same bytes, two programs can disagree about them.
"""

from __future__ import annotations

import binascii
import json
import math
import re
from collections.abc import Callable
from typing import Any

from tppkit._text import printable, shortened
from tppkit.errors import FormatError

MAX_JSON_DEPTH = 32
_MAX_JSON_DIGITS = 400
_JSON_SPACE = " \t\n\r"


def decode_base64(text: str | bytes, *, what: str) -> bytes:
    """Decode canonical base64 (RFC 4648 section 4): padded, no white space, trailing bits zero.

    Args:
        text: the encoded text.
        what: the name of the value in error messages.

    Raises:
        FormatError: `base64.malformed`, `base64.noncanonical`.
    """
    try:
        raw = binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError) as e:
        raise FormatError("base64.malformed", f"{what} is not base64: {e}") from None
    encoded = text.encode("ascii") if isinstance(text, str) else text
    if binascii.b2a_base64(raw, newline=False) != encoded:
        raise FormatError("base64.noncanonical", f"{what} is base64 with non-zero trailing bits or missing padding")
    return raw


def encode_base64(raw: bytes) -> str:
    """Encode as canonical base64 on one line."""
    return binascii.b2a_base64(raw, newline=False).decode("ascii")


_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")


def decode_base64url(text: str, *, what: str) -> bytes:
    """Decode canonical base64url (RFC 7515 section 2): no padding, no white space, trailing bits zero.

    Args:
        text: the encoded text.
        what: the name of the value in error messages.

    Raises:
        FormatError: `base64.malformed`, `base64.noncanonical`.
    """
    if not _BASE64URL.fullmatch(text):  # the decoder would also accept + and /
        raise FormatError("base64.malformed", f"{what} is not base64url without padding")
    return decode_base64(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), what=what)


def encode_base64url(raw: bytes) -> str:
    """Encode as canonical base64url without padding."""
    return encode_base64(raw).rstrip("=").replace("+", "-").replace("/", "_")


# Forms that are not read, by their first bytes, and the command that converts them.
_CONVERTIBLE = (
    (rb"\x30.{1,5}\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02",
     "it is PKCS#7: openssl pkcs7 -inform DER -in FILE -print_certs -out FILE.pem"),
    (rb".*-----BEGIN PKCS7-----", "it is PKCS#7: openssl pkcs7 -in FILE -print_certs -out FILE.pem"),
    (rb"\xfe\xed\xfe\xed|\xce\xce\xce\xce",
     "it is a Java keystore: keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12"),
    (rb"\xff\xfe|\xfe\xff|.*-\0-\0-\0-", "it is text in UTF-16: iconv -f UTF-16 -t UTF-8 FILE > FILE.pem"),
    (rb".*-----BEGIN [A-Z0-9 ]{1,40}-----(\\r)?\\n",
     "its line breaks are written as backslash and n: printf %b \"$(cat FILE)\""),
)  # fmt: skip


def utf8(text: bytes | str | None) -> bytes | None:
    """Return a password as bytes: text in UTF-8, including lone surrogates; bytes and None unchanged."""
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


def pem_fault(data: bytes, before: str = "") -> str:
    """Name a form of keys and certificates that is not read, with the command that converts it; empty for other bytes."""
    return next((f"{before}{form}" for start, form in _CONVERTIBLE if re.match(start, data, re.DOTALL)), "")


def shown(value: str | bytes, *, limit: int = 80) -> str:
    """Return untrusted text for a message: quoted, shortened to `limit` characters, control characters escaped."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    return f'"{printable(shortened(text, limit))}"'


def parse_json(
    raw: bytes,
    *,
    what: str,
    max_bytes: int,
    max_depth: int = MAX_JSON_DEPTH,
    number: Callable[[str], Any] | None = None,
) -> Any:
    """Parse one JSON value (RFC 8259): UTF-8, no duplicate names, no NaN, bounded size and depth.

    Args:
        raw: the bytes as received.
        what: the name of the value in error messages.
        max_bytes: size limit.
        max_depth: limit of nested arrays and objects.
        number: makes a value from the text of a number; by default an int or float.

    Raises:
        FormatError: `json.malformed`, `json.duplicate-name`, `json.too-large`, `json.too-deep`.
    """
    if not hasattr(raw, "decode"):
        raise FormatError("json.malformed", f"{what} is {type(raw).__name__}, not bytes")
    if len(raw) > max_bytes:
        raise FormatError("json.too-large", f"{what} has {len(raw)} bytes, and the limit is {max_bytes}")
    # The number of brackets bounds the depth, and counting them is cheap.
    if raw.count(b"[") + raw.count(b"{") > max_depth:
        _check_depth(raw, what, max_depth)
    try:
        value = _decode_json(raw.decode(), _DECODER if number is None else _decoder(number, number))
        if b"\\" in raw:  # an escape may be a lone surrogate, which cannot be encoded again
            json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")  # str: for values of `number`
        return value
    except FormatError:
        raise
    except (ValueError, RecursionError) as e:
        raise FormatError("json.malformed", f"{what} is not JSON: {_reason(e)}") from None


class JsonNumber(str):
    """The text of a JSON number: the `number` of `parse_json` that `write_json` writes unchanged."""


def write_json(value: Any) -> str:
    """Write a JSON value without white space; a `JsonNumber` as its text."""
    if isinstance(value, dict):
        return "{" + ",".join([f"{write_json(name)}:{write_json(one)}" for name, one in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write_json, value)) + "]"
    return str(value) if isinstance(value, JsonNumber) else json.dumps(value, ensure_ascii=False)


def _decode_json(text: str, decoder: json.JSONDecoder) -> Any:
    begin = 0 if text[:1] == "{" else len(text) - len(text.lstrip(_JSON_SPACE))
    value, end = decoder.raw_decode(text, begin)
    if end != len(text) and text[end:].strip(_JSON_SPACE):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    return "not UTF-8" if isinstance(error, UnicodeError) else str(error)[:80]


def _check_depth(raw: bytes, what: str, max_depth: int) -> None:
    # Brackets within strings do not count.
    depth, quoted, escaped = 0, False, False
    for byte in raw:
        if quoted:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                quoted = False
        elif byte == 0x22:
            quoted = True
        elif byte in b"[{":
            depth += 1
            if depth > max_depth:
                raise FormatError("json.too-deep", f"{what} nests deeper than {max_depth} levels")
        elif byte in b"]}":
            depth -= 1


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise FormatError("json.duplicate-name", "a name appears twice in one object")
    return found


def _no_constant(name: str) -> Any:
    raise FormatError("json.malformed", f"{name} is not JSON")


def _bounded_int(digits: str) -> int:
    if len(digits) > _MAX_JSON_DIGITS:
        raise FormatError("json.malformed", f"an integer of {len(digits)} digits is too long")
    return int(digits)


def _finite_float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):  # would be written as Infinity, which is not JSON
        raise FormatError("json.malformed", "a number is too large")
    return value


def _decoder(integer: Callable[[str], Any], fraction: Callable[[str], Any]) -> json.JSONDecoder:
    return json.JSONDecoder(
        object_pairs_hook=_unique_names, parse_constant=_no_constant, parse_int=integer, parse_float=fraction
    )


# Made once: making a decoder takes longer than parsing a short body.
_DECODER = _decoder(_bounded_int, _finite_float)
