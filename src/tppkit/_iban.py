"""Account numbers: International Bank Account Numbers with their check digits, and phone numbers."""

from __future__ import annotations

import re
from string import ascii_uppercase

# Check digits are 02 to 98 (ISO 7064 MOD 97-10): with 00, 01 or 99 one account would have two texts.
_IBAN = re.compile(r"[A-Z]{2}(?!0[01]|99)[0-9]{2}[A-Z0-9]{11,30}")
# The forms of both for published schemas; that of an IBAN is without its length and check digits.
IBAN_PATTERN = "^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$"
PHONE_PATTERN = r"^\+?[0-9]{7,15}$"
# Lengths by country, of the IBAN registry of SWIFT (ISO 13616), as of 2026; compared with the Python package schwifty.
_COUNTRIES = {
    15: "NO", 16: "BE", 18: "DK FI FK FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK", 21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG", 25: "LY PT ST",
    26: "IS TR", 27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HN HU LB NI PL SV", 29: "BR EG PS QA UA",
    30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
}  # fmt: skip
_LENGTHS = {country: length for length, countries in _COUNTRIES.items() for country in countries.split()}
_NUMBERS = str.maketrans({letter: str(int(letter, 36)) for letter in ascii_uppercase})
_PHONE = re.compile(r"\+?[0-9]{7,15}")  # E.164 has at most 15 digits


def is_iban(text: str) -> bool:
    """Whether `text` is an IBAN in electronic form, of its country's length, with correct check digits (ISO 13616, ISO 7064)."""
    if not _IBAN.fullmatch(text) or len(text) != _LENGTHS.get(text[:2]):
        return False
    return int((text[4:] + text[:4]).translate(_NUMBERS)) % 97 == 1


def is_phone(text: str) -> bool:
    """Whether `text` is a phone number: 7 to 15 digits, with or without a plus sign before them."""
    return bool(_PHONE.fullmatch(text))
