"""Bodies of requests, answers and callbacks. Source: PSD2 document, part B sections 2, 4 and 6.

Fields that a receiver of callbacks depends on (ids, versions, amounts, times) are read strictly. Descriptive and unknown fields are
kept unchanged, because a payment's outcome must not be lost over a strange character in a name. Tokens, personal data and unknown
fields are not in `repr`, to keep them out of logs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    field_serializer,
    model_validator,
)

from tppkit._currency import MINOR_UNITS
from tppkit._encoding import parse_json
from tppkit._iban import IBAN_PATTERN, PHONE_PATTERN, is_iban, is_phone
from tppkit._text import hidden_character
from tppkit.errors import ConfigurationError, FormatError
from tppkit.protocol.legacy.money import AMOUNT_PATTERN, Amount, check_amounts, read_number, write_amounts
from tppkit.protocol.legacy.rules import (
    TIME_PATTERN,
    TOKEN_PATTERN,
    category,
    is_token,
    read_local_time,
    read_time_stamp,
    write_local_time,
)
from tppkit.protocol.wire import MAX_BODY_BYTES, WireModel, form, printable_form, rule, written

_DECIMAL = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,6})?")
_COUNTRY = re.compile(r"[A-Z]{3}")


class LegacyModel(WireModel):
    """A JSON object of the interface."""

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(name, getattr(self, name)) for name, field in type(self).model_fields.items() if field.repr]


def _check_identifier(value: str) -> str:
    if not value or not value.isprintable():
        raise ValueError("not a printable text")
    return value


def _check_token(value: str) -> str:
    if not is_token(value):
        raise ValueError("not 20 to 40 letters and digits")
    return value


def _check_time(value: str) -> str:
    read_local_time(value)
    return value


def _read_amounts(value: Any) -> tuple[Amount, ...]:
    try:
        if isinstance(value, list | tuple) and value:
            return tuple([Amount.parse(one if isinstance(one, str) else str(Amount._make(one))) for one in value])
    except (FormatError, TypeError, ValueError):
        pass
    raise ValueError("not an array of currency codes with signed decimal amounts")


def _read_fees(value: Any) -> tuple[Amount, ...]:
    return _read_amounts(value) if value else ()


def _write_amounts(value: tuple[Amount, ...]) -> list[str] | None:
    return [str(one) for one in value] or None


def _is_decimal(value: Any) -> bool:
    return isinstance(value, str) and _DECIMAL.fullmatch(value) is not None


def _check_order_amounts(value: Any) -> dict[str, Decimal]:  # assumptions tx-amounts, amount-doubles
    if isinstance(value, Mapping):
        value = {code: read_number(one) if _is_decimal(one) else one for code, one in value.items()}
    amounts = check_amounts(value)
    if len(amounts) != 1:
        raise ValueError("not exactly one currency")
    ((code, amount),) = amounts.items()
    decimals = MINOR_UNITS.get(code)
    if decimals is None:
        raise ValueError("not a currency of ISO 4217 with minor units")
    if amount <= 0 or -int(amount.as_tuple().exponent) > decimals:
        raise ValueError(f"not above zero with at most {decimals} decimals")
    return amounts


def _text(limit: int) -> AfterValidator:  # assumption tx-texts
    return rule(
        lambda text: 1 <= len(text) <= limit and text.isprintable() and not text.isspace(),
        f"not 1 to {limit} printable characters, or blank",
    )


def _is_visible(text: str, limit: int) -> bool:  # assumption login-fields
    return 1 <= len(text) <= limit and not text.isspace() and hidden_character(text) is None


Identifier = Annotated[str, AfterValidator(_check_identifier)]
Token = Annotated[str, AfterValidator(_check_token), form(pattern=TOKEN_PATTERN)]
Integer = Annotated[int, Field(ge=0, le=2**63 - 1)]  # the range of a database column
_AMOUNT_DATA = {"type": "array", "items": {"type": "string", "pattern": AMOUNT_PATTERN}}
Amounts = Annotated[
    tuple[Amount, ...], PlainValidator(_read_amounts), PlainSerializer(_write_amounts),
    WithJsonSchema({**_AMOUNT_DATA, "minItems": 1}),
]  # fmt: skip
Fees = Annotated[
    tuple[Amount, ...], PlainValidator(_read_fees), PlainSerializer(_write_amounts), WithJsonSchema(_AMOUNT_DATA)
]
_OrderAmounts = Annotated[
    Mapping[str, Decimal], PlainValidator(_check_order_amounts),
    WithJsonSchema({
        "type": "object", "minProperties": 1, "maxProperties": 1, "propertyNames": {"enum": sorted(MINOR_UNITS)},
        "additionalProperties": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 10**15},
    }),
]  # fmt: skip
_TIME_FORM, _COUNTRY_FORM = form(pattern=TIME_PATTERN), form(pattern=f"^{_COUNTRY.pattern}$")
Account = Annotated[  # assumption account-form
    str,
    rule(
        lambda text: is_iban(text) or is_phone(text),
        "neither an IBAN in electronic form with its country's length and correct check digits nor a phone number of 7 to 15 digits",
    ),
    form(pattern=f"{IBAN_PATTERN}|{PHONE_PATTERN}"),
]
Private = Annotated[str | None, Field(repr=False)]


class AccessRequest(LegacyModel):
    """The body of a request for access to account information or payments.

    Attributes:
        acc: the customer's account, IBAN or phone number.
    """

    is_request = True

    acc: Annotated[Account, Field(repr=False)]


class PaymentOrder(LegacyModel):
    """The body of a payment request.

    Attributes:
        acc: the receiver's account, IBAN or phone number.
        amts: the amount in the major unit, by currency code; exactly one (assumption tx-amounts). Constructors also take decimal texts.
            Rounding errors of doubles are removed.
        name: the receiver's name; name, street, city and country are required unless the receiver is a customer of the bank.
        street: the receiver's street.
        city: the receiver's city.
        country: the receiver's country, ISO 3166 alpha-3.
        msg: a message for the receiver.
        time: local time of a proximity payment, `yyyy-MM-dd HH:mm:ss`.
        tcc: category code, from `CATEGORIES` or another.

    Example:
        PaymentOrder(acc="+37060000000", amts={"EUR": Decimal("12.50")}, msg="Order 4711").to_wire()
    """

    is_request = True

    acc: Annotated[Account, Field(repr=False)]
    amts: _OrderAmounts
    name: Annotated[str, _text(70), printable_form(70)] | None = Field(default=None, repr=False)
    street: Annotated[str, _text(70), printable_form(70)] | None = Field(default=None, repr=False)
    city: Annotated[str, _text(35), printable_form(35)] | None = Field(default=None, repr=False)
    country: Annotated[str, rule(_COUNTRY.fullmatch, "not three upper-case letters"), _COUNTRY_FORM] | None = None
    msg: Annotated[str, _text(140), printable_form(140)] | None = Field(default=None, repr=False)
    time: Annotated[str, written(_check_time), _TIME_FORM] | None = None
    tcc: Annotated[str, _text(35), printable_form(35)] | None = None

    if TYPE_CHECKING:

        def __init__(
            self, *, acc: str, amts: Mapping[str, Decimal | str], name: str | None = None, street: str | None = None,
            city: str | None = None, country: str | None = None, msg: str | None = None, time: str | None = None,
            tcc: str | None = None, unknown_fields: Mapping[str, Any] = ...,
        ) -> None: ...  # fmt: skip

    @property
    def amount(self) -> Amount:
        """The amount to pay, above zero."""
        return Amount._make(*self.amts.items())

    @property
    def has_receiver(self) -> bool:
        """Whether it has all required fields of a receiver who is not a customer of the bank."""
        return None not in (self.name, self.street, self.city, self.country)

    @classmethod
    def from_wire(
        cls, raw: bytes, *, tolerant: bool = False, max_bytes: int = MAX_BODY_BYTES,
        unknown_fields: Collection[str] | Literal[True] = (),
    ) -> Self:  # fmt: skip
        """Read the order; amounts from the text of the JSON numbers.

        Raises:
            FormatError: as `WireModel.from_wire`.
        """
        what = f"the {cls.__name__} body"
        fields = parse_json(raw, what=what, max_bytes=max_bytes)
        exact = parse_json(raw, what=what, max_bytes=max_bytes, number=read_number)
        if type(fields) is dict and "amts" in fields:
            amts = exact["amts"]
            has_texts = type(amts) is dict and any(isinstance(one, str) for one in amts.values())
            fields["amts"] = None if has_texts else amts  # texts are for constructors only
        return cls.from_object(fields, tolerant=tolerant, unknown_fields=unknown_fields)

    def to_wire(self) -> bytes:
        """Compact JSON in UTF-8, without absent fields; the amount without exponent or binary tail."""
        return b'{"amts":' + write_amounts(self.amts) + b"," + super().to_wire()[1:]

    @field_serializer("amts")
    def _leave_out_amounts(self, amts: Mapping[str, Decimal]) -> None:
        """Leave out the amounts, because pydantic would write them as doubles; `to_wire` adds them."""


class AccessGranted(LegacyModel):
    """The customer consented: access to account information or payments. Sent to the provider's callback address.

    Attributes:
        token: the access token, 20 to 40 letters and digits.
        exp: when the access ends, `yyyy-MM-dd HH:mm:ss`, unchanged.
    """

    token: Annotated[Token, Field(repr=False)]
    exp: Annotated[str, AfterValidator(_check_time), _TIME_FORM]

    @classmethod
    def until(cls, token: str, expires_at: datetime) -> Self:
        """The grant of a token until a time, aware."""
        return cls(token=token, exp=write_local_time(expires_at))

    def expires_at(self, zone: tzinfo = UTC) -> datetime:
        """`exp` as a time, aware UTC.

        Args:
            zone: its time zone (assumption access-expiry).

        Raises:
            FormatError: `model.invalid`, it is beyond the calendar.
        """
        try:
            return read_local_time(self.exp, zone)
        except ValueError as e:
            raise FormatError("model.invalid", f"AccessGranted: exp: {e}") from None


class Transaction(LegacyModel):
    """A transaction record, <TRAN>: the outcome of a payment request, once or several times; a row of a transaction list.

    Attributes:
        id: unique id of the record.
        ver: version of the record; a version that is not above the last seen is stale.
        time_stamp: time of the operation, in seconds since 2000-01-01 00:00:00 UTC (assumption tran-time-stamp).
        tlc: the operation's place in its life cycle; any text (assumption tlc-values).
        acc: the account that the transaction was made to.
        amounts: the main amount first, then further balance operations on the sender's account.
        fees: the fees; empty if absent.
        name: the counterparty's name, None if absent, like all following fields.
        street: the counterparty's street.
        city: the counterparty's city.
        country: the counterparty's country, ISO 3166 alpha-3.
        msg: the message attached.
        time: local time of a proximity payment, `yyyy-MM-dd HH:mm:ss`, unchanged.
        tcc: category code, unchanged; see `category`.
    """

    id: Identifier
    ver: Integer
    time_stamp: Annotated[Integer, Field(alias="timeStamp")]
    tlc: Identifier
    acc: Annotated[Identifier, Field(repr=False)]
    amounts: Annotated[Amounts, Field(alias="amount")]
    fees: Annotated[Fees, Field(alias="fee")] = ()
    name: Private = None
    street: Private = None
    city: Private = None
    country: str | None = None
    msg: Private = None
    time: str | None = None
    tcc: str | None = None

    @property
    def operated_at(self) -> datetime:
        """`time_stamp` as a time, aware UTC; the maximum of datetime if it is later."""
        return read_time_stamp(self.time_stamp)

    @property
    def category(self) -> str:
        """The meaning of `tcc`; a general transfer for an unknown or absent code."""
        return category(self.tcc)


class LoginPermission(StrEnum):
    """The data that a receiver requests from a customer who logs in."""

    NAME = "NAME"
    PHONE = "PHONE"
    EMAIL = "EMAIL"
    ADDRESS = "ADDRESS"
    ID = "ID"


class LoginRequest(LegacyModel):
    """A receiver's answer to the signed GET of a scanned login code: its name, and the requested data.

    Attributes:
        name: name of the receiver, shown to the customer; at most 70 visible characters, not blank.
        perm: the requested data, each once.
        code: a code for the customer to compare, at most 35 visible characters; None: no code.

    Raises:
        ConfigurationError: `login.setting`.

    Example:
        LoginRequest(name="Bookshop", perm=(LoginPermission.NAME,))

    Source: PSD2 document, part B section 4.
    """

    is_request = True
    name: str
    perm: tuple[LoginPermission, ...] = ()
    code: str | None = None

    @model_validator(mode="after")
    def _check_shown(self, info: ValidationInfo) -> Self:
        if info.mode == "json" and "perm" not in self.model_fields_set:
            raise ValueError("perm is absent")
        has_code = self.code is None or _is_visible(self.code, 35)
        if _is_visible(self.name, 70) and has_code and len(set(self.perm)) == len(self.perm):
            return self
        reason = "a login has a visible name of 1 to 70 characters and code of 1 to 35, and asks for each thing once"
        if info.mode == "json":
            raise ValueError(reason)
        raise ConfigurationError("login.setting", reason)


class LoginConfirmed(LegacyModel):
    """The customer confirmed a login. Sent to the address of the login code.

    Attributes:
        id: the customer's number at the service.
        token: the service's token, None if absent, like all following fields.
        name: the customer's name.
        phone: telephone number.
        email: address for e-mail.
        address: postal address.
        city: city.
        country: three letters.
        code: the customer's person code.
    """

    id: Integer
    token: Private = None
    name: Private = None
    phone: Private = None
    email: Private = None
    address: Private = None
    city: Private = None
    country: str | None = None
    code: Private = None
