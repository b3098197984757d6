"""A strict parser and a writer of structured fields: the dictionaries of message signatures and digests.

    sig1=("@method" "date";bs);created=1618884473;keyid="key", other=:YQ==:

The parser reads dictionaries of items and inner lists with every type of RFC 9651; decimals, dates and display strings may occur
in parameters of other signatures. RFC 9651 uses the last of two members or parameters of one name and accepts unpadded base64.
This parser rejects both, because other parsers may disagree. The library `http-sf` accepts both, so it is not used.
Source: RFC 9651 sections 3 and 4.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from tppkit._encoding import decode_base64, encode_base64, shown
from tppkit.errors import FormatError

MAX_FIELD_LENGTH = 8192
MAX_MEMBERS = 64

_KEY = re.compile(r"[a-z*][a-z0-9_.*-]{0,63}")
# No alternative has an ambiguous repetition, and only the two kinds of numbers have a common beginning.
_BARE_ITEM = re.compile(
    r"(?P<integer>-?[0-9]{1,15})(?![0-9.])"
    r"|(?P<decimal>-?[0-9]{1,12}\.[0-9]{1,3})(?![0-9.])"
    r"|@(?P<date>-?[0-9]{1,15})(?![0-9.])"
    r'|%"(?P<display>(?:[\x20\x21\x23\x24\x26-\x7e]|%[0-9a-f]{2})*)"'
    r'|"(?P<string>(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"'
    r"|:(?P<bytes>[A-Za-z0-9+/=]*):"
    r"|\?(?P<boolean>[01])"
    r"|(?P<token>[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*)"
)
_ESCAPE = re.compile(r"\\(.)")
_NOT_DISPLAYED = re.compile(rb"[^\x20\x21\x23\x24\x26-\x7e]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")  # not valid in UTF-8
_COMMA = re.compile(r"[ \t]*,[ \t]*")
_SPACES = re.compile(r" *")


class Token(NamedTuple):
    """A word without quotes.

    Attributes:
        text: the word.
    """

    text: str


class Date(NamedTuple):
    """A point in time.

    Attributes:
        seconds: since 1970, UTC; may be negative.
    """

    seconds: int


class DisplayString(NamedTuple):
    """A text of any characters.

    Attributes:
        text: the text.
    """

    text: str


BareItem = (
    int | str | bytes | Decimal | Token | Date | DisplayString
)  # bool is a subclass of int; `write_bare_item` distinguishes them
Parameters = tuple[tuple[str, BareItem], ...]


class Item(NamedTuple):
    """One value with its parameters.

    Attributes:
        value: an integer, boolean, string, byte sequence, decimal, token, date or display string.
        parameters: (name, value) in order, no name twice; a parameter without a value is True.
    """

    value: BareItem
    parameters: Parameters = ()


class InnerList(NamedTuple):
    """Items in brackets, with parameters of the list.

    Attributes:
        items: in order.
        parameters: (name, value) in order, no name twice; a parameter without a value is True.
    """

    items: tuple[Item, ...]
    parameters: Parameters = ()


Member = Item | InnerList


def parse_dictionary(value: str, *, what: str) -> Mapping[str, Member]:
    """Parse a dictionary: its members by name, in order.

    Args:
        value: the field's value, several field lines joined by `, `; at most 8,192 characters and 64 members.
        what: name of the field for error messages.

    Raises:
        FormatError: `structured.malformed`, `structured.duplicate`, `base64.malformed`, `base64.noncanonical`.

    Source: RFC 9651 section 4.2.2.
    """
    if len(value) > MAX_FIELD_LENGTH:
        raise FormatError("structured.malformed", f"{what} of {len(value)} characters is too long")
    reader = _Reader(value.strip(" "), what)
    members: dict[str, Member] = {}
    while reader.position < len(reader.text):
        if members:
            reader.take(_COMMA, "a comma")
        name = reader.take(_KEY, "a name")[0]
        if name in members:
            raise FormatError("structured.duplicate", f"{what} has the member {name} twice")
        if len(members) == MAX_MEMBERS:
            raise FormatError("structured.malformed", f"{what} has more than {MAX_MEMBERS} members")
        members[name] = reader.member()
    return MappingProxyType(members)


class _Reader:
    """A position in a field's text."""

    def __init__(self, text: str, what: str) -> None:
        self.text = text
        self.what = what
        self.position = 0

    def take(self, pattern: re.Pattern[str], expected: str) -> re.Match[str]:
        match = pattern.match(self.text, self.position)
        if match is None:
            raise self.fault(expected)
        self.position = match.end()
        return match

    def fault(self, expected: str) -> FormatError:
        rest = shown(self.text[self.position : self.position + 20])
        return FormatError(
            "structured.malformed", f"{self.what} has {rest} at character {self.position}, expected {expected}"
        )

    def skip(self, text: str) -> bool:
        found = self.text.startswith(text, self.position)
        self.position += len(text) if found else 0
        return found

    def member(self) -> Member:
        if not self.skip("="):
            return Item(True, self.parameters())
        if not self.skip("("):
            return Item(self.bare_item(), self.parameters())
        items: list[Item] = []
        self.take(_SPACES, "")
        while not self.skip(")"):
            items.append(Item(self.bare_item(), self.parameters()))
            if not self.text.startswith((" ", ")"), self.position):
                raise self.fault("a space or a closing bracket")
            self.take(_SPACES, "")
        return InnerList(tuple(items), self.parameters())

    def parameters(self) -> Parameters:
        found: dict[str, BareItem] = {}
        while self.skip(";"):
            self.take(_SPACES, "")
            name = self.take(_KEY, "a parameter's name")[0]
            if name in found:
                raise FormatError("structured.duplicate", f"{self.what} has the parameter {name} twice")
            found[name] = self.bare_item() if self.skip("=") else True
        return tuple(found.items())

    def bare_item(self) -> BareItem:
        match = self.take(_BARE_ITEM, "a value")
        text = match[match.lastgroup or 0]
        match match.lastgroup:
            case "integer":
                return int(text)
            case "decimal":
                return Decimal(text)
            case "date":
                return Date(int(text))
            case "display":
                return self.display_string(text)
            case "string":
                return _ESCAPE.sub(r"\1", text)
            case "bytes":
                return decode_base64(text, what=f"a byte sequence in {self.what}")
            case "boolean":
                return text == "1"
            case _:
                return Token(text)

    def display_string(self, text: str) -> DisplayString:
        try:
            return DisplayString(unquote_to_bytes(text).decode("utf-8"))
        except UnicodeDecodeError as e:
            raise FormatError("structured.malformed", f"a display string in {self.what} is not UTF-8") from e


def write_bare_item(value: BareItem) -> str:
    """Serialise a value by RFC 9651 section 4.1.3.1.

    Raises:
        FormatError: `structured.malformed`, a string with a control character or beyond ASCII, a display string with half of
            a surrogate pair, a number with too many digits or a NaN.
    """
    match value:
        case bool():
            return f"?{value:d}"
        case int() if abs(value) < 10**15:
            return str(value)
        case Decimal() if value.is_finite() and abs(value) < 10**12 and value == round(value, 3):
            whole, _, fraction = f"{value:.3f}".partition(".")
            return f"{whole}.{fraction.rstrip('0') or '0'}"
        case str() if value.isascii() and (value.isprintable() or not value):
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case bytes():
            return f":{encode_base64(value)}:"
        case Token():
            return value.text
        case Date() if abs(value.seconds) < 10**15:
            return f"@{value.seconds}"
        case DisplayString() if not _SURROGATE.search(value.text):
            encoded = _NOT_DISPLAYED.sub(lambda match: b"%%%02x" % match[0][0], value.text.encode())
            return f'%"{encoded.decode("ascii")}"'
        case _:
            raise FormatError("structured.malformed", f"{shown(str(value))} is not valid in a structured field")


def write_parameters(parameters: Parameters) -> str:
    """Serialise parameters by RFC 9651 section 4.1.1.2, each with its semicolon; a true one without a value.

    Raises:
        FormatError: `structured.malformed`.
    """
    return "".join([f";{name}" if value is True else f";{name}={write_bare_item(value)}" for name, value in parameters])


def write_member(member: Member) -> str:
    """Serialise an item or inner list with its parameters.

    Raises:
        FormatError: `structured.malformed`.

    Source: RFC 9651 sections 4.1.1.1 and 4.1.3.
    """
    if isinstance(member, InnerList):
        items = " ".join([write_bare_item(item.value) + write_parameters(item.parameters) for item in member.items])
        return f"({items}){write_parameters(member.parameters)}"
    return write_bare_item(member.value) + write_parameters(member.parameters)


def is_key(name: str) -> bool:
    """Whether `name` is a valid name of a member or parameter."""
    return bool(_KEY.fullmatch(name))
