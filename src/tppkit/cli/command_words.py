r"""Split a copied command into its words, without running a shell.

Supported are commands for a POSIX shell, and for `cmd.exe` of Windows in the forms that browsers copy:

    curl ^"https://bank.example/a?b=1^&c=2^" ^
      --data-raw ^"^{^\^"a^\^":1^}^"

Whatever a shell would expand, redirect or run is rejected.
"""

from __future__ import annotations

import re
import shlex

from tppkit._encoding import shown
from tppkit.errors import FormatError

# Linux limits an argument to 128 KiB. `shlex` takes time by the square of a word's length, and getopt by that of their number.
MAX_COMMAND_LENGTH = 128 * 1024
MAX_WORDS = 2_000
WHITE_SPACE = " \t\r\n"  # of a shell, which keeps other spaces

_SHELL = re.compile(
    r"'[^']*'"
    r"|\$'(?P<ansi>(?:[^'\\]|\\.)*)'"
    r'|"(?P<double>(?:[^"\\$`]|\\.)*)"'
    r"|\\(?:(?P<joined>\r?\n)|[^\r\n])"
    r"|(?P<special>[\"'\\$`|&;<>(){}\[\]*\r\n]|(?<![^\s=:])~|(?<!\S)#)",
    re.DOTALL,
)
_IN_DOUBLE = re.compile(r'\\(?:([$`"\\])|\r?\n)')
_ANSI = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_ANSI_LETTERS = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"'}

_IS_CMD = re.compile(r"""[^'\\]*?[ \t]\^["\r\n]""")
_CARET = re.compile(r'\^(?:\n(?P<next>.?)|(?P<escaped>.))|(?P<quoted>"[^"\n]*")|(?P<special>[\^"&|<>\n])', re.DOTALL)
_VARIABLE = re.compile(r"%[A-Za-z_][A-Za-z0-9_]*%")
_C_WORD = re.compile(
    r'"(?P<quoted>(?:[^"\\]|\\.|"")*)"|(?P<plain>(?:[^ \t"\\]|\\++(?!"))+)|(?P<special>\\*")', re.DOTALL
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
        quoted = _C_WORD.sub(_c_word, _CARET.sub(_caret, text.replace("\r\n", "\n")))
    else:
        quoted = _SHELL.sub(_shell, text)
    if "\0" in quoted:
        raise FormatError("curl.shell", "the command contains a NUL, which no argument can contain")
    words = shlex.split(quoted)
    if len(words) > MAX_WORDS:
        raise FormatError("curl.shell", f"the command has more than {MAX_WORDS} words")
    return words


def _shell(match: re.Match[str]) -> str:
    """Rewrite a part that `shlex` does not read as a shell does."""
    _reject_special(match)
    if match["ansi"] is not None:
        return shlex.quote(_ANSI.sub(_ansi_character, match["ansi"]))
    if match["double"] is not None:
        return shlex.quote(_IN_DOUBLE.sub(r"\1", match["double"]))
    return "" if match["joined"] else match[0]


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


def _c_word(match: re.Match[str]) -> str:
    """Quote for `shlex` what the C runtime of Windows reads; source: Microsoft, "Parsing C command-line arguments"."""
    _reject_special(match)
    if match["plain"]:
        return shlex.quote(match["plain"])
    return shlex.quote(_BEFORE_QUOTE.sub(lambda found: found[1][1::2] + found[2][:1], match["quoted"]))
