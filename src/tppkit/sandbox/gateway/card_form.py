"""The card form of hosted pages. No field is shown again, because customers can type a card number into any field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from tppkit.protocol.gateway.card_data import CardSecret, is_expired, is_pan
from tppkit.protocol.gateway.values import CONTROL, MAX_HOLDER
from tppkit.sandbox.gateway.cipher import StoredCard

_EXPIRY = re.compile("(0?[1-9]|1[0-2])[ /.-]{0,3}(?:20)?([0-9]{2})")
_CODE = re.compile("[0-9]{3,4}")  # assumption cvc-form


class Form:
    """The fields of a form, hidden from `repr` and from error reporting tools.

    Args:
        fields: the fields by their names.
    """

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields

    def get(self, name: str) -> str:
        """Return the text of a field; empty if it is absent."""
        return self._fields.get(name, "")


def read_card(form: Form, *, at: datetime) -> StoredCard | Mapping[str, str]:
    """Return the card of a form without its security code, or the errors by the names of the fields.

    Args:
        form: `number`, `expiry`, `cvc` and `name`; spaces and hyphens between digits are ignored.
        at: the virtual time.
    """
    number = CardSecret(re.sub("[ -]", "", form.get("number")))
    expiry = _EXPIRY.fullmatch(form.get("expiry").strip())
    name = form.get("name").strip()
    month = CardSecret(f"{int(expiry[1]):02}20{expiry[2]}") if expiry else None
    wrong = {
        "number": None if is_pan(number) else "Enter the 12 to 19 digits of the card number.",
        "expiry": _wrong_expiry(month, at),
        "cvc": None if _CODE.fullmatch(form.get("cvc").strip()) else "Enter the 3 or 4 digits of the security code.",
        "name": _wrong_name(name),
    }
    found = {field: text for field, text in wrong.items() if text is not None}
    if found or month is None:
        return found
    return StoredCard(number, month, name or None)


def _wrong_expiry(month: CardSecret | None, at: datetime) -> str | None:
    if month is None:
        return "Enter month and year as on the card, for example 08/29."
    return "The card has expired. Use another card." if is_expired(month, at=at) else None


def _wrong_name(name: str) -> str | None:
    """Return the error of a name; digits are rejected, so that no card number or code is stored as a name."""
    if any(char.isdigit() for char in name):
        return "Enter the name without digits, or leave it empty."
    if len(name) > MAX_HOLDER or CONTROL.search(name) or "�" in name:
        return f"Enter at most {MAX_HOLDER} characters, or leave it empty."
    return None
