"""https addresses that two programs read alike (assumption qr-address): of codes, and of the receiver's own configuration.

And which IP addresses are on the public network.

Errors name the host at most: paths hold what nobody else should know, such as the session that a login code is for.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from tppkit._encoding import shown
from tppkit._text import hidden_character
from tppkit.errors import FormatError

SCHEME = "https://"
# The longest address in a login code (assumption qr-length): LOGIN: stands in the place of https:// there.
MAX_ADDRESS = 2330 - len("LOGIN:") + len(SCHEME)
_PARTS = re.compile(r"https://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?P<fragment>#.*)?", re.DOTALL)
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_PATH = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)*")
_QUERY = re.compile(r"\?(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*")
_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::(?P<port>[1-9][0-9]{0,4}))?")
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
# In a signed address `{` would be where a body begins, and `%` behind one decoding would make its decoded form another's encoded
# form; the rest some clients encode and some do not.
_NEVER_DECODED = frozenset('%{}#\\ "<>')
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
# What a NAT64 gateway translates to IPv4 (RFC 6052 section 2.1), and all that IANA gives to hosts of the public network. Outside
# of it lie local translation (RFC 8215), IPv4-compatible, IPv4-translated and site-local addresses.
_TRANSLATED = IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_PROTOCOLS = IPv4Network("192.0.0.0/24")  # of RFC 6890: no hosts, but is_global has some of it


class Address(NamedTuple):
    """Where an address leads.

    Attributes:
        host: name or IP address in lower case, international names in their ASCII form; IPv6 in brackets.
        port: 443 where the address names none.
        origin: scheme, host and port as they were written.
        path: path and query as they were written.
    """

    host: str
    port: int
    origin: str
    path: str


def parse_address(url: str, *, what: str, beyond_ascii: bool = False) -> Address:
    """Read an absolute https address with path and query, and nothing in it that programs disagree about.

    Args:
        url: the address, in ASCII.
        what: the thing it stands for, named in the error.
        beyond_ascii: path and query may have characters beyond ASCII as they are.

    Raises:
        FormatError: `qr.address-scheme`, `qr.address-userinfo`, `qr.address-fragment`, `qr.address-host`,
            `qr.address-malformed`, `qr.character` (also percent-encoded).

    Source: RFC 3986.
    """
    parts = _PARTS.fullmatch(url)
    if parts is None:
        raise FormatError("qr.address-scheme", f"{what} begins with {shown(url, limit=12)}, not with {SCHEME}")
    if "@" in parts["authority"]:
        host = parts["authority"].rpartition("@")[2]
        raise FormatError("qr.address-userinfo", f"{what} has a user name before its host {shown(host)}")
    if parts["fragment"] is not None:
        raise FormatError("qr.address-fragment", f"{what} has a fragment, which is never sent")
    found = _AUTHORITY.fullmatch(parts["authority"])
    if found is None or not _is_host(found["host"]) or int(found["port"] or 443) > 65535:
        raise FormatError(
            "qr.address-host", f"{what} has no host and port of the usual form: {shown(parts['authority'])}"
        )
    path, query = parts["path"], parts["query"] or ""
    _check_path(path, query, what, beyond_ascii)
    return Address(found["host"].lower(), int(found["port"] or 443), SCHEME + parts["authority"], path + query)


def parse_signed_address(url: str, *, what: str, beyond_ascii: bool = False) -> Address:
    """Read an address that the service signs as a text: no client changes it on the way, and its bytes have one reading.

    Args:
        url: the address, in ASCII.
        what: the thing it stands for, named in the error.
        beyond_ascii: see `parse_address`.

    Raises:
        FormatError: as by `parse_address`; also for a host with upper-case letters, without a path, and for what percent-decoding
            must not yield.

    Source: PSD2 document, part B section 5.
    """
    address = parse_address(url, what=what, beyond_ascii=beyond_ascii)
    if address.origin != address.origin.lower():
        raise FormatError("qr.address-host", f"{what} has upper-case letters in its host, which clients change")
    if not address.path.startswith("/"):
        raise FormatError("qr.address-malformed", f"{what} has no path behind its host (a single / is one)")
    if not _NEVER_DECODED.isdisjoint(unquote_to_bytes(address.path).decode()):
        never = " ".join(sorted(_NEVER_DECODED - {" "}))
        raise FormatError("qr.address-malformed", f"{what}, decoded, holds a space or one of {never}")
    return address


def is_public(address: str) -> bool:
    """Whether an IP address is of a host on the public network, also behind what an IPv6 address is translated to."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        found = (
            IPv4Address(found.packed[-4:]) if found in _TRANSLATED else found.ipv4_mapped or found.sixtofour or found
        )
    if isinstance(found, IPv6Address) and found not in _GLOBAL_UNICAST:
        return False
    return found.is_global and not found.is_multicast and found not in _PROTOCOLS


def _is_host(host: str) -> bool:
    try:
        if host.startswith("["):
            IPv6Address(host[1:-1])
            return True
        labels = host.split(".")
        if _NUMBER.fullmatch(labels[-1]):  # 127.1, 2130706433 and 0x7f000001 are 127.0.0.1 for some programs only
            IPv4Address(host)
            return True
    except AddressValueError:
        return False
    return len(host) <= 253 and all(_LABEL.fullmatch(label) for label in labels)


def _check_path(path: str, query: str, what: str, beyond_ascii: bool) -> None:
    # What cannot be seen is refused decoded; a letter that is no hexadecimal digit stands for all else beyond ASCII.
    rest = [_BEYOND_ASCII.sub("z", part) if beyond_ascii else part for part in (path, query or "?")]
    if not _PATH.fullmatch(rest[0]) or not _QUERY.fullmatch(rest[1]):
        raise FormatError("qr.address-malformed", f"{what} has characters that must be percent-encoded in UTF-8")
    decoded = decode_percent(path, what=what)
    decode_percent(query, what=what)
    if {".", ".."} & set(decoded.split("/")):
        raise FormatError("qr.address-malformed", f"{what} has a dot segment, which clients resolve")


def decode_percent(text: str, *, what: str) -> str:
    """Decode percent-encoded UTF-8 once.

    Raises:
        FormatError: `qr.address-malformed`, `qr.character`.
    """
    try:
        decoded = unquote_to_bytes(text).decode("utf-8")
    except UnicodeError:
        raise FormatError("qr.address-malformed", f"{what} is percent-encoded, but not in UTF-8") from None
    hidden = hidden_character(decoded)
    if hidden is not None:
        raise FormatError(
            "qr.character", f"{what} holds U+{ord(hidden):04X}, which cannot be seen or changes what is seen"
        )
    return decoded
