r"""Split a copied command into its words, without running a shell.

Supported are commands for a POSIX shell, and for `cmd.exe` of Windows in the forms that browsers copy:

    curl ^"https://bank.example/a?b=1^&c=2^" ^
      --data-raw ^"^{^\^"a^\^":1^}^"

Whatever a shell would expand, redirect or run is rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tppkit._encoding import shown
from tppkit.errors import FormatError

# Linux limits an argument to 128 KiB. getopt takes time by the square of the number of words.
MAX_COMMAND_LENGTH = 128 * 1024
MAX_WORDS = 2_000
WHITE_SPACE = " \t\r\n"  # of a shell, which keeps other spaces

_SHELL = re.compile(
    r"'(?P<single>[^']*)'"
    r"|\$'(?P<ansi>(?:[^'\\]|\\.)*)'"
    r'|"(?P<double>(?:[^"\\$`]|\\.)*)"'
    r"|\\(?:(?P<joined>\r?\n)|(?P<escaped>[^\r\n]))"
    r"|(?P<special>[\"'\\$`|&;<>(){}\[\]*\r\n]|(?<![^\s=:])~|(?<!\S)#)"
    r"|(?P<space>[ \t]+)|(?P<plain>[^\"'\\$`|&;<>(){}\[\]*\r\n~# \t]+|[~#])",
    re.DOTALL,
)
_IN_DOUBLE = re.compile(r'\\(?:([$`"\\])|\r?\n)')
_ANSI = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_ANSI_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"'}

_IS_CMD = re.compile(r"""[^'\\]*?[ \t]\^["\r\n]""")
_CARET = re.compile(r'\^(?:\n(?P<next>.?)|(?P<escaped>.))|(?P<quoted>"[^"\n]*")|(?P<special>[\^"&|<>\n])', re.DOTALL)
_VARIABLE = re.compile(r"%[A-Za-z_][A-Za-z0-9_]*%")
_C_WORD = re.compile(
    r'"(?P<quoted>(?:[^"\\]|\\.|"")*)"|(?P<plain>(?:[^ \t"\\]|\\++(?!"))+)|(?P<space>[ \t]+)|(?P<special>\\*")',
    re.DOTALL,
)
_BEFORE_QUOTE = re.compile(r'(?<!\\)(\\*)(""|"|\Z)')


def split_command(text: str) -> list[str]:
    """Return the words of one command, as the program would receive them.

    Args:
        text: one command, on one line or on several that are joined by a backslash (shell) or a caret (cmd). Bytes that are
            not UTF-8 are escaped as surrogates, here and in the result.

    Raises:
        FormatError: `curl.shell`.
    """
    if len(text) > MAX_COMMAND_LENGTH:
        raise FormatError("curl.shell", f"the command has more than {MAX_COMMAND_LENGTH} characters")
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise FormatError("curl.shell", "the command contains a surrogate, which no file can contain") from None
    text = text.strip(WHITE_SPACE)
    if _IS_CMD.match(text):
        if _VARIABLE.search(text):
            raise FormatError("curl.shell", "cmd.exe would replace %NAME% with a variable: write its value")
        pieces = _pieces(_C_WORD, _CARET.sub(_caret, text.replace("\r\n", "\n")), _c_piece)
    else:
        pieces = _pieces(_SHELL, text, _shell_piece)
    parts: list[list[str]] = [[]]
    for piece in pieces:
        if piece is not None:
            parts[-1].append(piece)
        elif parts[-1]:
            parts.append([])
    words = ["".join(part) for part in parts if part]
    if any("\0" in word for word in words):
        raise FormatError("curl.shell", "the command contains a NUL, which no argument can contain")
    if len(words) > MAX_WORDS:
        raise FormatError("curl.shell", f"the command has more than {MAX_WORDS} words")
    return words


def _pieces(pattern: re.Pattern[str], text: str, read: Callable[[re.Match[str]], str]) -> Iterator[str | None]:
    """The pieces of words, and None for the space between two words."""
    for match in pattern.finditer(text):
        _reject_special(match)
        if match["space"]:
            yield None
        elif match.lastgroup != "joined":
            yield read(match)


def _shell_piece(match: re.Match[str]) -> str:
    if match["ansi"] is not None:
        return _ANSI.sub(_ansi_character, match["ansi"])
    if match["double"] is not None:
        return _IN_DOUBLE.sub(r"\1", match["double"])
    return match["single"] or match["escaped"] or match["plain"] or ""


def _reject_special(match: re.Match[str]) -> None:
    if match["special"]:
        raise FormatError(
            "curl.shell",
            f"{shown(match['special'])} at character {match.start()} is not quoted, or is a quote that is not closed",
        )


def _ansi_character(match: re.Match[str]) -> str:
    r"""The character of an escape within `$'…'`: `\u` is a character, `\x` a byte."""
    number, byte, letter = match.groups()
    if byte:
        return bytes.fromhex(byte).decode("utf-8", "surrogateescape")
    character = chr(int(number, 16)) if number else _ANSI_LETTERS.get(letter, "\ud800")
    if "\ud800" <= character <= "\udfff":
        raise FormatError("curl.shell", f"the escape {shown(match[0])} within $'…' is not supported")
    return character


def _caret(match: re.Match[str]) -> str:
    _reject_special(match)
    return match["quoted"] or match["escaped"] or match["next"] or ""


def _c_piece(match: re.Match[str]) -> str:
    """What the C runtime of Windows reads; source: Microsoft, "Parsing C command-line arguments"."""
    return match["plain"] or _BEFORE_QUOTE.sub(lambda found: found[1][1::2] + found[2][:1], match["quoted"])
