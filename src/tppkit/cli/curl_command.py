"""Parse a `curl` command, as browsers, Postman and bank portals copy it, into the request that curl would send.

Options that would change the request and are not supported are rejected. Abbreviated options and `--name=value` are accepted, which
curl itself rejects. Source: curl's manual page.
"""

from __future__ import annotations

import getopt
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from urllib.parse import quote_from_bytes

from tppkit._encoding import encode_base64, shown
from tppkit.cli.command_words import WHITE_SPACE, split_command
from tppkit.errors import FormatError
from tppkit.httpsig.signing_string import is_field_name, require_field_value, require_start_line
from tppkit.httpsig.wire import MAX_MESSAGE_BYTES, check_length, split_address
from tppkit.message import Header, Message

ReadFile = Callable[[str], bytes]
Options = Sequence[tuple[str, str]]

_DATA = ("--data", "--data-ascii", "--data-raw", "--data-binary", "--data-urlencode", "--json")
_LETTERS = {
    "X": "request=", "H": "header=", "d": "data=", "G": "get", "I": "head", "u": "user=", "A": "user-agent=", "e": "referer=",
    "b": "cookie=", "g": "globoff", "o": "output=", "E": "cert=", "m": "max-time=", "w": "write-out=", "x": "proxy=", "k": "insecure",
    "s": "silent", "S": "show-error", "v": "verbose", "i": "include", "L": "location", "f": "fail", "N": "no-buffer",
    "#": "progress-bar", "4": "ipv4", "6": "ipv6", "D": "dump-header=", "c": "cookie-jar=", "0": "http1.0",
}  # fmt: skip
# In the form of getopt: a name with an equals sign takes a value.
_CHANGE_THE_REQUEST = (
    "data-ascii=",
    "data-raw=",
    "data-binary=",
    "data-urlencode=",
    "json=",
    "url=",
    "path-as-is",
    "compressed",
)
_CHANGE_THE_TRANSFER = (
    "cert-type=", "key=", "key-type=", "pass=", "cacert=", "capath=", "connect-timeout=", "resolve=", "connect-to=", "retry=",
    "retry-delay=", "ciphers=", "tls13-ciphers=", "tls-max=", "tlsv1.2", "tlsv1.3", "pinnedpubkey=", "interface=", "stderr=",
    "trace=", "trace-ascii=", "trace-time", "http1.1", "http2", "fail-with-body", "no-progress-meter", "no-keepalive",
    "styled-output",
)  # fmt: skip
_SHORT_OPTIONS = "".join(letter + ":" * name.endswith("=") for letter, name in _LETTERS.items())
_LONG_OPTIONS = [*_LETTERS.values(), *_CHANGE_THE_REQUEST, *_CHANGE_THE_TRANSFER]
_CLUSTER = re.compile(f"-[{''.join(letter for letter, name in _LETTERS.items() if not name.endswith('='))}]{{100}}")
_LONG_NAMES = {f"-{letter}": f"--{name.removesuffix('=')}" for letter, name in _LETTERS.items()}

_CREDENTIALS = re.compile(r"[^/?#]*://[^/?#]*@")
_IPV6_HOST = re.compile(r"\[[0-9A-Fa-f:.]+\]")
_GLOB = re.compile(r"[][{}]")
_DOTS = re.compile(r"[^?]*/(?:\.|%2e){1,2}(?:[/?]|\Z)", re.IGNORECASE)
_ENCODINGS = "deflate, gzip, br, zstd"  # of the usual builds


def parse_curl(text: str, *, read_file: ReadFile | None = None, as_found: bool = False) -> Message:
    """Parse a `curl` command into the request that curl would send.

    Args:
        text: the command, with or without a `$` before it; bytes that are not UTF-8 are escaped as surrogates.
        read_file: returns the bytes of the file that `--data @file` names; None: such data is rejected. The command chooses the
            name, so pass it only for trusted commands.
        as_found: accept a method in lower case and lengths that differ from the headers, as `parse_request` does.

    Raises:
        FormatError: `curl.shell`, `curl.option`, `curl.file`, `message.*`, `header.control-character`, and what `read_file`
            raises.
    """
    words = split_command(text.removeprefix("\ufeff").lstrip(WHITE_SPACE).removeprefix("$ "))
    if not words or words[0] not in ("curl", "curl.exe"):
        raise FormatError("curl.option", "the command is not curl")
    if any(map(_CLUSTER.match, words)):  # getopt takes time by the square of their number
        raise FormatError("curl.option", "a word of the command has 100 option letters")
    try:
        parsed, addresses = getopt.gnu_getopt(words[1:], _SHORT_OPTIONS, _LONG_OPTIONS)
    except getopt.GetoptError as e:
        raise FormatError("curl.option", f"curl's options cannot be parsed: {shown(e.msg)}") from None
    options = [(_LONG_NAMES.get(name, name), value) for name, value in parsed]
    message = _message(options, [*addresses, *_values(options, "--url")], read_file)
    require_start_line(message._replace(method=message.method.upper()) if as_found else message)
    if not as_found:
        check_length(message)
    return message


def _message(options: Options, addresses: Sequence[str], read_file: ReadFile | None) -> Message:
    if len(addresses) != 1:
        raise FormatError("curl.option", f"the command has {len(addresses)} addresses, not one")
    last = dict(options)
    host, target = _split_address(addresses[0], last)
    body = _body(options, read_file)
    if "--get" in last and body is not None:
        target, body = _with_query(target, body), None
    if "--head" in last and body is not None:
        raise FormatError("curl.option", "curl rejects --head together with data")
    method = last.get("--request", "HEAD" if "--head" in last else "GET" if body is None else "POST")
    headers = [_header(text) for text in _values(options, "--header")]
    names = [name.lower() for name, _ in headers]
    if names.count("host") > 1:
        raise FormatError("curl.option", "curl sends only the first of several Host headers: give one")
    own = [header for header in _own_headers(options, host, body) if header[0].lower() not in names]
    given = [(name, value) for name, value in headers if value is not None]
    return Message(method, target, (*own, *given), body or b"")


def _values(options: Options, wanted: str) -> list[str]:
    return [value for name, value in options if name == wanted]


def _split_address(text: str, options: Mapping[str, str]) -> tuple[str, str]:
    address = text if "://" in text else f"http://{text}"
    host, target = split_address(address)
    if _CREDENTIALS.match(address):
        raise FormatError("curl.option", "the address contains a user name: use --user")
    if "--globoff" not in options and _GLOB.search(_IPV6_HOST.sub("", host, count=1) + target):
        raise FormatError("curl.option", "curl expands {} and [] in an address: use --globoff, or write one address")
    if "--path-as-is" not in options and _DOTS.match(target):
        raise FormatError(
            "curl.option", "curl removes . and .. from a path: use --path-as-is, or the path that was sent"
        )
    return host, target


def _with_query(target: str, data: bytes) -> str:
    if b"%" in data:
        raise FormatError(
            "curl.option", "percent escapes of --get depend on curl's version: put the query into the address"
        )
    path, _, query = target.partition("?")
    joined = query + ("&" if query and not query.endswith("&") else "") + data.decode("latin-1")
    return f"{path}?{joined}" if joined else path


def _body(options: Options, read_file: ReadFile | None) -> bytes | None:
    body: bytes | None = None
    for name, value in options:
        if name in _DATA:
            data = _data(name, value, read_file)
            body = data if body is None else body + (b"" if name == "--json" else b"&") + data
            if len(body) > MAX_MESSAGE_BYTES:
                raise FormatError("message.too-large", f"the body has more than {MAX_MESSAGE_BYTES} bytes")
    return body


def _data(option: str, value: str, read_file: ReadFile | None) -> bytes:
    raw = value.encode("utf-8", "surrogateescape")
    if option == "--data-urlencode":
        return _url_encoded(raw)
    if option == "--data-raw" or not value.startswith("@"):
        return raw
    if read_file is None:
        raise FormatError("curl.file", f"{option} names the file {shown(value[1:])}, and reading files is not allowed")
    content = read_file(value[1:])
    # curl's manual, --data: "carriage returns, newlines and null bytes are stripped out".
    return content.translate(None, b"\r\n\0") if option in ("--data", "--data-ascii") else content


def _url_encoded(raw: bytes) -> bytes:
    name, separator, content = raw.partition(b"=")
    if b"@" in name:
        raise FormatError("curl.file", "--data-urlencode names a file: write the data into the command")
    if b" " in raw:
        raise FormatError(
            "curl.option", "curl encodes a space as + or %20, by its version: use --data-raw with what was sent"
        )
    encoded = quote_from_bytes(content if separator else raw, safe="~").encode()
    return name + b"=" + encoded if name and separator else encoded


def _header(text: str) -> tuple[str, str | None]:
    """Name and value of a header; the value is None for `Name:`, which removes a header that curl would add."""
    if text.startswith("@"):
        raise FormatError("curl.file", "--header names a file: write the headers into the command")
    text = text.encode("utf-8", "surrogateescape").decode("latin-1")
    name, separator, value = text.partition(":")
    if not separator and text.endswith(";"):  # to curl, Name; means an empty header
        return _checked(text[:-1], "")
    if not separator:
        raise FormatError("curl.option", "a --header has no colon, and curl would not send it")
    name, value = _checked(name, value)
    return name, value or None


def _checked(name: str, value: str) -> Header:
    if not is_field_name(name):
        raise FormatError("curl.option", f"{shown(name)} is not the name of a header")
    require_field_value(name, value)
    return name, value.strip(" \t")


def _own_headers(options: Options, host: str, body: bytes | None) -> Iterator[Header]:
    """The headers that curl adds by itself or for an option."""
    last = dict(options)
    is_json = "--json" in last
    yield "Host", host
    yield "Accept", "application/json" if is_json else "*/*"
    if "--user" in last:
        if ":" not in last["--user"]:
            raise FormatError("curl.option", "--user has no password, so curl would ask for it")
        yield "Authorization", f"Basic {encode_base64(last['--user'].encode('utf-8', 'surrogateescape'))}"
    cookies = [cookie for cookie in _values(options, "--cookie") if cookie]
    if any("=" not in cookie for cookie in cookies):
        raise FormatError("curl.file", "--cookie names a file: write the cookies into the command")
    referer = last.get("--referer", "").removesuffix(";auto")
    for name, text in (("User-Agent", last.get("--user-agent")), ("Referer", referer), ("Cookie", ";".join(cookies))):
        if text:
            yield _checked(name, text.encode("utf-8", "surrogateescape").decode("latin-1"))
    if "--compressed" in last:
        yield "Accept-Encoding", _ENCODINGS
    if is_json or body is not None:
        yield "Content-Type", "application/json" if is_json else "application/x-www-form-urlencoded"
    if body is not None:
        yield "Content-Length", str(len(body))
