"""A strict reader and a writer of the Distinguished Encoding Rules, as far as names and QcStatements need them.

The readers never recurse and copy only what they return, so hostile lengths and depths cost nothing.
Source: ITU-T X.690 clauses 8 to 11.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tppkit.certificates import oids
from tppkit.errors import FormatError

BOOLEAN, INTEGER, BIT_STRING, OCTET_STRING, NULL, OID = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06
UTF8_STRING, SEQUENCE, SET, PRINTABLE_STRING, IA5_STRING = 0x0C, 0x30, 0x31, 0x13, 0x16

STRING_CODECS = {
    0x0C: "utf-8",
    0x12: "ascii",  # NumericString
    0x13: "ascii",
    0x14: "latin-1",  # TeletexString, as used in practice
    0x16: "ascii",
    0x1A: "ascii",  # VisibleString
    0x1C: "utf-32-be",  # UniversalString
    0x1E: "utf-16-be",  # BMPString
}
# ParseError { kind: InvalidValue, location: ["Certificate::tbs_cert", "TbsCertificate::raw_extensions", 4] }
_PARSE_ERROR = re.compile(r"ParseError \{ kind: (\w+)(?:.*location: \[([^\]]*)\])?")


class Element(NamedTuple):
    """One DER element: its tag byte, where it starts, and where its content starts and ends (byte offsets)."""

    tag: int
    offset: int
    start: int
    end: int


def read_element(data: bytes, offset: int, end: int) -> Element:
    """Read the element at `offset`, which must end at or before `end`.

    Raises:
        FormatError: `der.malformed` with the byte offset: truncated, indefinite or non-minimal length, long tag.
    """
    if offset + 2 > end:
        raise FormatError("der.malformed", f"an element is cut off at byte {offset}", offset=offset)
    tag, length, start = data[offset], data[offset + 1], offset + 2
    if tag & 0x1F == 0x1F:
        raise FormatError("der.malformed", f"a multi-byte tag at byte {offset}", offset=offset)
    if length >= 0x80:
        length, start = _long_length(data, start, length & 0x7F, end)
    if start + length > end:
        raise FormatError("der.malformed", f"the element at byte {offset} is longer than its container", offset=offset)
    return Element(tag, offset, start, start + length)


def _long_length(data: bytes, start: int, count: int, end: int) -> tuple[int, int]:
    if not 1 <= count <= 4 or start + count > end:
        raise FormatError("der.malformed", f"an impossible length at byte {start - 1}", offset=start - 1)
    length = int.from_bytes(data[start : start + count], "big")
    if length < 0x80 or length < 1 << (8 * (count - 1)):
        raise FormatError("der.malformed", f"a length at byte {start - 1} is not minimal", offset=start - 1)
    return length, start + count


def read_children(data: bytes, parent: Element) -> list[Element]:
    """Read the elements inside `parent`, which they must fill.

    Raises:
        FormatError: `der.malformed`.
    """
    children, offset = [], parent.start
    while offset < parent.end:
        child = read_element(data, offset, parent.end)
        children.append(child)
        offset = child.end
    return children


def read_whole(data: bytes, *, tag: int) -> Element:
    """Read the only element of `data`.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`, or bytes after the end.
    """
    element = read_element(data, 0, len(data))
    if element.end != len(data):
        raise FormatError("der.malformed", f"{len(data) - element.end} bytes after the end", offset=element.end)
    return expect(element, tag)


def expect(element: Element, tag: int) -> Element:
    """Return `element` if it has this tag.

    Raises:
        FormatError: `der.unexpected-tag`.
    """
    if element.tag != tag:
        raise FormatError(
            "der.unexpected-tag",
            f"tag 0x{element.tag:02x} at byte {element.offset}, expected 0x{tag:02x}",
            offset=element.offset,
        )
    return element


def read_oid(data: bytes, element: Element) -> str:
    """The dotted form of an OBJECT IDENTIFIER.

    Raises:
        FormatError: `der.unexpected-tag`, `der.malformed`.
    """
    if element.tag != OID:
        expect(element, OID)
    return dotted(data[element.start : element.end])


def dotted(content: bytes) -> str:
    """The dotted form of an object identifier's content bytes.

    Raises:
        FormatError: `der.malformed`.
    """
    return _KNOWN.get(content) or _dotted(content)


def _dotted(content: bytes) -> str:
    if not content or content[-1] & 0x80 or len(content) > 64:
        raise FormatError("der.malformed", f"{content[:16].hex()} is not an object identifier")
    arcs, value = [], 0
    for byte in content:
        if value == 0 and byte == 0x80:
            raise FormatError("der.malformed", f"the object identifier {content.hex()} has a padded arc")
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(value)
            value = 0
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, [first, arcs[0] - 40 * first, *arcs[1:]]))


def read_text(data: bytes, element: Element) -> str:
    """The text of any of the ASN.1 string types.

    Raises:
        FormatError: `der.unexpected-tag`, not a string type; `der.malformed`, the bytes do not fit the type.
    """
    codec = STRING_CODECS.get(element.tag)
    if codec is None:
        raise FormatError("der.unexpected-tag", f"no string at byte {element.offset}", offset=element.offset)
    try:
        return data[element.start : element.end].decode(codec)
    except UnicodeDecodeError as e:
        raise FormatError(
            "der.malformed", f"a string at byte {element.offset} is not {codec}", offset=element.offset
        ) from e


def read_integer(data: bytes, element: Element) -> int:
    """The value of an INTEGER of at most 32 bytes.

    Raises:
        FormatError: `der.unexpected-tag`, `der.malformed`.
    """
    expect(element, INTEGER)
    content = data[element.start : element.end]
    if not 1 <= len(content) <= 32:
        raise FormatError(
            "der.malformed", f"an integer at byte {element.offset} has {len(content)} bytes", offset=element.offset
        )
    return int.from_bytes(content, "big", signed=True)


def parse_failure(error: Exception) -> str:
    """What an error of `cryptography` reports about malformed DER, in words: where it is, and what is wrong there."""
    text = (str(error).splitlines() or [""])[0] or type(error).__name__
    found = _PARSE_ERROR.search(text)
    if found is None:
        return text[:120]
    fault = re.sub("(?<=[a-z])(?=[A-Z])", " ", found[1]).lower()
    place = re.sub(r'"(?:\w+::)?(?:tbs_\w+", |raw_)?|"', "", found[2] or "").replace("_", " ")
    counted = " (counted from 0)" if re.search("[0-9]", place) else ""
    return f"{re.sub('s, (?=[0-9])', ' ', place) or 'its outermost part'}: {fault}{counted}"[:160]


def write_element(tag: int, *parts: bytes) -> bytes:
    """An element with `parts` as its content."""
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def write_sequence(*parts: bytes) -> bytes:
    """A SEQUENCE of `parts`."""
    return write_element(SEQUENCE, *parts)


def write_octets(content: bytes) -> bytes:
    """An OCTET STRING."""
    return write_element(OCTET_STRING, content)


def write_oid(dotted: str) -> bytes:
    """An OBJECT IDENTIFIER from its dotted form."""
    first, second, *rest = map(int, dotted.split("."))
    return write_element(OID, *(_base128(arc) for arc in (40 * first + second, *rest)))


def _base128(arc: int) -> bytes:
    out = [arc & 0x7F]
    while arc := arc >> 7:
        out.append(arc & 0x7F | 0x80)
    return bytes(reversed(out))


def write_integer(value: int) -> bytes:
    """An INTEGER."""
    size = (value if value >= 0 else ~value).bit_length() // 8 + 1
    return write_element(INTEGER, value.to_bytes(size, "big", signed=True))


def write_text(text: str, *, tag: int = UTF8_STRING) -> bytes:
    """A string of the given ASN.1 type, UTF8String by default."""
    return write_element(tag, text.encode(STRING_CODECS[tag]))


_KNOWN = {write_oid(oid)[2:]: oid for oid in oids.ALL}  # by their content bytes
