"""Payments in PSD2 bodies, and the base of all bodies. Source: PSD2 document, part A section 2.

Unknown fields are kept. Rules for values apply to requests; answers of a bank are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    model_validator,
)
from pydantic.alias_generators import to_camel

from tppkit._iban import IBAN_PATTERN, is_iban
from tppkit.protocol.browser_addresses import is_web_address
from tppkit.protocol.psd2.payment import TransactionStatus
from tppkit.protocol.wire import WireModel, form, known, printable_form, rule


class PaymentProduct(StrEnum):
    """`{payment-product}` of the payment paths."""

    SEPA = "sepa-credit-transfers"
    INSTANT = "instant-sepa-credit-transfers"


class Psd2Model(WireModel):
    """A JSON object of the interface; names in camelCase."""

    model_config = ConfigDict(alias_generator=to_camel)


# Assumption payment-amount.
_SEPA_AMOUNT = re.compile(r"0\.(?:0[1-9]|[1-9][0-9]?)|[1-9][0-9]{0,8}(?:\.[0-9]{1,2})?")


def _as_text(value: Any) -> Any:
    return f"{value:f}" if isinstance(value, Decimal) else value


Iban = Annotated[
    str,
    rule(is_iban, "not an IBAN in electronic form with its country's length and correct check digits"),
    form(pattern=IBAN_PATTERN),
]
SepaAmount = Annotated[
    str,
    BeforeValidator(_as_text),
    rule(_SEPA_AMOUNT.fullmatch, "not a decimal from 0.01 to 999999999.99 with at most two decimals"),
    form(pattern=f"^({_SEPA_AMOUNT.pattern})$"),
]
Euro = Annotated[str, rule(lambda code: code == "EUR", "not EUR"), form(enum=["EUR"])]  # assumption payment-currency
CreditorName = Annotated[  # assumption creditor-name
    str,
    rule(
        lambda name: 1 <= len(name) <= 70 and name.isprintable() and not name.isspace(),
        "not 1 to 70 printable characters, or blank",
    ),
    printable_form(70),
]
Remittance = Annotated[
    str,
    rule(lambda text: len(text) <= 140 and text.isprintable(), "not at most 140 printable characters"),
    printable_form(140, least=0),
]
PaymentId = Annotated[str, StringConstraints(min_length=1)]
# Unknown statuses in answers are kept as text.
Status = Annotated[TransactionStatus | str, Field(union_mode="left_to_right"), known(TransactionStatus)]


class InstructedAmount(Psd2Model):
    """An amount to pay: `currency` EUR, `amount` a decimal string such as `"12.50"`; the constructor also takes a Decimal.

    Example:
        InstructedAmount(currency="EUR", amount=Decimal("12.50"))
    """

    is_request = True
    currency: Euro
    amount: SepaAmount

    if TYPE_CHECKING:

        def __init__(
            self, *, currency: str, amount: str | Decimal, unknown_fields: Mapping[str, Any] = ...
        ) -> None: ...


class AccountReference(Psd2Model):
    """An account by its IBAN."""

    iban: Iban


class PaymentInitiation(Psd2Model):
    """The body of a payment initiation.

    `debtor_account` only constrains which customer may approve; it never selects one.

    Example:
        PaymentInitiation(
            instructed_amount=InstructedAmount(currency="EUR", amount="12.50"),
            creditor_account=AccountReference(iban="LT121000011101001000"),
            creditor_name="Bookshop",
        )
    """

    is_request = True
    instructed_amount: InstructedAmount
    creditor_account: AccountReference
    creditor_name: CreditorName
    remittance_information_unstructured: Remittance | None = None
    debtor_account: AccountReference | None = None


class Href(Psd2Model):
    """A link."""

    href: str


def _check_approval_link(link: Href | None, info: ValidationInfo) -> Href | None:
    if link is not None and is_web_address(link.href):
        return link
    if info.context and info.context.get("tolerant"):
        return None  # the payment exists, and its id must be known; a browser is not sent to such an address
    raise ValueError("not an absolute http or https address without user information")


class ApprovalLinks(Psd2Model):
    """Links of a new payment or consent; pass `scaRedirect` to the customer's browser unchanged.

    Other banks may omit any of them; `sca_redirect` is also None if it is no address that a browser can open.
    """

    sca_redirect: Annotated[Href | None, AfterValidator(_check_approval_link), Field(validate_default=True)] = None
    status: Href | None = None
    self_: Annotated[Href | None, Field(alias="self")] = None

    @model_validator(mode="before")
    @classmethod
    def _leave_out(cls, links: Any, info: ValidationInfo) -> Any:
        """Leave links of another form out of an answer: what was initiated exists, and its id must be known."""
        if not (info.context and info.context.get("tolerant")):
            return links
        found = links.items() if isinstance(links, dict) else ()
        return {name: link for name, link in found if isinstance(link, dict) and isinstance(link.get("href"), str)}


class AuthorisationStart(Psd2Model):
    """The body of a request to start an authorisation; nothing is required."""

    is_request = True


class AuthorisationStarted(Psd2Model):
    """The answer to it: the link that leads the customer to the bank."""

    sca_status: str
    authorisation_id: Annotated[str, StringConstraints(min_length=1)]
    links: Annotated[ApprovalLinks, Field(alias="_links", default_factory=dict, validate_default=True)]


class PaymentInitiated(Psd2Model):
    """The 201 answer to an initiation."""

    transaction_status: Status
    payment_id: PaymentId
    links: Annotated[ApprovalLinks, Field(alias="_links", default_factory=dict, validate_default=True)]


class PaymentStatus(Psd2Model):
    """The answer to a status request, and to DELETE."""

    transaction_status: Status


class PaymentDetails(PaymentInitiation):
    """The submitted payment with its id and state."""

    is_request = False

    payment_id: PaymentId
    transaction_status: Status
