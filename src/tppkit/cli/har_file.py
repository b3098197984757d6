"""Parse a request of a HAR file, as browsers, proxies and API clients export it.

Source: HTTP Archive (HAR) 1.2, sections "entries", "request" and "postData".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tppkit._encoding import decode_base64, parse_json
from tppkit.errors import FormatError
from tppkit.httpsig.signing_string import is_field_name, require_field_value, require_start_line
from tppkit.httpsig.wire import check_length, split_address
from tppkit.message import Header, Message

MAX_HAR_BYTES = 32 * 1024 * 1024
MAX_ENTRIES = 10_000
_MAX_DEPTH = 128  # browsers export call stacks as nested objects
_MAX_HEADERS = 256
_LENGTH = re.compile("[0-9]{1,18}")


def parse_har(raw: bytes, *, entry: int | None = None, as_found: bool = False) -> Message:
    """Parse one request of a HAR file.

    Args:
        raw: the file.
        entry: number of the entry, from 1; None: the only entry with a signature.
        as_found: accept a method in lower case and a Transfer-Encoding, as `parse_request` does.

    Raises:
        FormatError: `har.malformed`, `har.entry`, `har.body`, `message.*`, `header.control-character`, `json.*`, `base64.*`.
    """
    # Counted in the text: parsed entries may take ten times the memory.
    if raw.count(b'"request"') > 2 * MAX_ENTRIES:
        raise FormatError("har.malformed", f"the HAR file has more than {MAX_ENTRIES} entries")
    text = raw.removeprefix(b"\xef\xbb\xbf")
    file = _object(parse_json(text, what="the HAR file", max_bytes=MAX_HAR_BYTES, max_depth=_MAX_DEPTH), "the file")
    entries = _object(file.get("log"), "log").get("entries")
    if not isinstance(entries, list) or not 0 < len(entries) <= MAX_ENTRIES:
        raise FormatError("har.malformed", f"log.entries is not a list of 1 to {MAX_ENTRIES} entries")
    number = _signed_entry(entries) if entry is None else entry
    if not 1 <= number <= len(entries):
        raise FormatError("har.entry", f"the HAR file has {len(entries)} entries, so there is no entry {number}")
    message = _message(_object(_object(entries[number - 1], "the entry").get("request"), "request"))
    require_start_line(message._replace(method=message.method.upper()) if as_found else message)
    if not as_found:
        check_length(message)
    return message


def _signed_entry(entries: Sequence[Any]) -> int:
    signed = [number for number, entry in enumerate(entries, 1) if _is_signed(entry)]
    if len(signed) != 1:
        found = f"entries {', '.join(map(str, signed[:10]))} have" if signed else "no entry has"
        raise FormatError("har.entry", f"{found} a signature: choose one of the {len(entries)} entries")
    return signed[0]


def _is_signed(entry: Any) -> bool:
    try:
        headers = dict(_headers(_object(_object(entry, "the entry").get("request"), "request")))
    except FormatError:
        return False
    names = {name.lower(): value for name, value in headers.items()}
    return "signature" in names or names.get("authorization", "")[:10].lower() == "signature "


def _message(request: Mapping[str, Any]) -> Message:
    host, target = split_address(_text(request, "url"))
    headers = list(_headers(request))
    # HTTP/2 has :authority instead of Host, and some exporters write both.
    authority = [value for name, value in headers if name == ":authority"]
    headers = [header for header in headers if not header[0].startswith(":")]
    if not any(name.lower() == "host" for name, _ in headers):
        headers.insert(0, ("Host", authority[0] if authority else host))
    message = Message(_text(request, "method"), target, tuple(headers))
    return message._replace(body=_body(request, message))


def _headers(request: Mapping[str, Any]) -> Iterator[Header]:
    rows = request.get("headers")
    if not isinstance(rows, list) or len(rows) > _MAX_HEADERS:
        raise FormatError("har.malformed", f"request.headers is not a list of at most {_MAX_HEADERS} headers")
    for row in rows:
        header = _object(row, "a header")
        name, value = _text(header, "name"), _text(header, "value").encode("utf-8").decode("latin-1")
        if not is_field_name(name.removeprefix(":")):
            raise FormatError("har.malformed", "the name of a header is not a token")
        require_field_value(name, value)
        yield name, value.strip(" \t")


def _body(request: Mapping[str, Any], message: Message) -> bytes:
    """The body of the request. Exporters may omit it, decode it, or change its line breaks; then it is rejected."""
    data = _object(request.get("postData") or {}, "postData")
    text = _text(data, "text") if data.get("text") is not None else ""
    size = request.get("bodySize")
    # Content-Length comes first, because Firefox counts characters in bodySize. -1 means unknown.
    lengths = [int(value) for value in message.values("content-length") if _LENGTH.fullmatch(value)]
    lengths = lengths or ([size] if isinstance(size, int) and size >= 0 else [])
    encoding = data.get("encoding")
    is_absent = not text and (data.get("params") or (data and data.get("text") is None and not lengths))
    if is_absent or "_file" in data or encoding not in (None, "", "base64"):
        raise FormatError("har.body", "the HAR file does not contain the body as text: export it with bodies")
    body = decode_base64(text, what="postData.text") if encoding else text.encode("utf-8")
    if lengths and len(body) not in lengths:
        raise FormatError(
            "har.body",
            f"postData.text has {len(body)} bytes in UTF-8, and {lengths[0]} bytes were sent: use the raw request",
        )
    return body


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise FormatError("har.malformed", f"{what} is not a JSON object")
    return value


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    if not isinstance(value, str):
        raise FormatError("har.malformed", f"{name} is not a text")
    return value
