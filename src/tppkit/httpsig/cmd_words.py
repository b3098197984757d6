r"""The words of one command of Windows' cmd.exe, as browsers write it ("Copy as cURL (cmd)").

Two readers stand one behind the other there: cmd takes away carets and would expand %NAME%, then the C runtime of the program
splits words at blanks and reads quotes and backslashes. Nothing is expanded here, and what cmd would expand or redirect is refused.

    curl ^"https://bank.example/a?b=1^&c=2^" ^
      --data-raw ^"^{^\^"a^\^":1^}^"

Source: Microsoft, "cmd", and "Parsing C command-line arguments" of the C language reference.
"""

from __future__ import annotations

import re

from tppkit._encoding import shown
from tppkit.errors import FormatError
from tppkit.httpsig.shell_words import MAX_COMMAND_LENGTH, MAX_WORDS

_LOOKS_LIKE_CMD = re.compile(r"""[^\s'"]{1,512}[ \t]+(?:-[A-Za-z-]{1,33}[ \t]+){0,32}\^["\r\n]""")
# The first line, in which a single quote would be a shell's.
_ENDS_IN_CARET = re.compile(r"""(?:[^"'\r\n]|"(?:[^"\\\r\n]|\\[^\r\n])*")*[ \t]\^\r?\n[ \t]*-""")
_CMD_PIECE = re.compile(
    r"\^(?P<continued>\r?\n)(?P<literal>\r?\n|[^\r\n]|\Z)"
    r"|\^(?P<escaped>[^\r\n])"
    r'|(?P<quoted>"[^"\r\n]*"?)'
    r"|(?P<plain>[^\^\"&|<>\r\n]+)"
)
_VARIABLE = re.compile(r"%[A-Za-z_][A-Za-z0-9_]*%")
_WORD_PIECE = re.compile(
    r"""(?P<space>[ \t]+)|(?P<slashes>\\+)(?P<mark>"?)|(?P<double>"")|(?P<quote>")|(?P<plain>[^ \t\\"]+)"""
)


def is_cmd(text: str) -> bool:
    """Whether a command is written for cmd.exe: a caret stands before its first quote, or ends its first line."""
    return _LOOKS_LIKE_CMD.match(text) is not None or _ENDS_IN_CARET.match(text[:65536]) is not None


def parse_cmd_words(text: str) -> tuple[bytes, ...]:
    """The words of a command, each as the bytes that a program would be started with (in UTF-8).

    Args:
        text: one command, over one line or several that end in a caret.

    Raises:
        FormatError: `curl.shell`, a quote is not closed, or cmd would expand, redirect or end the command here.
    """
    if len(text) > MAX_COMMAND_LENGTH:
        raise FormatError("curl.shell", f"a command of {len(text)} characters is too long")
    return _words(_without_carets(text.strip(" \t\r\n")))


def _without_carets(text: str) -> str:
    if "\0" in text:
        raise FormatError("curl.shell", "the command holds a NUL, at which it would be cut")
    if _VARIABLE.search(text):
        raise FormatError("curl.shell", "cmd would put the value of a variable in the place of %NAME%")
    parts: list[str] = []
    position = 0
    while position < len(text):
        piece = _CMD_PIECE.match(text, position)
        if piece is None:
            rest = shown(text[position : position + 20])
            raise FormatError(
                "curl.shell", f"at character {position} stands {rest}: cmd would end or redirect the command"
            )
        position = piece.end()
        parts.append((piece["literal"] or "").replace("\r\n", "\n") if piece["continued"] else _kept(piece))
    return "".join(parts)


def _kept(piece: re.Match[str]) -> str:
    return piece["escaped"] or piece["quoted"] or piece["plain"] or ""


def _words(text: str) -> tuple[bytes, ...]:
    """As the C runtime splits them: n pairs of backslashes before a quote are n backslashes, an odd one makes the quote a letter."""
    words: list[str] = []
    word: list[str] | None = None
    quoted = False
    for piece in _WORD_PIECE.finditer(text):
        if piece["space"] and not quoted:
            words += [] if word is None else ["".join(word)]
            word = None
            if len(words) > MAX_WORDS:
                raise FormatError("curl.shell", f"a command of more than {MAX_WORDS} words is too long")
            continue
        added, turns = _value(piece, quoted)
        word = [] if word is None else word
        word.append(added)
        quoted ^= turns
    if quoted:
        raise FormatError("curl.shell", "a quote is not closed")
    words += [] if word is None else ["".join(word)]
    return tuple([one.encode("utf-8", "surrogateescape") for one in words])


def _value(piece: re.Match[str], quoted: bool) -> tuple[str, bool]:
    """What a piece adds to its word, and whether a quote begins or ends there."""
    slashes = piece["slashes"]
    if slashes and piece["mark"]:
        odd = len(slashes) % 2 == 1
        return "\\" * (len(slashes) // 2) + ('"' if odd else ""), not odd
    if piece["quote"]:
        return "", True
    if piece["double"]:
        return '"' if quoted else "", False
    return piece[0], False
