"""Card numbers, security codes and expiry dates as types that are never shown, logged, pickled or dumped.

Only the body of a request contains them (`RequestBody.to_wire`). The body of an answer contains the expiry date, which the document
lists there, and never a number or a security code.
"""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import PlainSerializer, SerializationInfo, WithJsonSchema

from tppkit.errors import FormatError, LocalProtocolError
from tppkit.protocol.secret import Secret
from tppkit.protocol.wire import written

_EXPIRY = re.compile(r"(0[1-9]|1[0-2])([0-9]{4})")


class CardSecret(Secret):
    """A text of a card that is shown as asterisks.

    Example:
        pan = CardSecret("4111111111111111")
        pan.get_secret_value()
    """


class Purpose(StrEnum):
    """What a body is written for; a model that is dumped otherwise shows asterisks."""

    REQUEST = "request"
    ANSWER = "answer"


def _shown_in(*purposes: Purpose) -> PlainSerializer:
    def write(value: CardSecret, info: SerializationInfo) -> object:
        purpose = info.context.get("purpose") if isinstance(info.context, dict) else None
        if purpose in purposes:
            return value.get_secret_value()
        return None if purpose else str(value) if info.mode == "json" else value

    return PlainSerializer(write)


def _check(pattern: str, reason: str) -> Any:
    compiled = re.compile(pattern)

    def check(value: CardSecret) -> CardSecret:
        if not compiled.fullmatch(value.get_secret_value()):
            raise ValueError(reason)
        return value

    return written(check)


def _form(pattern: str = ".*", **schema: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern}$", **schema})


# Section 4.2; none ends with a line break. A receiver's account can be something else than a card, so its form is a rule of AFT.
_PAN, _CVC = "[0-9]{12,19}", "[0-9]{3,4}"  # assumption cvc-form
Pan = Annotated[
    CardSecret, _check(_PAN, "not 12 to 19 digits"), _shown_in(Purpose.REQUEST), _form(_PAN, writeOnly=True)
]
ReceiverNumber = Annotated[CardSecret, _shown_in(Purpose.REQUEST), _form(writeOnly=True)]
Cvc = Annotated[CardSecret, _check(_CVC, "not 3 or 4 digits"), _shown_in(Purpose.REQUEST), _form(_CVC, writeOnly=True)]
Expiry = Annotated[
    CardSecret,
    _check(_EXPIRY.pattern, "not MMYYYY, such as 122030"),
    _shown_in(Purpose.REQUEST, Purpose.ANSWER),
    _form(_EXPIRY.pattern),
]

# Digits at the beginning of a card number and the network (assumption card-brands); the longest that fits come first.
_BRANDS = (
    ("mastercard", "5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"),
    ("american-express", "3[47]"),
    ("diners-club", "36|38|39|30[0-5]"),
    ("jcb", "35(2[89]|[3-8])"),
    ("discover", "6011|64[4-9]|65"),
    ("union-pay", "62"),
    ("maestro", "50|5[6-8]|6[0-9]"),
    ("visa", "4"),
)


_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")  # with the digits of the double added


def detect_brands(pan: CardSecret) -> tuple[str, ...]:
    """The networks that a card number may belong to, the likeliest first; empty for none that is known."""
    return tuple(brand for brand, digits in _BRANDS if re.match(digits, pan.get_secret_value()))


def is_pan(text: CardSecret | None) -> bool:
    """Whether it is a number of 12 to 19 digits."""
    return text is not None and re.fullmatch(_PAN, text.get_secret_value()) is not None


def truncate_pan(pan: CardSecret) -> str:
    """The number with its first six and last four digits and asterisks between them (assumption truncated-pan)."""
    digits = pan.get_secret_value()
    return digits[:6] + "*" * (len(digits) - 10) + digits[-4:]


def is_luhn_number(pan: CardSecret) -> bool:
    """Whether the check digit fits (ISO/IEC 7812-1)."""
    return has_check_digit(pan.get_secret_value().encode())


def has_check_digit(digits: bytes) -> bool:
    """Whether the last of ASCII digits is the check digit of the others (ISO/IEC 7812-1)."""
    return (sum(digits[::-2]) + sum(digits[-2::-2].translate(_DOUBLED)) - ord("0") * len(digits)) % 10 == 0


def is_expired(expiry: CardSecret, *, at: datetime) -> bool:
    """Whether the month of a card is over in UTC (assumption card-expired).

    Raises:
        FormatError: `model.invalid`, not MMYYYY.
    """
    found = _EXPIRY.fullmatch(expiry.get_secret_value())
    if found is None:
        raise FormatError("model.invalid", "the expiry date is not MMYYYY, such as 122030")
    return (int(found[2]), int(found[1])) < (at.year, at.month)


def require_unexpired(expiry: CardSecret, *, at: datetime) -> None:
    """Check that a card can be stored, or begin a payment.

    Raises:
        FormatError: `model.invalid`, not MMYYYY.
        LocalProtocolError: `card.expired`.
    """
    if is_expired(expiry, at=at):
        raise LocalProtocolError("card.expired", "the card has expired")
