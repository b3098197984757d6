"""Headers that payments and consents share."""

from __future__ import annotations

from typing import Any

from tppkit.protocol.psd2.rules import parse_psu_ip_address, parse_redirect_uri
from tppkit.sandbox.cell import HostCall


def is_attended(call: HostCall[Any]) -> bool:
    """Whether the request names the customer's address, so that the customer is present.

    Raises:
        FormatError: `header.psu-ip-address`, `header.duplicate`.
    """
    address = call.header("psu-ip-address")
    return address is not None and bool(parse_psu_ip_address(address))


def redirect_uri(call: HostCall[Any]) -> str | None:
    """Where the customer's browser returns. The seal does not cover it (assumption uncovered-headers).

    Raises:
        FormatError: `header.redirect-uri`, `header.duplicate`.
    """
    address = call.header("tpp-redirect-uri")
    return None if address is None else parse_redirect_uri(address)
