"""Values of requests to the payment gateway; answers are not checked. Source: gateway document, section 2.1."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from tppkit._currency import MINOR_UNITS
from tppkit.errors import FormatError
from tppkit.protocol.browser_addresses import (
    BROWSER_PATTERN,
    BROWSER_RULE,
    HTTPS_PATTERN,
    MAX_BROWSER_ADDRESS,
    WEB_PATTERN,
    browser_address_fault,
    is_web_address,
)
from tppkit.protocol.gateway.card_data import Purpose
from tppkit.protocol.wire import WireModel, form, rule, written

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
# Published instead of a rule that a pattern cannot express; what fits is taken, and so is some that does not fit.
_USUAL_DURATION = "^P([1-9][0-9]?W|[1-9][0-9]{0,2}D(T[0-9]{1,4}H)?|T[1-9][0-9]{0,3}[HMS]|T[1-9][0-9]{0,2}H[0-9]{1,3}M)$"
_DOMAIN = "(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\\.)*[A-Za-z](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_METHOD_NAME = re.compile("[a-z0-9-]{1,40}")
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


def _check_page(value: str) -> str:  # assumption return-addresses
    why = browser_address_fault(value)
    if why is not None:
        raise ValueError(why)
    return value


Amount = Annotated[int, Field(ge=0, le=MAX_AMOUNT)]


Currency = Annotated[  # assumption gateway-currencies
    str, rule(MINOR_UNITS.__contains__, "not a currency of ISO 4217 with minor units"),
    form(pattern=f"^({'|'.join(sorted(MINOR_UNITS))})$"),
]  # fmt: skip
Uuid = Annotated[str, rule(_UUID.fullmatch, "not a UUID"), form(format="uuid")]
Duration = Annotated[str, written(_check_duration), form(pattern=_USUAL_DURATION)]
Timestamp = Annotated[str, written(_check_timestamp), form(format="date-time")]
Text = Annotated[  # assumption gateway-texts
    str,
    rule(
        lambda text: 1 <= len(text) <= MAX_TEXT and not CONTROL.search(text),
        f"not 1 to {MAX_TEXT} characters without control characters",
    ),
    form(minLength=1, maxLength=MAX_TEXT, pattern=NO_CONTROLS),
]
HolderName = Annotated[  # the name of a cardholder; assumption card-numbers-in-texts
    Text,
    rule(
        lambda name: len(name) <= MAX_HOLDER and sum(map(str.isdigit, name)) < 12,
        f"not 1 to {MAX_HOLDER} characters with fewer than 12 digits",
    ),
    form(minLength=1, maxLength=MAX_HOLDER, pattern=rf"^(?:[^{_CONTROLS}0-9]*[0-9]){{0,11}}[^{_CONTROLS}0-9]*$"),
]
Reference = Annotated[  # of a merchant
    Text,
    rule(lambda text: len(text) <= MAX_REFERENCE, f"not 1 to {MAX_REFERENCE} characters"),
    form(minLength=1, maxLength=MAX_REFERENCE, pattern=NO_CONTROLS),
]
Address = Annotated[  # assumption gateway-addresses
    str,
    rule(lambda text: len(text) <= MAX_ADDRESS, f"longer than {MAX_ADDRESS} characters"),
    rule(
        lambda text: text.isascii() and is_web_address(text),
        "not an absolute http or https address without user information",
    ),
    form(maxLength=MAX_ADDRESS, pattern=WEB_PATTERN),
]
HttpsAddress = Annotated[  # assumption wallet-session, as Domain
    Address,
    rule(lambda text: text.lower().startswith("https://"), "not an https address"),
    form(maxLength=MAX_ADDRESS, pattern=HTTPS_PATTERN),
]
Domain = Annotated[
    str,
    rule(
        lambda text: len(text) <= MAX_DOMAIN and re.fullmatch(_DOMAIN, text),
        "not a domain such as shop.example, without scheme, port and path",
    ),
    form(maxLength=MAX_DOMAIN, pattern=f"^{_DOMAIN}$"),
]
# Where browsers are sent.
PageAddress = Annotated[
    str,
    written(_check_page),
    form(maxLength=MAX_BROWSER_ADDRESS, pattern=BROWSER_PATTERN, description=f"{BROWSER_RULE}."),
]
Country = Annotated[
    str, rule(re.compile("[A-Z]{2}").fullmatch, "not two upper-case letters"), form(pattern="^[A-Z]{2}$")
]
MethodNames = Annotated[  # assumption payment-method-names
    tuple[Any, ...],
    Field(strict=False),  # lists of callers
    rule(
        lambda names: names and all(isinstance(name, str) and _METHOD_NAME.fullmatch(name) for name in names),
        "not an array of names of payment methods",
    ),
    WithJsonSchema(
        {"type": "array", "minItems": 1, "items": {"type": "string", "pattern": f"^{_METHOD_NAME.pattern}$"}}
    ),
]
Private = Annotated[Text | None, Field(repr=False)]
