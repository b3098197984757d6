"""Addresses that browsers are sent to for an approval or a payment, and after it."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from tppkit._networks import is_loopback

MAX_BROWSER_ADDRESS = 2048

# The authority must end after host and port: a user name before "@" could look like a host.
_HTTP = re.compile(r"http://(?:\[([0-9a-f:]+)\]|([0-9a-z.]+))(?::[0-9]{1,5})?(?:[/?#]|$)", re.IGNORECASE)
_HTTPS = re.compile(r"https://[^/?#@\\]+(?:[/?#]|$)", re.IGNORECASE)
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):[^:]", re.IGNORECASE)
# Assumptions redirect-uri and return-addresses. Browsers or systems handle these schemes themselves.
_NO_APPLICATION = """
    about acap afp android-app android-resource app-prefs app-settings blob callto chrome chrome-untrusted cid cifs
    content data dav davs dict dns facetime feed file filesystem ftp ftps geo gopher hcp help http https imap intent ipp
    ipps itms itmss jar javascript ldap ldaps livescript macappstore macappstores mailto maps market message mhtml mid
    mk mms mmsto news nfs nntp package pop prefs rdp res resource rtsp search sftp shell shortcuts sip sips smb sms
    smsto ssh stun tel telnet telprompt tftp turn urn vbscript view-source vnc wais webcal ws wss xmpp
"""
# Windows and its search, iOS and its stores; extensions of browsers; drive letters.
_SYSTEM = re.compile(r"(?:facetime|itms|microsoft|ms|search|x-apple|x-web)-.*|x-apple\..*|.*-extension|[a-z]")

# The same rules as patterns for published schemas, for engines without flags. Everything the service accepts fits, except zones and
# IPvFuture in brackets, empty ports and ports with leading zeros. More fits where a pattern would be too long to read: brackets with
# any digits and colons, and the refused schemes of browsers and systems.
_PORT = "(:(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3}))?"
_REST = f"{_PORT}([/?#][!-~]*)?$"
_IPV6 = r"\[[0-9A-Fa-f:.]{2,45}\]"
_HOST = rf'([!"$-.0-9;->A-Z^-~]+|{_IPV6})'
_LOOPBACK = rf"([Ll][Oo][Cc][Aa][Ll][Hh][Oo][Ss][Tt]|127\.[0-9]{{1,3}}\.[0-9]{{1,3}}\.[0-9]{{1,3}}|{_IPV6})"
_PLAIN = "[Hh][Tt][Tt][Pp]"
_SECURE = f"{_PLAIN}[Ss]"
_OWN_SCHEME = f"(?!{_PLAIN}[Ss]?:)[A-Za-z][A-Za-z0-9+.-]+:[!-9;-~][!-~]*$"

WEB_PATTERN = f"^{_PLAIN}[Ss]?://{_HOST}{_REST}"
HTTPS_PATTERN = f"^{_SECURE}://{_HOST}{_REST}"
BROWSER_PATTERN = f"^({_SECURE}://{_HOST}{_REST}|{_PLAIN}://{_LOOPBACK}{_REST}|{_OWN_SCHEME})"
BROWSER_RULE = (
    "https, http on loopback, or an application's own scheme; not one that browsers or systems handle themselves"
)


def browser_address_fault(text: str) -> str | None:
    """Return why no browser can be sent to this address, or None: at most 2048 characters of printable ASCII without a space.

    Accepts https, http on loopback, and schemes of applications such as `com.example.app:/done`.
    """
    if len(text) > MAX_BROWSER_ADDRESS:
        return f"longer than {MAX_BROWSER_ADDRESS} characters"
    usable = _HTTPS.match(text) or _is_loopback_http(text) or _is_of_application(text)
    is_plain = text.isascii() and text.isprintable() and " " not in text
    if usable and is_plain and _has_authority_form(text):
        return None
    return "not an https address, an application's own scheme, or http on loopback"


def is_web_address(text: str) -> bool:
    """Whether it is an absolute http or https address without user information."""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.username is None and parts.port != 0
    except ValueError:
        return False
    return bool(usable) and text.isprintable() and " " not in text


def _is_of_application(text: str) -> bool:
    match = _SCHEME.match(text)
    scheme = match[1].lower() if match else ""
    return bool(scheme) and scheme not in _NO_APPLICATION.split() and not _SYSTEM.fullmatch(scheme)


def _has_authority_form(text: str) -> bool:
    """Whether the address has no invalid brackets and no invalid port, so that URL parsers can read it."""
    try:
        return urlsplit(text).port != 0  # reading it also checks it
    except ValueError:
        return False


def _is_loopback_http(text: str) -> bool:
    """Whether the address is on the customer's own machine, where a development server has no certificate."""
    match = _HTTP.match(text)
    return match is not None and is_loopback(match[1] or match[2])
