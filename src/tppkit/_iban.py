"""International Bank Account Numbers: form and check digits."""

from __future__ import annotations

import re

# Check digits are 02 to 98 (ISO 7064 MOD 97-10): with 00, 01 or 99 one account would have two texts.
_IBAN = re.compile(r"[A-Z]{2}(?!0[01]|99)[0-9]{2}[A-Z0-9]{11,30}")


def is_iban(text: str) -> bool:
    """Whether `text` is an IBAN in electronic form with right check digits (ISO 13616, ISO 7064 MOD 97-10).

    Which countries have IBANs, and of which length, is not looked at.
    """
    return bool(_IBAN.fullmatch(text)) and int("".join(str(int(c, 36)) for c in text[4:] + text[:4])) % 97 == 1
