"""`TX:` codes: a payment for the person who scans it."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal

from tppkit._currency import MINOR_UNITS, is_currency
from tppkit._encoding import shown
from tppkit._iban import is_iban, is_phone
from tppkit.errors import FormatError
from tppkit.qr.characters import check_text

PAYMENT_PREFIX = "TX:"
_FIELDS = 6
_AMOUNT = re.compile(r"(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,4})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Payment:
    """A payment code.

        code = Payment(account=iban, name="Bookshop", currency="EUR", amount=Decimal("12.50"))
        code.text  # TX:LT121000011101001000:Bookshop:EUR:12.50::

    These codes are not signed, so do not trust their contents.

    Attributes:
        account: <ACC>, the receiver's IBAN in electronic form or phone number (assumption qr-account).
        name: <NAME>, the receiver; may be empty. Like <TYPE> and <MSG>, it is not blank and does not begin with a combining mark,
            which would be drawn on the colon before it.
        currency: <CCC>, ISO 4217.
        amount: <AMT> in the major unit, above zero, with at most as many decimals as the currency has, which are kept
            as they are (assumption qr-amount).
        type: <TYPE>, as received; may be empty (assumption qr-type).
        message: <MSG>; may be empty.

    Raises:
        FormatError: `qr.account`, `qr.amount`, `qr.character`, `qr.colon`, `qr.currency`, `qr.too-long`.

    Source: legacy interface, part B section 4, standalone payment QR.
    """

    account: str
    name: str
    currency: str
    amount: Decimal
    type: str = ""
    message: str = ""

    def __post_init__(self) -> None:
        check_text(self.text, what="the payment code")
        for name in ("name", "type", "message"):
            if ":" in getattr(self, name):
                raise FormatError("qr.colon", f"the {name} has a colon, which separates fields and cannot be escaped")
            _check_seen(getattr(self, name), name)
        _check_account(self.account)
        if not is_currency(self.currency):
            raise FormatError("qr.currency", f"{shown(self.currency, limit=12)} is not a currency code of ISO 4217")
        amount: object = self.amount  # a float is not exact
        if not isinstance(amount, Decimal):
            raise FormatError("qr.amount", f"the amount is of type {type(amount).__name__}, not Decimal")
        parse_amount(str(amount))
        decimals = MINOR_UNITS.get(self.currency)
        if -int(amount.as_tuple().exponent) > (2 if decimals is None else decimals):
            raise FormatError("qr.amount", f"the amount {amount} has more decimals than {self.currency} has")

    @property
    def text(self) -> str:
        """`TX:<ACC>:<NAME>:<CCC>:<AMT>:<TYPE>:<MSG>`."""
        fields = (self.account, self.name, self.currency, str(self.amount), self.type, self.message)
        return PAYMENT_PREFIX + ":".join(fields)


def parse_payment(text: str) -> Payment:
    """Read a payment code.

    Raises:
        FormatError: `qr.unknown`, `qr.fields`, `qr.account`, `qr.amount`, `qr.character`, `qr.currency`, `qr.too-long`.
    """
    check_text(text, what="the payment code")
    if not text.startswith(PAYMENT_PREFIX):
        raise FormatError("qr.unknown", f"a payment code begins with {PAYMENT_PREFIX}, not {shown(text, limit=12)}")
    fields = text.removeprefix(PAYMENT_PREFIX).split(":")
    if len(fields) != _FIELDS:
        raise FormatError("qr.fields", f"a payment code has {_FIELDS} fields, this one {len(fields)}")
    account, name, currency, amount, kind, message = fields
    return Payment(
        account=account, name=name, currency=currency, amount=parse_amount(amount), type=kind, message=message
    )


def parse_amount(text: str) -> Decimal:
    """Read the amount of a payment code, such as `12.50`; its decimals are kept as they are.

    Raises:
        FormatError: `qr.amount`.
    """
    if not _AMOUNT.fullmatch(text) or not text.strip("0."):
        raise FormatError(
            "qr.amount",
            f"the amount is {shown(text, limit=20)}, not above zero with at most nine digits and four decimals",
        )
    return Decimal(text)


def _check_seen(text: str, name: str) -> None:
    if not text:
        return
    if unicodedata.category(text[0]).startswith("M"):
        raise FormatError(
            "qr.character",
            f"the {name} begins with U+{ord(text[0]):04X}, a combining mark that is drawn on the colon before it",
        )
    if not text.strip():
        raise FormatError("qr.character", f"the {name} is blank; leave it empty")


def _check_account(account: str) -> None:
    if account[:2].isalpha():
        if not is_iban(account):
            raise FormatError(
                "qr.account", "the account is not an IBAN with its country's length and correct check digits"
            )
    elif not is_phone(account):
        raise FormatError("qr.account", "the account is neither an IBAN nor a phone number of 7 to 15 digits")
