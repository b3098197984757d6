"""Values of requests to the payment gateway; answers are not checked. Source: gateway document, section 2.1."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, WithJsonSchema

from tppkit._currency import MINOR_UNITS
from tppkit.errors import FormatError
from tppkit.protocol.browser_addresses import browser_address_fault
from tppkit.protocol.gateway.card_data import Purpose
from tppkit.protocol.wire import WireModel, written

MAX_AMOUNT = 2**63 - 1  # what a database column holds
MAX_PERIOD = timedelta(days=3650)
MAX_TEXT = 1000
MAX_REFERENCE = 255  # what a database index holds, of any characters
MAX_ADDRESS = 2048
MAX_DOMAIN = 253
MAX_HOLDER = 120  # section 4.2

_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_DURATION = re.compile(
    r"P(?=[0-9T])(?:(?P<weeks>[0-9]{1,6})W|(?:(?P<days>[0-9]{1,6})D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]{1,9})H)?(?:(?P<minutes>[0-9]{1,9})M)?(?:(?P<seconds>[0-9]{1,9})S)?)?)"
)
# Published instead of rules that a pattern cannot express; what fits is taken, and so is some that does not fit.
_USUAL_DURATION = "^P([1-9][0-9]?W|[1-9][0-9]{0,2}D(T[0-9]{1,4}H)?|T[1-9][0-9]{0,3}[HMS]|T[1-9][0-9]{0,2}H[0-9]{1,3}M)$"
_REST = "(:[1-9][0-9]{0,3}|:[1-5][0-9]{4})?([/?#][!-~]*)?$"
_USUAL_ADDRESS = f"^https?://[A-Za-z0-9.-]+{_REST}"
_USUAL_PAGE = f"^(https://[A-Za-z0-9.-]+|http://localhost){_REST}"
_DOMAIN = "(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.)*[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
CONTROL = re.compile(rf"[{_CONTROLS}\ud800-\udfff]")  # and what UTF-8 has no form of
NO_CONTROLS = rf"^[^{_CONTROLS}]*$"  # without surrogates, which some engines of patterns do not know


class GatewayModel(WireModel):
    """A JSON object of the gateway. Unknown fields and personal data are not shown by `repr`."""

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        shown = [name for name, field in type(self).model_fields.items() if field.repr]
        return [(name, value) for name in shown if (value := getattr(self, name, None)) is not None]

    def to_wire(self) -> bytes:
        """Compact JSON in UTF-8, without absent fields, card numbers and security codes."""
        return self._write(Purpose.ANSWER)

    def _write(self, purpose: Purpose) -> bytes:
        return self.model_dump_json(by_alias=True, context={"purpose": purpose}).encode()


class RequestBody(GatewayModel):
    """The body of a request: the only place where card data is written."""

    is_request = True

    def to_wire(self) -> bytes:
        """Compact JSON in UTF-8, without absent fields, with card data."""
        return self._write(Purpose.REQUEST)


def read_timestamp(text: str) -> datetime:
    """A time stamp of the gateway, aware UTC; without an offset it is taken as UTC (assumption timestamp-form).

    Raises:
        ValueError: not an ISO 8601 date-time.
    """
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):  # their messages repeat the value
        raise ValueError("not an ISO 8601 date-time") from None


def write_timestamp(at: datetime) -> str:
    """An aware time as ISO 8601 in UTC, to the microsecond."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def read_duration(text: str) -> timedelta:
    """An ISO 8601 duration of weeks, days, hours, minutes and seconds, above zero (assumption duration-form).

    Raises:
        ValueError: not such a duration, or above `MAX_PERIOD`.
    """
    found = _DURATION.fullmatch(text)
    parts = {name: int(digits) for name, digits in found.groupdict("0").items()} if found else {}
    duration = timedelta(**parts)
    if not timedelta() < duration <= MAX_PERIOD:
        raise ValueError("not an ISO 8601 duration of weeks or days and time, above zero and at most 3650 days")
    return duration


def amount_with_decimals(amount: int, currency: str) -> str | None:
    """An amount of the smallest unit in the main unit: 1234 EUR is `12.34`, 500 JPY `500`; None without ISO 4217 decimals."""
    decimals = MINOR_UNITS.get(currency)
    if decimals is None:
        return None
    digits = str(amount).rjust(decimals + 1, "0")
    return f"{digits[:-decimals]}.{digits[-decimals:]}" if decimals else digits


def _check_currency(value: str) -> str:  # assumption gateway-currencies
    if value not in MINOR_UNITS:
        raise ValueError("not a currency of ISO 4217 with minor units")
    return value


def _check_uuid(value: str) -> str:
    if not _UUID.fullmatch(value):
        raise ValueError("not a UUID")
    return value


def require_uuid(text: str, what: str) -> str:
    """The id, if it is a UUID, so that it can be part of a path.

    Args:
        text: the id, which may be untrusted.
        what: its name, for the message.

    Raises:
        FormatError: `id.malformed`.
    """
    if not _UUID.fullmatch(text):
        raise FormatError("id.malformed", f"the {what} is not a UUID")
    return text


def _check_duration(value: str) -> str:
    read_duration(value)
    return value


def _check_timestamp(value: str) -> str:
    read_timestamp(value)
    return value


def _check_text(value: str) -> str:  # assumption gateway-texts
    if not 1 <= len(value) <= MAX_TEXT or CONTROL.search(value):
        raise ValueError(f"not 1 to {MAX_TEXT} characters without control characters")
    return value


def _check_holder(value: str) -> str:  # assumption card-numbers-in-texts
    if len(value) > MAX_HOLDER or sum(map(str.isdigit, value)) >= 12:
        raise ValueError(f"not 1 to {MAX_HOLDER} characters with fewer than 12 digits")
    return value


def _check_reference(value: str) -> str:
    if len(value) > MAX_REFERENCE:
        raise ValueError(f"not 1 to {MAX_REFERENCE} characters")
    return value


def _check_address(value: str) -> str:  # assumption gateway-addresses
    if len(value) > MAX_ADDRESS:
        raise ValueError(f"longer than {MAX_ADDRESS} characters")
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.username is None and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError("not an absolute http or https address without user information")
    return value


def _check_https(value: str) -> str:
    if not value.lower().startswith("https://"):
        raise ValueError("not an https address")
    return value


def _check_domain(value: str) -> str:
    if len(value) > MAX_DOMAIN or not re.fullmatch(_DOMAIN, value):
        raise ValueError("not a domain such as shop.example, without scheme, port and path")
    return value


def _check_page(value: str) -> str:  # assumption return-addresses
    why = browser_address_fault(value)
    if why is not None:
        raise ValueError(why)
    return value


def _check_country(value: str) -> str:
    if not re.fullmatch("[A-Z]{2}", value):
        raise ValueError("not two upper-case letters")
    return value


def _check_names(value: tuple[Any, ...]) -> tuple[Any, ...]:  # assumption payment-method-names
    if not value or not all(isinstance(name, str) and re.fullmatch("[a-z0-9-]{1,40}", name) for name in value):
        raise ValueError("not an array of names of payment methods")
    return value


def known(kind: type[StrEnum]) -> AfterValidator:
    """A rule for requests and for what we construct: one of these values. Another value of a peer is kept."""

    def check(value: str) -> str:
        if value not in tuple(kind):
            raise ValueError(f"not one of {', '.join(kind)}")
        return kind(value)

    return written(check)


Amount = Annotated[int, Field(ge=0, le=MAX_AMOUNT)]


def _form(**schema: Any) -> WithJsonSchema:
    """The OpenAPI schema of a text whose rule is a function."""
    return WithJsonSchema({"type": "string", **schema})


Currency = Annotated[str, written(_check_currency), _form(pattern=f"^({'|'.join(sorted(MINOR_UNITS))})$")]
Uuid = Annotated[str, written(_check_uuid), _form(format="uuid")]
Duration = Annotated[
    str,
    written(_check_duration),
    _form(pattern=_USUAL_DURATION),
]
Timestamp = Annotated[str, written(_check_timestamp), _form(format="date-time")]
Text = Annotated[str, written(_check_text), _form(minLength=1, maxLength=MAX_TEXT, pattern=NO_CONTROLS)]
HolderName = Annotated[  # the name of a cardholder
    Text, written(_check_holder),
    _form(minLength=1, maxLength=MAX_HOLDER, pattern=rf"^(?:[^{_CONTROLS}0-9]*[0-9]){{0,11}}[^{_CONTROLS}0-9]*$"),
]  # fmt: skip
Reference = Annotated[  # of a merchant
    Text, written(_check_reference), _form(minLength=1, maxLength=MAX_REFERENCE, pattern=NO_CONTROLS)
]
Address = Annotated[
    str, written(_check_address),
    _form(maxLength=MAX_ADDRESS, pattern=_USUAL_ADDRESS),
]  # fmt: skip
HttpsAddress = Annotated[  # assumption wallet-session, as Domain
    Address, written(_check_https), _form(maxLength=MAX_ADDRESS, pattern=_USUAL_ADDRESS.replace("https?", "https")),
]  # fmt: skip
Domain = Annotated[str, written(_check_domain), _form(maxLength=MAX_DOMAIN, pattern=f"^{_DOMAIN}$")]
PageAddress = Annotated[  # where browsers are sent
    str, written(_check_page),
    _form(maxLength=MAX_ADDRESS, pattern=_USUAL_PAGE),
]  # fmt: skip
Country = Annotated[str, written(_check_country), _form(pattern="^[A-Z]{2}$")]
MethodNames = Annotated[
    tuple[Any, ...], Field(strict=False), written(_check_names),  # lists of callers
    WithJsonSchema({"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^[a-z0-9-]{1,40}$"}}),
]  # fmt: skip
Private = Annotated[Text | None, Field(repr=False)]
