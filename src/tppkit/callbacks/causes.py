"""The usual mistakes around a signed callback: what each makes of its URL, body, head or signature.

Every function here gives variants: a value that the service may have signed, and the cause that would explain it, None where
nothing was changed.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from tppkit._encoding import parse_json
from tppkit.callbacks.addresses import AddressBook, CallbackAddress
from tppkit.callbacks.message import ReceivedCallback
from tppkit.errors import FormatError
from tppkit.protocol.legacy.fields import MAX_BODY_BYTES

_HTTPS = "https://"
_MAX_URLS = 96


class Cause(NamedTuple):
    """Why a signature does not fit as a request came.

    Attributes:
        code: a row of `tppkit.codes.CODES`.
        message: one sentence; never holds a body.
    """

    code: str
    message: str


class Variant(NamedTuple):
    """Bytes that may have been signed.

    Attributes:
        data: the bytes.
        cause: what would explain them, None for the request as it came.
    """

    data: bytes
    cause: Cause | None


def read_any_signature(text: str) -> tuple[bytes, Cause | None] | None:
    """The DER of a signature in whatever encoding it was sent, None when it is in none."""
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


def urls(received: ReceivedCallback, book: AddressBook) -> list[Variant]:
    """Whole URLs, the likeliest first, at most 96."""
    match = book.find(received.target)
    found: dict[str, Cause | None] = dict.fromkeys([url.decode() for url in match.urls] if match else [])
    path = _path(received.target)
    for url in filter(None, (_in_configured_case(address, path) for address in book.addresses)):
        found.setdefault(url, Cause("callback-cause.url-case", f"{url} was signed: in other letters, large for small"))
    for origin in dict.fromkeys(address.origin for address in book.addresses):
        url = origin + path
        found.setdefault(
            url, Cause("callback-cause.url-unconfigured", f"{url} was signed, which is no configured address")
        )
    headers = {name.lower(): value for name, value in received.headers}
    for url in tuple(found):
        for variant, cause in _changed_urls(url, headers):
            found.setdefault(variant, cause)
    return [Variant(url.encode("utf-8", "replace"), cause) for url, cause in list(found.items())[:_MAX_URLS]]


def _in_configured_case(address: CallbackAddress, path: str) -> str | None:
    """The address's URL, when a path is its own but for capital letters; a token stays as it came."""
    own, behind = path[: len(address.path)], path[len(address.path) :]
    if own.lower() != address.path.lower() or (behind and not address.has_token):
        return None
    return address.origin + address.path + behind


def _path(target: str) -> str:
    raw = target.encode("latin-1", "replace").decode("utf-8", "replace")
    return "/" + raw[len(_HTTPS) :].partition("/")[2] if raw.startswith(_HTTPS) else raw


def _changed_urls(url: str, headers: Mapping[str, str]) -> Iterator[tuple[str, Cause]]:
    authority, slash, rest = url[len(_HTTPS) :].partition("/")
    path, mark, query = (slash + rest).partition("?")

    other = path[:-1] if path.endswith("/") else path + "/"
    yield _signed(
        "callback-cause.url-slash", _HTTPS + authority + other + mark + query, "with another slash at the end"
    )
    yield _signed(
        "callback-cause.url-scheme", "http://" + authority + path + mark + query, "with http instead of https"
    )
    yield _signed("callback-cause.url-scheme", authority + path + mark + query, "without https://")
    host, colon, _ = authority.partition(":")
    yield _signed(
        "callback-cause.url-port",
        _HTTPS + (host if colon else f"{host}:443") + path + mark + query,
        "with another port",
    )
    if headers.get("host", authority) != authority:
        yield _signed(
            "callback-cause.url-host",
            _HTTPS + headers["host"] + path + mark + query,
            "with the Host that the request names",
        )
    if headers.get("x-forwarded-host", authority) != authority:
        signed = _HTTPS + headers["x-forwarded-host"] + path + mark + query
        yield _signed("callback-cause.url-host", signed, "with the host that a proxy names")
    other_host = authority[4:] if authority.startswith("www.") else f"www.{authority}"
    yield _signed("callback-cause.url-host", _HTTPS + other_host + path + mark + query, "with or without www.")
    yield _signed(
        "callback-cause.url-host", _HTTPS + authority.upper() + path + mark + query, "with the host in upper case"
    )
    for signed in (unquote(url), quote(url, safe=_VISIBLE), _lower_escapes(quote(url, safe=_VISIBLE))):
        yield _signed("callback-cause.url-encoding", signed, "with other percent-encoding")
    yield from _changed_paths(_HTTPS + authority, path, mark + query, headers)


def _changed_paths(origin: str, path: str, behind: str, headers: Mapping[str, str]) -> Iterator[tuple[str, Cause]]:
    for name in ("x-forwarded-prefix", "x-script-name"):
        if name in headers:
            yield _signed(
                "callback-cause.url-prefix",
                origin + headers[name].rstrip("/") + path + behind,
                f"with the prefix of {name}",
            )
    for name in ("x-original-uri", "x-original-url", "x-rewrite-url", "x-forwarded-uri"):
        if name in headers:
            yield _signed(
                "callback-cause.url-prefix", origin + headers[name], f"with the path of {name}, which a proxy changed"
            )
    for cased in (path.lower(), path.upper()):
        yield _signed("callback-cause.url-case", origin + cased + behind, "in other letters, large for small")
    shorter = path
    while shorter.count("/") > 1:
        shorter = "/" + shorter[1:].partition("/")[2]
        yield _signed("callback-cause.url-prefix", origin + shorter + behind, "without a prefix of the path")
    if behind:
        yield _signed("callback-cause.url-query", origin + path, "without the query")
    yield _signed("callback-cause.url-scheme", path + behind, "the path only")


def _signed(code: str, url: str, how: str) -> tuple[str, Cause]:
    return url, Cause(code, f"{url} was signed: {how}")


_VISIBLE = "".join(map(chr, range(0x21, 0x7F)))


def _lower_escapes(url: str) -> str:
    first, *rest = url.split("%")
    return "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])


def bodies(body: bytes) -> list[Variant]:
    """Bodies, the likeliest first."""
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
            "the same JSON was signed in another spelling: it was read and written again",
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
    """What stands before the URL: requestid and method."""
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
