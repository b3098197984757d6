"""Currencies and the decimals of their amounts.

Source: ISO 4217 as of 2026, compared with the Python package iso4217; without XTS (tests) and XXX (no currency).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# Decimals of the minor unit, and the currencies that have them. fmt: off
_DECIMALS = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    2: """
        AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF
        CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL
        HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU
        MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK
        SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XAD XCD
        XCG YER ZAR ZMW ZWG
    """,
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
# fmt: on
_WITHOUT = frozenset(
    ["XAG", "XAU", "XBA", "XBB", "XBC", "XBD", "XDR", "XPD", "XPT", "XSU", "XUA"]
)  # metals and units of account
FORMER = frozenset(["ANG", "BGN", "EEK", "HRK", "LTL", "LVL"])  # limits of older certificates are in these

# The decimals of amounts: 2 for EUR, 0 for JPY, 3 for BHD; without metals and units of account.
MINOR_UNITS: Mapping[str, int] = MappingProxyType(
    {code: decimals for decimals, codes in _DECIMALS.items() for code in codes.split()}
)


def is_currency(code: str) -> bool:
    """Whether ISO 4217 has this code."""
    return code in MINOR_UNITS or code in _WITHOUT
