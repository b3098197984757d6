"""Account numbers: International Bank Account Numbers with their check digits, and phone numbers."""

from __future__ import annotations

import re
from string import ascii_uppercase

# Check digits are 02 to 98 (ISO 7064 MOD 97-10): with 00, 01 or 99 one account would have two texts.
_IBAN = re.compile(r"[A-Z]{2}(?!0[01]|99)[0-9]{2}[A-Z0-9]{11,30}")
_NUMBERS = str.maketrans({letter: str(int(letter, 36)) for letter in ascii_uppercase})
_PHONE = re.compile(r"\+?[0-9]{7,15}")  # E.164 has at most 15 digits


def is_iban(text: str) -> bool:
    """Whether `text` is an IBAN in electronic form with correct check digits (ISO 13616, ISO 7064 MOD 97-10).

    Countries and their IBAN lengths are not checked.
    """
    return bool(_IBAN.fullmatch(text)) and int((text[4:] + text[:4]).translate(_NUMBERS)) % 97 == 1


def is_phone(text: str) -> bool:
    """Whether `text` is a phone number: 7 to 15 digits, with or without a plus sign before them."""
    return bool(_PHONE.fullmatch(text))
