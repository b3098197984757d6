"""Escapes in JSON bodies, written where the body has the characters themselves, or the other way round. Nothing else is touched.

Who serialises anew often changes white space too: that is a row of its own, found together with these.
Source: RFC 8259 section 7; what json_encode, encoding/json, Gson and System.Text.Json escape by default.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from tppkit._encoding import parse_json
from tppkit.errors import FormatError
from tppkit.seals.diagnose.json_bodies import BOM, MAX_JSON_BYTES, RAW
from tppkit.seals.diagnose.mistake import BodyMistake, Part

Change = Callable[[str], str]

_ESCAPE = re.compile(r"\\(?:u[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[^u])")
_ESCAPE_OR_SLASH = re.compile(r"\\.|/")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_SHORT = {'"': "0022", "\\": "005c", "b": "0008", "f": "000c", "n": "000a", "r": "000d", "t": "0009"}
_HTML, _GSON = re.compile("[<>&\u2028\u2029]"), re.compile("[<>&='\u2028\u2029]")


def _row(name: str, cause: str, *changes: Change, mend: str = RAW) -> BodyMistake:
    """A row whose changes are made in the text of a body that is JSON."""

    def apply(body: bytes) -> Iterator[bytes]:
        mark = BOM if body.startswith(BOM) else b""
        raw = body.removeprefix(mark)
        try:
            text = raw.decode("utf-8") if len(raw) <= MAX_JSON_BYTES else ""
        except UnicodeError:
            return
        written = dict.fromkeys(changed for change in changes if (changed := change(text)) != text)
        if written and _is_json(raw):
            yield from (mark + changed.encode("utf-8") for changed in written)

    return BodyMistake(name, Part.BODY, cause, mend, apply)


def _is_json(body: bytes) -> bool:
    try:
        parse_json(body, what="the body", max_bytes=MAX_JSON_BYTES)
    except FormatError:
        return False
    return True


def _escaping(characters: re.Pattern[str]) -> Change:
    return lambda text: characters.sub(lambda character: f"\\u{ord(character[0]):04x}", text)


def _slashes_escaped(text: str) -> str:
    return _ESCAPE_OR_SLASH.sub(lambda match: "\\/" if match[0] == "/" else match[0], text)


def _beyond_ascii_escaped(text: str) -> str:
    return _BEYOND_ASCII.sub(lambda character: json.dumps(character[0])[1:-1], text)


def _unescaping(is_undone: Callable[[str, str], bool]) -> Change:
    """Characters in place of their escapes, where both together are asked for; what JSON has to escape in its shortest form."""

    def plain(escape: str) -> str:
        character: str = json.loads(f'"{escape}"')
        whole = not "\ud800" <= character <= "\udfff"
        return json.dumps(character, ensure_ascii=False)[1:-1] if whole and is_undone(escape, character) else escape

    def change(text: str) -> str:
        try:
            table = {escape: plain(escape) for escape in set(_ESCAPE.findall(text))}
        except ValueError:  # a backslash before what is no escape: this is no JSON
            return text
        return _ESCAPE.sub(lambda match: table[match[0]], text)

    return change


def _lengthening(letters: str, write: Change = str.lower) -> Change:
    r"""`\u` escapes in place of the short escapes of these letters, their digits written so."""
    table = {f"\\{letter}": f"\\u{write(_SHORT[letter])}" for letter in letters}
    return lambda text: _ESCAPE.sub(lambda match: table.get(match[0], match[0]), text)


def _other_letters(write: Change) -> Change:
    """The hexadecimal digits of escapes in the other letters."""
    return lambda text: _ESCAPE.sub(
        lambda match: re.sub(r"(?<=u)[0-9A-Fa-f]{4}", lambda digits: write(digits[0]), match[0]), text
    )


JSON_ESCAPES: tuple[BodyMistake, ...] = (
    _row("json-unescaped", "The body is JSON with escapes (\\/, \\u0117), and what was hashed has the characters or short escapes (\\n).",
         _unescaping(lambda escape, character: escape == "\\/"),
         _unescaping(lambda escape, character: escape[1] == "u" and character.isascii()),
         _unescaping(lambda escape, character: not character.isascii()),
         _unescaping(lambda escape, character: True)),
    _row("json-escaped", "The body is JSON with characters beyond ASCII, and what was hashed has them as \\u escapes.",
         _beyond_ascii_escaped),
    _row("json-long-escapes", 'The body is JSON with short escapes (\\n, \\"), and what was hashed has them as \\u escapes.',
         _lengthening('"'), _lengthening("bf"), _lengthening("".join(_SHORT)), _lengthening("".join(_SHORT), str.upper)),
    _row("json-slashes", "The body is JSON, and what was hashed has its slashes escaped (PHP's json_encode).",
         _slashes_escaped, lambda text: _beyond_ascii_escaped(_slashes_escaped(text))),
    _row("json-html-escaped", "The body is JSON, and what was hashed has <, > and & as \\u escapes (Go's encoding/json).",
         _escaping(_HTML)),
    _row("json-html-escaped-gson", "The body is JSON, and what was hashed has <, >, &, = and ' as \\u escapes (Java's Gson).",
         _escaping(_GSON), mend=f"Build Gson with disableHtmlEscaping. {RAW}"),
    _row("json-escape-case", "The body is JSON with \\u escapes, and what was hashed has their digits in other letters (\\u00E9, \\u00e9).",
         _other_letters(str.upper), _other_letters(str.lower)),
)  # fmt: skip
