"""Rules of the PSD2 interface that both sides hold. Source: PSD2 document, part A."""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import Decimal
from ipaddress import ip_address

from tppkit._encoding import shown
from tppkit.errors import FormatError, LocalProtocolError
from tppkit.protocol.psd2.models import PaymentInitiation, PaymentProduct

MAX_REDIRECT_URI = 2048

# The authority must end behind the host and port: a user name before "@" could look like a host.
_HTTP = re.compile(r"http://(?:\[([0-9a-f:]+)\]|([0-9a-z.]+))(?::[0-9]{1,5})?(?:[/?#]|$)", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")


def parse_request_id(text: str | None) -> str:
    """The X-Request-ID, when it is a UUID (assumption request-id-form).

    Raises:
        FormatError: `request-id.missing`, `request-id.malformed`.

    Source: section 2, X-Request-ID is required on every request.
    """
    if text is None:
        raise FormatError("request-id.missing", "the X-Request-ID header is absent")
    if not _UUID.fullmatch(text):
        raise FormatError("request-id.malformed", f"the X-Request-ID {shown(text)} is not a UUID")
    return text


def parse_redirect_uri(text: str) -> str:
    """The TPP-Redirect-URI, when a browser can be sent there: https, or http on loopback; printable ASCII, at most 2048 characters.

    Raises:
        FormatError: `header.redirect-uri`.
    """
    usable = text.startswith("https://") or _is_loopback_http(text)
    if len(text) > MAX_REDIRECT_URI or not usable or not (text.isascii() and text.isprintable()):
        raise FormatError(
            "header.redirect-uri",
            "the TPP-Redirect-URI is not an https address (or http on loopback) of at most 2048 characters",
        )
    return text


def _is_loopback_http(text: str) -> bool:
    """Whether the address is on the payer's own machine, where a development server has no certificate."""
    match = _HTTP.match(text)
    host = (match[1] or match[2]).lower() if match else ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def require_product(
    payment: PaymentInitiation, product: PaymentProduct, *, cap: Decimal, unreachable: Collection[str]
) -> None:
    """Check that the instant product can carry this payment (assumption instant-cap).

    Args:
        payment: the payment.
        product: the product asked for.
        cap: highest instant amount in EUR.
        unreachable: two-letter IBAN countries without instant payments.

    Raises:
        LocalProtocolError: `product.invalid`.

    Source: section 4, product rules.
    """
    if product is not PaymentProduct.INSTANT:
        return
    if Decimal(payment.instructed_amount.amount) > cap:
        raise LocalProtocolError("product.invalid", f"the amount is above the instant cap of {cap} EUR")
    if payment.creditor_account.iban[:2] in unreachable:
        raise LocalProtocolError("product.invalid", "the beneficiary's bank cannot be reached for instant payments")
