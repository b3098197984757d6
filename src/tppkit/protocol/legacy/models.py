"""What callbacks carry. Source: PSD2 document, part B sections 2, 4 and 6.

What a receiver decides by (ids, versions, amounts, times) is read strictly. What only describes is kept as it came, and so are
unknown fields: a payment's outcome must not be lost because a name has a strange character. Tokens and personal data are not
shown by `repr`, so that they do not end in logs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple, Self

from tppkit._encoding import shown
from tppkit._named_tuple import new_tuple, repr_without
from tppkit.errors import ConfigurationError, FormatError
from tppkit.protocol.legacy.fields import Fields, listed, no_fields, write_object
from tppkit.protocol.legacy.rules import is_token

# Assumption amount-data.
_AMOUNT = re.compile(r"([A-Z]{3}) ?([+-]?[0-9]{1,15}(?:\.[0-9]{1,6})?)")
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_TIME_FORM = "yyyy-MM-dd HH:mm:ss"


class Amount(NamedTuple):
    """Amount data: a currency code and a signed amount.

    Attributes:
        currency: three upper-case letters.
        value: in the major unit; negative for a payment.
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
        return new_tuple(cls, (currency, Decimal(value)))

    def __str__(self) -> str:
        return f"{self.currency}{self.value:f}"


class AccessGranted(NamedTuple):
    """The customer consented: access to account information or payments. Sent to the provider's callback address.

    Attributes:
        token: the access token, 20 to 40 letters and digits.
        expires_at: `exp`, aware UTC (assumption access-expiry).
        unknown: fields that the document does not name.
    """

    token: str
    expires_at: datetime
    unknown: Mapping[str, Any] = no_fields()

    def __repr__(self) -> str:
        return repr_without(self, {"token", "unknown"})

    def __hash__(self) -> int:
        return hash(self[:-1])  # no mapping has a hash

    @classmethod
    def from_wire(cls, raw: bytes) -> Self:
        """Read `{"token": …, "exp": "yyyy-MM-dd HH:mm:ss"}`.

        Raises:
            FormatError: `json.*`, `model.invalid`.
        """
        fields = Fields(raw, what="the access granted body")
        token = fields.identifier("token")
        if not is_token(token):
            raise fields.invalid("token", "not 20 to 40 letters and digits")
        return new_tuple(cls, (token, _read_time(fields, "exp"), fields.rest()))

    def to_wire(self) -> bytes:
        """The body, compact."""
        exp = self.expires_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        return write_object({"token": self.token, "exp": exp}, unknown=self.unknown)


def _read_time(fields: Fields, name: str) -> datetime:
    text = fields.identifier(name)
    try:
        if len(text) == 19 and text[4] + text[7] + text[10] + text[13] + text[16] == "-- ::":
            return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        pass
    raise fields.invalid(name, f"not a time as {_TIME_FORM}")


class Transaction(NamedTuple):
    """A transaction record, <TRAN>: the outcome of a payment request, once or several times.

    Attributes:
        id: unique id of the record.
        ver: version of the record; one that is not above the last seen is stale.
        time_stamp: of the operation, in seconds since 2000-01-01 00:00:00 UTC (assumption tran-time-stamp).
        tlc: where in its life cycle the operation is; the values are not documented.
        acc: the account that the transaction was made to.
        amounts: the main amount first, then further balance operations on the sender's account.
        fees: empty when absent.
        name: the counterparty's name, None when absent; so also what follows.
        street: the counterparty's street.
        city: the counterparty's city.
        country: the counterparty's country, ISO 3166 alpha-3.
        msg: the message attached.
        time: local time of a proximity payment, `yyyy-MM-dd HH:mm:ss`, as it came.
        tcc: category code; an unknown one is a general transfer.
        unknown: fields that the document does not name.
    """

    id: str
    ver: int
    time_stamp: int
    tlc: str
    acc: str
    amounts: tuple[Amount, ...]
    fees: tuple[Amount, ...] = ()
    name: str | None = None
    street: str | None = None
    city: str | None = None
    country: str | None = None
    msg: str | None = None
    time: str | None = None
    tcc: str | None = None
    unknown: Mapping[str, Any] = no_fields()

    def __repr__(self) -> str:
        return repr_without(self, {"acc", "name", "street", "city", "msg", "unknown"})

    def __hash__(self) -> int:
        return hash(self[:-1])  # no mapping has a hash

    @classmethod
    def from_wire(cls, raw: bytes) -> Self:
        """Read <TRAN>.

        Raises:
            FormatError: `json.*`, `model.invalid`.
        """
        fields = Fields(raw, what="the transaction body")
        amounts = _read_amounts(fields, "amount")
        if not amounts:
            raise fields.invalid("amount", "no amount")
        record, tlc, acc = fields.identifier("id"), fields.identifier("tlc"), fields.identifier("acc")
        ver, time_stamp = fields.integer("ver"), fields.integer("timeStamp")
        fees = _read_amounts(fields, "fee")
        name, street, city, country, msg, time, tcc = fields.descriptions(_TRANSACTION_TEXTS)
        read = (
            record,
            ver,
            time_stamp,
            tlc,
            acc,
            amounts,
            fees,
            name,
            street,
            city,
            country,
            msg,
            time,
            tcc,
            fields.rest(),
        )
        return new_tuple(cls, read)

    @property
    def operated_at(self) -> datetime:
        """`time_stamp` as a time, aware UTC; the last moment of the calendar where it lies beyond."""
        try:
            return _EPOCH + timedelta(seconds=self.time_stamp)
        except OverflowError:
            return datetime.max.replace(tzinfo=UTC)

    def to_wire(self) -> bytes:
        """The body, compact, absent fields left out."""
        fields = {
            "id": self.id, "ver": self.ver, "timeStamp": self.time_stamp, "tlc": self.tlc, "acc": self.acc, "name": self.name,
            "street": self.street, "city": self.city, "country": self.country, "msg": self.msg, "time": self.time,
            "tcc": self.tcc, "amount": listed(self.amounts), "fee": listed(self.fees),
        }  # fmt: skip
        return write_object(fields, unknown=self.unknown)


_TRANSACTION_TEXTS = ("name", "street", "city", "country", "msg", "time", "tcc")


def _read_amounts(fields: Fields, name: str) -> tuple[Amount, ...]:
    texts = fields.texts(name)
    if not texts:
        return ()
    try:
        return tuple([Amount.parse(text) for text in texts])
    except FormatError:
        raise fields.invalid(name, "not a currency code and a signed decimal amount") from None


class LoginPermission(StrEnum):
    """What a receiver asks of a customer who logs in."""

    NAME = "NAME"
    PHONE = "PHONE"
    EMAIL = "EMAIL"
    ADDRESS = "ADDRESS"
    ID = "ID"


@dataclass(frozen=True, slots=True)
class LoginRequest:
    """What a receiver answers to the signed GET of a scanned login code: who asks, and for what.

    Attributes:
        name: who asks, as the customer is to read it.
        perm: what is asked for, each once.
        code: a code that the customer can compare, None for none.

    Raises:
        ConfigurationError: `login.setting`.

    Source: PSD2 document, part B section 4.
    """

    name: str
    perm: tuple[LoginPermission, ...] = ()
    code: str | None = None

    def __post_init__(self) -> None:
        texts = [self.name] if self.code is None else [self.name, self.code]
        if not all(text and text.isprintable() for text in texts) or len(set(self.perm)) != len(self.perm):
            raise ConfigurationError(
                "login.setting", "a login has a printable name and code, and asks for each thing once"
            )

    def to_wire(self) -> bytes:
        """The JSON object `{"name": …, "perm": […], "code": …}`, compact; an absent code is left out."""
        return write_object(
            {"name": self.name, "perm": [str(asked) for asked in self.perm], "code": self.code}, unknown=no_fields()
        )


class LoginConfirmed(NamedTuple):
    """The customer confirmed a login. Sent to the address of the login code.

    Attributes:
        id: the customer's number at the service.
        token: as the service sent it, None when absent; so also what follows.
        name: the customer's name.
        phone: telephone number.
        email: address for e-mail.
        address: postal address.
        city: city.
        country: three letters.
        code: the customer's person code.
        unknown: fields that the document does not name.
    """

    id: int
    token: str | None = None
    name: str | None = None
    phone: str | None = None
    email: str | None = None
    address: str | None = None
    city: str | None = None
    country: str | None = None
    code: str | None = None
    unknown: Mapping[str, Any] = no_fields()

    def __repr__(self) -> str:
        return repr_without(self, {"token", "name", "phone", "email", "address", "city", "code", "unknown"})

    def __hash__(self) -> int:
        return hash(self[:-1])  # no mapping has a hash

    @classmethod
    def from_wire(cls, raw: bytes) -> Self:
        """Read `{"id": …, "token": …, "name": …, …}`.

        Raises:
            FormatError: `json.*`, `model.invalid`.
        """
        fields = Fields(raw, what="the login confirmed body")
        number = fields.integer("id")
        token, name, phone, email, address, city, country, code = fields.descriptions(_LOGIN_TEXTS)
        return new_tuple(cls, (number, token, name, phone, email, address, city, country, code, fields.rest()))

    def to_wire(self) -> bytes:
        """The body, compact, absent fields left out."""
        texts = {name: getattr(self, name) for name in _LOGIN_TEXTS}
        return write_object({"id": self.id, **texts}, unknown=self.unknown)


_LOGIN_TEXTS = ("token", "name", "phone", "email", "address", "city", "country", "code")
