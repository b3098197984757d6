"""Reader of untrusted XML: no document type, no entities, no network, and limits on size, depth and breadth.

The parser drops comments. Canonical XML drops them too, so otherwise a comment inside a signed text could cut it short without
breaking the signature.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from tppkit._extras import needs_extra
from tppkit.errors import FormatError

Element: TypeAlias = Any  # lxml has no types of its own

MAX_XML_BYTES = 16 * 1024 * 1024  # the largest lists have 5 MB
MAX_MARKS = 400_000  # less-than signs: two an element
MAX_ATTRIBUTES = 400_000  # equals signs, which base64 has as well
MAX_ATTRIBUTES_OF_ELEMENT = 32
MAX_NAMESPACES_IN_SCOPE = 64
_ELEMENTS_OF_PIECE = 500

# A byte order mark of UTF-16 or UTF-32, or one of UTF-8 and white space before the declaration.
_DECLARATION = re.compile(rb"(?:\xef\xbb\xbf)?\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})[\"']")


def load_etree() -> Any:
    """The module `lxml.etree`.

    Raises:
        ConfigurationError: `extra.missing`.
    """
    with needs_extra("lists"):
        from lxml import etree
    return etree


Pace = Callable[[], object]  # called between pieces of work, to rest


def no_rest() -> None:
    """Work without rests."""


def parse_xml(data: bytes, *, what: str, pace: Pace = no_rest) -> Element:
    """The root element of an XML document in UTF-8.

    Args:
        data: the document.
        what: the name of the document in errors.
        pace: called between pieces of work.

    Raises:
        FormatError: `trusted-list.malformed`, `trusted-list.too-large`.
        ConfigurationError: `extra.missing`.
    """
    etree = load_etree()
    _check_bytes(data, what)
    parser = etree.XMLParser(
        encoding="utf-8", resolve_entities=False, load_dtd=False, dtd_validation=False, no_network=True, huge_tree=False,
        remove_comments=True, remove_blank_text=False, strip_cdata=True, recover=False, collect_ids=False,
    )  # fmt: skip
    try:
        root = etree.fromstring(data, parser)
    except (etree.LxmlError, ValueError) as e:
        raise _malformed(what, str(e).partition("\n")[0][:120]) from e
    pace()
    _check_breadth(root, what, namespaces=data.count(b"xmlns"), pace=pace)
    return root


def _malformed(what: str, why: str) -> FormatError:
    return FormatError("trusted-list.malformed", f"{what} cannot be read as XML: {why}")


def _check_bytes(data: bytes, what: str) -> None:
    if len(data) > MAX_XML_BYTES:
        raise FormatError("trusted-list.too-large", f"{what} has more than {MAX_XML_BYTES} bytes")
    declared = _DECLARATION.match(data)
    if b"\0" in data or (declared and declared.group(1).upper() not in (b"UTF-8", b"UTF8")):
        raise _malformed(what, "it is not in UTF-8")
    # The keyword has one spelling, and one form of bytes in UTF-8, so no document type reaches the parser.
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise _malformed(what, "it has a document type declaration, which could hide entities")
    # The tree takes many times the bytes of the document, so elements and attributes are counted first.
    for mark, limit, kind in ((b"<", MAX_MARKS, "elements"), (b"=", MAX_ATTRIBUTES, "attributes")):
        if data.count(mark) > limit:
            raise FormatError(
                "trusted-list.too-large", f"{what} has too many {kind}: more than {limit} {mark.decode()!r}"
            )


def _check_breadth(root: Element, what: str, *, namespaces: int, pace: Pace) -> None:
    # Canonicalization sorts the attributes of an element, and searches its namespaces, in quadratic time.
    count_namespaces = namespaces > MAX_NAMESPACES_IN_SCOPE
    for number, element in enumerate(root.iter()):
        if number % _ELEMENTS_OF_PIECE == 0:
            pace()
        if not isinstance(element.tag, str):
            raise _malformed(what, "it has a processing instruction, which could cut a text short")
        if len(element.attrib) > MAX_ATTRIBUTES_OF_ELEMENT:
            raise FormatError(
                "trusted-list.too-large", f"an element of {what} has more than {MAX_ATTRIBUTES_OF_ELEMENT} attributes"
            )
        if count_namespaces and len(element.nsmap) > MAX_NAMESPACES_IN_SCOPE:
            raise FormatError(
                "trusted-list.too-large", f"{what} has more than {MAX_NAMESPACES_IN_SCOPE} namespaces in one scope"
            )
