"""Reader of general names, as in subject alternative names and name constraints.

    GeneralName ::= CHOICE { otherName [0], rfc822Name [1], dNSName [2], x400Address [3], directoryName [4], ediPartyName [5],
                             uniformResourceIdentifier [6], iPAddress [7], registeredID [8] }

Source: RFC 5280 sections 4.2.1.6 and 4.2.1.10.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from tppkit.certificates import der
from tppkit.certificates.names import DistinguishedName, read_name
from tppkit.errors import FormatError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

OTHER_NAME, EMAIL, DNS_NAME, DIRECTORY_NAME, URI, IP_ADDRESS, REGISTERED_ID = (
    "otherName", "rfc822Name", "dNSName", "directoryName", "uniformResourceIdentifier", "iPAddress", "registeredID",
)  # fmt: skip
_FORMS: Mapping[int, str] = MappingProxyType(
    {
        0xA0: OTHER_NAME, 0x81: EMAIL, 0x82: DNS_NAME, 0xA3: "x400Address", 0xA4: DIRECTORY_NAME, 0xA5: "ediPartyName",
        0x86: URI, 0x87: IP_ADDRESS, 0x88: REGISTERED_ID,
    }
)  # fmt: skip
_TEXTS = frozenset({EMAIL, DNS_NAME, URI})
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DNS_SYNTAX = re.compile(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)*(?![0-9]+\Z){_LABEL}")


class GeneralName(NamedTuple):
    """One name: its form as in RFC 5280, and its value.

    The value is text, a name, an address, a network (in a constraint), or the bytes of a form that is not parsed.
    """

    form: str
    value: str | bytes | DistinguishedName | Address | Network


def is_dns_name(text: str) -> bool:
    """Whether a text has the syntax of a DNS host name, whose last label is not all digits.

    Source: RFC 5280 section 4.2.1.6; RFC 1034 section 3.5; RFC 1123 section 2.1.
    """
    return _DNS_SYNTAX.fullmatch(text) is not None


def read_general_names(data: bytes) -> tuple[GeneralName, ...]:
    """Read the names of a subject alternative name.

    Args:
        data: DER of the extension's value.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`.
    """
    return tuple(
        read_general_name(data, name) for name in der.read_children(data, der.read_whole(data, tag=der.SEQUENCE))
    )


def read_general_name(data: bytes, name: der.Element, *, is_base: bool = False) -> GeneralName:
    """Read one name.

    Args:
        data: the bytes that contain it.
        name: its element in `data`.
        is_base: the name is the base of a name constraint, where an iPAddress is a network.

    Raises:
        FormatError: `der.malformed`, `der.unexpected-tag`.
    """
    form, content = _FORMS.get(name.tag), data[name.start : name.end]
    if form is None:
        message = f"tag 0x{name.tag:02x} at byte {name.offset} is not a form of GeneralName"
        raise FormatError("der.unexpected-tag", message, offset=name.offset)
    if form in (OTHER_NAME, REGISTERED_ID):
        _require_identified(data, name)
    if form == DIRECTORY_NAME:
        (inner, *others) = der.read_children(data, name) or (None,)
        if inner is None or others:
            raise FormatError(
                "der.malformed", f"the directoryName at byte {name.offset} is not one name", offset=name.offset
            )
        return GeneralName(form, read_name(data, inner))
    try:
        if form in _TEXTS:
            return GeneralName(form, content.decode("ascii"))
        if form == IP_ADDRESS:
            return GeneralName(form, _read_network(content) if is_base else ipaddress.ip_address(content))
    except ValueError as e:
        raise FormatError("der.malformed", f"the {form} at byte {name.offset} is malformed", offset=name.offset) from e
    return GeneralName(form, content)


def _require_identified(data: bytes, name: der.Element) -> None:
    """Reject a registeredID that is no object identifier, or an otherName that is not one with a value ([0] explicit)."""
    if name.tag == 0x88:
        der.read_oid(data, name._replace(tag=der.OID))
        return
    kind, *values = der.read_children(data, name) or [name]
    der.read_oid(data, kind)
    if len(values) != 1 or values[0].tag != 0xA0 or len(der.read_children(data, values[0])) != 1:
        raise FormatError("der.malformed", f"the otherName at byte {name.offset} has no value", offset=name.offset)


def _read_network(content: bytes) -> Network:
    """Read the network of an address and a mask (RFC 5280 section 4.2.1.10).

    Raises:
        ValueError: not a network.
    """
    half = len(content) // 2
    address, mask = ipaddress.ip_address(content[:half]), ipaddress.ip_address(content[half:])
    bits = f"{int(mask):0{address.max_prefixlen}b}"
    if mask.version != address.version or "01" in bits:
        raise ValueError
    return ipaddress.ip_network(f"{address}/{bits.count('1')}")
