"""A request written as a `curl` command line: what curl would send, to the byte.

Bank portals, browsers ("copy as cURL") and test tools hand requests over in this form. An option that would change what is
sent and is not known here is refused, not passed over. Files are read only through a function that the caller passes in.
Source: curl's manual page; what `-d` does to line ends of a file is there too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote_from_bytes, unquote_to_bytes

from tppkit._encoding import encode_base64, shown
from tppkit.errors import FormatError
from tppkit.httpsig.address import split_address
from tppkit.httpsig.cmd_words import is_cmd, parse_cmd_words
from tppkit.httpsig.message import Header, Message, is_field_name, require_field_value, require_start_line
from tppkit.httpsig.shell_words import parse_words
from tppkit.httpsig.wire import check_length

ReadFile = Callable[[str], bytes]

_MAX_HEADERS = 256
_DOTS = re.compile(r"^[^?]*/(?:\.|%2e){1,2}(?:[/?]|$)", re.IGNORECASE)
_SHORT = {
    "-X": "--request", "-H": "--header", "-d": "--data", "-G": "--get", "-I": "--head", "-u": "--user", "-A": "--user-agent",
    "-e": "--referer", "-b": "--cookie", "-o": "--output", "-E": "--cert", "-m": "--max-time", "-w": "--write-out",
    "-x": "--proxy", "-k": "--insecure", "-s": "--silent", "-S": "--show-error", "-v": "--verbose", "-i": "--include",
    "-L": "--location", "-f": "--fail", "-g": "--globoff", "-N": "--no-buffer", "-#": "--progress-bar", "-4": "--ipv4",
    "-6": "--ipv6", "-D": "--dump-header", "-c": "--cookie-jar", "-0": "--http1.0",
}  # fmt: skip
_DATA = ("--data", "--data-ascii", "--data-raw", "--data-binary", "--data-urlencode", "--json")
_WITH_VALUE = frozenset({
    *_DATA, "--request", "--header", "--url", "--user", "--user-agent", "--referer", "--cookie",
})  # fmt: skip
# What changes the connection or the talk about it, not the request.
_PASSED_OVER_WITH_VALUE = frozenset({
    "--output", "--cert", "--cert-type", "--key", "--key-type", "--pass", "--cacert", "--capath", "--max-time", "--proxy",
    "--connect-timeout", "--resolve", "--connect-to", "--write-out", "--retry", "--ciphers", "--tls-max", "--interface",
    "--dump-header", "--cookie-jar", "--stderr", "--trace", "--trace-ascii", "--retry-delay", "--tls13-ciphers", "--pinnedpubkey",
})  # fmt: skip
_PASSED_OVER = frozenset({
    "--insecure", "--silent", "--show-error", "--verbose", "--include", "--location", "--fail", "--fail-with-body",
    "--no-buffer", "--progress-bar", "--ipv4", "--ipv6", "--http1.0", "--http1.1", "--http2", "--tlsv1.2",
    "--tlsv1.3", "--trace-time", "--no-progress-meter", "--no-keepalive", "--styled-output",
})  # fmt: skip

_SWITCHES = frozenset({"--get", "--head", "--path-as-is", "--compressed", "--globoff"})
_GLOB = re.compile(r"[][{}]")
# Of IPv6, whose brackets are no glob. Matched at the start only: searched for, it takes time by the square of the length.
_OWN_HOST = re.compile(r"[^/?#]*://(?:[^/?#]*@)?\[[0-9A-Fa-f:.]+\]")
_CREDENTIALS = re.compile(r"[^/?#]*://([^/?#]*)@")
_ENCODINGS = "deflate, gzip, br, zstd"  # of the usual builds


@dataclass
class _Command:
    """What the options said so far."""

    method: str | None = None
    urls: list[bytes] = field(default_factory=list)
    headers: list[bytes] = field(default_factory=list)
    data: list[tuple[str, bytes]] = field(default_factory=list)
    cookies: list[bytes] = field(default_factory=list)
    user: bytes | None = None
    agent: bytes = b""
    referer: bytes = b""
    switches: set[str] = field(default_factory=set)


def parse_curl(text: str, *, read_file: ReadFile | None = None, as_found: bool = False) -> Message:
    """Read a `curl` command line into the request that curl would send.

    Args:
        text: the command, with or without a `$` before it.
        read_file: gives the bytes of a file that `--data @file` names; such data is refused when absent. It is asked for
            whatever name stands in the command, so pass it for commands of one's own only.
        as_found: as for `parse_request`; here also a method in lower case, which curl sends as it stands.

    Raises:
        FormatError: `curl.shell`, `curl.option`, `curl.file`, `message.*`, `header.control-character`, and what
            `read_file` raises.
    """
    text = text.removeprefix("\ufeff").lstrip().removeprefix("$ ")
    words = list(parse_cmd_words(text) if is_cmd(text) else parse_words(text))
    if not words or re.split(rb"[/\\]", words.pop(0))[-1].lower() not in (b"curl", b"curl.exe"):
        raise FormatError("curl.option", "the command is not curl")
    command = _Command()
    words.reverse()
    while words:
        _take(command, words)
    message = _message(command, read_file)
    require_start_line(message._replace(method=message.method.upper()) if as_found else message)
    if not as_found:
        check_length(message)
    return message


def _take(command: _Command, words: list[bytes]) -> None:
    word = words.pop()
    if not word.startswith(b"-") or word == b"-":
        command.urls.append(word)
        return
    if word.startswith(b"--"):
        _take_option(command, word.decode("utf-8", "replace"), words)
        return
    for place, letter in enumerate(word[1:], 2):  # `-sS`, or `-XPOST`
        name = _SHORT.get(f"-{chr(letter)}", f"-{chr(letter)}")
        with_value = _takes_value(name)
        if with_value and word[place:]:
            words.append(word[place:])
        _take_option(command, name, words)
        if with_value:
            return


def _take_option(command: _Command, name: str, words: list[bytes]) -> None:
    if _takes_value(name):
        if not words:
            raise FormatError("curl.option", f"{name} stands without its value")
        _set(command, name, words.pop())
    elif name in _SWITCHES:
        command.switches.add(name)
    elif name not in _PASSED_OVER:
        raise FormatError("curl.option", f"the option {shown(name)} may change the request and is not read here")


def _takes_value(name: str) -> bool:
    return name in _WITH_VALUE or name in _PASSED_OVER_WITH_VALUE


def _set(command: _Command, name: str, value: bytes) -> None:
    if name in _DATA:
        command.data.append((name, value))
    match name:
        case "--request":
            command.method = value.decode("utf-8", "replace")
        case "--url":
            command.urls.append(value)
        case "--header":
            command.headers.append(value)
        case "--user":
            if b":" not in value:
                raise FormatError("curl.option", "--user has no password, so curl would ask for it")
            command.user = value
        case "--user-agent":
            command.agent = value
        case "--referer":
            command.referer = value.removesuffix(b";auto")
        case "--cookie":
            if value and b"=" not in value:
                raise FormatError("curl.file", "--cookie names a file; give the cookies themselves")
            command.cookies += [value] if value else []


def _message(command: _Command, read_file: ReadFile | None) -> Message:
    if len(command.urls) != 1:
        raise FormatError("curl.option", f"the command names {len(command.urls)} addresses, not one")
    address = command.urls[0].decode("utf-8", "replace")
    address = address if "://" in address else f"http://{address}"
    own_host = _OWN_HOST.match(address)
    if "--globoff" not in command.switches and _GLOB.search(address, own_host.end() if own_host else 0):
        raise FormatError(
            "curl.option", "curl makes several addresses of one with {} or []: give one address, or --globoff"
        )
    credentials = _CREDENTIALS.match(address)
    if credentials is not None and command.user is None:
        name, _, password = unquote_to_bytes(credentials[1]).partition(b":")
        command.user = name + b":" + password
    host, target = split_address(address)
    if _DOTS.search(target) and "--path-as-is" not in command.switches:
        raise FormatError(
            "curl.option", "curl rewrites . and .. in a path: give the path that was sent, or --path-as-is"
        )
    body = _body(command.data, read_file)
    in_query, head = "--get" in command.switches, "--head" in command.switches
    if in_query and command.data:
        target, body = _with_query(target, body), b""
    sends_body = bool(command.data) and not in_query
    if sends_body and head:
        raise FormatError("curl.option", "curl refuses --head together with data")
    method = command.method or ("HEAD" if head else "POST" if sends_body else "GET")
    return Message(method, target, _headers(command, host, body if sends_body else None), body)


def _with_query(target: str, data: bytes) -> str:
    """The target with data at the end of its query, an ampersand between where one is needed."""
    if b"%" in data:
        raise FormatError(
            "curl.option",
            "--get writes percent escapes in either case, by curl's version: put the query into the address",
        )
    path, _, query = target.partition("?")
    joined = f"{query}{'&' if query and not query.endswith('&') else ''}{data.decode('latin-1')}"
    return f"{path}?{joined}" if joined else path


def _body(data: Iterable[tuple[str, bytes]], read_file: ReadFile | None) -> bytes:
    body = b""
    for number, (option, value) in enumerate(data):
        joined = b"" if number == 0 or option == "--json" else b"&"
        body += joined + _piece(option, value, read_file)
    return body


def _piece(option: str, value: bytes, read_file: ReadFile | None) -> bytes:
    if option == "--data-urlencode":
        name, separator, content = value.partition(b"=")
        if b"@" in (name if separator else value):
            raise FormatError("curl.file", "--data-urlencode names a file; give the data itself")
        if b" " in value:
            raise FormatError(
                "curl.option",
                f"{option} writes a space as + or %20, by curl's version: give what was sent with --data-raw",
            )
        encoded = quote_from_bytes(content if separator else value, safe="~").encode()
        return name + b"=" + encoded if name and separator else encoded
    if option == "--data-raw" or not value.startswith(b"@"):
        return value
    name_of_file = value[1:].decode("utf-8", "surrogateescape")
    if read_file is None:
        raise FormatError(
            "curl.file", f"{option} names the file {shown(name_of_file)}, which is read only when that is allowed"
        )
    content = read_file(name_of_file)
    # As curl does it: what -d reads from a file loses its line ends; --data-binary and --json send the file as it is.
    if option not in ("--data", "--data-ascii"):
        return content
    if b"\0" in content:
        raise FormatError(
            "curl.file", f"{option} drops more than a zero byte of a file, by curl's version: use --data-binary"
        )
    return content.translate(None, b"\r\n")


def _headers(command: _Command, host: str, body: bytes | None) -> tuple[Header, ...]:
    given = [_header(raw) for raw in command.headers]
    if len(given) > _MAX_HEADERS:
        raise FormatError("curl.option", f"the command has more than {_MAX_HEADERS} headers")
    names = {name.lower() for name, _ in given}
    if body is not None and any(name.lower() == "transfer-encoding" and value is not None for name, value in given):
        raise FormatError(
            "curl.option", "curl sends data in chunks under Transfer-Encoding: give the request without that header"
        )
    own = [*_own_headers(command, host, body)]
    return (
        *[header for header in own if header[0].lower() not in names],
        *[(name, value) for name, value in _with_one_host(given) if value is not None],
    )


def _with_one_host(given: list[tuple[str, str | None]]) -> list[tuple[str, str | None]]:
    """Of several Host headers curl sends the first, unless that one takes its own away."""
    hosts = [header for header in given if header[0].lower() == "host"]
    if not hosts or hosts[0][1] is None:
        return given
    return [hosts[0], *[header for header in given if header[0].lower() != "host"]]


def _own_headers(command: _Command, host: str, body: bytes | None) -> Iterator[Header]:
    """What curl writes by itself or for an option, unless a header of this name was given."""
    is_json = any(option == "--json" for option, _ in command.data)
    yield "Host", host
    yield "Accept", "application/json" if is_json else "*/*"
    if command.user is not None:
        yield "Authorization", f"Basic {encode_base64(command.user)}"
    for name, value in (
        ("User-Agent", command.agent),
        ("Referer", command.referer),
        ("Cookie", b";".join(command.cookies)),
    ):
        if value:
            text = value.decode("latin-1")
            require_field_value(name, text)
            yield name, text
    if "--compressed" in command.switches:
        yield "Accept-Encoding", _ENCODINGS
    if is_json or body is not None:
        yield "Content-Type", "application/json" if is_json else "application/x-www-form-urlencoded"
    if body is not None:
        yield "Content-Length", str(len(body))


def _header(raw: bytes) -> tuple[str, str | None]:
    """Name and value; the value is None for `Name:`, which takes a header of curl's own away."""
    if raw.startswith(b"@"):
        raise FormatError("curl.file", "--header names a file; give the headers themselves")
    text = raw.decode("latin-1")
    name, separator, value = text.partition(":")
    if not separator and text.endswith(";"):  # curl's way to send a header without value
        name, value = text[:-1], ""
    elif not separator:
        raise FormatError(
            "curl.option", f"{shown(text)} is not a header: it has no colon, so curl sends nothing for it"
        )
    if not is_field_name(name):
        raise FormatError("curl.option", f"{shown(text)} is not a header")
    require_field_value(name, value)
    value = value.strip(" \t")
    return name, None if separator and not value else value
