"""Scan links: links to the service that contain a code's text. Desktops show them as QR codes, phones as links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from tppkit._addresses import SCHEME, decode_percent, parse_address
from tppkit._encoding import shown
from tppkit.errors import FormatError
from tppkit.qr.characters import check_text
from tppkit.qr.login import LOGIN_PREFIX, Login, parse_login
from tppkit.qr.payment import PAYMENT_PREFIX, Payment, parse_payment

_PATH = "/scan"
# Without & and =, which separate parameters, and without +, which some programs read as a space (assumption scan-encoding).
_CONTENT = re.compile(r"(?:[A-Za-z0-9._~!$'()*,;:@/?-]|%[0-9A-Fa-f]{2})+")


@dataclass(frozen=True, slots=True)
class ScanLink:
    """A scan link.

    Attributes:
        service: the service's base address, https, without a final slash; compare it with the one you know.
        content: the code's text. A payment or login code must be valid; other formats, which the document does not show, are not
            checked (assumption scan-content).

    Raises:
        FormatError: `qr.scan-form`, `qr.address-*`, `qr.character`, `qr.too-long`, and those of the parsers of payment and login
            codes.

    Example:
        link = ScanLink("https://legacy.example", "LOGIN:shop.example/login/7c1f")
        link.text  # "https://legacy.example/scan?LOGIN%3Ashop.example%2Flogin%2F7c1f"

    Source: legacy interface, part B section 4, fallback.
    """

    service: str
    content: str

    def __post_init__(self) -> None:
        parse_address(self.service, what="the service's address")
        if "?" in self.service or self.service.endswith("/"):
            raise FormatError(
                "qr.scan-form", f"the service's address ends with a slash or query: {shown(self.service)}"
            )
        if not self.content:
            raise FormatError("qr.scan-form", "the scan link has no code")
        check_text(self.content, what="the code in the scan link")
        check_text(self.text, what="the scan link")
        _parse_known(self.content)

    @property
    def text(self) -> str:
        """`<service>/scan?<content>`, the content percent-encoded in UTF-8."""
        return f"{self.service}{_PATH}?{quote(self.content, safe='')}"

    @property
    def code(self) -> Login | Payment | None:
        """The code in the link, None if it is of another format."""
        return _parse_known(self.content)


def is_address(text: str) -> bool:
    """Whether a text begins with https://, in any case (RFC 3986 section 3.1): capitals need less room in a code."""
    return text[: len(SCHEME)].lower() == SCHEME


def parse_scan_link(text: str) -> ScanLink:
    """Read a scan link.

    Raises:
        FormatError: `qr.scan-form`, `qr.address-*`, `qr.character`, `qr.too-long`, and what the readers of payment and
            login codes raise.
    """
    check_text(text, what="the scan link")
    if is_address(text):
        text = SCHEME + text[len(SCHEME) :]
    parse_address(text, what="the scan link")
    address, _, content = text.partition("?")
    if not address.endswith(_PATH) or not _CONTENT.fullmatch(content):
        raise FormatError("qr.scan-form", f"the text is not of the form <service>{_PATH}?<percent-encoded code>")
    return ScanLink(address.removesuffix(_PATH), decode_percent(content, what="the code in the scan link"))


def _parse_known(content: str) -> Login | Payment | None:
    if content.startswith(PAYMENT_PREFIX):
        return parse_payment(content)
    return parse_login(content) if content.startswith(LOGIN_PREFIX) else None
