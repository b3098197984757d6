"""Common mistakes in a callback's URL, body, requestid, method or signature.

The functions return variants: bytes that the service may have signed, each with the cause that would explain it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from typing import NamedTuple
from urllib.parse import quote, unquote

from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from tppkit._encoding import parse_json, shown
from tppkit.callbacks.addresses import MAX_TARGET, TOKEN, AddressBook, CallbackAddress
from tppkit.errors import FormatError
from tppkit.message import Message
from tppkit.protocol.legacy.rules import is_token
from tppkit.protocol.wire import MAX_BODY_BYTES

_SLASH = "callback-cause.url-slash"
_SCHEME = "callback-cause.url-scheme"
_HOST = "callback-cause.url-host"
_WITH_PORT = "callback-cause.url-port"
_PREFIX = "callback-cause.url-prefix"
_QUERY = "callback-cause.url-query"
_CASE = "callback-cause.url-case"
_ENCODING = "callback-cause.url-encoding"
_HTTPS = "https://"
_MAX_URLS = 400
# The port of HTTPS, and common ports of servers behind a proxy.
_PORTS = ("443", "8443", "80", "8080", "8000", "9443")
_PORT = re.compile(r":([0-9]{1,5})$")


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
        wrong = Cause("callback-cause.signature-encoding", f"the signature was sent as {encoding}")
        return der, None if encoding == _STRICT else wrong
    return None


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


def urls(received: Message, book: AddressBook) -> list[Variant]:
    """Return the whole URLs that may have been signed, the likeliest first, at most 400."""
    found: dict[str, Cause | None] = {}
    for url, cause in _all_urls(received, book):
        found.setdefault(url, cause)
        if len(found) == _MAX_URLS:
            break
    return [Variant(url.encode("utf-8", "replace"), cause) for url, cause in found.items()]


def _all_urls(received: Message, book: AddressBook) -> Iterator[tuple[str, Cause | None]]:
    headers = {name.lower(): value for name, value in received.headers if len(value) <= MAX_TARGET}
    match, path = book.find(received.target), _path(received.target)
    own = [(url.decode(), None) for url in match.urls] if match else []
    elsewhere = (
        _meant(address, path, received.target)
        for address in book.addresses
        if not match or address is not match.address
    )
    origins = dict.fromkeys(address.origin for address in book.addresses)
    for some in (
        own,
        chain(_in_configured_case(path, book), *elsewhere, (_unconfigured(one + path) for one in origins)),
    ):
        bases = list(islice(some, _MAX_URLS))
        yield from bases
        for url, _ in bases:
            yield from _changed_urls(url, headers)


def lost_query(received: Message, book: AddressBook) -> Cause | None:
    """Return the cause if the token was in a query that did not arrive, so that the signature cannot be tried."""
    path = _path(received.target)
    for address in book.addresses:
        before, mark, _ = address.path.partition("?")
        if address.has_token and mark and unquote(before) == unquote(path):
            return Cause(
                _QUERY,
                f"the target is {address.url} without its query, and without its token the signature cannot be tried",
            )
    return None


def _meant(address: CallbackAddress, path: str, target: str) -> Iterator[tuple[str, Cause]]:
    """Yield the URLs of an address that the target does not match, with each possible token in the target's path."""
    tokens = [part for part in re.split(r"[/?&=]", path) if is_token(part)][-2:] if address.has_token else [""]
    forms = dict.fromkeys((address.path, address.url.removesuffix(TOKEN)[len(address.origin) :], unquote(address.path)))
    for token in tokens:
        for form in forms:
            code, how = _why_elsewhere(unquote(form) + token, unquote(path), whole=target.startswith(_HTTPS))
            yield _signed(code, address.origin + form + token, how)


def _why_elsewhere(signed: str, came: str, *, whole: bool) -> tuple[str, str]:
    """Return code and reason for a request that was signed for one path and received at another.

    `whole` is True if the target was a whole URL.
    """
    if signed == came:
        if whole:
            return _HOST, "the target names another host"
        return _PREFIX, "no proxy stripped the path, so remove the setting stripped_prefix"
    if came.startswith("/") and signed.endswith(came):
        taken = shown(signed.removesuffix(came))
        return _PREFIX, f"a proxy stripped {taken} from the path, so set stripped_prefix={taken}"
    if came.endswith(signed):
        return _PREFIX, f"a proxy added {shown(came.removesuffix(signed))} before the path"
    if came.partition("?")[0] == signed:
        return _QUERY, "without the query"
    if signed.partition("?")[0] == came:
        return _QUERY, "with a query, which did not arrive"
    if signed.rstrip("/") == came.rstrip("/"):
        return _SLASH, "with another slash at the end"
    return _PREFIX, "the path was changed on its way"


def _unconfigured(url: str) -> tuple[str, Cause]:
    return url, Cause("callback-cause.url-unconfigured", f"{url} was signed, which is no configured address")


def _in_configured_case(path: str, book: AddressBook) -> Iterator[tuple[str, Cause]]:
    """Yield the URLs of addresses that equal a path except for upper and lower case; a token stays as received."""
    for address in book.addresses:
        own, behind = path[: len(address.path)], path[len(address.path) :]
        if own != address.path and own.lower() == address.path.lower() and (not behind or address.has_token):
            yield _signed(_CASE, address.origin + address.path + behind, "with other upper and lower case")


def _path(target: str) -> str:
    raw = target.encode("latin-1", "replace").decode("utf-8", "replace")
    return "/" + raw[len(_HTTPS) :].partition("/")[2] if raw.startswith(_HTTPS) else raw


def _changed_urls(url: str, headers: Mapping[str, str]) -> Iterator[tuple[str, Cause]]:
    authority, slash, rest = url[len(_HTTPS) :].partition("/")
    path, mark, query = (slash + rest).partition("?")
    other = path[:-1] if path.endswith("/") else path + "/"
    # Lazily: a path can have thousands of slashes, and the caller takes a limited number of URLs.
    for code, changed, how in chain(
        [(_SLASH, _HTTPS + authority + other + mark + query, "with another slash at the end")],
        _changed_origins(authority, path + mark + query, headers),
        ((_ENCODING, one, "with other percent-encoding") for one in _encodings(url)),
        _changed_paths(_HTTPS + authority, path, mark + query, headers),
    ):
        yield _signed(code, changed, how)


def _changed_origins(authority: str, target: str, headers: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield code, URL and difference for other schemes, ports and hosts."""
    yield _SCHEME, "http://" + authority + target, "with http instead of https"
    yield _SCHEME, authority + target, "without https://"
    host, own = _PORT.split(authority, maxsplit=1)[0], _port_of(authority)
    for port in dict.fromkeys((*_PORTS, headers.get("x-forwarded-port", ""), _port_of(headers.get("host", "")))):
        if port != own and port.isdecimal():
            yield _WITH_PORT, f"{_HTTPS}{host}:{port}{target}", "with another port"
    if own:
        yield _WITH_PORT, f"{_HTTPS}{host}{target}", "without the port"
    for name, how in (("host", "the Host that the request names"), ("x-forwarded-host", "the host that a proxy names")):
        if headers.get(name, authority) != authority:
            yield _HOST, _HTTPS + headers[name] + target, f"with {how}"
    other_host = authority[4:] if authority.startswith("www.") else f"www.{authority}"
    yield _HOST, _HTTPS + other_host + target, "with or without www."
    yield _HOST, _HTTPS + authority.upper() + target, "with the host in upper case"


def _port_of(authority: str) -> str:
    found = _PORT.search(authority)
    return found[1] if found else ""


def _encodings(url: str) -> tuple[str, ...]:
    encoded = quote(url, safe=_VISIBLE)
    first, *rest = encoded.split("%")
    return unquote(url), encoded, "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])


def _changed_paths(
    origin: str, path: str, behind: str, headers: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:  # fmt: skip
    """Yield code, URL and difference for other paths."""
    for name in ("x-forwarded-prefix", "x-script-name"):
        if name in headers:
            yield _PREFIX, origin + headers[name].rstrip("/") + path + behind, f"with the prefix of {name}"
    for name in ("x-original-uri", "x-original-url", "x-rewrite-url", "x-forwarded-uri"):
        if name in headers:
            yield _PREFIX, origin + headers[name], f"with the path of {name}, which a proxy changed"
    for cased in (path.lower(), path.upper()):
        yield _CASE, origin + cased + behind, "with other upper and lower case"
    shorter = path
    while shorter.count("/") > 1:
        shorter = "/" + shorter[1:].partition("/")[2]
        yield _PREFIX, origin + shorter + behind, "without a prefix of the path"
    if behind:
        yield _QUERY, origin + path, "without the query"
    yield _SCHEME, path + behind, "the path only"


def _signed(code: str, url: str, how: str) -> tuple[str, Cause]:
    return url, Cause(code, f"{url} was signed: {how}")


_VISIBLE = "".join(map(chr, range(0x21, 0x7F)))
