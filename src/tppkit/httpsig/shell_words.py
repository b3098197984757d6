"""The words of one shell command, without running a shell: nothing is expanded, and what a shell would expand is refused.

Standard `shlex` reads neither `$'…'`, which browsers write for bodies, nor a backslash before a line end as a shell does.
Source: POSIX.1-2024 XCU section 2.2, with the dollar-single-quotes of 2.2.4.
"""

from __future__ import annotations

import re

from tppkit._encoding import shown
from tppkit.errors import FormatError

MAX_COMMAND_LENGTH = 8 * 1024 * 1024
MAX_WORDS = 4096

# Alternatives that never start alike, so a text is read in one pass.
_PIECE = re.compile(
    r"(?P<space>(?:[ \t\n]|\r\n|\\\r?\n)+)"
    r"|'(?P<single>[^']*)'"
    r"|\$'(?P<ansi>(?:[^'\\]|\\[\s\S])*)'"
    r'|"(?P<double>(?:[^"\\$`]|\\[\s\S])*)"'
    r"|\\(?P<escaped>[^\r\n])"
    r"|(?P<plain>[^\s\\'\"$`|&;<>()#*?\[{]+|(?<=[^\s])[#?])",
    re.ASCII,
)
_IN_DOUBLE = re.compile(r'\\(?:([$`"\\])|\n)')
_ANSI = re.compile(r"\\(?:u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|([\s\S]))")
_ANSI_LETTERS = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


def parse_words(text: str) -> tuple[bytes, ...]:
    """The words of a command line, each as the bytes that a program would be started with.

    Args:
        text: one command, over one line or several joined by a backslash.

    Raises:
        FormatError: `curl.shell`, a quote is not closed, or a shell would expand or redirect something here.
    """
    if len(text) > MAX_COMMAND_LENGTH:
        raise FormatError("curl.shell", f"a command of {len(text)} characters is too long")
    text = text.strip(" \t\r\n")
    words: list[bytes] = []
    word: list[bytes] | None = None
    position = 0
    while position < len(text):
        match = _PIECE.match(text, position)
        if match is None:
            rest = shown(text[position : position + 20])
            raise FormatError(
                "curl.shell",
                f"at character {position} stands {rest}: a quote that is not closed, or shell syntax that is not read here",
            )
        position = match.end()
        if match.lastgroup != "space":
            word = [] if word is None else word
            word.append(_value(match))
        elif word is not None:
            words.append(b"".join(word))
            word = None
            if len(words) > MAX_WORDS:
                raise FormatError("curl.shell", f"a command of more than {MAX_WORDS} words is too long")
    return tuple(words) if word is None else (*words, b"".join(word))


def _value(match: re.Match[str]) -> bytes:
    text = match[match.lastgroup or 0]
    match match.lastgroup:
        case "ansi":
            return _ansi(text)
        case "double":
            text = _IN_DOUBLE.sub(lambda escape: escape[1] or "", text)
    return text.encode("utf-8", "surrogateescape")


def _ansi(text: str) -> bytes:
    r"""What `$'…'` stands for: `\x` and octal are bytes, `\u` is a character in UTF-8."""
    parts: list[bytes] = []
    position = 0
    for match in _ANSI.finditer(text):
        parts.append(text[position : match.start()].encode("utf-8", "surrogateescape"))
        parts.append(_ansi_escape(match))
        position = match.end()
    return b"".join([*parts, text[position:].encode("utf-8", "surrogateescape")])


def _ansi_escape(match: re.Match[str]) -> bytes:
    short, long, hexadecimal, octal, letter = match.groups()
    if short or long:
        number = int(short or long, 16)
        if number > 0x10FFFF or 0xD800 <= number < 0xE000:
            raise FormatError("curl.shell", f"{shown(match[0])} is no character")
        return chr(number).encode("utf-8")
    if hexadecimal or octal:
        return bytes([int(hexadecimal or octal, 16 if hexadecimal else 8) & 0xFF])
    return _ANSI_LETTERS.get(letter, match[0]).encode("utf-8", "surrogateescape")
