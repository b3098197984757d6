"""One request of a HAR file, as browsers, proxies and test tools export them.

A HAR file holds a body as text, whose bytes are had back in UTF-8 or in the character set that Content-Type names: in the one that
Content-Length proves, or else bodySize, which some exporters (Firefox) count in characters. Some exporters change line ends.
Source: HTTP Archive (HAR) 1.2, sections "entries", "request", "postData".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from tppkit._encoding import decode_base64, parse_json, shown
from tppkit.errors import FormatError
from tppkit.httpsig.address import split_address
from tppkit.httpsig.message import Header, Message, is_field_name, require_field_value, require_start_line
from tppkit.httpsig.wire import check_length

MAX_HAR_BYTES = 32 * 1024 * 1024
MAX_ENTRIES = 10_000
_MAX_DEPTH = 128  # an exporter writes the call stack of a page as nested objects
_MAX_HEADERS = 256
_LENGTH = re.compile("[0-9]{1,18}")
# Of one byte a character each; others are not looked up, for some of Python's take time by the square of the length. Behind other
# parameters, whose values may hold semicolons between quotes (RFC 9110 section 5.6.6).
_CHARACTER_SET = re.compile(
    r'[^;"]*(?:;[ \t]*(?!charset=)[^\s;="]+=(?:"(?:[^"\\]|\\.)*"|[^\s;"]*)[ \t]*)*'
    r';[ \t]*charset=("?)(iso-8859-(?:[1-9]|1[0-13-6])|windows-125[0-8])\1[ \t]*(?:;|\Z)',
    re.IGNORECASE,
)


def parse_har(raw: bytes, *, entry: int | None = None, as_found: bool = False) -> Message:
    """Read one request of a HAR file.

    Args:
        raw: the file.
        entry: which entry, from 1; the only one with a signature when absent.
        as_found: as for `parse_request`; here also a method in lower case, which is kept.

    Raises:
        FormatError: `har.malformed`, `har.entry`, `har.body`, `message.*`, `header.control-character`, `json.*`, `base64.*`.
    """
    # Counted before it is read: a file of many small entries takes ten times its size as objects.
    if raw.count(b'"request"') > 2 * MAX_ENTRIES:
        raise FormatError("har.malformed", f"the HAR file has more than {MAX_ENTRIES} entries")
    entries = _entries(
        parse_json(
            raw.removeprefix(b"\xef\xbb\xbf"), what="the HAR file", max_bytes=MAX_HAR_BYTES, max_depth=_MAX_DEPTH
        )
    )
    if entry is None:
        entry = _signed_entry(entries)
    if not 1 <= entry <= len(entries):
        raise FormatError("har.entry", f"the HAR file has {len(entries)} entries, none is number {entry}")
    message = _message(_mapping(entries[entry - 1], "an entry").get("request"))
    require_start_line(message._replace(method=message.method.upper()) if as_found else message)
    if not as_found:
        check_length(message)
    return message


def _entries(value: Any) -> list[Any]:
    entries = _mapping(_mapping(value, "the file").get("log"), "log").get("entries")
    if not isinstance(entries, list) or not 0 < len(entries) <= MAX_ENTRIES:
        raise FormatError("har.malformed", f"log.entries is not a list of 1 to {MAX_ENTRIES} entries")
    return entries


def _signed_entry(entries: list[Any]) -> int:
    signed = [number for number, value in enumerate(entries, 1) if _is_signed(value)]
    if len(signed) != 1:
        found = f"entries {', '.join(map(str, signed[:10]))} have" if signed else "no entry has"
        raise FormatError("har.entry", f"{found} a signature; say which of the {len(entries)} entries is meant")
    return signed[0]


def _is_signed(entry: Any) -> bool:
    request = entry.get("request") if isinstance(entry, dict) else None
    try:
        return any(_carries_signature(name, value) for name, value in _headers(_mapping(request, "request")))
    except FormatError:
        return False


def _carries_signature(name: str, value: str) -> bool:
    return name.lower() == "signature" or (name.lower() == "authorization" and value[:10].lower() == "signature ")


def _message(value: Any) -> Message:
    request = _mapping(value, "request")
    method, url = (_text(request.get(name), f"request.{name}") for name in ("method", "url"))
    host, target = split_address(url)
    headers = _without_repeated_host(tuple(_headers(request)))
    if not any(name.lower() == "host" for name, _ in headers):
        headers = (("Host", host), *headers)
    return Message(method, target, headers, _body(request, headers))


def _without_repeated_host(headers: tuple[Header, ...]) -> tuple[Header, ...]:
    """Exporters write :authority and Host of one request; where both say the same they are one."""
    hosts = [header for header in headers if header[0].lower() == "host"]
    if len(hosts) != 2 or hosts[0][1] != hosts[1][1]:
        return headers
    first = headers.index(hosts[0])
    return tuple([header for place, header in enumerate(headers) if place == first or header[0].lower() != "host"])


def _headers(request: Mapping[str, Any]) -> Iterator[Header]:
    rows = request.get("headers")
    if not isinstance(rows, list) or len(rows) > _MAX_HEADERS:
        raise FormatError("har.malformed", f"request.headers is not a list of at most {_MAX_HEADERS}")
    for row in rows:
        fields = _mapping(row, "a header")
        name, value = (_text(fields.get(part), f"a header's {part}") for part in ("name", "value"))
        if name.lower() == ":authority":
            name = "Host"
        if name.startswith(":"):  # the start line of HTTP/2, which stands in method and url
            continue
        if not is_field_name(name):
            raise FormatError("har.malformed", "a header's name is none")
        value = value.encode("utf-8").decode("latin-1")
        require_field_value(name, value)
        yield name, value.strip(" \t")


def _body(request: Mapping[str, Any], headers: Iterable[Header]) -> bytes:
    """The body, which exporters leave out, put into files of their own, or cut into the fields of a form; then it is refused."""
    value = request.get("postData")
    data = {} if value is None else _mapping(value, "postData")
    encoding = data.get("encoding") or ""
    if "_file" in data or encoding not in ("", "base64"):
        where = "in a file of its own" if "_file" in data else f"in the encoding {shown(str(encoding))}"
        raise FormatError("har.body", f"the body stands {where}; give the raw request, or export with bodies as text")
    text = data.get("text")
    if text is not None and not isinstance(text, str):
        raise FormatError("har.malformed", "postData.text is not a text")
    size = request.get("bodySize")
    sizes = [size] if isinstance(size, int) and size >= 0 else []  # -1 stands for unknown
    lengths = [int(value) for value in _values(headers, "content-length") if _LENGTH.fullmatch(value)]
    if not text:
        _require_no_body(data, [*sizes, *lengths], is_told=value is None or text is not None)
        return b""
    if encoding:
        readings = [decode_base64(text, what="postData.text")]
    else:
        readings = list(dict.fromkeys(_encoded(text, headers)))
    return _as_sent(readings, sizes, lengths, characters=None if encoding else len(text))


def _encoded(text: str, headers: Iterable[Header]) -> Iterator[bytes]:
    """What may have been sent: the text in UTF-8, and in each character set that a Content-Type names."""
    yield text.encode("utf-8")
    for value in _values(headers, "content-type"):
        if named := _CHARACTER_SET.match(value):
            with suppress(UnicodeEncodeError):
                yield text.encode(named[2])


def _as_sent(readings: list[bytes], sizes: list[int], lengths: list[int], *, characters: int | None) -> bytes:
    """The one reading that a length proves: Content-Length, or bodySize if it counts bytes for sure; without any, the only one."""
    by_size = [body for body in readings if len(body) in sizes] if sizes else readings
    by_length = [body for body in readings if len(body) in lengths]
    fitting = by_length or by_size
    # In a character set of one byte each, bytes are as many as characters.
    if len(fitting) == 1 and (by_length or fitting == readings[:1]):
        return fitting[0]
    if fitting or characters in sizes:
        told = "nothing proves in which character set the text was sent: bodySize may count bytes or characters"
    else:
        told = f"postData.text is not the body, of which {sizes[0]} bytes were sent: the exporter decoded or changed it"
    raise FormatError("har.body", told)


def _require_no_body(data: Mapping[str, Any], lengths: list[int], *, is_told: bool) -> None:
    """Where there is no text, the file says that there was no body, and nothing else says that there was one."""
    if data.get("params"):
        raise FormatError("har.body", "postData holds the fields of a form and not the body's text")
    if any(lengths) or not (lengths or is_told):
        sent = f"{max(lengths)} bytes were sent" if lengths else "nothing says that there was none"
        raise FormatError("har.body", f"the HAR file does not hold the body, and {sent}; export with bodies")


def _values(headers: Iterable[Header], name: str) -> list[str]:
    return [value for given, value in headers if given.lower() == name]


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise FormatError("har.malformed", f"{what} is not a JSON object")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise FormatError("har.malformed", f"{what} is not a text")
    return value
