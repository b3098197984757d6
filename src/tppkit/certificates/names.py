"""Distinguished names: read from DER, read and written as RFC 4514 text, and compared by RFC 5280 section 7.1.

Banks write the issuer's name in `keyId` in several styles: Java prints unknown attributes as `#hex`, others as text; order
and spaces differ. So names are compared as parsed values, never as text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from tppkit._text import shortened
from tppkit.certificates import der, oids
from tppkit.errors import FormatError

MAX_NAME_LENGTH = 4096
_MAX_SHOWN = 400

_OIDS_BY_NAME: Mapping[str, str] = MappingProxyType(
    {name.upper(): oid for oid, name in oids.NAME_ATTRIBUTES.items()}
    | {"E": "1.2.840.113549.1.9.1", "SURNAME": "2.5.4.4", "GIVENNAME": "2.5.4.42", "S": "2.5.4.8"}
)
# Only ASCII white space around a value is ignored. Other white space is part of the value, because it is never escaped.
_TYPE = re.compile(r"[ \t\r\n]*([A-Za-z][A-Za-z0-9-]*|(?:[Oo][Ii][Dd]\.)?[0-9]+(?:\.[0-9]+)+)[ \t\r\n]*=[ \t\r\n]*")
_HEX_VALUE = re.compile(r"#((?:[0-9A-Fa-f]{2})+)[ \t\r\n]*(?=[,+]|\Z)")
_QUOTED_END = re.compile(r'"[ \t\r\n]*(?=[,+]|\Z)')
_SPECIAL = re.compile(r'[,+"\\<>;]')
_NEEDS_ESCAPE = re.compile(r'[,+"\\<>;]|^[# ]| $')

Attribute = tuple[str, str]
ComparableName = tuple[frozenset[Attribute], ...]


@dataclass(frozen=True)
class DistinguishedName:
    """A subject's or issuer's name.

    Attributes:
        rdns: relative distinguished names in the order of the certificate (country usually first); each a tuple of
            (dotted object identifier, value as text).
    """

    rdns: tuple[tuple[Attribute, ...], ...]

    def values(self, oid: str) -> tuple[str, ...]:
        """Every value of the attribute with this dotted object identifier, in order."""
        return tuple([value for rdn in self.rdns for kind, value in rdn if kind == oid])

    def __str__(self) -> str:
        """RFC 4514 text, most specific attribute first, with organizationIdentifier by its name."""
        return self._text

    def __format__(self, spec: str) -> str:
        """The text for a message, at most 400 characters: anyone can make a certificate with a name of any length."""
        return format(shortened(self._text, _MAX_SHOWN), spec)

    @cached_property
    def _text(self) -> str:
        return ",".join(["+".join([_readable(oid, value) for oid, value in rdn]) for rdn in reversed(self.rdns)])

    def rfc4514(self, *, encoded: bytes | None = None, unknown_as_text: bool = False, root_first: bool = False) -> str:
        """Return RFC 4514 text with only the names of its own table; every other attribute as `oid=#hex` (section 2.4).

        Java's `X500Principal` prints this form, and every strict parser accepts it.

        Args:
            encoded: DER of the name, to copy its encoded values after `#`; without it, values are encoded as UTF8String.
            unknown_as_text: write other attributes as `oid=value` instead, as OpenSSL and `cryptography` do.
            root_first: use the order of the certificate, country usually first.
        """
        values = None if encoded is None or unknown_as_text else _encoded_values(encoded)
        parts = []
        for place, rdn in enumerate(self.rdns):
            raw = values[place] if values else [None] * len(rdn)
            write = [
                _dotted(*pair) if unknown_as_text else _strict(*pair, one) for pair, one in zip(rdn, raw, strict=True)
            ]
            parts.append("+".join(write))
        return ",".join(parts if root_first else reversed(parts))

    def matches(self, other: DistinguishedName) -> bool:
        """Whether both names have the same attributes in the same or in reverse order."""
        return self.comparable in (other.comparable, other.comparable[::-1])

    @cached_property
    def comparable(self) -> ComparableName:
        """The form in which names are compared: equal for two names that are the same (RFC 5280 section 7.1).

        Case, runs of white space, the kind of string and compatibility forms of characters do not count.
        """
        return tuple([frozenset([(oid, _folded(value)) for oid, value in rdn]) for rdn in self.rdns])


_RFC4514_NAMES = frozenset({"CN", "L", "ST", "O", "OU", "C", "STREET", "DC", "UID"})


def _readable(oid: str, value: str) -> str:
    return f"{oids.NAME_ATTRIBUTES.get(oid, oid)}={_escape(value)}"


def _strict(oid: str, value: str, encoded: bytes | None) -> str:
    name = oids.NAME_ATTRIBUTES.get(oid)
    if name in _RFC4514_NAMES:
        return f"{name}={_escape(value)}"
    return f"{oid}=#{(der.write_text(value) if encoded is None else encoded).hex()}"


def _encoded_values(name: bytes) -> list[list[bytes]]:
    """Return DER of each attribute's value, in the certificate's order."""
    return [
        [
            name[part.offset : part.end]
            for pair in der.read_children(name, rdn)
            for part in der.read_children(name, pair)[1:]
        ]
        for rdn in der.read_children(name, der.read_element(name, 0, len(name)))
    ]


def _dotted(oid: str, value: str) -> str:
    name = oids.NAME_ATTRIBUTES.get(oid)
    return f"{name if name in _RFC4514_NAMES else oid}={_escape(value)}"


def _folded(value: str) -> str:
    normal = value if value.isascii() else unicodedata.normalize("NFKC", value)
    return " ".join(normal.casefold().split())


def _hex_pairs(character: str) -> str:
    return "".join([f"\\{byte:02X}" for byte in character.encode("utf-8", "surrogatepass")])


def _escape(value: str) -> str:
    if value.isprintable() and not _NEEDS_ESCAPE.search(value):
        return value
    text = _SPECIAL.sub(lambda m: "\\" + m.group(), value)
    text = "".join([c if c.isprintable() else _hex_pairs(c) for c in text])
    if text.startswith(("#", " ")):
        text = "\\" + text
    return text[:-1] + "\\ " if text.endswith(" ") and len(value) > 1 else text


def read_name(data: bytes, element: der.Element) -> DistinguishedName:
    """Read the Name at `element` of `data`.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`.
    """
    der.expect(element, der.SEQUENCE)
    return DistinguishedName(tuple([_read_rdn(data, rdn) for rdn in der.read_children(data, element)]))


def _read_rdn(data: bytes, rdn: der.Element) -> tuple[Attribute, ...]:
    der.expect(rdn, der.SET)
    attributes = []
    for pair in der.read_children(data, rdn):
        der.expect(pair, der.SEQUENCE)
        parts = der.read_children(data, pair)
        if len(parts) != 2:
            raise FormatError(
                "der.malformed", f"a name attribute at byte {pair.offset} is not a pair", offset=pair.offset
            )
        kind, value = parts
        attributes.append((der.read_oid(data, kind), _value(data, value)))
    if not attributes:
        raise FormatError("der.malformed", f"the name part at byte {rdn.offset} is empty", offset=rdn.offset)
    return tuple(attributes)


def _value(data: bytes, element: der.Element) -> str:
    try:
        return der.read_text(data, element)
    except FormatError:
        return "#" + data[element.offset : element.end].hex()


def parse_name(text: str) -> DistinguishedName:
    """Parse RFC 4514 text, ignoring white space around values and case of attribute names, and with RFC 2253's quoted values.

    Args:
        text: for example `CN=D-TRUST CA 2-1 2015,O=D-Trust GmbH,C=DE`.

    Returns:
        The name in the certificate's order, which is the reverse of the text.

    Raises:
        FormatError: `name.malformed`.

    Source: RFC 4514 section 3; RFC 2253 section 4.
    """
    if len(text) > MAX_NAME_LENGTH:
        raise FormatError("name.malformed", f"a name of {len(text)} characters is longer than {MAX_NAME_LENGTH}")
    rdns: list[tuple[Attribute, ...]] = []
    rdn: list[Attribute] = []
    position = 0
    while position < len(text):
        attribute, position = _read_attribute(text, position)
        rdn.append(attribute)
        if position == len(text) or text[position] == ",":
            rdns.append(tuple(rdn))
            rdn = []
        if position < len(text):
            position += 1
            if position == len(text):
                raise FormatError("name.malformed", "the name ends with a separator")
    return DistinguishedName(tuple(reversed(rdns)))


def _read_attribute(text: str, position: int) -> tuple[Attribute, int]:
    kind = _TYPE.match(text, position)
    if kind is None:
        raise FormatError("name.malformed", f"no attribute type at character {position}")
    name = kind.group(1)
    if name[:4].upper() == "OID.":  # allowed by RFC 2253
        name = name[4:]
    oid = name if name[0].isdigit() else _OIDS_BY_NAME.get(name.upper())
    if oid is None:
        raise FormatError("name.malformed", f"the attribute name {name[:40]} is not known")
    value, position = _read_value(text, kind.end())
    return (oid, value), position


def _read_value(text: str, position: int) -> tuple[str, int]:
    hex_value = _HEX_VALUE.match(text, position)
    if hex_value:
        return _hex_value(bytes.fromhex(hex_value.group(1)), position), hex_value.end()
    if text[position : position + 1] == "#":
        raise FormatError("name.malformed", f"a # without hexadecimal pairs at character {position}")
    if text[position : position + 1] == '"':
        return _read_quoted(text, position + 1)
    out = bytearray()
    kept = 0  # trailing white space belongs to the value only if it is escaped
    while position < len(text) and text[position] not in ",+":
        character = text[position]
        if character == "\\":
            octets, position = _read_escape(text, position + 1)
            out += octets
            kept = len(out)
            continue
        if character in '"<>;':
            raise FormatError("name.malformed", f"a bare {character} at character {position}")
        out += character.encode("utf-8", "surrogatepass")
        position += 1
        if character != " ":
            kept = len(out)
    return _decoded(out[:kept]), position


def _read_quoted(text: str, position: int) -> tuple[str, int]:
    """Read a quoted value, starting after the first quote (RFC 2253 section 4)."""
    out = bytearray()
    while (character := text[position : position + 1]) != '"':
        if not character:
            raise FormatError("name.malformed", "a quoted value does not end")
        if character == "\\":
            octets, position = _read_escape(text, position + 1)
            out += octets
            continue
        out += character.encode("utf-8", "surrogatepass")
        position += 1
    end = _QUOTED_END.match(text, position)
    if end is None:
        raise FormatError("name.malformed", f"no separator after the quoted value at character {position}")
    return _decoded(out), end.end()


def _decoded(value: bytearray) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as e:
        raise FormatError("name.malformed", "an escaped value is not UTF-8") from e


def _hex_value(raw: bytes, position: int) -> str:
    try:
        element = der.read_element(raw, 0, len(raw))
    except FormatError as e:
        raise FormatError("name.malformed", f"the value at character {position} is not DER: {e.message}") from e
    if element.end != len(raw):
        raise FormatError("name.malformed", f"the value at character {position} is more than one DER element")
    return _value(raw, element)


def _read_escape(text: str, position: int) -> tuple[bytes, int]:
    pair = text[position : position + 2]
    if len(pair) == 2 and all(c in "0123456789abcdefABCDEF" for c in pair):
        return bytes.fromhex(pair), position + 2
    if pair[:1] and pair[0] in ' "#+,;<=>\\':
        return pair[0].encode(), position + 1
    raise FormatError("name.malformed", f"a stray backslash at character {position - 1}")
