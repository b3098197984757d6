"""The card form of hosted pages. Customers can type a card number into any field, so only a text that cannot be one is shown again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from tppkit.protocol.gateway.card_data import CardSecret, is_expired, is_luhn_number, is_pan
from tppkit.protocol.gateway.values import CONTROL, MAX_HOLDER
from tppkit.sandbox.gateway.cipher import StoredCard

_EXPIRY = re.compile("(0?[1-9]|1[0-2])[ /.-]{0,3}(?:20)?([0-9]{2})")
_CODE = re.compile("[0-9]{3,4}")  # assumption cvc-form
_SHOWN_EXPIRY = re.compile("[0-9]{1,2}[ /.-]{1,3}[0-9]{2,4}")  # without a separator it could be a security code
# By the code of the error; the field comes first in it.
CARD_ERRORS: Mapping[str, str] = {
    "number": "Enter the 12 to 19 digits of the card number.",
    "number.check": "This is not a card number: one of its digits is wrong.",
    "expiry": "Enter month and year as on the card, for example 08/29.",
    "expiry.over": "The card has expired. Use another card.",
    "cvc": "Enter the 3 or 4 digits of the security code.",
    "name": f"Enter at most {MAX_HOLDER} characters, or leave it empty.",
    "name.digits": "Enter the name without digits, or leave it empty.",
}


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


def read_card(form: Form, *, at: datetime) -> StoredCard | tuple[str, ...]:
    """Return the card of a form without its security code, or the codes of its errors.

    Args:
        form: `number`, `expiry`, `cvc` and `name`; spaces and hyphens between digits are ignored.
        at: the virtual time.
    """
    number = CardSecret(re.sub("[ -]", "", form.get("number")))
    expiry = _EXPIRY.fullmatch(form.get("expiry").strip())
    name = form.get("name").strip()
    month = CardSecret(f"{int(expiry[1]):02}20{expiry[2]}") if expiry else None
    wrong = (
        _wrong_number(number),
        _wrong_expiry(month, at),
        None if _CODE.fullmatch(form.get("cvc").strip()) else "cvc",
        _wrong_name(name),
    )
    found = tuple(code for code in wrong if code is not None)
    return found if found or month is None else StoredCard(number, month, name or None)


def fields_to_show(form: Form) -> Mapping[str, str]:
    """Return the fields of a form that can be shown again: an expiry date and a name without digits."""
    expiry, name = form.get("expiry").strip(), form.get("name").strip()
    return {
        "expiry": expiry if _SHOWN_EXPIRY.fullmatch(expiry) else "",
        "name": name if _wrong_name(name) is None else "",
    }


def _wrong_number(number: CardSecret) -> str | None:
    if not is_pan(number):
        return "number"
    return None if is_luhn_number(number) else "number.check"


def _wrong_expiry(month: CardSecret | None, at: datetime) -> str | None:
    if month is None:
        return "expiry"
    return "expiry.over" if is_expired(month, at=at) else None


def _wrong_name(name: str) -> str | None:
    """Return the error of a name; digits are rejected, so that no card number or code is stored as a name."""
    if any(char.isdigit() for char in name):
        return "name.digits"
    return "name" if len(name) > MAX_HOLDER or CONTROL.search(name) or "�" in name else None
