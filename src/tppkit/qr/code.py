"""Parser of a text that may be any of the codes."""

from __future__ import annotations

from typing import TypeAlias

from tppkit._encoding import shown
from tppkit.errors import FormatError
from tppkit.qr.characters import check_text
from tppkit.qr.login import LOGIN_PREFIX, Login, parse_login
from tppkit.qr.payment import PAYMENT_PREFIX, Payment, parse_payment
from tppkit.qr.scan import ScanLink, is_address, parse_scan_link

#: What the text of a QR code can be.
Code: TypeAlias = Login | Payment | ScanLink
_EPC = ("BCD\n", "BCD\r\n")  # EPC069-12, Quick Response Code: Guidelines to Enable Data Capture


def is_code(text: str) -> bool:
    """Whether a text begins as a code, so that it is no name of a file."""
    return text.startswith((LOGIN_PREFIX, PAYMENT_PREFIX, *_EPC)) or is_address(text)


def parse_code(text: str) -> Code:
    """Read a login code, a payment code or a scan link.

        match parse_code(text):
            case Payment(amount=amount, currency=currency): ...
            case Login(url=url): ...

    Raises:
        FormatError: `qr.unknown`, and those of the three parsers.
    """
    if text.startswith(_EPC):
        raise FormatError("qr.unknown", "the code is an EPC code for a SEPA credit transfer, which banking apps read")
    check_text(text, what="the code")
    if text.startswith(LOGIN_PREFIX):
        return parse_login(text)
    if text.startswith(PAYMENT_PREFIX):
        return parse_payment(text)
    if is_address(text):
        return parse_scan_link(text)
    raise FormatError(
        "qr.unknown", f"{shown(text, limit=12)} is not the beginning of a login code, payment code or scan link"
    )
