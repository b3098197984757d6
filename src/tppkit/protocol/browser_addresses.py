"""Addresses that browsers are sent to after an approval or a payment."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

MAX_BROWSER_ADDRESS = 2048

# The authority must end after host and port: a user name before "@" could look like a host.
_HTTP = re.compile(r"http://(?:\[([0-9a-f:]+)\]|([0-9a-z.]+))(?::[0-9]{1,5})?(?:[/?#]|$)", re.IGNORECASE)
_HTTPS = re.compile(r"https://[^/?#@\\]+(?:[/?#]|$)", re.IGNORECASE)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):[^:]", re.IGNORECASE)
# Assumptions redirect-uri and return-addresses. Browsers handle these schemes themselves, or they do not open an application of the caller.
_NO_APPLICATION = frozenset(
    {
        "about", "android-app", "blob", "chrome", "chrome-untrusted", "data", "feed", "file", "filesystem", "ftp", "hcp", "http", "https",
        "intent", "jar", "javascript", "ldap", "livescript", "mailto", "mhtml", "res", "resource", "search", "shell", "smb", "sms", "ssh",
        "tel", "telnet", "vbscript", "view-source", "ws", "wss",
    }
)  # fmt: skip
# Windows and its search; extensions of browsers; drive letters.
_SYSTEM = re.compile(r"(?:ms|search)-.*|.*-extension|[a-z]")


def is_browser_address(text: str) -> bool:
    """Whether a browser can be sent to this address: at most 2048 characters of printable ASCII without a space.

    Accepts https, http on loopback, and schemes of applications such as `com.example.app:/done`.
    """
    usable = _HTTPS.match(text) or _is_loopback_http(text) or _is_of_application(text)
    is_plain = text.isascii() and text.isprintable() and " " not in text
    return bool(usable) and is_plain and len(text) <= MAX_BROWSER_ADDRESS and _has_authority_form(text)


def _is_of_application(text: str) -> bool:
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    return bool(scheme) and scheme not in _NO_APPLICATION and not _SYSTEM.fullmatch(scheme)


def _has_authority_form(text: str) -> bool:
    """Whether the address has no invalid brackets and no invalid port, so that URL parsers can read it."""
    try:
        return urlsplit(text).port != 0  # reading it also checks it
    except ValueError:
        return False


def _is_loopback_http(text: str) -> bool:
    """Whether the address is on the customer's own machine, where a development server has no certificate."""
    match = _HTTP.match(text)
    host = (match[1] or match[2]).lower() if match else ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
