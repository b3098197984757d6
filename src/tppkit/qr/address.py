"""https addresses that two programs read alike (assumption qr-address).

Errors name the host at most: paths hold what nobody else should know, such as the session that a login code is for.
"""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from tppkit._encoding import shown
from tppkit.errors import FormatError
from tppkit.qr.characters import check_characters

SCHEME = "https://"
_PARTS = re.compile(r"https://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?P<fragment>#.*)?", re.DOTALL)
_PATH = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)*")
_QUERY = re.compile(r"\?(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*")
_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::(?P<port>[1-9][0-9]{0,4}))?")
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")


class Address(NamedTuple):
    """Where an address leads.

    Attributes:
        host: name or IP address in lower case, international names in their ASCII form; IPv6 in brackets.
        port: 443 where the address names none.
    """

    host: str
    port: int


def parse_address(url: str, *, what: str) -> Address:
    """Read an absolute https address in ASCII, with path and query, and nothing in it that programs disagree about.

    Args:
        url: the address.
        what: the thing it stands for, named in the error.

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
    address = _parse_authority(parts["authority"], what)
    _check_path(parts["path"], parts["query"] or "?", what)
    return address


def _parse_authority(authority: str, what: str) -> Address:
    found = _AUTHORITY.fullmatch(authority)
    if found is None or not _is_host(found["host"]) or int(found["port"] or 443) > 65535:
        raise FormatError("qr.address-host", f"{what} has no host and port of the usual form: {shown(authority)}")
    return Address(found["host"].lower(), int(found["port"] or 443))


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


def _check_path(path: str, query: str, what: str) -> None:
    if not _PATH.fullmatch(path) or not _QUERY.fullmatch(query):
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
    except UnicodeDecodeError:
        raise FormatError("qr.address-malformed", f"{what} is percent-encoded, but not in UTF-8") from None
    check_characters(decoded, what=what)
    return decoded
