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
    r"(?P<space>[ \t]+)"
    r"|\\(?P<joined>\r?\n)"
    r"|'(?P<single>[^']*)'"
    r"|\$'(?P<ansi>(?:[^'\\]|\\[\s\S])*)'"
    r'|"(?P<double>(?:[^"\\$`]|\\[\s\S])*)"'
    r"|\\(?P<escaped>[^\r\n])"
    r"|(?P<plain>[^\s\\'\"$`|&;<>()#*?\[{]+|(?<=[^\s])[#?])",
    re.ASCII,
)
# Where bash writes a folder for `~`, in a word whose quoted pieces stand as one quote each: at its start, and behind the equals sign
# or a colon of what looks like an assignment, when no quote comes before the next slash or colon.
_HOME = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_]*\+?=(?:[^:]*:)*)?~[^/:']*(?:[/:]|\Z)")
_IN_DOUBLE = re.compile(r'\\(?:([$`"\\])|\n)')
_ANSI = re.compile(r"\\(?:u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|(x\{|[\s\S]))")
_ANSI_LETTERS = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


def parse_words(text: str) -> tuple[bytes, ...]:
    """The words of a command line, each as the bytes that a program would be started with.

    Args:
        text: one command, over one line or several joined by a backslash.

    Raises:
        FormatError: `curl.shell`, a quote is not closed, another command follows, or a shell would expand or redirect
            something here.
    """
    if len(text) > MAX_COMMAND_LENGTH:
        raise FormatError("curl.shell", f"a command of {len(text)} characters is too long")
    text = text.strip(" \t\r\n")
    words: list[bytes] = []
    word: list[bytes] | None = None
    start = position = 0
    while position < len(text):
        match = _PIECE.match(text, position)
        if match is None:
            rest = shown(text[position : position + 20])
            raise FormatError(
                "curl.shell",
                f"at character {position} stands {rest}: a quote that is not closed, a line end without a backslash, at which the "
                "command ends, or shell syntax that is not read here",
            )
        position = match.end()
        if match.lastgroup == "space":
            words += [] if word is None else [_word(word, text[start : match.start()])]
            word = None
            if len(words) > MAX_WORDS:
                raise FormatError("curl.shell", f"a command of more than {MAX_WORDS} words is too long")
        elif match.lastgroup != "joined":
            if word is None:
                word, start = [], match.start()
            word.append(_value(match))
    return tuple(words) if word is None else (*words, _word(word, text[start:]))


def _word(values: list[bytes], raw: str) -> bytes:
    """A word of these pieces, which is written so."""
    word = b"".join(values)
    if b"\0" in word:
        raise FormatError("curl.shell", "a word holds a NUL, at which a shell or the program would cut it")
    if b"~" in word and _HOME.match("".join([_unquoted(match) for match in _PIECE.finditer(raw)])):
        raise FormatError("curl.shell", "a shell would write a folder for a ~ that is not quoted: write what was sent")
    return word


def _unquoted(match: re.Match[str]) -> str:
    return match["plain"] or ("" if match["joined"] else "'")


def _value(match: re.Match[str]) -> bytes:
    text = match[match.lastgroup or 0]
    match match.lastgroup:
        case "ansi":
            return _ansi(text)
        case "double":
            text = _IN_DOUBLE.sub(lambda escape: escape[1] or "", text)
    return text.encode("utf-8", "surrogateescape")


def _ansi(text: str) -> bytes:
    r"""What `$'…'` stands for: `\x` and octal are bytes, `\u` is a character in UTF-8; `\c` and `\x{` are refused."""
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
    if letter in ("c", "x{"):
        raise FormatError("curl.shell", f"{shown(match[0])} within $'…' is not read here: write \\x and two digits")
    return _ANSI_LETTERS.get(letter, match[0]).encode("utf-8", "surrogateescape")
