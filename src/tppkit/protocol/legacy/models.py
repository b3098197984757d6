"""What callbacks carry. Source: PSD2 document, part B sections 2, 4 and 6.

What a receiver decides by (ids, versions, amounts, times) is read strictly. What only describes is kept as it came, and so are
unknown fields: a payment's outcome must not be lost because a name has a strange character. Tokens and personal data are not
shown by `repr`, so that they do not end in logs.

Plain dataclasses: `tppkit.callbacks` reads them, and receivers of callbacks need no pydantic.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

from tppkit._encoding import parse_json, shown
from tppkit._named_tuple import new_tuple
from tppkit.errors import ConfigurationError, FormatError
from tppkit.protocol.legacy.rules import is_token

MAX_BODY_BYTES = 64 * 1024
_LARGEST_INTEGER = 2**63 - 1  # what a database column holds
# Assumption amount-data.
_AMOUNT = re.compile(r"([A-Z]{3}) ?([+-]?[0-9]{1,15}(?:\.[0-9]{1,6})?)")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}")
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)

# Attribute, name on the wire, and reader of the JSON value (None when absent), which raises ValueError without repeating the value.
_Row = tuple[str, str, Callable[[Any], object]]


def read_object(raw: bytes, *, what: str) -> dict[str, Any]:
    """Read a body that is a JSON object.

    Raises:
        FormatError: `json.*`; `model.invalid` when it is not an object.
    """
    value = parse_json(raw, what=f"the {what} body", max_bytes=MAX_BODY_BYTES)
    if type(value) is not dict:
        raise FormatError("model.invalid", f"{what}: body: not a JSON object")
    return value


def _compact(fields: Mapping[str, Any], *, unknown: Mapping[str, Any]) -> bytes:
    present = {name: value for name, value in fields.items() if value is not None}
    return json.dumps({**unknown, **present}, ensure_ascii=False, separators=(",", ":")).encode()


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


def _identifier(value: Any) -> str:
    if type(value) is not str or not value or not value.isprintable():
        raise ValueError("not a printable text")
    return value


def _token(value: Any) -> str:
    if type(value) is not str or not is_token(value):
        raise ValueError("not 20 to 40 letters and digits")
    return value


def _integer(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= _LARGEST_INTEGER:
        raise ValueError("not an integer from 0 to 2^63-1")
    return value


def _description(value: Any) -> str | None:
    if value is not None and type(value) is not str:
        raise ValueError("not a text")
    return value


def _time(value: Any) -> datetime:
    try:
        if type(value) is str and _TIME.fullmatch(value):
            return datetime.fromisoformat(value).replace(tzinfo=UTC)
    except ValueError:  # its message repeats the value
        pass
    raise ValueError("not a time as yyyy-MM-dd HH:mm:ss")


def _amounts(value: Any) -> tuple[Amount, ...]:
    try:
        if type(value) is list and value:
            return tuple([Amount.parse(text) for text in value])
    except (FormatError, TypeError):  # TypeError: not a text
        pass
    raise ValueError("not an array of currency codes with signed decimal amounts")


def _fees(value: Any) -> tuple[Amount, ...]:
    return () if value is None or value == [] else _amounts(value)


def _written(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    return ([str(one) for one in value] or None) if isinstance(value, tuple) else value


@dataclass(frozen=True)
class _Event:
    _ROWS: ClassVar[tuple[_Row, ...]]
    unknown: Mapping[str, Any] = field(
        default_factory=lambda: MappingProxyType({}), kw_only=True, repr=False, hash=False
    )

    @classmethod
    def from_wire(cls, raw: bytes) -> Self:
        """Read the body.

        Raises:
            FormatError: `json.*`, or `model.invalid` with the name of the field that does not fit, never its value.
        """
        left = read_object(raw, what=cls.__name__)
        event = object.__new__(cls)
        values = event.__dict__  # the constructor of a frozen dataclass would take a quarter of the time
        for attribute, name, read in cls._ROWS:
            try:
                values[attribute] = read(left.pop(name, None))
            except ValueError as e:
                raise FormatError("model.invalid", f"{cls.__name__}: {name}: {e}") from None
        values["unknown"] = MappingProxyType(left)
        return event

    def to_wire(self) -> bytes:
        """The body, compact, absent fields left out."""
        fields = {name: _written(getattr(self, attribute)) for attribute, name, _ in self._ROWS}
        return _compact(fields, unknown=self.unknown)


@dataclass(frozen=True)
class AccessGranted(_Event):
    """The customer consented: access to account information or payments. Sent to the provider's callback address.

    Attributes:
        token: the access token, 20 to 40 letters and digits.
        expires_at: `exp`, aware UTC (assumption access-expiry).
        unknown: fields that the document does not name.
    """

    token: str = field(repr=False)
    expires_at: datetime

    _ROWS = (("token", "token", _token), ("expires_at", "exp", _time))


@dataclass(frozen=True)
class Transaction(_Event):
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
    acc: str = field(repr=False)
    amounts: tuple[Amount, ...]
    fees: tuple[Amount, ...] = ()
    name: str | None = field(default=None, repr=False)
    street: str | None = field(default=None, repr=False)
    city: str | None = field(default=None, repr=False)
    country: str | None = None
    msg: str | None = field(default=None, repr=False)
    time: str | None = None
    tcc: str | None = None

    _ROWS = (
        ("id", "id", _identifier), ("ver", "ver", _integer), ("time_stamp", "timeStamp", _integer), ("tlc", "tlc", _identifier),
        ("acc", "acc", _identifier), ("amounts", "amount", _amounts), ("fees", "fee", _fees),
        *((name, name, _description) for name in ("name", "street", "city", "country", "msg", "time", "tcc")),
    )  # fmt: skip

    @property
    def operated_at(self) -> datetime:
        """`time_stamp` as a time, aware UTC; the last moment of the calendar where it lies beyond."""
        try:
            return _EPOCH + timedelta(seconds=self.time_stamp)
        except OverflowError:
            return datetime.max.replace(tzinfo=UTC)


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
        return _compact({"name": self.name, "perm": self.perm, "code": self.code}, unknown={})


@dataclass(frozen=True)
class LoginConfirmed(_Event):
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
    token: str | None = field(default=None, repr=False)
    name: str | None = field(default=None, repr=False)
    phone: str | None = field(default=None, repr=False)
    email: str | None = field(default=None, repr=False)
    address: str | None = field(default=None, repr=False)
    city: str | None = field(default=None, repr=False)
    country: str | None = None
    code: str | None = field(default=None, repr=False)

    _ROWS = (
        ("id", "id", _integer),
        *((name, name, _description) for name in ("token", "name", "phone", "email", "address", "city", "country", "code")),
    )  # fmt: skip
