"""The two forms of money: amount data such as `EUR-12.50`, and JSON objects of currency codes and doubles.

Source: PSD2 document, part B section 2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import Any, ClassVar, NamedTuple, Self

from tppkit._currency import MINOR_UNITS
from tppkit._encoding import parse_json, shown
from tppkit.errors import FormatError
from tppkit.protocol.wire import MAX_BODY_BYTES

MAX_CURRENCIES = 300  # ISO 4217 has fewer
_MAX_DIGITS = 40
_LARGEST = 15  # digits before the point
_TAIL = Decimal("1e-9")
_EXACT = Context(prec=2 * _MAX_DIGITS)

# Assumption amount-data.
_AMOUNT = re.compile(r"([A-Z]{3}) ?([+-]?[0-9]{1,15}(?:\.[0-9]{1,6})?)")
AMOUNT_PATTERN = f"^{_AMOUNT.pattern}$"
_CURRENCY = re.compile(r"[A-Z]{3}")


class Amount(NamedTuple):
    """Amount data: a currency code and a signed amount.

    Attributes:
        currency: three upper-case letters.
        value: in the major unit; negative for a payment.

    Example:
        Amount("EUR", Decimal("-12.50")) == Amount.parse("EUR-12.50")
    """

    currency: str
    value: Decimal

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `EUR-12.50`.

        Raises:
            FormatError: `model.invalid`.
        """
        match = _AMOUNT.fullmatch(text)
        if match is None:
            raise FormatError("model.invalid", f"{shown(text)} is not a currency code and a signed decimal amount")
        currency, value = match.groups()
        return cls(currency, Decimal(value))

    def __str__(self) -> str:
        return f"{self.currency}{self.value:f}"


def read_number(text: str) -> Decimal:
    """Read a JSON number exactly as in the text; NaN if it is too long for an amount."""
    try:
        return Decimal(text) if len(text) <= _MAX_DIGITS else Decimal("NaN")
    except InvalidOperation:  # its exponent is out of the range of Decimal
        return Decimal("NaN")


def check_amounts(amounts: object) -> dict[str, Decimal]:
    """Check amounts by currency code, and remove the rounding errors of doubles (assumption amount-doubles).

    Raises:
        ValueError: a code is not three upper-case letters, or a number is not a Decimal of reasonable size.
    """
    if not isinstance(amounts, Mapping) or len(amounts) > MAX_CURRENCIES:
        raise ValueError("not an object of currency codes and amounts")
    return {_check_code(code): _without_tail(value, code) for code, value in amounts.items()}


def _check_code(code: object) -> str:
    if not isinstance(code, str) or not _CURRENCY.fullmatch(code):
        raise ValueError("not a currency code of three upper-case letters")
    return code


def _without_tail(value: object, code: str) -> Decimal:
    if not isinstance(value, Decimal) or not value.is_finite():
        raise ValueError("not an amount as a number")
    exponent = int(value.as_tuple().exponent)
    if value.adjusted() >= _LARGEST or not -_MAX_DIGITS <= exponent <= _LARGEST:
        raise ValueError("an amount is too large or has too many digits")
    decimals = MINOR_UNITS.get(code)
    if decimals is None:
        return value
    rounded = value.quantize(Decimal(1).scaleb(-decimals), context=_EXACT)
    return rounded if abs(value - rounded) < _TAIL else value


def write_amounts(amounts: Mapping[str, Decimal]) -> bytes:
    """Write the JSON object of amounts that `check_amounts` returned, without exponents."""
    return ("{" + ",".join([f'"{code}":{value:f}' for code, value in amounts.items()]) + "}").encode()


@dataclass(frozen=True, slots=True)
class BalanceBody:
    """The balance of an account: a JSON object of currency codes and doubles in the major unit.

    Its value is a mapping of currency codes to `Decimal`.
    """

    media_type: ClassVar = "application/json"
    schema: ClassVar = {
        "type": "object",
        "propertyNames": {"pattern": f"^{_CURRENCY.pattern}$"},
        "additionalProperties": {"type": "number"},
    }

    def write(self, value: Mapping[str, Decimal]) -> bytes:
        """The object as compact JSON.

        Raises:
            ValueError: a key is not a currency code, or a value is not an amount.
        """
        return write_amounts(check_amounts(value))

    def read(self, raw: bytes, *, tolerant: bool) -> Mapping[str, Decimal]:
        """Read the amounts by currency code, without rounding errors of doubles.

        Raises:
            FormatError: `json.*`, `model.invalid`.
        """
        value: Any = parse_json(raw, what="the balance body", max_bytes=MAX_BODY_BYTES, number=read_number)
        try:
            return check_amounts(value)
        except ValueError as e:
            raise FormatError("model.invalid", f"balance: {e}") from None
