"""Headers that payments and consents share."""

from __future__ import annotations

from typing import Any

from tppkit.protocol.psd2.rules import parse_psu_ip_address, parse_redirect_uri
from tppkit.sandbox.cell import HostCall


def psu_ip_address(call: HostCall[Any]) -> str | None:
    """The customer's address; without it the customer is absent.

    Raises:
        FormatError: `header.psu-ip-address`, `header.duplicate`.
    """
    address = call.header("psu-ip-address")
    return None if address is None else parse_psu_ip_address(address)


def redirect_uri(call: HostCall[Any]) -> str | None:
    """Where the customer's browser returns. The seal does not cover it (assumption uncovered-headers).

    Raises:
        FormatError: `header.redirect-uri`, `header.duplicate`.
    """
    address = call.header("tpp-redirect-uri")
    return None if address is None else parse_redirect_uri(address)
