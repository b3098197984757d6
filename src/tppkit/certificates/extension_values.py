"""The position and the encoded values of the extensions of a certificate or request.

Use it for extension contents that `ExtensionFacts` does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType

from tppkit.certificates import der
from tppkit.errors import FormatError

# RFC 2985 section 5.4.2, and Microsoft's own.
EXTENSION_REQUESTS = frozenset({"1.2.840.113549.1.9.14", "1.3.6.1.4.1.311.2.1.14"})


def certificate_extensions(last: der.Element) -> der.Element | None:
    """Return the element that contains the extensions of a certificate (explicit context tag 3, the last part), or None."""
    return last if last.tag == 0xA3 else None


def requested_extensions(data: bytes, last: der.Element) -> der.Element | None:
    """Return the element that contains the extensions requested in a request's attributes (context tag 0), or None.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`.
    """
    for attribute in der.read_children(data, last) if last.tag == 0xA0 else ():
        parts = der.read_children(data, attribute)
        if len(parts) == 2 and der.read_oid(data, parts[0]) in EXTENSION_REQUESTS:
            return parts[1]
    return None


def read_extension_values(data: bytes, holder: der.Element | None) -> Mapping[str, bytes]:
    """Return DER of the value of each extension by its dotted identifier, without malformed ones and later duplicates.

    Args:
        data: the certificate or request.
        holder: the element of `data` whose content is the sequence of extensions; None if there is none.
    """
    found: dict[str, bytes] = {}
    for extension in _extensions(data, holder):
        with suppress(FormatError, ValueError):  # reported by `read_extensions`
            identifier, *_, value = der.read_children(data, extension)
            found.setdefault(der.read_oid(data, identifier), data[value.start : value.end])
    return MappingProxyType(found)


def _extensions(data: bytes, holder: der.Element | None) -> list[der.Element]:
    if holder is None:
        return []
    try:
        return der.read_children(data, der.read_element(data, holder.start, holder.end))
    except FormatError:
        return []
