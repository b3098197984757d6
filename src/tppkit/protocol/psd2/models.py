"""What travels in PSD2 bodies. Source: PSD2 document, part A section 2.

Unknown fields are kept as they came. Text is refused when it holds control characters.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationError,
    model_serializer,
)
from pydantic.alias_generators import to_camel

from tppkit._encoding import parse_json
from tppkit._iban import is_iban
from tppkit.errors import FormatError
from tppkit.protocol.psd2.payment import TransactionStatus

MAX_BODY_BYTES = 64 * 1024


class PaymentProduct(StrEnum):
    """`{payment-product}` of the payment paths."""

    SEPA = "sepa-credit-transfers"
    INSTANT = "instant-sepa-credit-transfers"


class WireModel(BaseModel):
    """A JSON object of the interface; immutable, unknown fields kept."""

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        strict=True,
        alias_generator=to_camel,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    @classmethod
    def from_wire(cls, raw: bytes) -> Self:
        """Read the object from a body's bytes.

        Raises:
            FormatError: `json.*`, or `model.invalid` naming each field that does not fit (never its value).
        """
        value = parse_json(raw, what=f"the {cls.__name__} body", max_bytes=MAX_BODY_BYTES)
        try:
            return cls.model_validate_json(json.dumps(value), by_alias=True, by_name=False)
        except ValidationError as e:
            raise FormatError("model.invalid", _describe(cls, e)) from None

    def to_wire(self) -> bytes:
        """The object as compact JSON in UTF-8, absent fields left out."""
        return json.dumps(self.to_object(), ensure_ascii=False, separators=(",", ":")).encode()

    def to_object(self) -> dict[str, Any]:
        """The object as JSON values, absent fields left out."""
        return self.model_dump(mode="json", by_alias=True)

    @model_serializer(mode="wrap")
    def _leave_out_absent(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        unknown = self.model_extra or {}
        return {name: value for name, value in write(self).items() if value is not None or name in unknown}


def _describe(model: type[BaseModel], error: ValidationError) -> str:
    faults = error.errors(include_input=False, include_url=False, include_context=False)
    parts = [f"{'.'.join(str(step)[:40] for step in fault['loc']) or 'body'}: {fault['msg']}" for fault in faults[:5]]
    return f"{model.__name__}: {'; '.join(parts)}"


def _check_iban(value: str) -> str:
    if not is_iban(value):
        raise ValueError("not an IBAN in electronic form with right check digits")
    return value


def _check_printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("holds a control character")
    return value


Iban = Annotated[str, StringConstraints(max_length=34), AfterValidator(_check_iban)]
# Assumptions payment-amount, payment-currency, creditor-name.
SepaAmount = Annotated[
    str, StringConstraints(pattern=r"^(?:0\.(?:0[1-9]|[1-9][0-9]?)|[1-9][0-9]{0,8}(?:\.[0-9]{1,2})?)$")
]
CreditorName = Annotated[str, StringConstraints(min_length=1, max_length=70), AfterValidator(_check_printable)]
Remittance = Annotated[str, StringConstraints(max_length=140), AfterValidator(_check_printable)]


class InstructedAmount(WireModel):
    """An amount to pay: `currency` EUR, `amount` a decimal string such as `"12.50"`."""

    currency: Annotated[str, StringConstraints(pattern=r"^EUR$")]
    amount: SepaAmount


class AccountReference(WireModel):
    """An account by its IBAN."""

    iban: Iban


class PaymentInitiation(WireModel):
    """The body of a payment initiation.

    `debtor_account` only constrains which customer may approve; it never selects one.
    """

    instructed_amount: InstructedAmount
    creditor_account: AccountReference
    creditor_name: CreditorName
    remittance_information_unstructured: Remittance | None = None
    debtor_account: AccountReference | None = None


class Href(WireModel):
    """A link."""

    href: str


def _check_approval_link(link: Href) -> Href:
    try:
        parts = urlsplit(link.href)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.username is None and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not link.href.isprintable() or " " in link.href:
        raise ValueError("not an absolute http or https address without user information")
    return link


class PaymentLinks(WireModel):
    """Links of an initiated payment: `scaRedirect` is for the payer's browser as it is."""

    sca_redirect: Annotated[Href, AfterValidator(_check_approval_link)]
    status: Href
    self_: Annotated[Href, Field(alias="self")]


class PaymentInitiated(WireModel):
    """The 201 answer to an initiation."""

    transaction_status: TransactionStatus
    payment_id: Annotated[str, StringConstraints(min_length=1)]
    links: Annotated[PaymentLinks, Field(alias="_links")]


class PaymentStatus(WireModel):
    """The answer to a status request, and to DELETE."""

    transaction_status: TransactionStatus


class PaymentDetails(PaymentInitiation):
    """The submitted payment with its id and state."""

    payment_id: Annotated[str, StringConstraints(min_length=1)]
    transaction_status: TransactionStatus
