"""Common mistakes in a callback's body, requestid, method or signature; `url_causes` has those in its URL.

The functions return variants: bytes that the service may have signed, each with the cause that would explain it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from tppkit._encoding import parse_json
from tppkit.errors import FormatError
from tppkit.protocol.wire import MAX_BODY_BYTES


class Cause(NamedTuple):
    """Why a signature does not fit the request as received.

    Attributes:
        code: a row of `tppkit.codes.CODES`.
        message: one sentence, without the body.
    """

    code: str
    message: str


class Variant(NamedTuple):
    """Bytes that may have been signed.

    Attributes:
        data: the bytes.
        cause: the mistake that would explain them, None for the request as received.
    """

    data: bytes
    cause: Cause | None


def read_any_signature(text: str) -> tuple[bytes, Cause | None] | None:
    """Decode a signature in any known encoding to DER, with the cause if the encoding is wrong; None if none fits."""
    for encoding, decode in _ENCODINGS.items():
        try:
            raw = decode(text)
        except (ValueError, UnicodeError):
            continue
        der = _as_der(raw)
        if der is None:
            continue
        if encoding == _STRICT and raw.hex() != text:
            encoding = "hexadecimal in upper case or with white space"
        if der != raw:
            encoding = f"{encoding}, r and s of 32 bytes each instead of DER"
        return der, None if encoding == _STRICT else _sent_as(encoding)
    return None


def _sent_as(encoding: str) -> Cause:
    return Cause("callback-cause.signature-encoding", f"the signature was sent as {encoding}")


_STRICT = "lower-case hexadecimal"
_ENCODINGS: Mapping[str, Callable[[str], bytes]] = {
    _STRICT: bytes.fromhex,
    "hexadecimal with separators": lambda text: bytes.fromhex(text.strip().removeprefix("0x").replace(":", "")),
    "base64": lambda text: binascii.a2b_base64(text.strip(), strict_mode=True),
    "base64 for URLs": lambda text: base64.urlsafe_b64decode(text.strip() + "=" * (-len(text.strip()) % 4)),
}


def _as_der(raw: bytes) -> bytes | None:
    try:
        decode_dss_signature(raw)
    except ValueError:
        if len(raw) != 64:
            return None
        return encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    return raw


def bodies(body: bytes) -> list[Variant]:
    """Return the bodies that may have been signed, the most likely first."""
    found: dict[bytes, Cause | None] = {body: None}

    def changed(data: bytes, why: str) -> None:
        found.setdefault(data, Cause("callback-cause.body-changed", f"another body was signed: {why}"))

    changed(body.rstrip(b"\r\n \t"), "without the white space at the end")
    changed(body + b"\n", "with a line feed at the end")
    changed(body + b"\r\n", "with CR LF at the end")
    changed(body.replace(b"\r\n", b"\n"), "with LF instead of CR LF")
    changed(body.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"), "with CR LF instead of LF")
    changed(body.removeprefix(b"\xef\xbb\xbf"), "without the byte order mark")
    changed(b"", "none")
    for data in _reserialised(body):
        cause = Cause(
            "callback-cause.body-reserialised",
            "the same JSON was signed in another spelling: it was parsed and serialised again",
        )
        found.setdefault(data, cause)
    return [Variant(data, cause) for data, cause in found.items()]


def _reserialised(body: bytes) -> Iterator[bytes]:
    try:
        value = parse_json(body, what="the body", max_bytes=MAX_BODY_BYTES)
    except FormatError:
        return
    for separators in ((",", ":"), (", ", ": "), (",", ": ")):
        for ascii_only in (False, True):
            for sort in (False, True):
                text = json.dumps(value, separators=separators, ensure_ascii=ascii_only, sort_keys=sort)
                yield text.encode()
                yield text.replace("/", "\\/").encode()
    for indent in (2, 4):
        yield json.dumps(value, indent=indent, ensure_ascii=False).encode()


def heads(request_id: str, method: str) -> list[Variant]:
    """Return the bytes before the URL that may have been signed: requestid and method."""
    found: dict[str, Cause | None] = {request_id + method: None}
    for name in (method.upper(), method.lower(), method.capitalize()):
        found.setdefault(request_id + name, Cause("callback-cause.method", f"the method was signed as {name[:20]}"))
    for name in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"):
        found.setdefault(request_id + name, Cause("callback-cause.method", f"a {name} was signed"))
    found.setdefault(request_id, Cause("callback-cause.method", "no method was signed"))
    for text, how in (
        (request_id.strip(), "without white space around it"), (request_id.lower(), "in lower case"),
        (request_id.upper(), "in upper case"), (request_id.replace("-", ""), "without hyphens"), ("", "not at all"),
    ):  # fmt: skip
        found.setdefault(text + method, Cause("callback-cause.request-id", f"the requestid was signed {how}"))
    return [Variant(head.encode("utf-8", "replace"), cause) for head, cause in found.items()]
