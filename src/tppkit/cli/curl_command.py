r"""Parse a `curl` command into the request that curl would send, as browsers, Postman and bank portals copy it.

The command is split into words without a shell, by the rules of a POSIX shell or, if it has a caret before a quote or a line end, by
those of cmd.exe and the C runtime of Windows. What a shell would expand, redirect or run is rejected, and so is each option that none
of these write. Texts here have one character for each byte of the command (Latin-1). Source: curl's manual page; Microsoft, "Parsing
C command-line arguments".
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from urllib.parse import quote_from_bytes

from tppkit._encoding import encode_base64, shown
from tppkit.errors import FormatError
from tppkit.httpsig.signing_string import is_field_name, require_field_value, require_start_line
from tppkit.httpsig.wire import MAX_MESSAGE_BYTES, check_length, split_address
from tppkit.message import Header, Message

MAX_COMMAND_LENGTH = 128 * 1024  # Linux limits an argument to it
ReadFile = Callable[[str], bytes]
Options = Sequence[tuple[str, str]]

_WHITE_SPACE = " \t\r\n"  # of a shell, which keeps other spaces
_SHELL = re.compile(
    r"'(?P<single>[^']*)'"
    r"|\$'(?P<ansi>(?:[^'\\]|\\.)*)'"
    r'|"(?P<double>(?:[^"\\$`]|\\.)*)"'
    r"|\\(?:(?P<joined>\r?\n)|(?P<escaped>[^\r\n]))"
    r"|(?P<special>[\"'\\$`|&;<>(){}\[\]*\r\n]|(?<![^\s=:])~|(?<!\S)#)"
    r"|(?P<space>[ \t]+)|(?P<plain>[^\"'\\$`|&;<>(){}\[\]*\r\n~# \t]+|[~#])",
    re.DOTALL | re.ASCII,
)
_IN_DOUBLE = re.compile(r'\\(?:([$`"\\])|\r?\n)')
_ANSI = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_ANSI_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_IS_CMD = re.compile(r"""[^'\\]*?[ \t]\^["\r\n]""")
_CARET = re.compile(
    r'\^(?:\r?\n(?P<next>\r?\n|.)?|(?P<escaped>.))|(?P<quoted>"[^"\r\n]*")|(?P<special>[\^"&|<>\r\n])', re.DOTALL
)
_VARIABLE = re.compile("%[A-Za-z_][A-Za-z0-9_]*%")
_WINDOWS = re.compile(
    r'"(?P<double>(?:[^"\\]|\\.|"")*)"|(?P<space>[ \t]+)|(?P<plain>(?:[^ \t"\\]|\\++(?!"))+)|(?P<special>\\*")',
    re.DOTALL,
)
_BEFORE_QUOTE = re.compile(r'(?<!\\)(\\*)(""|"|\Z)')

_DATA = ("--data", "--data-raw", "--data-binary", "--data-urlencode", "--json")
_LETTERS = {
    "X": "--request", "H": "--header", "d": "--data", "b": "--cookie", "I": "--head", "g": "--globoff", "E": "--cert", "m": "--max-time",
    "o": "--output", "k": "--insecure", "s": "--silent", "S": "--show-error", "v": "--verbose", "i": "--include", "L": "--location",
    "u": "--user", "A": "--user-agent", "e": "--referer", "w": "--write-out", "D": "--dump-header", "f": "--fail", "N": "--no-buffer",
    "4": "--ipv4", "6": "--ipv6",
}  # fmt: skip
_WITH_VALUE = frozenset({
    *_DATA, "--request", "--header", "--cookie", "--url", "--user", "--user-agent", "--referer",
    # These change the connection or what is shown.
    "--cert", "--cert-type", "--key", "--key-type", "--pass", "--cacert", "--max-time", "--output", "--write-out", "--dump-header",
    "--retry", "--connect-timeout", "--resolve",
})  # fmt: skip
_FLAGS = frozenset({
    "--head", "--compressed", "--globoff", "--path-as-is", "--insecure", "--silent", "--show-error", "--verbose", "--include", "--location",
    "--http1.1", "--http2", "--tlsv1.2", "--fail", "--fail-with-body", "--no-buffer", "--ipv4", "--ipv6", "--ssl-no-revoke",
})  # fmt: skip

_CREDENTIALS = re.compile(r"[^/?#]*://[^/?#]*@")
_IPV6_HOST = re.compile(r"\[[0-9A-Fa-f:.]+\]")
_GLOB = re.compile(r"[][{}]")
_DOTS = re.compile(r"[^?]*/(?:\.|%2e){1,2}(?:[/?]|\Z)", re.IGNORECASE)


def parse_curl(raw: bytes, *, read_file: ReadFile | None = None, as_found: bool = False) -> Message:
    """Parse a `curl` command into the request that curl would send.

    Args:
        raw: the command, with or without a `$` before it.
        read_file: returns the bytes of the file that `--data @file` names; None: such data is rejected. The command chooses the
            name, so pass it only for trusted commands.
        as_found: accept a method in lower case and lengths that differ from the headers, as `parse_request` does.

    Raises:
        FormatError: `curl.shell`, `curl.option`, `curl.file`, `message.*`, `header.control-character`, and what `read_file`
            raises.
    """
    text = raw.removeprefix(b"\xef\xbb\xbf").decode("latin-1").strip(_WHITE_SPACE)
    words = split_command(text.removeprefix("$ "))
    if words[:1] not in (["curl"], ["curl.exe"]):
        raise FormatError("curl.option", "the command is not curl")
    message = _message([*_options(words[1:])], read_file)
    require_start_line(message._replace(method=message.method.upper()) if as_found else message)
    if not as_found:
        check_length(message)
    return message


def split_command(text: str) -> list[str]:
    """Return the words of one command, as the program would get them.

    Args:
        text: one command, on one line or on several that are joined by a backslash (shell) or a caret (cmd.exe).

    Raises:
        FormatError: `curl.shell`.
    """
    if len(text) > MAX_COMMAND_LENGTH:
        raise FormatError("curl.shell", f"the command has more than {MAX_COMMAND_LENGTH} bytes")
    is_cmd = _IS_CMD.match(text) is not None
    if is_cmd and _VARIABLE.search(text):
        raise FormatError("curl.shell", "cmd.exe would replace %NAME% with a variable: write its value")
    words: list[list[str]] = [[]]
    for match in _WINDOWS.finditer(_CARET.sub(_caret, text)) if is_cmd else _SHELL.finditer(text):
        _reject_special(match)
        if match["space"]:
            words += [[]] if words[-1] else []
        elif is_cmd:
            words[-1].append(_windows_piece(match))
        elif not match["joined"]:
            words[-1].append(_piece(match))
    joined = ["".join(pieces) for pieces in words if pieces]
    if "\0" in "".join(joined):
        raise FormatError("curl.shell", "the command contains a NUL, which no argument can contain")
    return joined


def _reject_special(match: re.Match[str]) -> None:
    if match["special"]:
        found = f"{shown(match['special'])} at byte {match.start()}"
        raise FormatError("curl.shell", f"{found} is not quoted, or is a quote that is not closed")


def _caret(match: re.Match[str]) -> str:
    """What the C runtime gets of a part that cmd.exe reads: a caret before two line ends stands for one."""
    _reject_special(match)
    return match["quoted"] or match["escaped"] or match["next"] or ""


def _windows_piece(match: re.Match[str]) -> str:
    if match["double"] is None:
        return match["plain"]
    return _BEFORE_QUOTE.sub(lambda found: found[1][1::2] + found[2][:1], match["double"])


def _piece(match: re.Match[str]) -> str:
    if match["ansi"] is not None:
        return _ANSI.sub(_ansi_character, match["ansi"])
    if match["double"] is not None:
        return _IN_DOUBLE.sub(r"\1", match["double"])
    return match["single"] or match["escaped"] or match["plain"] or ""


def _ansi_character(match: re.Match[str]) -> str:
    r"""The bytes of an escape within `$'…'`: `\u` is a character, `\x` a byte."""
    number, byte, letter = match.groups()
    if byte:
        return chr(int(byte, 16))
    character = chr(int(number, 16)) if number else _ANSI_LETTERS.get(letter, "\ud800")
    if "\ud800" <= character <= "\udfff":
        raise FormatError("curl.shell", f"the escape {shown(match[0])} within $'…' is not supported")
    return character.encode().decode("latin-1")


def _options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The options by their long names, each with its value or an empty text; an address is a `--url`."""
    rest = iter(words)
    for word in rest:
        if word.startswith("--"):
            yield word, _value(word, "", rest)
        elif word.startswith("-") and word != "-":
            letters = iter(word[1:])
            for letter in letters:
                name = _LETTERS.get(letter, f"-{letter}")
                yield name, _value(name, letters, rest)
        else:
            yield "--url", word


def _value(name: str, attached: Iterable[str], rest: Iterator[str]) -> str:
    """The value of an option: what follows in its own word, or the next word; an empty text for a flag."""
    if name in _FLAGS:
        return ""
    if name not in _WITH_VALUE:
        raise FormatError("curl.option", f"the option {shown(name)} is not supported: write the request without it")
    value = "".join(attached) or next(rest, None)
    if value is None:
        raise FormatError("curl.option", f"the option {name} has no value")
    return value


def _message(options: Options, read_file: ReadFile | None) -> Message:
    last, addresses = dict(options), _values(options, "--url")
    if len(addresses) != 1:
        raise FormatError("curl.option", f"the command has {len(addresses)} addresses, not one")
    host, target = _split_address(addresses[0], last)
    body = _body(options, read_file)
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
        raise FormatError("curl.option", "the address contains a user name: write the header Authorization instead")
    if "--globoff" not in options and _GLOB.search(_IPV6_HOST.sub("", host, count=1) + target):
        raise FormatError("curl.option", "curl expands {} and [] in an address: use --globoff, or write one address")
    if "--path-as-is" not in options and _DOTS.match(target):
        raise FormatError(
            "curl.option", "curl removes . and .. from a path: use --path-as-is, or the path that was sent"
        )
    return host, target


def _body(options: Options, read_file: ReadFile | None) -> bytes | None:
    parts, size = list[bytes](), 0
    for name, value in options:
        if name in _DATA:
            joint = b"&" if parts and name != "--json" else b""
            parts.append(joint + _data(name, value, read_file))
            size += len(parts[-1])
            if size > MAX_MESSAGE_BYTES:
                raise FormatError("message.too-large", f"the body has more than {MAX_MESSAGE_BYTES} bytes")
    return b"".join(parts) if parts else None


def _data(option: str, value: str, read_file: ReadFile | None) -> bytes:
    raw = value.encode("latin-1")
    if option == "--data-urlencode":
        return _url_encoded(raw)
    if option == "--data-raw" or not value.startswith("@"):
        return raw
    file = os.fsdecode(raw[1:])
    if read_file is None:
        raise FormatError("curl.file", f"{option} names the file {shown(file)}, and reading files is not allowed")
    content = read_file(file)
    # curl's manual, --data: "carriage returns, newlines and null bytes are stripped out".
    return content.translate(None, b"\r\n\0") if option == "--data" else content


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
    is_empty = ":" not in text and text.endswith(";")  # to curl, Name; means an empty header
    name, separator, value = (text[:-1], ":", "") if is_empty else text.partition(":")
    if not separator or not is_field_name(name):
        raise FormatError("curl.option", "a --header has no name with a colon, and curl would not send it so")
    require_field_value(name, value)
    value = value.strip(" \t")
    return name, value if value or is_empty else None


def _own_headers(options: Options, host: str, body: bytes | None) -> Iterator[Header]:
    """The headers that curl adds by itself or for an option."""
    last = dict(options)
    is_json = "--json" in last
    yield "Host", host
    for option, name in (("--user-agent", "User-Agent"), ("--referer", "Referer")):
        if value := last.get(option, "").removesuffix(";auto"):
            require_field_value(name, value)
            yield name, value
    if "--user" in last:
        if ":" not in last["--user"]:
            raise FormatError("curl.option", "curl asks for the password of --user: write it after a colon")
        yield "Authorization", f"Basic {encode_base64(last['--user'].encode('latin-1'))}"
    yield "Accept", "application/json" if is_json else "*/*"
    cookies = [cookie for cookie in _values(options, "--cookie") if cookie]
    if any("=" not in cookie for cookie in cookies):
        raise FormatError("curl.file", "--cookie names a file: write the cookies into the command")
    if cookies:
        require_field_value("Cookie", ";".join(cookies))
        yield "Cookie", ";".join(cookies).strip(" \t")
    if "--compressed" in last:
        yield "Accept-Encoding", "deflate, gzip, br, zstd"  # of the usual builds
    if body is not None:
        yield "Content-Type", "application/json" if is_json else "application/x-www-form-urlencoded"
        yield "Content-Length", str(len(body))
