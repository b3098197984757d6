"""https addresses that all programs read alike (assumption qr-address), and public IP addresses.

The addresses are those of codes and of a receiver's configuration. Errors show at most the host, because paths contain secrets such as
the session of a login code.
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
# The longest address in a login code (assumption qr-length), where LOGIN: replaces https://.
MAX_ADDRESS = 2330 - len("LOGIN:") + len(SCHEME)
_PARTS = re.compile(r"https://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?P<fragment>#.*)?", re.DOTALL)
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_PATH = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)*")
_QUERY = re.compile(r"\?(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*")
_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[1-9][0-9]{0,4}))?")
# Container names may have underscores.
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
# In a signed address, `{` is where a body begins, and a `%` after decoding makes one address the encoded form of another. Clients
# differ in whether they encode the rest.
_NEVER_DECODED = frozenset('%{}#\\ "<>')
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
# The prefix that a NAT64 gateway translates to IPv4 (RFC 6052 section 2.1), and the range that IANA assigns to public hosts. Addresses
# of local translation (RFC 8215), IPv4-compatible, IPv4-translated and site-local addresses are outside that range.
_TRANSLATED = IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_PROTOCOLS = IPv4Network("192.0.0.0/24")  # RFC 6890: no hosts, but is_global is true for some


class Address(NamedTuple):
    """The parts of an https address.

    Attributes:
        host: name or IP address in lower case, international names in ASCII form, IPv6 in brackets.
        port: 443 if the address names no port.
        origin: scheme, host and port as written.
        path: path and query as written.
    """

    host: str
    port: int
    origin: str
    path: str


def parse_address(url: str, *, what: str, beyond_ascii: bool = False) -> Address:
    """Parse an absolute https address with path and query. Every form that programs read differently is refused.

    Args:
        url: the address, in ASCII.
        what: the name of the address in error messages.
        beyond_ascii: allow characters outside ASCII in path and query.

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
    """Parse an address that the service signs as text: no client changes it, and its bytes have only one meaning.

    Args:
        url: the address, in ASCII.
        what: the name of the address in error messages.
        beyond_ascii: allow characters outside ASCII in path and query.

    Raises:
        FormatError: the codes of `parse_address`; also if the host has upper-case letters, the path is absent, or decoding the path
            yields a character such as `%` or a brace.

    Source: PSD2 document, part B section 5.
    """
    address = parse_address(url, what=what, beyond_ascii=beyond_ascii)
    if address.origin != address.origin.lower():
        raise FormatError("qr.address-host", f"{what} has upper-case letters in its host, which clients change")
    if not address.path.startswith("/"):
        raise FormatError("qr.address-malformed", f"{what} has no path after its host (a single / is enough)")
    if not _NEVER_DECODED.isdisjoint(unquote_to_bytes(address.path).decode()):
        never = " ".join(sorted(_NEVER_DECODED - {" "}))
        raise FormatError("qr.address-malformed", f"{what}, decoded, contains a space or one of {never}")
    return address


def is_public(address: str) -> bool:
    """Whether an IP address belongs to a public host. An IPv6 address that is translated to IPv4 is judged by its IPv4 address."""
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
        if _NUMBER.fullmatch(labels[-1]):  # only some programs read 127.1, 2130706433 and 0x7f000001 as 127.0.0.1
            IPv4Address(host)
            return True
    except AddressValueError:
        return False
    return len(host) <= 253 and all(_LABEL.fullmatch(label) for label in labels)


def _check_path(path: str, query: str, what: str, beyond_ascii: bool) -> None:
    # Invisible characters are refused after decoding. The letter z, not a hexadecimal digit, replaces all others outside ASCII.
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
            "qr.character", f"{what} contains U+{ord(hidden):04X}, which is invisible or changes what is visible"
        )
    return decoded
